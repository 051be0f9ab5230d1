//! What a freeze is asked for, what it plans, and what it costs.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use biopsy_model::{Pid, ProcessKey, Tid};

use super::LimitedBy;
use crate::preflight::Check;

/// How a freeze is to be done.
#[derive(Clone, Debug)]
pub struct FreezeOptions {
    /// The longest time that the process may stand still. A plan above it is refused, and a window that takes longer than
    /// this before the first fork is given up. 250 ms.
    pub max_pause: Duration,
    /// Whether the memory may be copied while the process stands still, where it cannot be frozen by copy-on-write.
    pub allow_stop_and_copy: bool,
    /// Only stacks and registers are wanted: then they may be copied while the process stands still, where that is
    /// shorter than a fork.
    pub stacks_only: bool,
    /// Turn the heap into huge pages beforehand (`MADV_COLLAPSE`): costs seconds of CPU, shortens the pause by ten times.
    pub collapse: bool,
    /// Told of each stage as it is reached, on the thread that holds the process. For tests that end things there.
    pub at_stage: Option<StageHook>,
}

impl Default for FreezeOptions {
    fn default() -> Self {
        Self {
            max_pause: Duration::from_millis(250),
            allow_stop_and_copy: true,
            stacks_only: false,
            collapse: false,
            at_stage: None,
        }
    }
}

/// A function that is told of stages.
#[derive(Clone)]
pub struct StageHook(pub Arc<dyn Fn(Stage) + Send + Sync>);

impl fmt::Debug for StageHook {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("StageHook")
    }
}

/// The stages of a freeze, in their order. Between any two of them biopsy may be killed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Stage {
    /// All threads are seized; none is stopped.
    Seized,
    /// All threads of all processes stand still.
    Stopped,
    /// Registers are read.
    RegistersRead,
    /// The frames are written below the stack of the chosen thread.
    FrameWritten,
    /// The chosen thread's registers lead to the injected call.
    RegistersSet,
    /// Its signals are held back.
    SignalsHeld,
    /// It runs.
    Resumed,
    /// It stands before the call (system call entry).
    CallEntered,
    /// The process in the middle exists, where there is to be one.
    MiddleMade,
    /// It is held, at its very first stop.
    MiddleHeld,
    /// It shares the table of open files no longer.
    FilesLeft,
    /// The copy exists.
    Called,
    /// The child's badness for the out-of-memory killer is raised.
    ChildMarked,
    /// The process in the middle is killed.
    MiddleKilled,
    /// All other threads run again.
    OthersReleased,
    /// The process in the middle is gone.
    MiddleGone,
    /// The chosen thread has left a call and stands still once more.
    CallLeft,
    /// Its registers are as they were.
    RegistersRestored,
    /// Every thread of every process runs again, untraced. Only the frozen children are held.
    Released,
    /// The frozen child is ended.
    ChildEnded,
    /// The injection that removes the ended child is complete.
    Reaped,
}

impl Stage {
    /// All of them, in order.
    pub const ALL: &[Self] = &[
        Self::Seized,
        Self::Stopped,
        Self::RegistersRead,
        Self::FrameWritten,
        Self::RegistersSet,
        Self::SignalsHeld,
        Self::Resumed,
        Self::CallEntered,
        Self::MiddleMade,
        Self::MiddleHeld,
        Self::FilesLeft,
        Self::Called,
        Self::ChildMarked,
        Self::MiddleKilled,
        Self::OthersReleased,
        Self::MiddleGone,
        Self::CallLeft,
        Self::RegistersRestored,
        Self::Released,
        Self::ChildEnded,
        Self::Reaped,
    ];
}

/// By which means the memory of one process is kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Method {
    /// The process forks; the child, which never runs, is the frozen memory.
    CopyOnWrite,
    /// The memory is copied into a buffer while the process stands still.
    StopAndCopy,
    /// None is safe or short enough.
    Refused,
}

