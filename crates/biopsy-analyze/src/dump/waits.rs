//! Who waits for whom: the graph, its cycles and its queues.

use std::cmp::Reverse;

use biopsy_model::Tid;
use rustc_hash::{FxHashMap, FxHashSet};

use super::locks::{LockKind, LockOwner};
use super::threads::DumpThread;

/// Who waits for whom. A thread waits for at most one thing, so that each has at most one edge.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct WaitGraph {
    /// Each thread that waits for another one, with that one.
    pub edges: Vec<(Tid, Tid)>,
    /// Threads that wait for each other in a circle: none of them can ever go on by itself. Each begins with the smallest id
    /// and goes on with the thread that it waits for.
    pub cycles: Vec<Vec<Tid>>,
    /// What several threads wait for, or somebody holds; most waiters first.
    pub queues: Vec<LockQueue>,
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
}

impl WaitGraph {
    pub(crate) fn new(threads: &[DumpThread]) -> Self {
        let edges: Vec<(Tid, Tid)> =
            threads.iter().filter_map(|thread| Some((thread.tid, thread.lock.as_ref()?.thread()?))).collect();
        Self { cycles: cycles(&edges), queues: queues(threads), edges }
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

/// Each thread has one edge at most, so that following edges either ends or runs into a circle.
fn cycles(edges: &[(Tid, Tid)]) -> Vec<Vec<Tid>> {
    let next: FxHashMap<Tid, Tid> = edges.iter().copied().collect();
    let mut done: FxHashSet<Tid> = FxHashSet::default();
    let mut cycles = Vec::new();
    let mut starts: Vec<Tid> = next.keys().copied().collect();
    starts.sort_unstable();
    for start in starts {
        let mut path: Vec<Tid> = Vec::new();
        let mut position: FxHashMap<Tid, usize> = FxHashMap::default();
        let mut at = start;
        while !done.contains(&at) && !position.contains_key(&at) {
            position.insert(at, path.len());
            path.push(at);
            let Some(owner) = next.get(&at) else { break };
            at = *owner;
        }
        if let Some(first) = position.get(&at).filter(|_| next.contains_key(&at)) {
            let mut cycle = path.get(*first..).unwrap_or_default().to_vec();
            let least = cycle.iter().enumerate().min_by_key(|(_, tid)| **tid).map_or(0, |(index, _)| index);
            cycle.rotate_left(least);
            cycles.push(cycle);
        }
        done.extend(path);
    }
    cycles
}

fn queues(threads: &[DumpThread]) -> Vec<LockQueue> {
    let mut queues: Vec<LockQueue> = Vec::new();
    let mut known: FxHashMap<u64, usize> = FxHashMap::default();
    for thread in threads {
        let Some(wait) = &thread.lock else { continue };
        let index = *known.entry(wait.lock).or_insert_with(|| {
            queues.push(LockQueue {
                lock: wait.lock,
                kind: wait.kind,
                owner: wait.owner,
                object: wait.object.clone(),
                waiters: Vec::new(),
                proof: wait.proof.clone(),
            });
            queues.len() - 1
        });
        let Some(queue) = queues.get_mut(index) else { continue };
        queue.waiters.push(thread.tid);
        if queue.owner == LockOwner::NotKnown {
            (queue.owner, queue.kind) = (wait.owner, wait.kind);
            queue.proof.clone_from(&wait.proof);
        }
    }
    queues
        .sort_by_key(|queue| (queue.owner == LockOwner::NotKnown, Reverse(queue.waiters.len()), queue.lock));
    queues
}

#[cfg(test)]
mod tests {
    use super::cycles;
    use biopsy_model::Tid;

    fn edges(pairs: &[(u32, u32)]) -> Vec<(Tid, Tid)> {
        pairs.iter().map(|(waiter, owner)| (Tid(*waiter), Tid(*owner))).collect()
    }

    #[test]
    fn circles_are_found_once_whoever_leads_into_them() {
        let found = cycles(&edges(&[(1, 3), (2, 3), (3, 5), (5, 4), (4, 3), (7, 8), (9, 9), (10, 9)]));
        assert_eq!(found, [vec![Tid(3), Tid(5), Tid(4)], vec![Tid(9)]]);
    }

    #[test]
    fn a_chain_is_no_circle() {
        assert!(cycles(&edges(&[(1, 2), (2, 3), (3, 4)])).is_empty());
        assert!(cycles(&[]).is_empty());
    }
}
