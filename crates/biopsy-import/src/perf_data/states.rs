//! Thread states and waits from context-switch records.

use biopsy_model::stack::{StackEnd, StackHandle};
use biopsy_model::timeline::{StateSlice, Wait, WaitSample, WaitState};
use biopsy_model::{MonoNanos, Nanos, Tid};
use rustc_hash::FxHashMap;

/// Waits at least this long are written down by themselves.
pub(crate) const WAIT_THRESHOLD: Nanos = Nanos(1_000_000);

/// A stack taken as a thread left the CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parked {
    pub(crate) stack: Option<StackHandle>,
    pub(crate) end: StackEnd,
    /// How many switches it stands for: with a frequency (`-F`) perf takes only some of them.
    pub(crate) count: u64,
}

/// One thread.
#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    on_since: Option<MonoNanos>,
    off: Option<Off>,
}

#[derive(Clone, Copy, Debug)]
struct Off {
    since: MonoNanos,
    state: WaitState,
    parked: Option<Parked>,
    ready: Option<(MonoNanos, Option<Tid>)>,
}

/// Sums of one thread in one slot of time.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    running: u64,
    ready: u64,
    waiting: u64,
    voluntary: u32,
    involuntary: u32,
    wakeups: u32,
}

/// Follows all threads.
#[derive(Debug)]
pub(crate) struct States {
    threads: FxHashMap<Tid, Thread>,
    slots: FxHashMap<(Tid, u64), Sums>,
    slot: u64,
    /// At most so many slots of all threads; a hostile file can name a million threads.
    limit: usize,
    pub(crate) over_limit: bool,
    pub(crate) waits: Vec<Wait>,
    pub(crate) looks: Vec<WaitSample>,
    /// Some thread was seen to come back: without that nothing is known of how long any was away.
    pub(crate) seen_in: bool,
    pub(crate) seen_wakeups: bool,
}

impl States {
    /// `span`: length of the recording, which decides how fine the slots are.
    pub(crate) fn new(span: Nanos, limit: usize) -> States {
        const FINEST: u64 = 100_000_000;
        States {
            threads: FxHashMap::default(),
            slots: FxHashMap::default(),
            slot: (span.0 / 600).max(FINEST),
            limit,
            over_limit: false,
            waits: Vec::new(),
            looks: Vec::new(),
            seen_in: false,
            seen_wakeups: false,
        }
    }

    /// A thread left the CPU. One switch may be told twice (switch record and tracepoint): the second time adds what the
    /// first did not know.
    pub(crate) fn out(&mut self, tid: Tid, time: MonoNanos, state: WaitState, parked: Option<Parked>) {
        let thread = self.threads.entry(tid).or_default();
        if let Some(off) = &mut thread.off {
            off.parked = off.parked.or(parked);
            if off.state == WaitState::Other {
                off.state = state;
            }
            return;
        }
        thread.off = Some(Off { since: time, state, parked, ready: None });
        if let Some(since) = thread.on_since.take() {
            self.spread(tid, since, time, |sums, part| sums.running += part);
        }
        let sums = self.slots.entry((tid, time.0 / self.slot)).or_default();
        let count = if state == WaitState::Preempted { &mut sums.involuntary } else { &mut sums.voluntary };
        *count = count.saturating_add(1);
    }

    /// Whether anything is known of a thread.
    pub(crate) fn knows(&self, tid: Tid) -> bool {
        self.threads.contains_key(&tid)
    }

    /// A thread was woken.
    pub(crate) fn woken(&mut self, tid: Tid, time: MonoNanos, waker: Option<Tid>) {
        self.seen_wakeups = true;
        let Some(off) = self.threads.get_mut(&tid).and_then(|thread| thread.off.as_mut()) else { return };
        if off.ready.is_none() {
            off.ready = Some((time, waker));
            let sums = self.slots.entry((tid, time.0 / self.slot)).or_default();
            sums.wakeups = sums.wakeups.saturating_add(1);
        }
    }

    /// A thread came back to a CPU.
    pub(crate) fn back(&mut self, tid: Tid, time: MonoNanos) {
        self.seen_in = true;
        let thread = self.threads.entry(tid).or_default();
        if thread.on_since.is_none() {
            thread.on_since = Some(time);
        }
        let Some(off) = thread.off.take() else { return };
        self.close(tid, off, time, true);
    }

