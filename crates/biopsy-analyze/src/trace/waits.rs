//! What threads wait for, in which function, and who wakes them.

use crate::trace::function::FunctionHandle;
use biopsy_model::{MonoNanos, Nanos, Tid};

/// What waits for what.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Waits {
    /// Waiting time of all threads, exact where the scheduler reported it.
    pub total: Nanos,
    /// Of that, time explained by recorded waits (those above the threshold).
    pub recorded: Nanos,
    /// Number of recorded waits.
    pub count: u64,
    /// Time that the off-CPU samples stand for.
    pub sampled: Nanos,
    /// By reason, most time first. Times come from recorded waits, or from off-CPU samples where no waits were recorded.
    pub reasons: Vec<WaitReasonRow>,
    /// By function and reason, most time first. Times come from off-CPU samples, or else from recorded
    /// waits with stacks.
    pub functions: Vec<WaitFunctionRow>,
    /// Who woke whom, by groups of threads, most waiting time ended first.
    pub activations: Vec<Activation>,
    /// Locks that many threads queue for, worst first.
    pub convoys: Vec<Convoy>,
    /// Waits for a thread that itself waited for something: most time first.
    pub behind: Vec<Behind>,
    /// The longest single waits that were for something (idle ones aside), longest first (at most 20).
    pub longest: Vec<LongWait>,
}

/// What a thread waits for, as far as kernel frames, system call and scheduler state tell.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum WaitReason {
    /// A mutex, read-write lock or semaphore.
    Lock,
    /// A condition variable: usually a worker with nothing to do, or waiting for another thread's result.
    Condition,
    /// A futex, without a stack that tells lock from condition.
    LockOrCondition,
    /// A lock inside the kernel (memory map, directory, inode).
    KernelLock,
    /// Several descriptors at once (epoll, poll, select): idle, or waiting for the network.
    Events,
    /// Bytes from a socket, or a connection: another program has to act.
    Peer,
    /// A pipe, terminal or similar.
    Pipe,
    /// Bytes from or to a descriptor: socket, pipe or file, nothing tells which.
    Descriptor,
    /// A file system or block device.
    Disk,
    /// Memory: page faults, swap, reclaim.
    Memory,
    /// A sleep the program asked for.
    Sleep,
    /// The end of a child process.
    Child,
    /// A signal.
    Signal,
    /// Ready but without a CPU.
    Preempted,
    /// Stopped or traced.
    Stopped,
    /// Quota of the cgroup used up (throttled).
    Throttled,
    /// In another system call.
    Other,
    /// Nothing tells.
    Unknown,
}

impl WaitReason {
    /// A short phrase that completes "waits for ...".
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            WaitReason::Lock => "a lock",
            WaitReason::Condition => "a condition (work to do, or another thread)",
            WaitReason::LockOrCondition => "a lock or condition",
            WaitReason::KernelLock => "a lock inside the kernel",
            WaitReason::Events => "events (idle, or the network)",
            WaitReason::Peer => "a peer (socket)",
            WaitReason::Pipe => "a pipe or terminal",
            WaitReason::Descriptor => "a socket, pipe or file",
            WaitReason::Disk => "disk",
            WaitReason::Memory => "memory (page faults, swap)",
            WaitReason::Sleep => "time to pass (sleep)",
            WaitReason::Child => "a child process",
            WaitReason::Signal => "a signal",
            WaitReason::Preempted => "a CPU (preempted)",
            WaitReason::Stopped => "being continued (stopped or traced)",
            WaitReason::Throttled => "CPU quota of the cgroup",
            WaitReason::Other => "another system call",
            WaitReason::Unknown => "something not recorded",
        }
    }

    /// Nothing has to be done for it: a worker that waits for work, a timer.
    #[must_use]
    pub fn is_idle_like(self) -> bool {
        matches!(
            self,
            WaitReason::Events
                | WaitReason::Condition
                | WaitReason::Sleep
                | WaitReason::Signal
                | WaitReason::Child
        )
    }
}

