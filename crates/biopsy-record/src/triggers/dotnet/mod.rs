//! Triggers of .NET processes: what the runtime and the application say of themselves.
//!
//! | trigger | fires when |
//! | --- | --- |
//! | `exception:TYPE`, `exception:TYPE~MESSAGE` | an exception of this type (full name, or its last parts) is thrown, caught or not; `~`: and its message matches a regular expression |
//! | `unhandled-exception` | the runtime is about to abort: nobody catches an exception, or the application fails fast; the process is held |
//! | `gc-heap>2G`, `gc-gen2>1G` | size after a collection (before the first one, by the counters); also `gc-gen0`, `gc-gen1`, `gc-loh`, `gc-poh` |
//! | `threadpool-queue>100` | work items that wait for a thread |
//! | `request>10s` | a request has taken so long, answered or not |
//! | `request-status>=500` | a request was answered so |
//! | `counter:NAME>5`, `counter:SOURCE/NAME>5` | an EventCounter or instrument of a Meter; without SOURCE, of the framework |
//!
//! One session on the diagnostics port, with no more in it than the triggers need; it ends with the watch.

mod condition;
mod listener;
mod parse;
mod seen;

pub use condition::{DotNetCondition, DotNetQuantity};
pub(super) use listener::Listener;
pub(super) use parse::parse;
pub(super) use seen::{Seen, fuzz};
