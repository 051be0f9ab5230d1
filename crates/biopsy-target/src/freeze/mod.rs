//! Frozen copies of living processes: all memory of one moment, for a pause of milliseconds.
//!
//! The process forks, on our behalf and without knowing: one of its threads is stopped and led through one system call
//! (`clone`, with no flag and no signal at the end), and the child that comes of it never runs an instruction. It is
//! the frozen memory, shared with the process page by page until the process writes. Whatever moment biopsy is killed
//! at, the kernel lets all threads go on exactly where they were; the design note `docs/design/07-freeze.md` shows why,
//! state by state.

mod kept;
pub mod seccomp;
mod types;

pub(crate) use kept::{KeptMemory, PreparedCopy};
pub use types::{
    FreezeError, FreezeOptions, FreezePlan, FreezeWarning, Method, Pause, ProcessPlan, ReleaseReport, Stage,
    StageHook,
};
