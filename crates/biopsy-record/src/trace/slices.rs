//! Threads' times, cut into slices.

use std::collections::hash_map::Entry;
use std::io;

use biopsy_model::timeline::{StateSlice, TimelineEvent};
use biopsy_model::{MonoNanos, Nanos, Tid};
use rustc_hash::FxHashMap;

use super::kernel::{ThreadTimes, thread_state};
use super::sink::Sink;

/// A thread that does nothing but wait gets a slice this often only.
const IDLE_SLICE_NANOS: u64 = 10_000_000_000;

/// Remembers up to where each thread's times have been written.
#[derive(Debug, Default)]
pub(crate) struct Slices {
    written: FxHashMap<u32, Totals>,
}

#[derive(Clone, Copy, Default, Debug)]
struct Totals {
    at: u64,
    sequence: u64,
    running: u64,
    ready: u64,
    waiting: u64,
    voluntary: u64,
    involuntary: u64,
    wakeups: u64,
}

impl Totals {
    /// All that a thread did up to `now`, the open stretch included.
    fn of(times: &ThreadTimes, now: u64) -> Self {
        let open = now.saturating_sub(times.since);
        let mut totals = Self {
            at: now,
            sequence: times.sequence,
            running: times.running,
            ready: times.ready,
            waiting: times.waiting,
            voluntary: times.voluntary,
            involuntary: times.involuntary,
            wakeups: times.wakeups,
        };
        match times.state {
            thread_state::RUNNING => totals.running += open,
            thread_state::READY => totals.ready += open,
            thread_state::WAITING => totals.waiting += open,
            _ => {}
        }
        totals
    }
}

impl Slices {
    /// Writes what a thread did since its last slice. `last`: write it even if it only waited.
    pub(crate) fn update(
        &mut self,
        tid: u32,
        times: &ThreadTimes,
        now: u64,
        last: bool,
        sink: &mut Sink,
    ) -> io::Result<()> {
        let totals = Totals::of(times, now);
        let before = match self.written.entry(tid) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                // Its times count from here on; a thread born during the recording starts with nothing.
                let start = totals.at - (totals.running + totals.ready + totals.waiting).min(totals.at);
                let before = new.insert(Totals { at: start, ..Totals::default() });
                // One that ends before it was looked at is not seen again.
                if !last {
                    return Ok(());
                }
                before
            }
        };
        let idle = totals.sequence == before.sequence && times.state == thread_state::WAITING;
        if idle && !last && now < before.at + IDLE_SLICE_NANOS {
            return Ok(());
        }
        let count = |new: u64, old: u64| u32::try_from(new.saturating_sub(old)).unwrap_or(u32::MAX);
        let time = |new: u64, old: u64| Nanos(new.saturating_sub(old));
        let slice = StateSlice {
            tid: Tid(tid),
            from: MonoNanos(before.at),
            to: MonoNanos(now),
            running: time(totals.running, before.running),
            ready: time(totals.ready, before.ready),
            waiting: time(totals.waiting, before.waiting),
            voluntary: count(totals.voluntary, before.voluntary),
            involuntary: count(totals.involuntary, before.involuntary),
            wakeups: count(totals.wakeups, before.wakeups),
        };
        *before = totals;
        sink.push(&TimelineEvent::States(slice))
    }

    /// Its times count from here on.
    pub(crate) fn begin_at(&mut self, tid: u32, times: &ThreadTimes, now: u64) {
        self.written.insert(tid, Totals::of(times, now));
    }

    /// Times are those of another source from here on.
    pub(crate) fn clear(&mut self) {
        self.written.clear();
    }

    pub(crate) fn forget(&mut self, tid: u32) {
        self.written.remove(&tid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use biopsy_recording::{Limits, RecordingFolder, layout};

    use crate::trace::sink::{Progress, Sink};

    #[test]
    fn slices_add_up_and_idle_threads_are_quiet() {
        const SECOND: u64 = 1_000_000_000;
        let parent = biopsy_testkit::temp_dir("slices");
        let folder = RecordingFolder::create(parent.path().join("r")).unwrap();
        let file = folder.create_member(layout::TIMELINE).unwrap();
        let mut sink = Sink::new(file, None, Arc::new(Progress::default())).unwrap();
        let mut slices = Slices::default();
        let waiting =
            ThreadTimes { since: 10 * SECOND, state: thread_state::WAITING, ..ThreadTimes::default() };
        // Nothing but waiting for 9 s: no slice; then it runs for 1 s, then it waits again for 12 s.
        for second in 10..20 {
            slices.update(7, &waiting, second * SECOND, false, &mut sink).unwrap();
        }
        let running = ThreadTimes {
            since: 20 * SECOND,
            state: thread_state::RUNNING,
            waiting: 10 * SECOND,
            sequence: 1,
            wakeups: 1,
            ..waiting
        };
        slices.update(7, &running, 21 * SECOND, false, &mut sink).unwrap();
        let again = ThreadTimes {
            since: 21 * SECOND,
            state: thread_state::WAITING,
            running: SECOND,
            sequence: 2,
            voluntary: 1,
            ..running
        };
        for second in 22..34 {
            slices.update(7, &again, second * SECOND, false, &mut sink).unwrap();
        }
        slices.update(7, &again, 34 * SECOND, true, &mut sink).unwrap();
        // One that lived for less than a slice is seen at its end alone.
        let short = ThreadTimes {
            since: 40 * SECOND,
            running: SECOND,
            state: thread_state::RUNNING,
            ..ThreadTimes::default()
        };
        slices.update(8, &short, 40 * SECOND, true, &mut sink).unwrap();
        sink.finish().unwrap();

        let file = std::fs::File::open(folder.path().join(layout::TIMELINE)).unwrap();
        let (timeline, warnings) = biopsy_recording::timeline::read(file, &Limits::default()).unwrap();
        assert_eq!(warnings, []);
        let spans: Vec<_> = timeline.states.iter().map(|s| (s.from.0 / SECOND, s.to.0 / SECOND)).collect();
        let gapless = [(10, 21), (21, 22), (22, 32), (32, 34)];
        assert_eq!(spans, [&gapless[..], &[(39, 40)]].concat(), "gapless, and rare while it only waits");
        let sum = |of: fn(&StateSlice) -> u64| timeline.states.iter().map(of).sum::<u64>() / SECOND;
        assert_eq!((sum(|s| s.running.0), sum(|s| s.waiting.0), sum(|s| s.ready.0)), (2, 23, 0));
        assert_eq!(timeline.states[1].voluntary, 1);
    }
}
