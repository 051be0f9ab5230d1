//! The timeline trace: what each thread did, on which CPU time was spent, where time was waited away, and who ended
//! the waits.
//!
//! In the order of the flow: `attach` opens events and kernel programs; `recorder` is the loop that reads them;
//! `processes` keeps track of mappings and threads; `frames` unwinds; `off_cpu` visits waiting threads; `slices` cuts
//! times; `turns` decides when switches are watched where they are too many, and `long_waits` tells waits from looks meanwhile; `allocations` watches malloc and free, where that is asked for; `names` finds symbols while the recording runs, and `managed` those of managed code; `sink` writes the timeline.
//!
//! Promises: no signal is ever sent to the target and it is never stopped; everything in the kernel ends with our file
//! descriptors; whatever is lost is written down.

mod allocations;
mod attach;
mod before;
mod commands;
mod control;
pub(crate) mod events;
mod frames;
mod intern;
pub(crate) mod kernel;
mod languages;
mod long_waits;
mod managed;
mod maps;
mod names;
mod off_cpu;
mod pace;
mod perf_records;
mod processes;
mod recorder;
mod records;
mod sink;
mod sleepers;
mod slices;
mod thread_times;
mod turns;

pub use allocations::{CannotCount, CountedProgram};
pub use attach::{Attempt, Method};
pub use before::Before;
pub use commands::{Control, Cut, TraceSummary};
pub use control::{Settler, TraceError, TraceHandle, TraceOptions, gentle_frequency, start};
pub use managed::SharedMethods;
pub use sink::{Destination, Progress};
