//! Whether what was recorded got on at all, and whether the recording says why not: only then is memory looked at unasked.

use std::time::{Duration, Instant};

use biopsy_analyze::{FindingId, Severity, analyze};
use biopsy_model::process::ProcessInfo;
use biopsy_model::{Nanos, ProcessKey};
use biopsy_recording::Limits;
use biopsy_target::stillness::{Still, Stillness, has_strands};

use crate::recording::Draft;

/// Shorter recordings do not tell that something does not move.
const LEAST: Duration = Duration::from_secs(2);
/// Processes that are watched.
const MOST: usize = 64;
/// Who takes more of a CPU than this gets on with something.
const BUSY: f64 = 0.1;
/// Larger recordings are of processes that do much, and are not read twice.
const READ_AGAIN: u64 = 64 << 20;

/// The processes of a recording as they were at its beginning.
pub(super) struct Beginning {
    at: Instant,
    all: Vec<(ProcessKey, Stillness)>,
}

impl Beginning {
    /// From now on.
    pub(super) fn of(tree: &[ProcessInfo]) -> Self {
        let of = |process: &ProcessInfo| (process.key.clone(), Stillness::begin(process.key.pid));
        Self { at: Instant::now(), all: tree.iter().take(MOST).map(of).collect() }
    }

    /// Those of `tree` that did not move since.
    pub(super) fn still(&self, tree: &[ProcessInfo]) -> Vec<ProcessInfo> {
        let over = self.at.elapsed();
        let is_still = |process: &&ProcessInfo| {
            let began = self.all.iter().find(|(key, _)| *key == process.key);
            let still = began.and_then(|(_, stillness)| stillness.read());
            still.is_some_and(|still| stands(still, over, has_strands(process.runtime.kind)))
        };
        tree.iter().filter(is_still).cloned().collect()
    }
}

/// It used next to no CPU time, and somebody in it waited all the while for somebody else: a thread, or what a runtime runs without one.
fn stands(still: Still, over: Duration, strands: bool) -> bool {
    let share = Nanos::as_secs_f64(still.cpu) / over.as_secs_f64().max(f64::MIN_POSITIVE);
    over >= LEAST && share < BUSY && (strands || still.waiting > 0)
}

/// What the recording says explains why nothing moves. `true` also where it cannot be told.
pub(super) fn is_explained(draft: &Draft, timeline_bytes: u64) -> bool {
    if timeline_bytes > READ_AGAIN {
        return true;
    }
    let Ok(capture) = biopsy_recording::open(draft.folder.reach(), &Limits::default()) else { return true };
    analyze(&capture)
        .findings
        .iter()
        .any(|finding| finding.severity >= Severity::Warning && explains(finding.id))
}

/// A finding that says what is waited for outside, or what is done instead; not one that says that there is a wait, or that the
/// recording or the machine was in a bad state.
fn explains(id: FindingId) -> bool {
    !matches!(
        id,
        FindingId::LockConvoy
            | FindingId::LockContention
            | FindingId::SingleThreadBottleneck
            | FindingId::BlockedOnLock
            | FindingId::RequestsUnanswered
            | FindingId::SlowRequests
            | FindingId::FailedRequests
            | FindingId::AcceptQueue
            | FindingId::LogErrors
            | FindingId::LoggedErrors
            | FindingId::RecordingIncomplete
            | FindingId::RuntimeEventsIncomplete
            | FindingId::CpuSaturatedByOthers
            | FindingId::CpuSteal
            | FindingId::MemoryPressure
            | FindingId::NothingRecorded
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_and_does_nothing_stands_still() {
        let over = Duration::from_secs(10);
        let still = |cpu_ms: u64, waiting| Still { cpu: Nanos(cpu_ms * 1_000_000), waiting };
        assert!(stands(still(200, 2), over, false));
        assert!(!stands(still(200, 0), over, false), "all of its threads rest");
        assert!(stands(still(200, 0), over, true), "its tasks wait without threads");
        assert!(!stands(still(2_000, 2), over, true), "it is busy");
        assert!(!stands(still(0, 2), Duration::from_secs(1), false), "too short to tell");
    }

    #[test]
    fn that_somebody_waits_is_no_explanation() {
        assert!(
            explains(FindingId::SlowPeer) && explains(FindingId::DiskBound) && explains(FindingId::CpuBound)
        );
        assert!(!explains(FindingId::LockConvoy) && !explains(FindingId::RecordingIncomplete));
    }
}
