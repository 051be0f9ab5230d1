//! What those who hand a lock on had waited for just before: it tells a lock that is held through a flush to the disk from workers that take
//! turns at one source of work.

use super::times::add;
use super::wait_sites::WaitSite;
use super::waits::WaitReason;
use biopsy_model::order::Order as _;
use biopsy_model::{MonoNanos, Nanos, Tid};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;

/// One question for this many answers at least: of short waits not all are recorded.
const ASKED: u64 = 4;

/// What is known of the holders of the lock that is waited for at one site.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Held {
    /// Time in waits that were ended by a thread that waits there, too.
    pub(crate) time: Nanos,
    /// Of that, by what the holder had waited for meanwhile at last, most time first. Else it ran, or waited too short to be recorded.
    pub(crate) waits: Vec<(WaitSite, Nanos)>,
    /// Of that, where the holder had waited at a condition, and a thread had ended that which never takes the lock and was not woken by
    /// those who do: nobody asked it for anything, so that what comes from it is work, and no answer.
    pub(crate) fed: Nanos,
}

impl Held {
    /// Share of the time behind waits that `holds`, 0 to 1.
    pub(crate) fn share(&self, holds: impl Fn(WaitReason) -> bool) -> f64 {
        let waits = self.waits.iter().filter(|(site, _)| holds(site.reason));
        self.part(waits.fold(Nanos(0), |sum, (_, time)| sum + *time))
    }

    /// Share of the time behind a holder that waits for work.
    pub(crate) fn fed_share(&self) -> f64 {
        self.part(self.fed)
    }

    fn part(&self, time: Nanos) -> f64 {
        time.as_secs_f64() / self.time.as_secs_f64().max(1e-9)
    }

    /// The longest of these waits.
    pub(crate) fn longest(&self, holds: impl Fn(WaitReason) -> bool) -> Option<&WaitSite> {
        self.waits.iter().map(|(site, _)| site).find(|site| holds(site.reason))
    }
}

/// A condition, or what may be one: workers wait there for work.
pub(crate) fn is_rest(reason: WaitReason) -> bool {
    matches!(reason, WaitReason::Condition | WaitReason::LockOrCondition)
}

/// The last wait of a thread that was for no lock, since it last waited for one.
#[derive(Clone, Copy, Debug)]
struct Pause {
    to: MonoNanos,
    site: WaitSite,
    waker: Option<Tid>,
}

/// Sums of one site.
#[derive(Debug, Default)]
struct Sums {
    time: Nanos,
    waits: FxHashMap<(WaitSite, Option<Tid>), Nanos>,
    /// Threads that waited for the lock.
    takers: FxHashSet<Tid>,
    /// Waits of holders at conditions that others ended, by whom.
    ended: FxHashMap<Tid, u64>,
}

/// Follows the threads of a recording: waits have to come in the order in which they ended.
#[derive(Debug, Default)]
pub(super) struct Holders {
    pauses: FxHashMap<Tid, Pause>,
    sites: FxHashMap<WaitSite, Sums>,
    /// Waits that one thread ended of another.
    woken: FxHashMap<(Tid, Tid), u64>,
}

impl Holders {
    /// A wait of `tid` that ended.
    pub(super) fn add(
        &mut self,
        tid: Tid,
        (from, to): (MonoNanos, MonoNanos),
        site: WaitSite,
        waker: Option<Tid>,
    ) {
        if site.reason == WaitReason::Lock {
            self.hand_on(tid, (from, to), site, waker);
            self.pauses.remove(&tid);
            return;
        }
        // A sleep is ended by the clock, whatever ran when it rang.
        let asks = |waker: &Tid| waker.0 != 0 && *waker != tid && may_be_asked(site.reason);
        if let Some(waker) = waker.filter(asks) {
            *self.woken.entry((waker, tid)).or_default() += 1;
        }
        self.pauses.insert(tid, Pause { to, site, waker });
    }

    fn hand_on(
        &mut self,
        waiter: Tid,
        (from, to): (MonoNanos, MonoNanos),
        site: WaitSite,
        holder: Option<Tid>,
    ) {
        let sums = self.sites.entry(site).or_default();
        sums.takers.insert(waiter);
        // Of recorded waits without a stack some are taken for waits for a lock that are not: who never waits there ends those.
        let Some(holder) = holder.filter(|holder| *holder != waiter && sums.takers.contains(holder)) else {
            return;
        };
        let time = to.since(from);
        sums.time = sums.time + time;
        if let Some(pause) = self.pauses.get(&holder).filter(|pause| pause.to > from && pause.to <= to) {
            add(&mut sums.waits, (pause.site, pause.waker), time);
            if let Some(waker) = pause.waker.filter(|_| is_rest(pause.site.reason)) {
                *sums.ended.entry(waker).or_default() += 1;
            }
        }
    }

