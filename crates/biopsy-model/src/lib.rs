//! Plain data of the field: what the capture half writes down and the read half reasons about.
//!
//! This crate holds no behaviour beyond small conversions, depends on nothing, does no I/O and does not
//! serialise: the recording crate owns the bytes on disk, the report crate owns the output schema.
//!
//! The map, in the order of the flow:
//! - [`ids`]: who (pid, tid, process key), [`address`]: where, [`time`]: when
//! - [`process`]: what a process is, [`module`]: what is mapped into it, [`stack`]: frames and interned stacks,
//!   [`symbol`]: names of frames
//! - [`dump`]: what goes into a dump and how it was taken
//! - [`runtime_trace`]: what a managed runtime said of itself, [`heap`]: the facts of its heap
//! - [`timeline`]: the events of a trace, [`metric`]: series, [`log`]: log lines
//! - [`capture`]: everything that one recording holds, as the read half sees it
//! - [`loss`]: what was lost, and warnings: loss is data
//! - [`order`]: how tables are sorted
//!
//! What is said in one word in a file is an enum here that keeps words it does not know (`words`).

#![forbid(unsafe_code)]

pub mod address;
pub mod capture;
mod confidence;
pub mod dump;
pub mod footprint;
pub mod heap;
pub mod ids;
pub mod log;
pub mod look;
pub mod loss;
pub mod metric;
pub mod module;
pub mod order;
pub mod peers;
pub mod printable;
pub mod process;
pub mod runtime_trace;
mod severity;
pub mod stack;
pub mod symbol;
pub mod time;
pub mod timeline;
mod words;

pub use address::{Avma, FileOffset, LookupAddress, Svma};
pub use confidence::Confidence;
pub use ids::{BootId, Pid, ProcessKey, Tid};
pub use severity::Severity;
pub use time::{ClockPair, MonoNanos, Nanos};
