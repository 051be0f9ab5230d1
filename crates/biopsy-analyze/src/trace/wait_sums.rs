//! Sums over waits: by reason, by function, by waker.

use super::function::FunctionHandle;
use super::held::Held;
use super::recorded_waits::{
    ByCall, BySite, Cause, Ended, OffCpu, Recorded, Sum, Wakes, is_answered, may_queue,
};
use super::threads::ThreadTable;
use super::times::add;
use super::wait_sites::{WaitSite, WaitSites};
use super::waits::{Activation, Behind, Convoy, Party, WaitFunctionRow, WaitReason, WaitReasonRow, Waits};
use crate::limits::{ACTIVATIONS, WAIT_FUNCTIONS};
use crate::managed_names::is_runtime_thread;
use crate::ratio::ratio;
use biopsy_model::order::Order as _;
use biopsy_model::timeline::Timeline;
use biopsy_model::{Nanos, Tid};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;

/// What findings need beyond the public tables.
#[derive(Debug, Default)]
pub(crate) struct WaitFacts {
    /// By thread, from recorded waits whatever the tables use.
    pub(crate) recorded: BySite,
    /// By thread and site, from the source the public tables use.
    pub(crate) by_thread: BySite,
    /// The same by system call, most time first.
    pub(crate) calls: Vec<CallWait>,
    /// Waits for locks and conditions that a thread ended: by waker.
    pub(crate) ended_by: FxHashMap<Tid, Sum>,
    /// All waits for locks and conditions with a known waker.
    pub(crate) ended: Sum,
    /// Waits for what others send: by thread and site, who ended them, most time first.
    pub(crate) answered: FxHashMap<(Tid, WaitSite), Vec<(Tid, Nanos)>>,
    /// What those who have a lock wait for, by where it is waited for.
    pub(crate) held: FxHashMap<WaitSite, Held>,
}

impl WaitFacts {
    /// Changes every handle, where `moved` tells new ones.
    pub(super) fn move_functions(&mut self, moved: &impl Fn(FunctionHandle) -> FunctionHandle) {
        fn by_site<V>(
            sums: &mut FxHashMap<(Tid, WaitSite), V>,
            moved: &impl Fn(FunctionHandle) -> FunctionHandle,
        ) {
            let old = std::mem::take(sums).into_iter();
            *sums = old
                .map(|((tid, site), sum)| {
                    let function = site.function.map(moved);
                    ((tid, WaitSite { function, ..site }), sum)
                })
                .collect();
        }
        self.calls.iter_mut().for_each(|row| row.function = row.function.map(moved));
        by_site(&mut self.by_thread, moved);
        by_site(&mut self.recorded, moved);
        by_site(&mut self.answered, moved);
        let there = |site: WaitSite| WaitSite { function: site.function.map(moved), ..site };
        let held = std::mem::take(&mut self.held).into_iter();
        self.held = held
            .map(|(site, mut held)| {
                held.waits.iter_mut().for_each(|(site, _)| *site = there(*site));
                (there(site), held)
            })
            .collect();
    }
}

/// Waiting of one thread in one system call at one place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallWait {
    pub(crate) tid: Tid,
    pub(crate) call: &'static str,
    pub(crate) function: Option<FunctionHandle>,
    pub(crate) time: Nanos,
}

/// Off-CPU samples that stand for this share of the recorded waits, in tenths, tell how much time went where: they see short waits
/// too, recorded waits only long ones.
const TELL_HOW_MUCH: u64 = 8;
/// From this share on, in tenths, they tell where.
const TELL_WHERE: u64 = 3;

/// Sums up everything about waits.
pub(crate) fn sum(
    timeline: &Timeline,
    sites: &mut WaitSites<'_>,
    threads: &ThreadTable,
    window: Nanos,
) -> (Waits, WaitFacts) {
    let rows = threads.index();
    let group_of = |tid: Tid| rows.get(&tid).and_then(|&at| threads.rows.get(at)).map(|row| row.group);
    // Samples first: they have stacks, and tell what waits without a stack are for.
    let sampled = OffCpu::read(timeline, sites);
    let mut recorded = Recorded::read(timeline, sites, &sampled.usual_sites());
    recorded.longest.order_by_key(|long| (Reverse(long.time), long.start));

    let exact: Nanos = threads.rows.iter().fold(Nanos(0), |sum, row| sum + row.waiting);
    let total = if exact.0 > 0 { exact } else { recorded.all.time.max(sampled.time) };
    let tell = |tenths: u64| sampled.time.0 >= recorded.all.time.0 / 10 * tenths;
    let from_samples = !sampled.by_thread.is_empty() && tell(TELL_HOW_MUCH);
    let by_thread = if from_samples { &sampled.by_thread } else { &recorded.by_thread };
    let by_function = if tell(TELL_WHERE) { &sampled.by_thread } else { by_thread };
    let by_call = if from_samples { &sampled.by_call } else { &recorded.by_call };
    let waits = Waits {
        total,
        recorded: recorded.all.time,
        count: recorded.all.count,
        sampled: sampled.time,
        reasons: reasons(by_thread, by_call, sites),
        functions: functions(by_function, threads, &group_of),
        activations: activations(&recorded.wakes, &group_of),
        behind: behind(&recorded.causes, &recorded.ended),
        convoys: convoys(by_thread, &recorded.wakes, threads, window),
        longest: recorded.longest,
    };
    let facts = WaitFacts {
        answered: answered(&recorded.wakes),
        by_thread: by_thread.clone(),
        calls: calls(by_call, sites),
        recorded: recorded.by_thread,
        ended_by: recorded.ended_by,
        ended: recorded.ended_sum,
        held: recorded.holders.sums(),
    };
    (waits, facts)
}