/// What is to be done with one process, and what it will cost.
#[derive(Clone, Debug)]
pub struct ProcessPlan {
    /// Which process.
    pub key: ProcessKey,
    /// By which means.
    pub method: Method,
    /// Why that one, in words.
    pub why: String,
    /// How long it will probably stand still.
    pub predicted_pause: Duration,
    /// Threads.
    pub threads: u32,
    /// Present pages of 4 KiB.
    pub small_pages: u64,
    /// Present huge pages of 2 MiB.
    pub huge_pages: u64,
    /// Present bytes that a dump with all contents would hold.
    pub present_bytes: u64,
    /// Memory in bytes that the freeze may need: page tables and the pages that the process writes meanwhile, or the buffer.
    pub memory_needed: u64,
    /// Memory in bytes that is to be had, by its cgroup and by the machine, whichever is less; `None`: not known.
    pub memory_available: Option<u64>,
    /// Memory in bytes that it takes in any case, however little the process writes: page tables, or the buffer.
    pub memory_at_least: u64,
    /// What that limit is; `None`: not known.
    pub memory_limit: Option<LimitedBy>,
    /// Whether a copy that the process forks is to be an orphan: whoever removes orphans does so, whatever happens to us.
    /// Else it is a child of the process, and stays its zombie if we are killed.
    pub orphan: bool,
    /// For stop-and-copy: at most so many bytes are copied, stacks first; what does not fit is left out.
    pub copy_limit: u64,
    /// Single checks, with hints.
    pub checks: Vec<Check>,
}

/// What is to be done, and what it will cost. Nothing was stopped or changed to make it.
#[derive(Clone, Debug)]
pub struct FreezePlan {
    /// The processes, parents before children.
    pub processes: Vec<ProcessPlan>,
    /// How long all of them together will probably stand still.
    pub predicted_pause: Duration,
}

impl FreezePlan {
    /// Whether all of it may be done.
    #[must_use]
    pub fn is_possible(&self) -> bool {
        !self.processes.is_empty() && self.processes.iter().all(|one| one.method != Method::Refused)
    }
}

/// How long the process stood still, and where that time went.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Pause {
    /// From the first thread's stop being asked for to the release of the last one, of this process.
    pub stopped: Duration,
    /// Until all threads (of all processes of the window) stood still.
    pub stop: Duration,
    /// Reading the registers of all threads.
    pub registers: Duration,
    /// The fork, or the copy.
    pub fork: Duration,
    /// Letting all go.
    pub resume: Duration,
    /// Threads that were stopped.
    pub threads: u32,
}

/// Something about a freeze that its reader should know; the freeze is good all the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FreezeWarning {
    /// The thread was in an uninterruptible wait: what is known of its registers comes from `/proc` and is not complete.
    ThreadNotStopped {
        /// The thread.
        tid: Tid,
    },
    /// Registers of the thread could not be read: it ended in the window.
    ThreadEnded {
        /// The thread.
        tid: Tid,
    },
    /// Registers of the thread could not be read, although it stood still.
    ThreadUnreadable {
        /// The thread.
        tid: Tid,
        /// The errno.
        errno: i32,
    },
    /// The vector registers of so many threads could not be read.
    VectorsNotRead {
        /// How many.
        threads: u32,
    },
    /// Something that `/proc` says of the process could not be read, although it was there.
    NotKnown {
        /// Its pid.
        pid: Pid,
        /// What.
        what: &'static str,
        /// The first error.
        why: String,
    },
    /// The process was to fork and could not: its memory was copied while it stood still, stacks first, and what did not fit is left out.
    CopiedInstead {
        /// Its pid.
        pid: Pid,
        /// Why it could not.
        why: String,
    },
    /// A process was born between planning and freezing: it is not frozen.
    BornMeanwhile {
        /// Its pid.
        pid: Pid,
    },
    /// The system call of this thread was broken off and could not be restarted for it: the program sees EINTR, as it
    /// would with any debugger.
    Interrupted {
        /// The thread.
        tid: Tid,
    },
    /// Real-time priority was refused: on a busy machine the pause has longer tails.
    NoRealTime {
        /// The errno.
        errno: i32,
    },
    /// The program has no instructions that could be used; 32 bytes of unused padding in an executable page were
    /// overwritten for the time of the freeze.
    StubWritten {
        /// Where.
        address: u64,
    },
    /// The ended child could not be removed from the list of the process's children: it stays a zombie until the process
    /// ends or is frozen again.
    ZombieLeft {
        /// The child.
        pid: Pid,
        /// Why.
        why: String,
    },
}

