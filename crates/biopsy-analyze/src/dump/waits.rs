//! Who waits for whom: the graph, its cycles and its queues.

use biopsy_model::order::Order as _;
use std::cmp::Reverse;

use biopsy_model::{Confidence, Tid};
use rustc_hash::{FxHashMap, FxHashSet};

use super::blocked;
use super::locks::{Holder, LockKind, LockOwner};
use super::threads::DumpThread;

/// Who waits for whom. A thread waits for at most one thing, which several others may have to give.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct WaitGraph {
    /// Each thread that waits for another one, with that one; those that only may hold it are left out.
    pub edges: Vec<(Tid, Tid)>,
    /// How sure each edge is.
    pub confidence: Vec<Confidence>,
    /// Threads that wait for each other in a circle: none of them can ever go on by itself. Each begins with the smallest id
    /// and goes on with the thread that it waits for.
    pub cycles: Vec<Vec<Tid>>,
    /// What each of the circles rests on.
    pub circles: Vec<Circle>,
    /// What several threads wait for, or somebody holds; most waiters first.
    pub queues: Vec<LockQueue>,
}

/// How sure a circle of waits is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Circle {
    /// That of its weakest edge.
    pub confidence: Confidence,
    /// Who waits for whom there.
    pub weakest: (Tid, Tid),
}

/// One lock with those who wait for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LockQueue {
    /// Address of the lock.
    pub lock: u64,
    /// What it is.
    pub kind: LockKind,
    /// Who has it.
    pub owner: LockOwner,
    /// Type of the managed object that is locked, for locks of managed code.
    pub object: Option<String>,
    /// Who waits.
    pub waiters: Vec<Tid>,
    /// What the owner was read from.
    pub proof: String,
    /// Who holds it, with how sure that is.
    pub holders: Vec<Holder>,
}

impl WaitGraph {
    pub(crate) fn new(threads: &[DumpThread]) -> Self {
        let mut edges = Vec::new();
        let mut confidence = Vec::new();
        let mut waiting = Vec::new();
        for thread in threads {
            let Some(lock) = &thread.lock else { continue };
            let holders = lock.known_holders();
            let first = edges.len();
            for holder in holders.iter().filter(|holder| holder.confidence > Confidence::Possible) {
                edges.push((thread.tid, holder.thread));
                confidence.push(holder.confidence);
            }
            let any = lock.kind.any_is_enough();
            // One of those that only may give it is a way out too.
            let maybe = holders.iter().filter(|holder| any && holder.confidence == Confidence::Possible);
            waiting.push(blocked::Waiting {
                thread: thread.tid,
                for_threads: edges.iter().skip(first).map(|edge| edge.1).collect(),
                perhaps: maybe.map(|holder| holder.thread).collect(),
                any_is_enough: any,
                timed: lock.timed,
                closed: false,
            });
        }
        let cycles = blocked::circles(&waiting);
        let known: FxHashMap<(Tid, Tid), Confidence> =
            edges.iter().copied().zip(confidence.iter().copied()).collect();
        let circles = cycles.iter().map(|cycle| circle(cycle, &known)).collect();
        Self { cycles, circles, queues: queues(threads), edges, confidence }
    }

    /// All members of circles.
    #[must_use]
    pub fn stuck(&self) -> FxHashSet<Tid> {
        self.cycles.iter().flatten().copied().collect()
    }

    /// Who waits directly for each thread.
    #[must_use]
    pub fn waiters(&self) -> FxHashMap<Tid, Vec<Tid>> {
        let mut waiters: FxHashMap<Tid, Vec<Tid>> = FxHashMap::default();
        for (waiter, owner) in &self.edges {
            waiters.entry(*owner).or_default().push(*waiter);
        }
        waiters
    }

    /// All that wait for one of `roots`, directly or through others, these left out. `waiters`: as
    /// [`WaitGraph::waiters`] gives it.
    #[must_use]
    pub fn behind(waiters: &FxHashMap<Tid, Vec<Tid>>, roots: &[Tid]) -> Vec<Tid> {
        let mut seen: FxHashSet<Tid> = roots.iter().copied().collect();
        let mut open = roots.to_vec();
        let mut found = Vec::new();
        while let Some(next) = open.pop() {
            for waiter in waiters.get(&next).into_iter().flatten() {
                if seen.insert(*waiter) {
                    found.push(*waiter);
                    open.push(*waiter);
                }
            }
        }
        found.sort_unstable();
        found
    }
}

fn circle(cycle: &[Tid], known: &FxHashMap<(Tid, Tid), Confidence>) -> Circle {
    let next = cycle.iter().cycle().skip(1);
    let edges = cycle.iter().copied().zip(next.copied());
    let sure = edges.map(|edge| (known.get(&edge).copied().unwrap_or_default(), edge));
    let (confidence, weakest) =
        sure.min_by_key(|(confidence, _)| *confidence).unwrap_or((Confidence::Possible, (Tid(0), Tid(0))));
    Circle { confidence, weakest }
}

fn queues(threads: &[DumpThread]) -> Vec<LockQueue> {
    let mut queues: Vec<LockQueue> = Vec::new();
    // The end of a thread has no address: it is told by the thread.
    let mut known: FxHashMap<(u64, Option<Tid>), usize> = FxHashMap::default();
    for thread in threads {
        let Some(wait) = &thread.lock else { continue };
        let joined = wait.thread().filter(|_| wait.kind == LockKind::Join);
        let index = *known.entry((wait.lock, joined)).or_insert_with(|| {
            queues.push(LockQueue {
                lock: wait.lock,
                kind: wait.kind,
                owner: wait.owner,
                object: wait.object.clone(),
                waiters: Vec::new(),
                proof: wait.proof.clone(),
                holders: wait.known_holders(),
            });
            queues.len() - 1
        });
        let Some(queue) = queues.get_mut(index) else { continue };
        queue.waiters.push(thread.tid);
        if queue.owner == LockOwner::NotKnown {
            (queue.owner, queue.kind) = (wait.owner, wait.kind);
            queue.proof.clone_from(&wait.proof);
            queue.holders = wait.known_holders();
        }
    }
    queues
        .order_by_key(|queue| (queue.owner == LockOwner::NotKnown, Reverse(queue.waiters.len()), queue.lock));
    queues
}

#[cfg(test)]
mod tests;
