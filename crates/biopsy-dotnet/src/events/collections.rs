//! Collections of garbage, and the pauses they cause.

use super::kept::First;
use super::limits::Limits;
use super::runtime::{GcEnd, GcHeapStats, GcStart, GcSuspendBegin, gc_reason};
use biopsy_model::runtime_trace::{Collection, CollectionReason, Kept, RuntimeStack};
use biopsy_model::{MonoNanos, Nanos, Tid};

/// Suspended for a collection, and to prepare a background one; what other reasons suspend for is no collection.
const FOR_GC: u32 = 1;
const FOR_GC_PREP: u32 = 6;

/// Collections by their events: `GCSuspendEEBegin`, `GCStart`, `GCEnd`, `GCHeapStats`, `GCRestartEEEnd`.
///
/// A background collection pauses threads twice and lets them run in between, where foreground ones of the young generations
/// may come; so a pause belongs to what started within it, or else to the background collection that runs.
#[derive(Debug)]
pub(super) struct Collections {
    done: First<Collection>,
    /// Started, and not both ended and resumed: one of the foreground, one of the background.
    open: Vec<Collection>,
    suspended: Option<(MonoNanos, u32)>,
    /// Number of the collection that started in this suspension.
    started_within: Option<u32>,
    /// Number of the one that ended last: its heap statistics follow.
    ended_last: Option<u32>,
    /// All suspensions for collections.
    pub(super) pauses: Nanos,
}

impl Collections {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            done: First::new(limits.items.saturating_mul(10)),
            open: Vec::new(),
            suspended: None,
            started_within: None,
            ended_last: None,
            pauses: Nanos(0),
        }
    }

    pub(super) fn suspend_begin(&mut self, time: MonoNanos, event: GcSuspendBegin) {
        // Two in a row: the end of the first was lost.
        self.suspended = Some((time, event.reason));
        self.started_within = None;
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
        if self.started_within.is_none() {
            self.started_within = Some(event.count);
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
        if self.suspended.is_none() {
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

    pub(super) fn restart_end(&mut self, time: MonoNanos) {
        let Some((since, reason)) = self.suspended.take() else { return };
        if !matches!(reason, FOR_GC | FOR_GC_PREP) {
            return;
        }
        let pause = time.since(since);
        self.pauses = self.pauses + pause;
        let started = self.started_within.take();
        let number = started.or_else(|| {
            let background = self.open.iter().find(|open| open.background && open.end.is_none());
            background.or(self.open.first()).map(|open| open.number)
        });
        if let Some(open) = number.and_then(|number| self.by_number(number)) {
            open.pause = open.pause + pause;
            open.longest_pause = open.longest_pause.max(pause);
        }
        self.close();
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
        kept.items.sort_by_key(|collection| (collection.start, collection.number));
        kept
    }
}
