//! What each finding means, when it is said, what would disprove it and what to do then: the text of `biopsy explain` and of the guide.

mod about;
mod costs;
mod crash;
mod dotnet;
mod dump;
mod growth;
mod hang;
mod machine;
mod recording;
mod requests;
mod work;

pub use about::{About, Kind, Said};

use super::ids::FindingId;

impl FindingId {
    /// What is known of it.
    #[must_use]
    pub fn about(self) -> About {
        match self {
            Self::CpuBound => work::CPU_BOUND,
            Self::GcPressure => costs::GC_PRESSURE,
            Self::AllocatorChurn => costs::ALLOCATOR_CHURN,
            Self::PageFaults => costs::PAGE_FAULTS,
            Self::ShortLivedProcesses => costs::SHORT_LIVED_PROCESSES,
            Self::RoundTrips => costs::ROUND_TRIPS,
            Self::KernelTime => work::KERNEL_TIME,
            Self::SwitchStorm => work::SWITCH_STORM,
            Self::LockConvoy => work::LOCK_CONVOY,
            Self::LockContention => work::LOCK_CONTENTION,
            Self::SingleThreadBottleneck => work::SINGLE_THREAD_BOTTLENECK,
            Self::DiskBound => work::DISK_BOUND,
            Self::SlowPeer => work::SLOW_PEER,
            Self::AcceptQueue => machine::ACCEPT_QUEUE,
            Self::SleepLoop => work::SLEEP_LOOP,
            Self::RunawayThreads => growth::RUNAWAY_THREADS,
            Self::MemoryGrowth => growth::MEMORY_GROWTH,
            Self::KeptAllocations => growth::KEPT_ALLOCATIONS,
            Self::MemoryInUse => growth::MEMORY_IN_USE,
            Self::GrowingType => growth::GROWING_TYPE,
            Self::KeptByAllocator => growth::KEPT_BY_ALLOCATOR,
            Self::Leak => growth::LEAK,
            Self::NeverReleased => growth::NEVER_RELEASED,
            Self::WastedMemory => growth::WASTED_MEMORY,
            Self::DescriptorGrowth => growth::DESCRIPTOR_GROWTH,
            Self::CgroupThrottled => machine::CGROUP_THROTTLED,
            Self::CpuSaturatedByOthers => machine::CPU_SATURATED_BY_OTHERS,
            Self::CpuSteal => machine::CPU_STEAL,
            Self::MemoryPressure => machine::MEMORY_PRESSURE,
            Self::LogErrors => recording::LOG_ERRORS,
            Self::TargetEnded => recording::TARGET_ENDED,
            Self::RecordingIncomplete => recording::RECORDING_INCOMPLETE,
            Self::Idle => recording::IDLE,
            Self::LittleCpu => recording::LITTLE_CPU,
            Self::NoBottleneck => recording::NO_BOTTLENECK,
            Self::NothingRecorded => recording::NOTHING_RECORDED,
            Self::PoolStarvation => dotnet::POOL_STARVATION,
            Self::ExceptionStorm => dotnet::EXCEPTION_STORM,
            Self::RegexBacktracking => dotnet::REGEX_BACKTRACKING,
            Self::AllocationStorm => dotnet::ALLOCATION_STORM,
            Self::GcPinned => dotnet::GC_PINNED,
            Self::GcPauses => dotnet::GC_PAUSES,
            Self::GcLargeHeap => dotnet::GC_LARGE_HEAP,
            Self::GcInduced => dotnet::GC_INDUCED,
            Self::ManagedHeapGrowth => growth::MANAGED_HEAP_GROWTH,
            Self::HeapFragmentation => growth::HEAP_FRAGMENTATION,
            Self::TimerGrowth => growth::TIMER_GROWTH,
            Self::NPlusOne => requests::N_PLUS_ONE,
            Self::SlowDependency => requests::SLOW_DEPENDENCY,
            Self::RequestsUnanswered => requests::REQUESTS_UNANSWERED,
            Self::FailedRequests => requests::FAILED_REQUESTS,
            Self::SlowRequests => requests::SLOW_REQUESTS,
            Self::BlockedOnLock => dotnet::BLOCKED_ON_LOCK,
            Self::FinalizerBlocked => dotnet::FINALIZER_BLOCKED,
            Self::LoggedErrors => recording::LOGGED_ERRORS,
            Self::RuntimeEventsIncomplete => recording::RUNTIME_EVENTS_INCOMPLETE,
            Self::Deadlock => hang::DEADLOCK,
            Self::AbandonedLock => hang::ABANDONED_LOCK,
            Self::OrphanedLock => hang::ORPHANED_LOCK,
            Self::WaitsForProcess => hang::WAITS_FOR_PROCESS,
            Self::SilentPeer => hang::SILENT_PEER,
            Self::NeverWoken => hang::NEVER_WOKEN,
            Self::StuckWait => hang::STUCK_WAIT,
            Self::LockQueue => hang::LOCK_QUEUE,
            Self::NoProgress => hang::NO_PROGRESS,
            Self::StrandDeadlock => hang::STRAND_DEADLOCK,
            Self::StrandsWait => hang::STRANDS_WAIT,
            Self::NullPointer => crash::NULL_POINTER,
            Self::StackOverflow => crash::STACK_OVERFLOW,
            Self::BadPointer => crash::BAD_POINTER,
            Self::Abort => crash::ABORT,
            Self::FatalSignal => crash::FATAL_SIGNAL,
            Self::HeldUp => hang::HELD_UP,
            Self::EqualThreads => hang::EQUAL_THREADS,
            Self::UnhandledException => crash::UNHANDLED_EXCEPTION,
            Self::FullChannel => hang::FULL_CHANNEL,
            Self::WaitingOperations => hang::WAITING_OPERATIONS,
            Self::ManyThreads => dump::MANY_THREADS,
            Self::Running => dump::RUNNING,
            Self::MemorySplit => dump::MEMORY_SPLIT,
            Self::BrokenStacks => dump::BROKEN_STACKS,
            Self::NoSymbols => dump::NO_SYMBOLS,
            Self::IncompleteDump => dump::INCOMPLETE_DUMP,
            Self::Scrubbed => dump::SCRUBBED,
            Self::Overview => dump::OVERVIEW,
        }
    }

