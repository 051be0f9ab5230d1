//! What the .NET runtimes of a tree say: events of the runtime and of the application, while they are recorded.
//!
//! [`DotNetRecorder`] finds .NET processes, opens sessions on the diagnostics port of each, and reads them on one thread
//! per process: the bytes go masked into the recording (`dotnet/PID.nettrace`), the events to what is gathered of them
//! (`dotnet/PID.json`), to the map of methods that names stacks, and to triggers. `docs/design/11-sessions.md` has the
//! reasons and numbers.
//!
//! Or, for days, what is gathered stays in memory, and the oldest goes ([`RecentTraces`]).
//!
//! Nothing stays on: a session ends with its socket, also when this process is killed.

mod budget;
mod gather;
mod lane_stream;
mod masked;
mod memory_names;
mod meters;
mod options;
pub(crate) mod plan;
mod process;
pub(crate) mod providers;
mod rates;
mod recent;
mod recorder;
mod sampling;
mod scanner;

pub(crate) use lane_stream::LaneStream;
pub use options::{AppLogLevel, Budget, DotNetOptions};
pub(crate) use providers::{HOSTING, METRICS, RUNTIME, is_meter_name as is_counter_name};
pub use recent::RecentTraces;
pub use recorder::{DotNetProgress, DotNetRecorder, DotNetSummary, Tree};