    fn close(&mut self, tid: Tid, off: Off, time: MonoNanos, came_back: bool) {
        let ready = off.ready.map(|ready| ready.0).filter(|ready| *ready >= off.since && *ready <= time);
        // Preempted: ready all the time. Woken: ready from then on. Otherwise all of it was waiting, as far as is known.
        let turned = if off.state == WaitState::Preempted { off.since } else { ready.unwrap_or(time) };
        self.spread(tid, off.since, turned, |sums, part| sums.waiting += part);
        self.spread(tid, turned, time, |sums, part| sums.ready += part);
        let away = time.since(off.since);
        if came_back && away >= WAIT_THRESHOLD {
            self.waits.push(Wait {
                tid,
                start: off.since,
                end: time,
                ready,
                waker: off.ready.and_then(|ready| ready.1),
                state: off.state,
                syscall: None,
                stack: off.parked.and_then(|parked| parked.stack),
            });
        }
        if let Some(parked) = off.parked.filter(|_| off.state != WaitState::Preempted) {
            self.looks.push(WaitSample {
                time,
                tid,
                stack: parked.stack,
                end: parked.end,
                weight: Nanos(turned.since(off.since).0.saturating_mul(parked.count)),
                syscall: None,
                state: off.state,
            });
        }
    }

    fn spread(&mut self, tid: Tid, from: MonoNanos, to: MonoNanos, give: impl Fn(&mut Sums, u64)) {
        let mut at = from.0;
        while at < to.0 {
            let number = at / self.slot;
            let end = (number + 1).saturating_mul(self.slot).min(to.0);
            if self.slots.len() >= self.limit {
                self.over_limit = true;
                return;
            }
            give(self.slots.entry((tid, number)).or_default(), end - at);
            if end <= at {
                return;
            }
            at = end;
        }
    }

    /// With a frequency perf takes some switches and tells for each how many it stands for, but not which: long and short
    /// waits weigh the same. Scaled, the looks at a thread stand for its exact waiting time.
    fn scale_looks(&mut self, slices: &[StateSlice]) {
        let mut exact: FxHashMap<Tid, (u64, u64)> = FxHashMap::default();
        for slice in slices {
            let sums = exact.entry(slice.tid).or_default();
            sums.0 = sums.0.saturating_add(slice.waiting.0);
        }
        for look in &self.looks {
            let sums = exact.entry(look.tid).or_default();
            sums.1 = sums.1.saturating_add(look.weight.0);
        }
        for look in &mut self.looks {
            let Some((waited, looked)) = exact.get(&look.tid).filter(|sums| sums.0 > 0 && sums.1 > 0) else {
                continue;
            };
            let scaled = u128::from(look.weight.0) * u128::from(*waited) / u128::from(*looked);
            look.weight = Nanos(u64::try_from(scaled).unwrap_or(u64::MAX));
        }
    }

    /// Closes what is open at the end of the recording.
    pub(crate) fn finish(&mut self, end: MonoNanos) -> Vec<StateSlice> {
        if !self.seen_in {
            self.waits.clear();
            self.looks.clear();
            return Vec::new();
        }
        let mut open: Vec<(Tid, Thread)> = self.threads.drain().collect();
        open.sort_by_key(|(tid, _)| *tid);
        for (tid, thread) in open {
            if let Some(since) = thread.on_since {
                self.spread(tid, since, end, |sums, part| sums.running += part);
            }
            if let Some(off) = thread.off {
                self.close(tid, off, end.max(off.since), false);
            }
        }
        let mut slices: Vec<StateSlice> = self
            .slots
            .drain()
            .map(|((tid, number), sums)| {
                let from = number * self.slot;
                StateSlice {
                    tid,
                    from: MonoNanos(from),
                    to: MonoNanos(from.saturating_add(self.slot)),
                    running: Nanos(sums.running),
                    ready: Nanos(sums.ready),
                    waiting: Nanos(sums.waiting),
                    voluntary: sums.voluntary,
                    involuntary: sums.involuntary,
                    wakeups: sums.wakeups,
                }
            })
            .collect();
        slices.sort_by_key(|slice| (slice.from, slice.tid));
        self.scale_looks(&slices);
        self.waits.sort_by_key(|wait| wait.end);
        slices
    }
}
