//! Sums over waits: by reason, by function, by waker.

use crate::limits::{ACTIVATIONS, WAIT_FUNCTIONS};
use crate::trace::threads::ThreadTable;
use crate::trace::wait_sites::{WaitSite, WaitSites};
use crate::trace::waits::{
    Activation, Behind, Convoy, LongWait, Party, WaitFunctionRow, WaitReason, WaitReasonRow, Waits,
};
use biopsy_model::timeline::{Timeline, Wait, WaitState};
use biopsy_model::{MonoNanos, Nanos, Tid};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;

/// Time, number and longest.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Sum {
    pub(crate) time: Nanos,
    pub(crate) count: u64,
    pub(crate) longest: Nanos,
}

impl Sum {
    fn add(&mut self, time: Nanos) {
        self.time = self.time + time;
        self.count += 1;
        self.longest = self.longest.max(time);
    }

    fn merge(&mut self, other: Sum) {
        self.time = self.time + other.time;
        self.count += other.count;
        self.longest = self.longest.max(other.longest);
    }
}

/// What findings need beyond the public tables.
#[derive(Debug, Default)]
pub(crate) struct WaitFacts {
    /// By thread, from recorded waits whatever the tables use.
    pub(crate) recorded: FxHashMap<(Tid, WaitSite), Sum>,
    /// By thread and place, from the source the public tables use.
    pub(crate) by_thread: FxHashMap<(Tid, WaitSite), Sum>,
    /// Waits for locks and conditions that a thread ended: by waker.
    pub(crate) ended_by: FxHashMap<Tid, Sum>,
    /// All waits for locks and conditions with a known waker.
    pub(crate) ended: Sum,
    /// Times come from looks at waiting threads, not from recorded waits.
    pub(crate) from_samples: bool,
}

/// Time waited: until it became ready, where that is known.
fn waited(wait: &Wait) -> Nanos {
    wait.ready.filter(|&ready| ready >= wait.start && ready <= wait.end).unwrap_or(wait.end).since(wait.start)
}

/// Sums up everything about waits.
pub(crate) fn sum(
    timeline: &Timeline,
    sites: &mut WaitSites<'_>,
    threads: &ThreadTable,
    window: Nanos,
) -> (Waits, WaitFacts) {
    let rows = threads.index();
    let group_of = |tid: Tid| rows.get(&tid).and_then(|&at| threads.rows.get(at)).map(|row| row.group);

    // Looks first: they have stacks, and tell what waits without a stack are for.
    let mut looks: FxHashMap<(Tid, WaitSite), Sum> = FxHashMap::default();
    let mut look_calls: FxHashMap<(Tid, Option<u32>, WaitSite), Nanos> = FxHashMap::default();
    let mut sampled = Nanos(0);
    for look in &timeline.wait_samples {
        let place = sites.of(look.stack, look.syscall, look.state);
        if place.reason == WaitReason::Preempted {
            continue;
        }
        sampled = sampled + look.weight;
        looks.entry((look.tid, place)).or_default().add(look.weight);
        let time = look_calls.entry((look.tid, look.syscall, place)).or_default();
        *time = *time + look.weight;
    }
    let usual = usual_sites(&look_calls);

    let mut recorded: FxHashMap<(Tid, WaitSite), Sum> = FxHashMap::default();
    let mut calls: FxHashMap<(WaitReason, Option<u32>), Nanos> = FxHashMap::default();
    let mut wakes: FxHashMap<(Option<Tid>, Tid, WaitSite), (Sum, Nanos)> = FxHashMap::default();
    let mut longest: Vec<LongWait> = Vec::new();
    let mut facts = WaitFacts::default();
    let mut total_recorded = Sum::default();
    let mut causes: FxHashMap<Tid, Vec<(MonoNanos, MonoNanos, WaitSite)>> = FxHashMap::default();
    let mut ended: Vec<Ended> = Vec::new();
    for wait in &timeline.waits {
        let mut place = sites.of(wait.stack, wait.syscall, wait.state);
        if wait.state == WaitState::Preempted {
            continue;
        }
        if wait.stack.is_none()
            && let Some(&better) = usual.get(&(wait.tid, wait.syscall))
            && agrees(place.reason, better.reason)
        {
            place = better;
        }
        let time = waited(wait);
        total_recorded.add(time);
        recorded.entry((wait.tid, place)).or_default().add(time);
        let call = calls.entry((place.reason, wait.syscall)).or_default();
        *call = *call + time;
        if is_cause(place.reason) {
            causes.entry(wait.tid).or_default().push((wait.start, wait.start + time, place));
        }
        if let Some(waker) = wait.waker {
            let (sum, ready) = wakes.entry((Some(waker), wait.tid, place)).or_default();
            sum.add(time);
            *ready = *ready + wait.ready.map_or(Nanos(0), |ready| wait.end.since(ready));
            if is_lock_like(place.reason) || place.reason == WaitReason::Condition {
                facts.ended.add(time);
                if waker != wait.tid {
                    facts.ended_by.entry(waker).or_default().add(time);
                    ended.push(Ended {
                        tid: wait.tid,
                        waker,
                        from: wait.start,
                        to: wait.start + time,
                        place,
                    });
                }
            }
        }
        if !place.reason.is_idle_like() && place.reason != WaitReason::Unknown {
            remember_long(&mut longest, wait, time, place);
        }
    }

    let exact: Nanos = threads.rows.iter().fold(Nanos(0), |sum, row| sum + row.waiting);
    let total = if exact.0 > 0 { exact } else { total_recorded.time.max(sampled) };
    // Looks see short waits too, recorded waits only long ones: take what explains more, looks when in doubt.
    facts.from_samples = !looks.is_empty() && sampled.0 >= total_recorded.time.0 / 10 * 8;
    if facts.from_samples {
        calls.clear();
        for ((_, syscall, place), time) in &look_calls {
            let call = calls.entry((place.reason, *syscall)).or_default();
            *call = *call + *time;
        }
    }
    facts.by_thread = if facts.from_samples { looks.clone() } else { recorded.clone() };
    facts.recorded = recorded;
    // Too few looks tell where, but not how much.
    let by_function = if sampled.0 < total_recorded.time.0 / 10 * 3 { &facts.by_thread } else { &looks };

    let waits = Waits {
        total,
        recorded: total_recorded.time,
        count: total_recorded.count,
        sampled,
        reasons: reasons(&facts.by_thread, &calls, sites),
        functions: functions(by_function, threads, &group_of),
        activations: activations(&wakes, &group_of),
        behind: behind(&causes, &ended),
        convoys: convoys(&facts.by_thread, &wakes, window),
        longest: {
            longest.sort_by_key(|long| (Reverse(long.time), long.start));
            longest
        },
    };
    (waits, facts)
}

