//! Threads: how long each was running, ready and waiting, and what it did over time.

use crate::function::FunctionHandle;
use biopsy_model::{MonoNanos, Nanos, Pid, Tid};

/// The threads of a recording.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ThreadTable {
    /// One row a thread (an id that was reused is one row), most CPU time first.
    pub rows: Vec<ThreadRow>,
    /// Threads grouped by process and name pattern (`worker-1`, `worker-2` → `worker-*`), most CPU time first.
    pub groups: Vec<ThreadGroup>,
    /// Running, ready and waiting come from the scheduler (exact). Otherwise running comes from samples, and ready
    /// and waiting are not known (zero).
    pub exact: bool,
    /// Length of one bucket of the activity strips; zero: no strips.
    pub bucket: Nanos,
    /// How many threads were alive at the start and end of the window, and the most at one time.
    pub count_at_start: usize,
    /// At the end.
    pub count_at_end: usize,
    /// The most at one time.
    pub count_peak: usize,
    /// Threads that were created during the recording.
    pub born: usize,
    /// Threads that ended during the recording.
    pub exited: usize,
}

/// One thread.
#[derive(Clone, PartialEq, Debug)]
pub struct ThreadRow {
    /// Who.
    pub tid: Tid,
    /// Of which process; `Pid(0)`: not known.
    pub pid: Pid,
    /// Last name; `thread TID` where it was never told.
    pub name: String,
    /// Index into [`ThreadTable::groups`].
    pub group: usize,
    /// Start of the thread or of its recording.
    pub start: MonoNanos,
    /// It began during the recording.
    pub born: bool,
    /// The thread that created it.
    pub by: Option<Tid>,
    /// Its end, if it ended during the recording.
    pub exit: Option<MonoNanos>,
    /// Time on a CPU.
    pub running: Nanos,
    /// Time ready without a CPU.
    pub ready: Nanos,
    /// Time waiting.
    pub waiting: Nanos,
    /// CPU time by samples: count x period.
    pub sampled: Nanos,
    /// CPU samples.
    pub samples: u64,
    /// Times it was switched out because it waited.
    pub voluntary: u64,
    /// Times it was switched out while it could have gone on.
    pub involuntary: u64,
    /// Times it was woken.
    pub wakeups: u64,
    /// The function with the most CPU time of its own in this thread.
    pub top_function: Option<FunctionHandle>,
    /// Share of `sampled` in `top_function`, 0 to 1.
    pub top_share: f64,
    /// Activity over the window; empty: this thread has no strip (too many threads).
    pub strip: Vec<StripBucket>,
}

/// Shares of one bucket of time, 0 to 1. What is missing to 1 is not known, or the thread was not there.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct StripBucket {
    /// On a CPU.
    pub running: f32,
    /// Ready without a CPU.
    pub ready: f32,
    /// Waiting.
    pub waiting: f32,
}

/// Threads with the same name pattern in the same process.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ThreadGroup {
    /// Name pattern.
    pub name: String,
    /// Process.
    pub pid: Pid,
    /// How many threads.
    pub threads: usize,
    /// Time on a CPU.
    pub running: Nanos,
    /// Time ready without a CPU.
    pub ready: Nanos,
    /// Time waiting.
    pub waiting: Nanos,
    /// CPU time by samples.
    pub sampled: Nanos,
    /// Switches because of waits.
    pub voluntary: u64,
    /// Switches while it could have gone on.
    pub involuntary: u64,
    /// Wake-ups.
    pub wakeups: u64,
    /// The function with the most CPU time of its own in this group.
    pub top_function: Option<FunctionHandle>,
}