impl FreezeWarning {
    /// Why a stopped thread has no registers: ESRCH is what a thread gives that has ended.
    pub(super) fn without_registers(tid: Tid, error: &std::io::Error) -> Self {
        match error.raw_os_error() {
            Some(errno) if errno != rustix::io::Errno::SRCH.raw_os_error() => {
                Self::ThreadUnreadable { tid, errno }
            }
            _ => Self::ThreadEnded { tid },
        }
    }

    /// The result lacks something because of it.
    #[must_use]
    pub fn is_loss(&self) -> bool {
        match self {
            Self::ThreadNotStopped { .. }
            | Self::ThreadEnded { .. }
            | Self::ThreadUnreadable { .. }
            | Self::VectorsNotRead { .. }
            | Self::NotKnown { .. }
            | Self::BornMeanwhile { .. } => true,
            // What a copy left out is known by address, and told with the memory.
            Self::CopiedInstead { .. }
            | Self::Interrupted { .. }
            | Self::NoRealTime { .. }
            | Self::StubWritten { .. }
            | Self::ZombieLeft { .. } => false,
        }
    }
}

impl fmt::Display for FreezeWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ThreadNotStopped { tid } => {
                write!(f, "thread {tid} was in an uninterruptible wait: its registers are not complete")
            }
            Self::ThreadEnded { tid } => {
                write!(f, "thread {tid} ended while the process was stopped: it has no registers")
            }
            Self::ThreadUnreadable { tid, errno } => {
                let error = std::io::Error::from_raw_os_error(*errno);
                write!(f, "registers of thread {tid} could not be read ({error}): it is not in the result")
            }
            Self::VectorsNotRead { threads } => {
                write!(f, "vector registers of {threads} threads: the kernel did not give them")
            }
            Self::NotKnown { pid, what, why } => {
                write!(f, "{what} of process {pid} could not be read ({why})")
            }
            Self::CopiedInstead { pid, why } => write!(
                f,
                "memory of process {pid} beyond its stacks and what else fitted: it was copied while the process stood still, for {why}"
            ),
            Self::BornMeanwhile { pid } => {
                write!(f, "process {pid} was born while the others were frozen: it is not among them")
            }
            Self::Interrupted { tid } => {
                write!(f, "a system call of thread {tid} was broken off with EINTR, as any debugger would do")
            }
            Self::NoRealTime { errno } => {
                write!(
                    f,
                    "real-time priority was refused (errno {errno}): on a busy machine the pause may be longer"
                )
            }
            Self::StubWritten { address } => write!(
                f,
                "the program has no instructions that could be used: 32 unused bytes at {address:#x} were written for the time of the freeze"
            ),
            Self::ZombieLeft { pid, why } => {
                write!(
                    f,
                    "the ended copy {pid} stays a zombie until the process ends or is dumped again: {why}"
                )
            }
        }
    }
}

