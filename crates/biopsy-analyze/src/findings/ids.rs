//! The ids of all findings. What each means stands in `catalogue`, which the guide is made from.

macro_rules! finding_ids {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal,)+) => {
        /// Which finding it is. Its text is stable: programs that read reports rely on it.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub enum FindingId {
            $($(#[doc = $doc])+ $name,)+
        }

        impl FindingId {
            /// Every id, each once.
            pub const ALL: &[FindingId] = &[$(FindingId::$name,)+];

            /// The stable text: `cpu-bound`.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(FindingId::$name => $text,)+
                }
            }

            /// It in one sentence.
            #[must_use]
            pub fn summary(self) -> &'static str {
                match self {
                    $(FindingId::$name => concat!($($doc),+).trim_ascii(),)+
                }
            }
        }
    };
}

finding_ids! {
    /// A thread, or all CPUs, are busy with the process's own code.
    CpuBound = "cpu-bound",
    /// Much of the CPU time is inside the kernel.
    KernelTime = "kernel-time",
    /// Threads switch so often that it costs.
    SwitchStorm = "switch-storm",
    /// Threads queue at one place for a lock.
    LockConvoy = "lock-convoy",
    /// Threads wait for locks in no one place.
    LockContention = "lock-contention",
    /// One thread is at its limit while the others wait for it.
    SingleThreadBottleneck = "single-thread-bottleneck",
    /// Allocating and collecting garbage takes the CPU time.
    GcPressure = "gc-pressure",
    /// The allocator takes the CPU time.
    AllocatorChurn = "allocator-churn",
    /// Pages fault in again and again.
    PageFaults = "page-faults",
    /// Processes are started that end at once.
    ShortLivedProcesses = "short-lived-processes",
    /// Many questions to a peer, one after another.
    RoundTrips = "round-trips",
    /// Threads wait for disks.
    DiskBound = "disk-bound",
    /// A thread waits for answers from a socket.
    SlowPeer = "slow-peer",
    /// Listening sockets turn connections away.
    AcceptQueue = "accept-queue",
    /// A thread sleeps again and again.
    SleepLoop = "sleep-loop",
    /// More and more threads.
    RunawayThreads = "runaway-threads",
    /// More and more anonymous memory.
    MemoryGrowth = "memory-growth",
    /// Native memory is allocated at one place and not given back.
    KeptAllocations = "kept-allocations",
    /// Where the memory was allocated that is in use.
    MemoryInUse = "memory-in-use",
    /// Memory grows, and a heap says of what.
    GrowingType = "growing-type",
    /// The allocator keeps memory that the program has given back.
    KeptByAllocator = "kept-by-allocator",
    /// One holder keeps more and more objects.
    Leak = "leak",
    /// Much is kept by what the program has to release by itself.
    NeverReleased = "never-released",
    /// A large part of a heap would not be needed.
    WastedMemory = "wasted-memory",
    /// More and more open descriptors.
    DescriptorGrowth = "descriptor-growth",
    /// The CPU quota of the cgroup runs out.
    CgroupThrottled = "cgroup-throttled",
    /// Other processes use the CPUs up.
    CpuSaturatedByOthers = "cpu-saturated-by-others",
    /// The hypervisor gives the CPUs to others.
    CpuSteal = "cpu-steal",
    /// Memory is short, and threads wait for it.
    MemoryPressure = "memory-pressure",
    /// Lines of error were logged.
    LogErrors = "log-errors",
    /// The target ended while it was recorded.
    TargetEnded = "target-ended",
    /// The recording is cut short, or parts of it were lost.
    RecordingIncomplete = "recording-incomplete",
    /// The process does nothing.
    Idle = "idle",
    /// The process uses little CPU, and what it waited for was not recorded.
    LittleCpu = "little-cpu",
    /// Nothing stands out.
    NoBottleneck = "no-bottleneck",
    /// There is neither a trace nor metrics.
    NothingRecorded = "nothing-recorded",
    /// Workers of a thread pool block on tasks.
    PoolStarvation = "pool-starvation",
    /// Many exceptions are thrown.
    ExceptionStorm = "exception-storm",
    /// A regular expression takes the CPU time.
    RegexBacktracking = "regex-backtracking",
    /// One place allocates very much.
    AllocationStorm = "allocation-storm",
    /// Many objects are pinned while there is much garbage.
    GcPinned = "gc-pinned",
    /// Threads stand still for collections too long or too often.
    GcPauses = "gc-pauses",
    /// Collections stop all threads for what one holder keeps alive.
    GcLargeHeap = "gc-large-heap",
    /// The program asks for collections.
    GcInduced = "gc-induced",
    /// More and more is left in the managed heap after collections.
    ManagedHeapGrowth = "managed-heap-growth",
    /// Much of the heap is free room between objects.
    HeapFragmentation = "heap-fragmentation",
    /// More and more active timers.
    TimerGrowth = "timer-growth",
    /// One request runs the same command many times.
    NPlusOne = "n-plus-one",
    /// Another server takes most of the time of requests.
    SlowDependency = "slow-dependency",
    /// Requests get no answer.
    RequestsUnanswered = "requests-unanswered",
    /// Requests fail.
    FailedRequests = "failed-requests",
    /// Requests take long.
    SlowRequests = "slow-requests",
    /// Threads wait for a lock from the first moment to the last.
    BlockedOnLock = "blocked-on-lock",
    /// The finalizer thread waits.
    FinalizerBlocked = "finalizer-blocked",
    /// The application logged errors.
    LoggedErrors = "logged-errors",
    /// Events of the runtime were lost.
    RuntimeEventsIncomplete = "runtime-events-incomplete",
    /// Threads wait for each other in a circle.
    Deadlock = "deadlock",
    /// The owner of a lock is not there any more.
    AbandonedLock = "abandoned-lock",
    /// A lock was copied by fork while another thread held it.
    OrphanedLock = "orphaned-lock",
    /// A thread waits for another process, and that one for another, to the end of the chain.
    WaitsForProcess = "waits-for-process",
    /// A thread waits for an answer of a process that does not read what it was sent.
    SilentPeer = "silent-peer",
    /// Somebody waits, and nobody is left who would end that.
    NeverWoken = "never-woken",
    /// Threads or tasks wait without a limit for an answer of the program itself; who would give it is not known.
    StuckWait = "stuck-wait",
    /// Threads wait for one that holds a lock.
    LockQueue = "lock-queue",
    /// Threads want a lock and did not run between several looks.
    NoProgress = "no-progress",
    /// Goroutines or tasks wait for each other in a circle, or all of them for each other.
    StrandDeadlock = "strand-deadlock",
    /// Goroutines wait in one place for what another one has to give.
    StrandsWait = "strands-wait",
    /// The process died at a null pointer, or a field of one.
    NullPointer = "null-pointer",
    /// The process died below the end of a stack.
    StackOverflow = "stack-overflow",
    /// The process died at another address that it must not use.
    BadPointer = "bad-pointer",
    /// The process ended itself.
    Abort = "abort",
    /// The process died of another signal.
    FatalSignal = "fatal-signal",
    /// Threads wait in one place in the middle of their work.
    HeldUp = "held-up",
    /// Many threads stand in the same place.
    EqualThreads = "equal-threads",
    /// A process ended by an exception that nobody caught.
    UnhandledException = "unhandled-exception",
    /// Asynchronous operations wait for room in a bounded channel.
    FullChannel = "full-channel",
    /// Asynchronous operations await one object.
    WaitingOperations = "waiting-operations",
    /// Very many threads.
    ManyThreads = "many-threads",
    /// Threads that execute code of their own.
    Running = "running",
    /// What the memory is.
    MemorySplit = "memory-split",
    /// Stacks that do not reach their root.
    BrokenStacks = "broken-stacks",
    /// Frames without names.
    NoSymbols = "no-symbols",
    /// Memory that should be in the dump is not.
    IncompleteDump = "incomplete-dump",
    /// Secrets were masked in the dump.
    Scrubbed = "scrubbed",
    /// What the threads do.
    Overview = "overview",
}

impl FindingId {
    /// The id with this text; `None`: not one of ours, or not of this version.
    #[must_use]
    pub fn parse(text: &str) -> Option<FindingId> {
        Self::ALL.iter().copied().find(|id| id.as_str() == text)
    }
}

impl std::fmt::Display for FindingId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::FindingId;
    use std::collections::BTreeSet;

    #[test]
    fn an_id_is_read_back_and_nothing_else_is() {
        let known: BTreeSet<&str> = FindingId::ALL.iter().map(|id| id.as_str()).collect();
        assert_eq!(known.len(), FindingId::ALL.len(), "two findings have one id");
        for &id in FindingId::ALL {
            assert_eq!(FindingId::parse(id.as_str()), Some(id));
            assert!(id.as_str().bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{id}");
        }
        for other in ["", "Deadlock", "deadlock ", "../../x", "cpu_bound"] {
            assert_eq!(FindingId::parse(other), None, "{other:?}");
        }
    }
}
