//! Triggers: what starts a recording or a dump by itself.
//!
//! | trigger | fires when |
//! | --- | --- |
//! | `exit` | the process ends, however; it is held at its end |
//! | `exit!=0` | it ends with another exit code, or by a signal; held |
//! | `crash` | a signal is about to end it; held, with all its threads |
//! | `cpu>90%:30s` | CPU time, in per cent of one core, is above 90 at every reading for 30 s; `cpu>150%` is possible |
//! | `memory>2G`, `threads>500`, `fds>1000` | resident memory, threads, open descriptors; `:TIME` can follow |
//! | `pressure-cpu>50%:1m`, `pressure-memory>10%`, `pressure-io>30%` | share of the time in which some task of its control group (of the machine, where it has none) stands still for want of it |
//! | `hang:10s` | nothing moves that should, see below |
//! | `log:REGEX`, `log:PATH:REGEX` | a new line of its stdout and stderr (where these are files), or of a file, matches |
//! | `after:10m` | time has passed |
//!
//! Triggers of .NET processes are listed in `triggers/dotnet/mod.rs`.
//!
//! `>`, `>=`, `<` and `<=` compare. A condition that stays true fires once, and again when it was false in between
//! ([`Again`]). [`Watch`] yields [`Fired`]; [`wait_for`] waits for a process to appear.

mod comparison;
mod conditions;
mod deadlock;
mod dotnet;
mod error;
mod hang;
mod latch;
mod log_tail;
mod parse;
mod parse_error;
mod pieces;
mod pressure;
mod quantity;
mod reading;
mod trigger;
mod wait;
mod watch;

pub use comparison::{Comparison, Quantity, Resource};
pub use dotnet::{DotNetCondition, DotNetQuantity};
pub use error::WatchError;
pub use latch::Again;
pub use parse_error::ParseTriggerError;
pub use quantity::parse_duration;
pub use trigger::Trigger;
pub use wait::wait_for;
pub use watch::{Fired, Watch, WatchEnd, WatchOptions, Watched};

/// Reads any bytes as what a runtime says to triggers of .NET: for fuzzing. Never panics.
pub fn fuzz_dotnet(bytes: &[u8]) {
    dotnet::fuzz(bytes);
}
