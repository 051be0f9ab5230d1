//! Waits for monitors and locks.

use super::kept::Heaviest;
use super::limits::Limits;
use super::runtime::{ContentionStart, ContentionStop};
use biopsy_model::order::Order as _;
use biopsy_model::runtime_trace::{Contention, ContentionGroup, Kept, RuntimeStack};
use biopsy_model::{MonoNanos, Nanos, Tid};
use rustc_hash::FxHashMap;

/// Contention by place.
#[derive(Debug)]
pub(super) struct Contentions {
    open: FxHashMap<Tid, Contention>,
    longest: Heaviest<Contention>,
    groups: FxHashMap<Option<RuntimeStack>, ContentionGroup>,
    limits: Limits,
}

impl Contentions {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            open: FxHashMap::default(),
            longest: Heaviest::new(limits.items),
            groups: FxHashMap::default(),
            limits: *limits,
        }
    }

    pub(super) fn start(
        &mut self,
        time: MonoNanos,
        tid: Tid,
        event: ContentionStart,
        stack: Option<RuntimeStack>,
    ) {
        let owner = event.owner.and_then(|owner| u32::try_from(owner).ok()).map(Tid);
        let started = Contention {
            start: time,
            duration: Nanos(0),
            tid,
            lock: event.lock.or(event.object),
            owner,
            stack,
        };
        // A thread waits for one lock at a time: where one has begun already, its end was lost.
        if self.open.contains_key(&tid) || self.open.len() < self.limits.open {
            if let Some(unfinished) = self.open.insert(tid, started) {
                self.count(unfinished);
            }
        } else {
            self.count(started);
        }
    }

    pub(super) fn stop(&mut self, time: MonoNanos, tid: Tid, event: ContentionStop) {
        let told = event.nanos.filter(|nanos| nanos.is_finite() && *nanos >= 0.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "saturates; not negative"
        )]
        let told = told.map(|nanos| Nanos(nanos as u64));
        let mut ended = self.open.remove(&tid).unwrap_or_else(|| Contention {
            // It began before the recording did.
            start: time - told.unwrap_or_default(),
            duration: Nanos(0),
            tid,
            lock: None,
            owner: None,
            stack: None,
        });
        ended.duration = told.unwrap_or_else(|| time.since(ended.start));
        self.count(ended);
    }

    fn count(&mut self, contention: Contention) {
        let room = self.groups.len() < self.limits.groups || self.groups.contains_key(&contention.stack);
        // Above the limit all are one group without place.
        let place = contention.stack.filter(|_| room);
        let group = self.groups.entry(place).or_insert(ContentionGroup {
            stack: place,
            count: 0,
            total: Nanos(0),
            longest: Nanos(0),
        });
        group.count += 1;
        group.total = group.total + contention.duration;
        group.longest = group.longest.max(contention.duration);
        self.longest.offer(contention.duration.0, || contention);
    }

    /// `end`: until when those wait that have not got their lock.
    pub(super) fn finish(mut self, end: MonoNanos) -> (Kept<Contention>, Vec<ContentionGroup>) {
        for mut open in std::mem::take(&mut self.open).into_values() {
            open.duration = end.since(open.start);
            self.count(open);
        }
        let mut groups: Vec<_> = self.groups.into_values().collect();
        groups.order_by_key(|group| (std::cmp::Reverse(group.total), group.stack));
        (self.longest.finish(|contention| contention.start), groups)
    }
}
