//! Threads' times, cut into slices.

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
        let Some(before) = self.written.get_mut(&tid) else {
            // Its times count from here on; a thread born during the recording starts with nothing.
            let start = totals.at - (totals.running + totals.ready + totals.waiting).min(totals.at);
            self.written.insert(tid, Totals { at: start, ..Totals::default() });
            return Ok(());
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

    pub(crate) fn forget(&mut self, tid: u32) {
        self.written.remove(&tid);
    }
}