/// Where each thread usually waits in each system call, if nearly always at one place.
fn usual_sites(
    looks: &FxHashMap<(Tid, Option<u32>, WaitSite), Nanos>,
) -> FxHashMap<(Tid, Option<u32>), WaitSite> {
    let mut best: FxHashMap<(Tid, Option<u32>), (Nanos, Nanos, WaitSite)> = FxHashMap::default();
    for (&(tid, syscall, place), &time) in looks {
        let entry = best.entry((tid, syscall)).or_insert((Nanos(0), Nanos(0), place));
        entry.0 = entry.0 + time;
        if (time, place.function) > (entry.1, entry.2.function) {
            entry.1 = time;
            entry.2 = place;
        }
    }
    best.into_iter()
        .filter(|(_, (all, most, _))| most.0 >= all.0 / 10 * 8)
        .map(|(key, (_, _, place))| (key, place))
        .collect()
}

/// Whether a look's reason may stand for a wait whose own record says `plain`.
fn agrees(plain: WaitReason, look: WaitReason) -> bool {
    match plain {
        WaitReason::Unknown | WaitReason::Other | WaitReason::Descriptor => true,
        WaitReason::LockOrCondition => {
            matches!(look, WaitReason::Lock | WaitReason::Condition | WaitReason::LockOrCondition)
        }
        _ => plain == look,
    }
}

fn may_queue(reason: WaitReason) -> bool {
    is_lock_like(reason) || reason == WaitReason::Condition
}

pub(crate) fn is_lock_like(reason: WaitReason) -> bool {
    matches!(reason, WaitReason::Lock | WaitReason::LockOrCondition | WaitReason::KernelLock)
}

const LONGEST: usize = 20;

fn remember_long(longest: &mut Vec<LongWait>, wait: &Wait, time: Nanos, place: WaitSite) {
    if longest.len() >= LONGEST {
        let Some((at, shortest)) = longest.iter().enumerate().min_by_key(|(_, long)| long.time) else {
            return;
        };
        if shortest.time >= time {
            return;
        }
        longest.swap_remove(at);
    }
    longest.push(LongWait {
        tid: wait.tid,
        start: wait.start,
        time,
        reason: place.reason,
        function: place.function,
        waker: wait.waker,
    });
}