/// Why a process could not be frozen. It runs on as before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FreezeError {
    /// It is gone, or another one has its pid.
    #[error("process {pid} has ended")]
    Ended {
        /// Its pid.
        pid: Pid,
    },
    /// Somebody traces it already; there can be one only.
    #[error("process {pid} is being traced by process {by}")]
    Traced {
        /// The process.
        pid: Pid,
        /// Its tracer.
        by: Pid,
    },
    /// No right to.
    #[error("cannot trace process {pid}: `ptrace` refused ({source})")]
    NotPermitted {
        /// The process.
        pid: Pid,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// The plan says no.
    #[error("process {pid} is not frozen: {why}")]
    Refused {
        /// The process.
        pid: Pid,
        /// Why, in words.
        why: String,
    },
    /// This machine's architecture is not supported.
    #[error("processes of `{architecture}` cannot be frozen: only x86-64 is supported")]
    Architecture {
        /// Of this program.
        architecture: &'static str,
    },
    /// Threads did not stop in time.
    #[error("{missing} threads of process {pid} did not stop within {limit:?}")]
    NotStopped {
        /// The process.
        pid: Pid,
        /// How many.
        missing: usize,
        /// The limit.
        limit: Duration,
    },
    /// No thread has a stack that is safe to write to.
    #[error("no thread of process {pid} can carry the fork: {why}")]
    NoSafeThread {
        /// The process.
        pid: Pid,
        /// Of the last thread that was looked at.
        why: String,
    },
    /// Nothing in the executable memory can be used, and nothing could be written.
    #[error("process {pid} has no usable system call instruction: {why}")]
    NoGadget {
        /// The process.
        pid: Pid,
        /// What was tried.
        why: String,
    },
    /// The kernel refused the fork.
    #[error("the fork of process {pid} was refused ({source})")]
    ForkRefused {
        /// The process.
        pid: Pid,
        /// What the process was told.
        source: std::io::Error,
    },
    /// The fork took too long; it was given up.
    #[error("process {pid} did not get through `{stage:?}` within {limit:?}")]
    TookTooLong {
        /// The process.
        pid: Pid,
        /// The last stage reached.
        stage: Stage,
        /// The limit.
        limit: Duration,
    },
    /// There is not enough memory for it.
    #[error(
        "not enough memory to freeze process {pid}: {needed} bytes are needed, {available} are to be had"
    )]
    Memory {
        /// The process.
        pid: Pid,
        /// Needed bytes.
        needed: u64,
        /// Available bytes.
        available: u64,
    },
    /// This program is ending, see [`super::end_all`].
    #[error("process {pid} is not frozen: biopsy was told to stop")]
    Ending {
        /// The process.
        pid: Pid,
    },
    /// A step failed.
    #[error("cannot freeze process {pid}: {step} failed")]
    Step {
        /// The process.
        pid: Pid,
        /// What was done.
        step: &'static str,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

impl FreezeError {
    /// The process that it is about.
    #[must_use]
    pub fn pid(&self) -> Option<Pid> {
        match self {
            Self::Architecture { .. } => None,
            Self::Ended { pid }
            | Self::Traced { pid, .. }
            | Self::NotPermitted { pid, .. }
            | Self::Refused { pid, .. }
            | Self::NotStopped { pid, .. }
            | Self::NoSafeThread { pid, .. }
            | Self::NoGadget { pid, .. }
            | Self::ForkRefused { pid, .. }
            | Self::TookTooLong { pid, .. }
            | Self::Memory { pid, .. }
            | Self::Ending { pid }
            | Self::Step { pid, .. } => Some(*pid),
        }
    }

    /// Wraps the error of a step; a process that is not there any more is [`FreezeError::Ended`].
    pub(crate) fn step(pid: Pid, step: &'static str) -> impl Fn(std::io::Error) -> Self {
        const ESRCH: i32 = 3;
        move |source| {
            if source.raw_os_error() == Some(ESRCH) {
                Self::Ended { pid }
            } else {
                Self::Step { pid, step, source }
            }
        }
    }
}

/// What was done when a frozen process was let go.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ReleaseReport {
    /// The frozen child is ended and removed.
    pub reaped: bool,
    /// Left-over children of freezes that were killed earlier, removed now.
    pub leftovers: u32,
    /// How long the one thread that did it stood still.
    pub pause: Duration,
    /// What is worth knowing.
    pub warnings: Vec<FreezeWarning>,
}
