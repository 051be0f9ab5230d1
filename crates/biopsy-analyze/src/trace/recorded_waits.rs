//! Waits as they were recorded: off-CPU samples and waits above the threshold, each with its site.

use super::held::Holders;
use super::times::add;
use super::wait_sites::{WaitSite, WaitSites};
use super::waits::{LongWait, WaitReason};
use biopsy_model::timeline::{Timeline, Wait, WaitState};
use biopsy_model::{MonoNanos, Nanos, Tid};
use rustc_hash::FxHashMap;

/// Time, number and longest.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Sum {
    pub(crate) time: Nanos,
    pub(crate) count: u64,
    pub(crate) longest: Nanos,
}

impl Sum {
    pub(super) fn add(&mut self, time: Nanos) {
        self.time = self.time + time;
        self.count += 1;
        self.longest = self.longest.max(time);
    }

    pub(super) fn merge(&mut self, other: Sum) {
        self.time = self.time + other.time;
        self.count += other.count;
        self.longest = self.longest.max(other.longest);
    }
}

/// Sums by thread and site.
pub(crate) type BySite = FxHashMap<(Tid, WaitSite), Sum>;
/// Time by thread, system call and site.
pub(super) type ByCall = FxHashMap<(Tid, Option<u32>, WaitSite), Nanos>;
/// Waits that a thread ended, and the time that the woken one was ready after them: by waker, woken thread and site.
pub(super) type Wakes = FxHashMap<(Tid, Tid, WaitSite), (Sum, Nanos)>;

/// What off-CPU samples say: statistical, with stacks, short waits too.
#[derive(Debug, Default)]
pub(super) struct OffCpu {
    pub(super) by_thread: BySite,
    /// Time that the samples stand for.
    pub(super) time: Nanos,
    pub(super) by_call: ByCall,
}

impl OffCpu {
    pub(super) fn read(timeline: &Timeline, sites: &mut WaitSites<'_>) -> OffCpu {
        let mut read = OffCpu::default();
        for sample in &timeline.wait_samples {
            let site = sites.of(sample.stack, sample.syscall, sample.state);
            if site.reason != WaitReason::Preempted {
                read.time = read.time + sample.weight;
                read.by_thread.entry((sample.tid, site)).or_default().add(sample.weight);
                add(&mut read.by_call, (sample.tid, sample.syscall, site), sample.weight);
            }
        }
        read
    }

    /// Where each thread usually waits in each system call, if nearly always at one site.
    pub(super) fn usual_sites(&self) -> FxHashMap<(Tid, Option<u32>), WaitSite> {
        let mut best: FxHashMap<(Tid, Option<u32>), (Nanos, Nanos, WaitSite)> = FxHashMap::default();
        for (&(tid, syscall, site), &time) in &self.by_call {
            let (all, most, usual) = best.entry((tid, syscall)).or_insert((Nanos(0), Nanos(0), site));
            *all = *all + time;
            if (time, site.function) > (*most, usual.function) {
                (*most, *usual) = (time, site);
            }
        }
        let nearly_always = best.into_iter().filter(|(_, (all, most, _))| most.0 >= all.0 / 10 * 8);
        nearly_always.map(|(key, (_, _, site))| (key, site)).collect()
    }
}

/// What recorded waits say: exact, above a threshold, with who ended them.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    pub(super) by_thread: BySite,
    pub(super) all: Sum,
    pub(super) by_call: ByCall,
    pub(super) wakes: Wakes,
    /// Single long waits for something.
    pub(super) longest: Vec<LongWait>,
    /// Waits that may make others wait, by thread.
    pub(super) causes: FxHashMap<Tid, Vec<Cause>>,
    /// Waits for locks, conditions, answers and pipes that another thread ended.
    pub(super) ended: Vec<Ended>,
    /// Waits for locks and conditions with a known waker.
    pub(super) ended_sum: Sum,
    /// Of these, what others ended: by waker.
    pub(super) ended_by: FxHashMap<Tid, Sum>,
    /// What those who have a lock wait for.
    pub(super) holders: Holders,
}