    pub(super) fn sums(self) -> FxHashMap<WaitSite, Held> {
        let woken = &self.woken;
        self.sites.into_iter().map(|(site, sums)| (site, sums.held(woken))).collect()
    }
}

/// A thread that waits so may be woken by a question.
fn may_be_asked(reason: WaitReason) -> bool {
    let of_others = matches!(reason, WaitReason::Peer | WaitReason::Descriptor | WaitReason::Pipe);
    is_rest(reason) || of_others || reason == WaitReason::Events
}

impl Sums {
    fn held(self, woken: &FxHashMap<(Tid, Tid), u64>) -> Held {
        let feeds = |tid: Tid| {
            let asked: u64 = self.takers.iter().filter_map(|&taker| woken.get(&(taker, tid))).sum();
            let ended = self.ended.get(&tid).copied().unwrap_or(0);
            tid.0 != 0 && !self.takers.contains(&tid) && asked * ASKED < ended
        };
        let mut fed = Nanos(0);
        let mut by_site: FxHashMap<WaitSite, Nanos> = FxHashMap::default();
        for (&(site, waker), &time) in &self.waits {
            add(&mut by_site, site, time);
            if is_rest(site.reason) && waker.is_some_and(feeds) {
                fed = fed + time;
            }
        }
        let mut waits: Vec<(WaitSite, Nanos)> = by_site.into_iter().collect();
        waits.order_by_key(|&(site, time)| (Reverse(time), site.function, site.reason));
        Held { time: self.time, waits, fed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: WaitSite = WaitSite { reason: WaitReason::Lock, function: None };

    fn at(reason: WaitReason) -> WaitSite {
        WaitSite { reason, function: None }
    }

    fn ms(from: u64, to: u64) -> (MonoNanos, MonoNanos) {
        (MonoNanos(from * 1_000_000), MonoNanos(to * 1_000_000))
    }

    /// Three threads hand a lock on, each waits 8 of the 10 ms for which it has it, and `source` ends that wait.
    fn turns(reason: WaitReason, source: u32, asks: bool) -> Held {
        let mut holders = Holders::default();
        for turn in 2..60_u64 {
            let (holder, next) = (Tid((turn % 3) as u32 + 1), Tid(((turn + 1) % 3) as u32 + 1));
            let start = turn * 10;
            if asks {
                holders.add(Tid(source), ms(start - 5, start + 1), at(WaitReason::Condition), Some(holder));
            }
            holders.add(holder, ms(start + 1, start + 9), at(reason), Some(Tid(source)));
            holders.add(next, ms(start - 20, start + 10), LOCK, Some(holder));
        }
        holders.sums().remove(&LOCK).expect("a lock that is handed on")
    }

    #[test]
    fn what_the_holder_waited_for_at_last_stands_for_the_wait() {
        let held = turns(WaitReason::Disk, 0, false);
        assert!(held.share(|reason| reason == WaitReason::Disk) > 0.99, "{held:?}");
        assert_eq!((held.share(|reason| reason == WaitReason::Sleep), held.fed), (0.0, Nanos(0)));
        assert_eq!(held.longest(|_| true), Some(&at(WaitReason::Disk)));
    }

    #[test]
    fn who_ends_its_waits_was_asked_or_feeds_it() {
        assert!(turns(WaitReason::Condition, 9, false).fed_share() > 0.99, "a source that nobody asks");
        for (source, asks, what) in [
            (9, true, "a helper that waits for questions"),
            (0, false, "the clock"),
            (2, false, "one that takes the lock"),
        ] {
            assert!(turns(WaitReason::Condition, source, asks).fed_share() < 0.4, "{what}");
        }
    }

    /// What the holder waited for before others waited, or before it took the lock, is not done with the lock held.
    #[test]
    fn a_wait_before_the_lock_was_taken_does_not_count() {
        let mut holders = Holders::default();
        holders.add(Tid(1), ms(0, 50), at(WaitReason::Disk), None);
        holders.add(Tid(1), ms(50, 60), LOCK, Some(Tid(3)));
        holders.add(Tid(2), ms(0, 70), LOCK, Some(Tid(1)));
        holders.add(Tid(1), ms(70, 75), at(WaitReason::Disk), None);
        holders.add(Tid(2), ms(75, 80), LOCK, Some(Tid(1)));
        let held = holders.sums().remove(&LOCK).expect("handed on");
        assert_eq!((held.time, held.waits), (Nanos(75_000_000), vec![]));
    }

    #[test]
    fn who_never_waits_for_the_lock_has_it_not() {
        let mut holders = Holders::default();
        holders.add(Tid(9), ms(0, 50), at(WaitReason::Sleep), None);
        holders.add(Tid(2), ms(0, 60), LOCK, Some(Tid(9)));
        assert_eq!(holders.sums().remove(&LOCK), Some(Held::default()));
    }
}