    /// Ids that somebody may have meant who typed `text`, at most three: mistyped, a part of it, with a word of it.
    #[must_use]
    pub fn near(text: &str) -> Vec<FindingId> {
        let typed = text.trim().to_ascii_lowercase().replace(['_', ' '], "-");
        let shares =
            |name: &str| typed.split('-').any(|word| word.len() > 3 && name.split('-').any(|of| of == word));
        let far = |id: &FindingId| {
            let name = id.as_str();
            let distance = distance(&typed, name);
            let how = if distance * 3 <= name.len() {
                0
            } else if typed.len() > 2 && (name.contains(&typed) || typed.contains(name)) {
                1
            } else if shares(name) {
                2
            } else {
                return None;
            };
            Some((how, distance, *id))
        };
        let mut near: Vec<_> = FindingId::ALL.iter().filter_map(far).collect();
        near.sort_unstable();
        near.into_iter().take(3).map(|(.., id)| id).collect()
    }
}

/// Letters to put in, leave out or change until `a` is `b`. Of what is longer than any id, only the beginning is looked at.
fn distance(a: &str, b: &str) -> usize {
    const LONGEST: usize = 64;
    let a: Vec<char> = a.chars().take(LONGEST).collect();
    let mut row: Vec<usize> = (0..=a.len()).collect();
    for (line, letter) in b.chars().enumerate() {
        let mut before = row[0];
        row[0] = line + 1;
        for at in 0..a.len() {
            let changed = before + usize::from(a[at] != letter);
            before = row[at + 1];
            row[at + 1] = changed.min(before + 1).min(row[at] + 1);
        }
    }
    row[a.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finding_has_a_text_that_says_something() {
        for &id in FindingId::ALL {
            let about = id.about();
            assert!(about.means.ends_with('.') && about.means.len() > 60, "{id}: what it means");
            assert!(
                about.disproved_by.ends_with('.') && about.disproved_by.len() > 30,
                "{id}: what disproves it"
            );
            assert!(!about.said.is_empty(), "{id}: when it is said");
            assert!(about.said.is_sorted_by_key(|said| said.of), "{id}: order of its evidence");
            for said in about.said {
                assert!(!said.when.is_empty() && !said.rests_on.is_empty(), "{id}");
                // They stand in the cells of a table.
                assert!(
                    ![said.when, said.rests_on]
                        .iter()
                        .any(|text| text.contains(['|', '\n']) || text.ends_with('.')),
                    "{id}"
                );
            }
            assert!(about.to_do.iter().all(|step| !step.ends_with('.')), "{id}: steps are fragments");
            assert!(id.summary().ends_with('.'), "{id}");
        }
    }

    #[test]
    fn what_was_meant_is_near() {
        for (typed, first) in [
            ("deadlok", "deadlock"),
            ("Dead_Lock", "deadlock"),
            ("cpubound", "cpu-bound"),
            ("convoy", "lock-convoy"),
            ("lock convoy", "lock-convoy"),
            ("overflow", "stack-overflow"),
            ("memory-leak", "memory-growth"),
        ] {
            assert!(
                FindingId::near(typed).iter().any(|id| id.as_str() == first),
                "{typed}: {:?}",
                FindingId::near(typed)
            );
        }
        assert_eq!(FindingId::near("xyzzy"), []);
        assert_eq!(FindingId::near(""), []);
        assert_eq!(FindingId::near(&"deadlock".repeat(100_000)), [FindingId::Deadlock]);
        assert_eq!((distance("", "abc"), distance("abc", "abc"), distance("kitten", "sitting")), (3, 0, 3));
    }
}
