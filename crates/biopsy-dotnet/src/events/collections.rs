//! Collections of garbage, and the pauses they cause.

use super::kept::First;
use super::limits::Limits;
use super::runtime::{GcEnd, GcHeapStats, GcStart, GcSuspendBegin, gc_reason};
use biopsy_model::order::Order as _;
use biopsy_model::runtime_trace::{Collection, CollectionReason, Kept, RuntimeStack};
use biopsy_model::{MonoNanos, Nanos, Tid};

/// Suspended for a collection, and to prepare a background one; what other reasons suspend for is no collection.
const FOR_GC: u32 = 1;
const FOR_GC_PREP: u32 = 6;

/// A thread stopped the others, or waits to be the one that may.
#[derive(Debug)]
struct Suspension {
    by: Tid,
    since: MonoNanos,
    reason: u32,
    /// Number of the collection that started in it.
    started: Option<u32>,
}

/// Most threads that suspend or wait for it at a time; more: their ends were lost.
const MOST_SUSPENSIONS: usize = 64;

/// Collections by their events: `GCSuspendEEBegin`, `GCStart`, `GCEnd`, `GCHeapStats`, `GCRestartEEEnd`.
///
/// A background collection pauses threads twice and lets them run in between, where foreground ones of the young generations
/// may come; so a pause belongs to what started within it, or else to the background collection that runs.
///
/// The runtime's sampling profiler and debuggers suspend too, and say that they begin before they wait for a collection to end:
/// so each thread's suspension is followed on its own.
#[derive(Debug)]
pub(super) struct Collections {
    done: First<Collection>,
    /// Started, and not both ended and resumed: one of the foreground, one of the background.
    open: Vec<Collection>,
    suspensions: Vec<Suspension>,
    /// Number of the one that ended last: its heap statistics follow.
    ended_last: Option<u32>,
    /// All suspensions for collections.
    pub(super) pauses: Nanos,
}

impl Suspension {
    fn is_for_gc(&self) -> bool {
        matches!(self.reason, FOR_GC | FOR_GC_PREP)
    }
}

impl Collections {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            done: First::new(limits.items.saturating_mul(10)),
            open: Vec::new(),
            suspensions: Vec::new(),
            ended_last: None,
            pauses: Nanos(0),
        }
    }

    pub(super) fn suspend_begin(&mut self, time: MonoNanos, event: GcSuspendBegin, by: Tid) {
        // Two in a row: the end of the first was lost.
        self.suspensions.retain(|one| one.by != by);
        if self.suspensions.len() >= MOST_SUSPENSIONS {
            self.suspensions.remove(0);
        }
        self.suspensions.push(Suspension { by, since: time, reason: event.reason, started: None });
    }

    pub(super) fn start(
        &mut self,
        time: MonoNanos,
        event: GcStart,
        tid: Option<Tid>,
        stack: Option<RuntimeStack>,
    ) {
        let reason = match event.reason {
            0 => CollectionReason::SmallObjects,
            1 | 7 | 10 | 17 => CollectionReason::Induced,
            2 | 9 => CollectionReason::LowMemory,
            4 => CollectionReason::LargeObjects,
            other => CollectionReason::Other(gc_reason(other).to_owned()),
        };
        self.open.push(Collection {
            number: event.count,
            start: time,
            end: None,
            generation: u8::try_from(event.depth).unwrap_or(u8::MAX),
            reason,
            background: event.kind == 1,
            pause: Nanos(0),
            longest_pause: Nanos(0),
            promoted: None,
            sizes_after: None,
            pinned: None,
            tid,
            stack,
        });
        // A collection may be told by another thread than the one that stopped all.
        let by_itself = self.suspensions.iter().rposition(|one| Some(one.by) == tid && one.is_for_gc());
        let within = by_itself.or_else(|| self.suspensions.iter().rposition(Suspension::is_for_gc));
        if let Some(within) = within.and_then(|at| self.suspensions.get_mut(at)) {
            within.started.get_or_insert(event.count);
        }
        // More than a few at a time: their ends were lost.
        if self.open.len() > 8 {
            let lost = self.open.remove(0);
            self.done.push(lost);
        }
    }

    pub(super) fn end(&mut self, time: MonoNanos, event: GcEnd) {
        if let Some(open) = self.by_number(event.count) {
            open.end = Some(time);
            self.ended_last = Some(event.count);
        }
        if !self.suspensions.iter().any(Suspension::is_for_gc) {
            self.close();
        }
    }

    pub(super) fn heap_stats(&mut self, stats: GcHeapStats) {
        let Some(number) = self.ended_last.or(self.open.last().map(|open| open.number)) else { return };
        let done = self.done.kept.items.iter_mut().rev().take(2).find(|done| done.number == number);
        let Some(collection) = self.open.iter_mut().find(|open| open.number == number).or(done) else {
            return;
        };
        collection.promoted = Some(stats.promoted.iter().fold(0_u64, |sum, one| sum.saturating_add(*one)));
        collection.sizes_after = Some(stats.sizes);
        collection.pinned = Some(stats.pinned);
    }

    pub(super) fn restart_end(&mut self, time: MonoNanos, by: Tid) {
        let Some(at) = self.suspensions.iter().position(|one| one.by == by) else { return };
        let suspension = self.suspensions.remove(at);
        if !suspension.is_for_gc() {
            return;
        }
        let pause = time.since(suspension.since);
        self.pauses = self.pauses + pause;
        let number = suspension.started.or_else(|| {
            let background = self.open.iter().find(|open| open.background && open.end.is_none());
            background.or(self.open.first()).map(|open| open.number)
        });
        if let Some(open) = number.and_then(|number| self.by_number(number)) {
            open.pause = open.pause + pause;
            open.longest_pause = open.longest_pause.max(pause);
        }
        self.close();
    }

    /// Nothing has begun that has not ended.
    pub(super) fn is_idle(&self) -> bool {
        self.open.is_empty() && self.suspensions.is_empty()
    }

    fn by_number(&mut self, number: u32) -> Option<&mut Collection> {
        self.open.iter_mut().rev().find(|open| open.number == number)
    }

    /// What has ended, and whose pause has.
    fn close(&mut self) {
        let mut at = 0;
        while let Some(open) = self.open.get(at) {
            if open.end.is_some() {
                let done = self.open.remove(at);
                self.done.push(done);
            } else {
                at += 1;
            }
        }
    }

    pub(super) fn finish(mut self) -> Kept<Collection> {
        for open in self.open {
            self.done.push(open);
        }
        let mut kept = self.done.kept;
        kept.items.order_by_key(|collection| (collection.start, collection.number));
        kept
    }
}