fn reasons(
    by_thread: &FxHashMap<(Tid, WaitSite), Sum>,
    calls: &FxHashMap<(WaitReason, Option<u32>), Nanos>,
    sites: &WaitSites<'_>,
) -> Vec<WaitReasonRow> {
    let mut sums: FxHashMap<WaitReason, (Sum, FxHashSet<Tid>)> = FxHashMap::default();
    for (&(tid, place), &sum) in by_thread {
        let entry = sums.entry(place.reason).or_default();
        entry.0.merge(sum);
        entry.1.insert(tid);
    }
    let mut rows: Vec<WaitReasonRow> = sums
        .into_iter()
        .map(|(reason, (sum, tids))| {
            let mut syscalls: Vec<(String, Nanos)> = calls
                .iter()
                .filter(|((of, syscall), _)| *of == reason && syscall.is_some())
                .map(|((_, syscall), time)| {
                    let number = syscall.unwrap_or(0);
                    let name = sites
                        .syscall_name(*syscall)
                        .map_or_else(|| format!("syscall {number}"), str::to_owned);
                    (name, *time)
                })
                .collect();
            syscalls.sort_by(|a, b| (b.1, &a.0).cmp(&(a.1, &b.0)));
            syscalls.truncate(8);
            let threads = tids.len();
            WaitReasonRow {
                reason,
                time: sum.time,
                count: sum.count,
                longest: sum.longest,
                threads,
                syscalls,
            }
        })
        .collect();
    rows.sort_by_key(|row| (Reverse(row.time), row.reason));
    rows
}

fn functions(
    by_thread: &FxHashMap<(Tid, WaitSite), Sum>,
    threads: &ThreadTable,
    group_of: &dyn Fn(Tid) -> Option<usize>,
) -> Vec<WaitFunctionRow> {
    let mut sums: FxHashMap<WaitSite, (Sum, usize, FxHashMap<usize, Nanos>)> = FxHashMap::default();
    for (&(tid, place), &sum) in by_thread {
        let entry = sums.entry(place).or_default();
        entry.0.merge(sum);
        entry.1 += 1;
        if let Some(group) = group_of(tid) {
            let time = entry.2.entry(group).or_default();
            *time = *time + sum.time;
        }
    }
    let mut rows: Vec<WaitFunctionRow> = sums
        .into_iter()
        .map(|(place, (sum, count, groups))| {
            let mut groups: Vec<(usize, Nanos)> = groups.into_iter().collect();
            groups.sort_by_key(|&(group, time)| (Reverse(time), group));
            WaitFunctionRow {
                function: place.function,
                reason: place.reason,
                time: sum.time,
                count: sum.count,
                longest: sum.longest,
                threads: count,
                groups: groups
                    .iter()
                    .filter_map(|(group, _)| threads.groups.get(*group).map(|group| group.name.clone()))
                    .take(5)
                    .collect(),
            }
        })
        .collect();
    rows.sort_by_key(|row| (Reverse(row.time), row.function, row.reason));
    rows.truncate(WAIT_FUNCTIONS);
    rows
}

/// Waits ended, time ready after them, and time by reason.
type Woken = (Sum, Nanos, FxHashMap<WaitReason, Nanos>);

type Wakes = FxHashMap<(Option<Tid>, Tid, WaitSite), (Sum, Nanos)>;

fn activations(wakes: &Wakes, group_of: &dyn Fn(Tid) -> Option<usize>) -> Vec<Activation> {
    let mut sums: FxHashMap<(Party, usize), Woken> = FxHashMap::default();
    for (&(waker, woken, place), &(sum, ready)) in wakes {
        let Some(woken) = group_of(woken) else { continue };
        let waker = match waker {
            Some(Tid(0)) | None => Party::Interrupt,
            Some(tid) => group_of(tid).map_or(Party::Elsewhere, Party::Group),
        };
        let entry = sums.entry((waker, woken)).or_default();
        entry.0.merge(sum);
        entry.1 = entry.1 + ready;
        let time = entry.2.entry(place.reason).or_default();
        *time = *time + sum.time;
    }
    let mut rows: Vec<Activation> = sums
        .into_iter()
        .map(|((waker, woken), (sum, ready, reasons))| {
            let reason = reasons.into_iter().max_by_key(|&(reason, time)| (time, Reverse(reason)));
            let reason = reason.map_or(WaitReason::Unknown, |(reason, _)| reason);
            Activation { waker, woken, count: sum.count, time: sum.time, ready, reason }
        })
        .collect();
    rows.sort_by(|a, b| (b.time, b.count, &a.waker, a.woken).cmp(&(a.time, a.count, &b.waker, b.woken)));
    rows.truncate(ACTIVATIONS);
    rows
}

/// A wait for a lock or condition that another thread ended.
struct Ended {
    tid: Tid,
    waker: Tid,
    from: MonoNanos,
    to: MonoNanos,
    place: WaitSite,
}

/// What a thread may wait for that makes others wait for it in turn. Locks and conditions are links of the chain, not
/// its end; idle waits are no cause.
fn is_cause(reason: WaitReason) -> bool {
    matches!(
        reason,
        WaitReason::Disk
            | WaitReason::Peer
            | WaitReason::Descriptor
            | WaitReason::Pipe
            | WaitReason::Memory
            | WaitReason::Sleep
            | WaitReason::Child
            | WaitReason::KernelLock
            | WaitReason::Throttled
    )
}

