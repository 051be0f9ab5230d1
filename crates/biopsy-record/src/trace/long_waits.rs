//! Long waits, told from looks at the threads alone, where nobody watches each switch.

use biopsy_model::timeline::Wait;
use biopsy_model::{MonoNanos, Tid};
use rustc_hash::FxHashMap;

use super::kernel::{ThreadTimes, thread_state};

/// A wait that goes on.
#[derive(Clone, Copy, Debug)]
struct Seen {
    sequence: u64,
    from: u64,
    last: u64,
    times: ThreadTimes,
}

/// Who has not run since when. A wait is told from the first look that found the thread waiting to the last one, so it was at least so long.
#[derive(Debug, Default)]
pub(crate) struct LongWaits {
    by_thread: FxHashMap<u32, Seen>,
}

impl LongWaits {
    /// A wait is under way since `from`, as was seen by other means.
    pub(crate) fn begin(&mut self, tid: u32, times: &ThreadTimes, from: u64, now: u64) {
        self.by_thread.insert(tid, Seen { sequence: times.sequence, from, last: now, times: *times });
    }

    /// A look. Returns the wait that has ended since the last one, if it was as long as `threshold`.
    pub(crate) fn note(&mut self, tid: u32, times: &ThreadTimes, now: u64, threshold: u64) -> Option<Wait> {
        let waits = times.state == thread_state::WAITING;
        let seen = self.by_thread.get_mut(&tid);
        if let Some(seen) = seen
            && waits
            && seen.sequence == times.sequence
        {
            (seen.last, seen.times) = (now, *times);
            return None;
        }
        let ended = self.by_thread.remove(&tid);
        if waits {
            self.begin(tid, times, now, now);
        }
        let Seen { from, last, times, .. } = ended?;
        (last.saturating_sub(from) >= threshold.max(1)).then(|| Wait {
            tid: Tid(tid),
            start: MonoNanos(from),
            end: MonoNanos(last),
            ready: None,
            waker: None,
            state: times.wait_state(),
            syscall: times.syscall_number(),
            stack: None,
        })
    }

    /// Since when the thread waits, if it is still that wait.
    pub(crate) fn since(&self, tid: u32, times: &ThreadTimes) -> Option<u64> {
        self.by_thread.get(&tid).filter(|seen| seen.sequence == times.sequence).map(|seen| seen.from)
    }

    /// The thread has ended, or what it waited was told by who saw its end.
    pub(crate) fn forget(&mut self, tid: u32) {
        self.by_thread.remove(&tid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use biopsy_model::timeline::WaitState;

    #[test]
    fn a_wait_is_as_long_as_the_looks_that_found_it() {
        let asleep = ThreadTimes {
            state: thread_state::WAITING,
            sequence: 5,
            out_state: 1,
            syscall: 202,
            ..ThreadTimes::default()
        };
        let later = ThreadTimes { sequence: 6, ..asleep };
        let runs = ThreadTimes { state: thread_state::RUNNING, ..later };
        // Looks at 100, 200 ...; the wait that each one ends.
        for (looks, expected) in [
            (&[&asleep, &asleep, &asleep, &runs][..], &[(100, 300)][..]),
            (&[&asleep, &runs, &asleep], &[]),
            (&[&asleep, &asleep, &later, &later, &runs], &[(100, 200), (300, 400)]),
            (&[&runs, &runs], &[]),
            (&[&asleep, &asleep, &asleep], &[]),
        ] {
            let mut waits = LongWaits::default();
            let times = (1..).map(|look| look * 100);
            let told: Vec<_> =
                looks.iter().zip(times).filter_map(|(times, now)| waits.note(9, times, now, 50)).collect();
            let spans: Vec<_> = told.iter().map(|wait| (wait.start.0, wait.end.0)).collect();
            assert_eq!(spans, expected);
            assert!(told.iter().all(|wait| wait.syscall == Some(202) && wait.state == WaitState::Sleep));
        }
        let mut waits = LongWaits::default();
        waits.begin(9, &asleep, 10, 90);
        assert_eq!((waits.since(9, &asleep), waits.since(9, &later)), (Some(10), None));
        assert_eq!(waits.note(9, &asleep, 100, 1), None);
        assert_eq!(waits.note(9, &later, 200, 91), None, "shorter than what is told one by one");
        waits.begin(9, &asleep, 10, 90);
        waits.forget(9);
        assert_eq!(waits.note(9, &later, 200, 1), None, "told already");
    }
}