fn answered(wakes: &Wakes) -> FxHashMap<(Tid, WaitSite), Vec<(Tid, Nanos)>> {
    let mut rows: FxHashMap<(Tid, WaitSite), Vec<(Tid, Nanos)>> = FxHashMap::default();
    for (&(waker, woken, site), (sum, _)) in wakes.iter().filter(|((_, _, site), _)| is_answered(site.reason))
    {
        rows.entry((woken, site)).or_default().push((waker, sum.time));
    }
    for wakers in rows.values_mut() {
        wakers.order_by_key(|&(waker, time)| (Reverse(time), waker));
    }
    rows
}

fn calls(by_call: &ByCall, sites: &WaitSites<'_>) -> Vec<CallWait> {
    let rows = by_call.iter().filter_map(|(&(tid, syscall, site), &time)| {
        Some(CallWait { tid, call: sites.syscall_name(syscall)?, function: site.function, time })
    });
    let mut rows: Vec<CallWait> = rows.collect();
    rows.order_by_key(|row| (Reverse(row.time), row.tid, row.call, row.function));
    rows
}

fn reasons(by_thread: &BySite, by_call: &ByCall, sites: &WaitSites<'_>) -> Vec<WaitReasonRow> {
    let mut calls: FxHashMap<(WaitReason, Option<u32>), Nanos> = FxHashMap::default();
    for (&(_, syscall, site), &time) in by_call {
        add(&mut calls, (site.reason, syscall), time);
    }
    let mut sums: FxHashMap<WaitReason, (Sum, FxHashSet<Tid>)> = FxHashMap::default();
    for (&(tid, site), &sum) in by_thread {
        let entry = sums.entry(site.reason).or_default();
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
            syscalls.order_by(|a, b| (b.1, &a.0).cmp(&(a.1, &b.0)));
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
    rows.order_by_key(|row| (Reverse(row.time), row.reason));
    rows
}

fn functions(
    by_thread: &BySite,
    threads: &ThreadTable,
    group_of: &dyn Fn(Tid) -> Option<usize>,
) -> Vec<WaitFunctionRow> {
    let mut sums: FxHashMap<WaitSite, (Sum, usize, FxHashMap<usize, Nanos>)> = FxHashMap::default();
    for (&(tid, site), &sum) in by_thread {
        let entry = sums.entry(site).or_default();
        entry.0.merge(sum);
        entry.1 += 1;
        if let Some(group) = group_of(tid) {
            add(&mut entry.2, group, sum.time);
        }
    }
    let mut rows: Vec<WaitFunctionRow> = sums
        .into_iter()
        .map(|(site, (sum, count, groups))| {
            let mut groups: Vec<(usize, Nanos)> = groups.into_iter().collect();
            groups.order_by_key(|&(group, time)| (Reverse(time), group));
            WaitFunctionRow {
                function: site.function,
                reason: site.reason,
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
    rows.order_by_key(|row| (Reverse(row.time), row.function, row.reason));
    rows.truncate(WAIT_FUNCTIONS);
    rows
}

/// Waits ended, time ready after them, and time by reason.
type Woken = (Sum, Nanos, FxHashMap<WaitReason, Nanos>);

fn activations(wakes: &Wakes, group_of: &dyn Fn(Tid) -> Option<usize>) -> Vec<Activation> {
    let mut sums: FxHashMap<(Party, usize), Woken> = FxHashMap::default();
    for (&(waker, woken, site), &(sum, ready)) in wakes {
        let Some(woken) = group_of(woken) else { continue };
        let waker = match waker {
            Tid(0) => Party::Interrupt,
            tid => group_of(tid).map_or(Party::Elsewhere, Party::Group),
        };
        let entry = sums.entry((waker, woken)).or_default();
        entry.0.merge(sum);
        entry.1 = entry.1 + ready;
        add(&mut entry.2, site.reason, sum.time);
    }
    let mut rows: Vec<Activation> = sums
        .into_iter()
        .map(|((waker, woken), (sum, ready, reasons))| {
            let reason = reasons.into_iter().max_by_key(|&(reason, time)| (time, Reverse(reason)));
            let reason = reason.map_or(WaitReason::Unknown, |(reason, _)| reason);
            Activation { waker, woken, count: sum.count, time: sum.time, ready, reason }
        })
        .collect();
    rows.order_by(|a, b| (b.time, b.count, &a.waker, a.woken).cmp(&(a.time, a.count, &b.waker, b.woken)));
    rows.truncate(ACTIVATIONS);
    rows
}

/// For each wait that a thread ended: the last wait of that thread, if the two overlap.
fn behind(causes: &FxHashMap<Tid, Vec<Cause>>, ended: &[Ended]) -> Vec<Behind> {
    let mut sums: FxHashMap<(WaitSite, WaitSite), (Sum, FxHashSet<Tid>)> = FxHashMap::default();
    let mut all: FxHashMap<WaitSite, u64> = FxHashMap::default();
    for wait in ended {
        *all.entry(wait.site).or_default() += 1;
        let Some(causes) = causes.get(&wait.waker) else { continue };
        // A thread's waits do not overlap, so those in order of their end are in order of their start too.
        let after = causes.partition_point(|cause| cause.1 <= wait.to);
        let last = after.checked_sub(1).and_then(|at| causes.get(at)).filter(|cause| cause.1 > wait.from);
        let Some(&(from, to, cause)) = last else { continue };
        let entry = sums.entry((wait.site, cause)).or_default();
        entry.0.add(to.since(from.max(wait.from)));
        entry.1.insert(wait.tid);
    }
    let mut rows: Vec<Behind> = sums
        .into_iter()
        .map(|((site, cause), (sum, tids))| Behind {
            function: site.function,
            reason: site.reason,
            cause_function: cause.function,
            cause: cause.reason,
            count: sum.count,
            share: ratio(sum.count, all.get(&site).copied().unwrap_or(0)),
            time: sum.time,
            threads: tids.len(),
        })
        .collect();
    rows.order_by_key(|row| (Reverse(row.time), row.function, row.reason, row.cause_function, row.cause));
    rows.truncate(ACTIVATIONS);
    rows
}

fn convoys(by_thread: &BySite, wakes: &Wakes, threads: &ThreadTable, window: Nanos) -> Vec<Convoy> {
    let mut at: FxHashMap<WaitSite, (Sum, FxHashSet<Tid>)> = FxHashMap::default();
    // A runtime's own threads pass work around among themselves.
    let helpers: FxHashSet<Tid> =
        threads.rows.iter().filter(|row| is_runtime_thread(&row.name)).map(|row| row.tid).collect();
    let queue = by_thread.iter().filter(|((tid, site), _)| may_queue(site.reason) && !helpers.contains(tid));
    for (&(tid, site), &sum) in queue {
        let entry = at.entry(site).or_default();
        entry.0.merge(sum);
        entry.1.insert(tid);
    }
    let mut handed: FxHashMap<WaitSite, (Sum, Nanos)> = FxHashMap::default();
    for (&(waker, _, site), (sum, _)) in wakes {
        let Some((_, tids)) = at.get(&site) else { continue };
        let entry = handed.entry(site).or_default();
        entry.1 = entry.1 + sum.time;
        if tids.contains(&waker) {
            entry.0.merge(*sum);
        }
    }
    let seconds = window.as_secs_f64().max(1e-9);
    let mut convoys: Vec<Convoy> = at
        .into_iter()
        .filter_map(|(site, (sum, tids))| {
            let threads = tids.len();
            let time = sum.time.as_secs_f64();
            // By time: a wait of another kind that was taken for one of these (a short sleep) weighs little.
            let handed_on = handed.get(&site).map(|(inside, all)| ratio(inside.time.0, all.0));
            // A pool of idle workers looks like a queue for a lock when nothing tells locks from conditions;
            // only a lock is handed on among those who wait for it.
            let handed = handed.get(&site).map_or(0, |(inside, _)| inside.count);
            let handed_often =
                |share: f64, rate: f64| handed_on >= Some(share) && per_second(handed, seconds) >= rate;
            let sure = match site.reason {
                WaitReason::LockOrCondition => handed_often(0.6, 20.0),
                WaitReason::Condition => threads >= 4 && handed_often(0.9, 50.0),
                _ => true,
            };
            let convoy = Convoy {
                function: site.function,
                reason: site.reason,
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
    convoys.order_by_key(|convoy| (Reverse(convoy.time), convoy.function));
    convoys.truncate(20);
    convoys
}

#[expect(clippy::cast_precision_loss, reason = "2^53 events are out of reach")]
fn per_second(count: u64, seconds: f64) -> f64 {
    count as f64 / seconds
}

#[cfg(test)]
mod tests;