/// For each wait that a thread ended: the last wait of that thread, if the two overlap.
fn behind(causes: &FxHashMap<Tid, Vec<(MonoNanos, MonoNanos, WaitSite)>>, ended: &[Ended]) -> Vec<Behind> {
    let mut sums: FxHashMap<(WaitSite, WaitSite), (Sum, FxHashSet<Tid>)> = FxHashMap::default();
    let mut all: FxHashMap<WaitSite, u64> = FxHashMap::default();
    for wait in ended {
        *all.entry(wait.place).or_default() += 1;
        let Some(causes) = causes.get(&wait.waker) else { continue };
        // A thread's waits do not overlap, so those in order of their end are in order of their start too.
        let after = causes.partition_point(|cause| cause.1 <= wait.to);
        let last = after.checked_sub(1).and_then(|at| causes.get(at)).filter(|cause| cause.1 > wait.from);
        let Some(&(from, to, cause)) = last else { continue };
        let entry = sums.entry((wait.place, cause)).or_default();
        entry.0.add(to.since(from.max(wait.from)));
        entry.1.insert(wait.tid);
    }
    let mut rows: Vec<Behind> = sums
        .into_iter()
        .map(|((place, cause), (sum, tids))| Behind {
            function: place.function,
            reason: place.reason,
            cause_function: cause.function,
            cause: cause.reason,
            count: sum.count,
            share: ratio(sum.count, all.get(&place).copied().unwrap_or(0)),
            time: sum.time,
            threads: tids.len(),
        })
        .collect();
    rows.sort_by_key(|row| (Reverse(row.time), row.function, row.reason, row.cause_function, row.cause));
    rows.truncate(ACTIVATIONS);
    rows
}

fn convoys(by_thread: &FxHashMap<(Tid, WaitSite), Sum>, wakes: &Wakes, window: Nanos) -> Vec<Convoy> {
    let mut at: FxHashMap<WaitSite, (Sum, FxHashSet<Tid>)> = FxHashMap::default();
    for (&(tid, place), &sum) in by_thread.iter().filter(|((_, place), _)| may_queue(place.reason)) {
        let entry = at.entry(place).or_default();
        entry.0.merge(sum);
        entry.1.insert(tid);
    }
    let mut handed: FxHashMap<WaitSite, (Sum, Nanos)> = FxHashMap::default();
    for (&(waker, _, place), (sum, _)) in wakes {
        let Some((_, tids)) = at.get(&place) else { continue };
        let entry = handed.entry(place).or_default();
        entry.1 = entry.1 + sum.time;
        if waker.is_some_and(|waker| tids.contains(&waker)) {
            entry.0.merge(*sum);
        }
    }
    let seconds = window.as_secs_f64().max(1e-9);
    let mut convoys: Vec<Convoy> = at
        .into_iter()
        .filter_map(|(place, (sum, tids))| {
            let threads = tids.len();
            let time = sum.time.as_secs_f64();
            // By time: a wait of another kind that was taken for one of these (a short sleep) weighs little.
            let handed_on = handed.get(&place).map(|(inside, all)| ratio(inside.time.0, all.0));
            // A pool of idle workers looks like a queue for a lock when nothing tells locks from conditions;
            // only a lock is handed on among those who wait for it.
            let handed = handed.get(&place).map_or(0, |(inside, _)| inside.count);
            let handed_often =
                |share: f64, rate: f64| handed_on >= Some(share) && per_second(handed, seconds) >= rate;
            let sure = match place.reason {
                WaitReason::LockOrCondition => handed_often(0.6, 20.0),
                WaitReason::Condition => threads >= 4 && handed_often(0.9, 50.0),
                _ => true,
            };
            let convoy = Convoy {
                function: place.function,
                reason: place.reason,
                threads,
                time: sum.time,
                #[expect(clippy::cast_precision_loss, reason = "numbers of threads are small")]
                share: (time / (seconds * threads as f64)).min(1.0),
                mean_queue: time / seconds,
                handed_on,
            };
            (sure && threads >= 2 && convoy.mean_queue >= 0.5).then_some(convoy)
        })
        .collect();
    convoys.sort_by_key(|convoy| (Reverse(convoy.time), convoy.function));
    convoys.truncate(20);
    convoys
}

#[expect(clippy::cast_precision_loss, reason = "2^53 events are out of reach")]
fn ratio(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { part as f64 / all as f64 }
}

#[expect(clippy::cast_precision_loss, reason = "2^53 events are out of reach")]
fn per_second(count: u64, seconds: f64) -> f64 {
    count as f64 / seconds
}