/// Waiting time by reason.
#[derive(Clone, PartialEq, Debug)]
pub struct WaitReasonRow {
    /// Reason.
    pub reason: WaitReason,
    /// Time waited.
    pub time: Nanos,
    /// Number of waits (or off-CPU samples).
    pub count: u64,
    /// The longest.
    pub longest: Nanos,
    /// Threads that waited for it.
    pub threads: usize,
    /// System calls it happened in, most time first.
    pub syscalls: Vec<(String, Nanos)>,
}

/// Waiting time by the innermost meaningful function (plumbing of the C library and the kernel skipped).
#[derive(Clone, PartialEq, Debug)]
pub struct WaitFunctionRow {
    /// The function; `None`: no stack.
    pub function: Option<FunctionHandle>,
    /// Reason.
    pub reason: WaitReason,
    /// Time waited.
    pub time: Nanos,
    /// Number of waits or off-CPU samples.
    pub count: u64,
    /// The longest.
    pub longest: Nanos,
    /// Threads that waited there.
    pub threads: usize,
    /// The groups these threads belong to, most time first (at most 5).
    pub groups: Vec<String>,
}

/// One side of an activation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Party {
    /// A group of threads of the recorded processes: index into [`ThreadTable::groups`](crate::ThreadTable::groups).
    Group(usize),
    /// An interrupt: timer, disk or network.
    Interrupt,
    /// A thread of another process.
    Elsewhere,
}

/// `woken` went on because of `waker`.
#[derive(Clone, PartialEq, Debug)]
pub struct Activation {
    /// Who acted.
    pub waker: Party,
    /// Index of the woken group.
    pub woken: usize,
    /// How often.
    pub count: u64,
    /// Waiting time that ended so.
    pub time: Nanos,
    /// Time the woken then still spent ready without a CPU.
    pub ready: Nanos,
    /// What the woken waited for most.
    pub reason: WaitReason,
}

/// A lock that many threads queue for.
#[derive(Clone, PartialEq, Debug)]
pub struct Convoy {
    /// Where they wait: the innermost function outside the lock's own plumbing.
    pub function: Option<FunctionHandle>,
    /// What shows that it is a lock. `Condition`: only that it is handed on among those who wait; runtimes build their
    /// locks of conditions.
    pub reason: WaitReason,
    /// Threads that waited there.
    pub threads: usize,
    /// Their waiting time there.
    pub time: Nanos,
    /// `time` as share of these threads' time in the window, 0 to 1.
    pub share: f64,
    /// Mean number of threads waiting there at one time.
    pub mean_queue: f64,
    /// Share of the waiting there (where the waker is known) that was ended by a thread which waits there too (the lock is
    /// handed on), 0 to 1; `None`: wakers were not recorded.
    pub handed_on: Option<f64>,
}

/// Threads waited for a lock, a condition or an answer, and the thread that ended their waits had itself waited, for something else,
/// in the meantime: what they really waited for, one step further.
#[derive(Clone, PartialEq, Debug)]
pub struct Behind {
    /// Where the threads waited.
    pub function: Option<FunctionHandle>,
    /// For what.
    pub reason: WaitReason,
    /// Where the thread that ended their waits had waited.
    pub cause_function: Option<FunctionHandle>,
    /// For what.
    pub cause: WaitReason,
    /// Waits of this kind.
    pub count: u64,
    /// Share of all waits at that place whose waker is known, 0 to 1.
    pub share: f64,
    /// Time during which both waited. A lower bound: only the last wait of the waker counts.
    pub time: Nanos,
    /// Threads that waited so.
    pub threads: usize,
}

/// One long wait.
#[derive(Clone, PartialEq, Debug)]
pub struct LongWait {
    /// Who.
    pub tid: Tid,
    /// From.
    pub start: MonoNanos,
    /// How long.
    pub time: Nanos,
    /// For what.
    pub reason: WaitReason,
    /// Where.
    pub function: Option<FunctionHandle>,
    /// Woken by.
    pub waker: Option<Tid>,
}