/// A wait that may make others wait: from, until, where.
pub(super) type Cause = (MonoNanos, MonoNanos, WaitSite);

/// A wait that another thread ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) tid: Tid,
    pub(super) waker: Tid,
    pub(super) from: MonoNanos,
    pub(super) to: MonoNanos,
    pub(super) site: WaitSite,
}

impl Recorded {
    /// `usual`: sites for waits that were recorded without a stack.
    pub(super) fn read(
        timeline: &Timeline,
        sites: &mut WaitSites<'_>,
        usual: &FxHashMap<(Tid, Option<u32>), WaitSite>,
    ) -> Recorded {
        let mut read = Recorded::default();
        for wait in timeline.waits.iter().filter(|wait| wait.state != WaitState::Preempted) {
            let own = sites.of(wait.stack, wait.syscall, wait.state);
            let usual = usual.get(&(wait.tid, wait.syscall)).copied();
            let better = usual.filter(|usual| wait.stack.is_none() && agrees(own.reason, usual.reason));
            read.add(wait, better.unwrap_or(own));
        }
        read
    }

    fn add(&mut self, wait: &Wait, site: WaitSite) {
        let time = waited(wait);
        self.all.add(time);
        self.by_thread.entry((wait.tid, site)).or_default().add(time);
        add(&mut self.by_call, (wait.tid, wait.syscall, site), time);
        if is_cause(site.reason) {
            self.causes.entry(wait.tid).or_default().push((wait.start, wait.start + time, site));
        }
        self.holders.add(wait.tid, (wait.start, wait.start + time), site, wait.waker);
        if let Some(waker) = wait.waker {
            self.add_waker(wait, waker, site, time);
        }
        if !site.reason.is_idle_like() && site.reason != WaitReason::Unknown {
            remember_long(&mut self.longest, wait, time, site);
        }
    }

    fn add_waker(&mut self, wait: &Wait, waker: Tid, site: WaitSite, time: Nanos) {
        let (sum, ready) = self.wakes.entry((waker, wait.tid, site)).or_default();
        sum.add(time);
        *ready = *ready + wait.ready.map_or(Nanos(0), |ready| wait.end.since(ready));
        let queues = may_queue(site.reason);
        if queues {
            self.ended_sum.add(time);
            if waker != wait.tid {
                self.ended_by.entry(waker).or_default().add(time);
            }
        }
        if (queues || is_answered(site.reason)) && waker != wait.tid {
            let (from, to) = (wait.start, wait.start + time);
            self.ended.push(Ended { tid: wait.tid, waker, from, to, site });
        }
    }
}

/// Time waited: until it became ready, where that is known.
fn waited(wait: &Wait) -> Nanos {
    wait.ready.filter(|&ready| ready >= wait.start && ready <= wait.end).unwrap_or(wait.end).since(wait.start)
}

/// Whether a sample's reason may stand for a wait whose own record says `plain`.
fn agrees(plain: WaitReason, sampled: WaitReason) -> bool {
    match plain {
        WaitReason::Unknown | WaitReason::Other | WaitReason::Descriptor => true,
        WaitReason::LockOrCondition => {
            matches!(sampled, WaitReason::Lock | WaitReason::Condition | WaitReason::LockOrCondition)
        }
        _ => plain == sampled,
    }
}

/// Threads queue for it, or may.
pub(super) fn may_queue(reason: WaitReason) -> bool {
    is_lock_like(reason) || reason == WaitReason::Condition
}

/// Somebody sends what is waited for: it may be another thread that is recorded, too.
pub(super) fn is_answered(reason: WaitReason) -> bool {
    matches!(reason, WaitReason::Peer | WaitReason::Descriptor | WaitReason::Pipe)
}

fn is_lock_like(reason: WaitReason) -> bool {
    matches!(reason, WaitReason::Lock | WaitReason::LockOrCondition | WaitReason::KernelLock)
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

/// Single waits that are kept.
const LONGEST: usize = 20;

fn remember_long(longest: &mut Vec<LongWait>, wait: &Wait, time: Nanos, site: WaitSite) {
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
        reason: site.reason,
        function: site.function,
        waker: wait.waker,
    });
}
