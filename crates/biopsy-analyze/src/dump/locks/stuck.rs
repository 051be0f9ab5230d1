//! Waits that nobody is left to end: conditions that no code signals, or none that a thread could still come to; semaphores whose slots
//! were lost; locks without an owner that nobody gives back.

use std::collections::BTreeMap;

use biopsy_model::{Confidence, Tid};
use biopsy_stacks::ahead::{Ahead, Looked, Reach};
use biopsy_stacks::image::ImageStacks;
use rustc_hash::{FxHashMap, FxHashSet};

use super::lock::{LockKind, LockWait};

/// Conditions that are asked about.
const CONDITIONS: usize = 64;
/// Fewer who wait for a slot may just have come.
const WAITERS: usize = 2;

/// Threads that do not wait at a condition, all of whose code ahead is gone through.
const OTHERS: usize = 64;

/// Why nobody ends a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Nobody {
    /// No code of the program signals the condition.
    #[default]
    Signals,
    /// All slots of the semaphore were lost.
    GaveBack,
    /// The lock is held, and no thread is where it would be given back.
    LetGo,
    /// All threads that could come to code that wakes anybody wait at conditions themselves.
    IsLeft,
}

/// A wait that nobody is left to end.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StuckWait {
    /// At what.
    pub lock: u64,
    /// What it is.
    pub kind: LockKind,
    /// Who waits.
    pub waiters: Vec<Tid>,
    /// Why.
    pub nobody: Nobody,
    /// How sure it is.
    pub confidence: Confidence,
    /// What it rests on, in words.
    pub proof: String,
}

/// `looked`: what lies ahead of each thread. Semaphores that were taken for futexes are told by how they are given back.
pub(super) fn find(
    ahead: &mut Ahead<'_>,
    stacks: &ImageStacks,
    looked: &FxHashMap<Tid, Looked>,
    waits: &mut [(Tid, &mut LockWait)],
) -> Vec<StuckWait> {
    for (tid, wait) in waits.iter_mut() {
        let gives = looked.get(tid).is_some_and(|looked| looked.gives.contains(&wait.lock));
        wait.gives_back = gives;
        if gives && wait.kind == LockKind::Futex && wait.family.is_some() {
            wait.kind = LockKind::Semaphore;
            wait.proof =
                format!("the word at {:#x} is 0, and the code behind the wait counts it up again", wait.lock);
        }
    }
    let mut by_lock: BTreeMap<(u64, LockKindKey), Vec<usize>> = BTreeMap::new();
    for (index, (_, wait)) in waits.iter().enumerate() {
        let key = match wait.kind {
            LockKind::Condition => LockKindKey::Condition,
            LockKind::Semaphore => LockKindKey::Semaphore,
            // What has an owner is another rule's.
            LockKind::Mutex | LockKind::RwLockRead | LockKind::RwLockWrite
                if wait.family.is_some() && wait.thread().is_none() =>
            {
                LockKindKey::Held
            }
            _ => continue,
        };
        by_lock.entry((wait.lock, key)).or_default().push(index);
    }
    let (mut found, mut left) = (Vec::new(), Vec::new());
    for ((lock, key), members) in by_lock {
        let all = || members.iter().filter_map(|index| waits.get(*index));
        let waiters: Vec<Tid> = all().map(|(tid, _)| *tid).collect();
        if all().any(|(_, wait)| wait.timed) {
            continue;
        }
        let stuck = match key {
            LockKindKey::Condition if found.len() < CONDITIONS && ahead.is_never_signalled(lock) => {
                let said = all().map(|(_, wait)| wait.proof.clone()).next().unwrap_or_default();
                let proof = format!(
                    "the condition is a variable of its own, and all code that forms its address was found: none of it leads to a call \
                     that signals it; {said}"
                );
                (LockKind::Condition, Nobody::Signals, Confidence::AlmostCertain, proof)
            }
            LockKindKey::Semaphore
                if is_lost(looked, lock, &waiters, all().all(|(_, wait)| wait.holders.is_empty())) =>
            {
                let proof = format!(
                    "each of the {} who wait for the semaphore at {lock:#x} gives it back behind its wait, so that it counts slots; no \
                     thread is between taking and giving back: slots were lost on a way that leaves the giving back out",
                    waiters.len()
                );
                (LockKind::Semaphore, Nobody::GaveBack, Confidence::VeryLikely, proof)
            }
            LockKindKey::Held
                if is_lost(looked, lock, &waiters, all().all(|(_, wait)| wait.holders.is_empty())) =>
            {
                let writes = |kind| kind == LockKind::RwLockWrite;
                let kind = all().map(|(_, wait)| wait.kind).max_by_key(|kind| writes(*kind));
                let proof = format!(
                    "the lock at {lock:#x} is held, each of the {} who wait for it gives it back behind its wait, and no thread is between taking \
                     and giving it back: it was taken on a way that leaves the giving back out, or by one of them before it asked again",
                    waiters.len()
                );
                (kind.unwrap_or_default(), Nobody::LetGo, Confidence::VeryLikely, proof)
            }
            LockKindKey::Held => continue,
            LockKindKey::Condition => {
                left.push((lock, waiters));
                continue;
            }
            LockKindKey::Semaphore => continue,
        };
        let (kind, nobody, confidence, proof) = stuck;
        found.push(StuckWait { lock, kind, waiters, nobody, confidence, proof });
    }
    found.extend(nobody_left(ahead, stacks, left));
    found
}

/// Conditions whose waiters are all that could wake anybody. `left`: waits without a limit.
fn nobody_left(ahead: &mut Ahead<'_>, stacks: &ImageStacks, left: Vec<(u64, Vec<Tid>)>) -> Vec<StuckWait> {
    let waiting: FxHashSet<Tid> = left.iter().flat_map(|(_, waiters)| waiters.iter().copied()).collect();
    let others = || stacks.threads.iter().filter(|stack| !waiting.contains(&stack.tid));
    let count = others().count();
    if left.is_empty() || count > OTHERS || !others().all(|stack| ahead.reach(stack) == Reach::Nothing) {
        return Vec::new();
    }
    let proof = format!(
        "the code ahead of all {count} threads that do not wait at conditions was gone through, with all that it calls: none of it signals \
         one, or starts a thread that could"
    );
    let stuck = |(lock, waiters)| StuckWait {
        lock,
        kind: LockKind::Condition,
        waiters,
        nobody: Nobody::IsLeft,
        confidence: Confidence::VeryLikely,
        proof: proof.clone(),
    };
    left.into_iter().map(stuck).collect()
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LockKindKey {
    Condition,
    Semaphore,
    Held,
}

/// All who wait for it give it back behind their wait, and nobody has it now.
fn is_lost(looked: &FxHashMap<Tid, Looked>, lock: u64, waiters: &[Tid], nobody_holds: bool) -> bool {
    let pairs = |tid: &Tid| looked.get(tid).is_some_and(|looked| looked.gives.contains(&lock));
    let others = looked.iter().filter(|(tid, _)| !waiters.contains(tid));
    // Somebody whose code could not be followed, or who gives it without having waited, may give it.
    let may_give = others
        .into_iter()
        .any(|(_, looked)| looked.lost || looked.holds.iter().any(|hold| hold.lock == lock));
    nobody_holds && waiters.len() >= WAITERS && waiters.iter().all(pairs) && !may_give
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looked(all: &[(u32, bool, bool)]) -> FxHashMap<Tid, Looked> {
        let one = |(tid, gives, lost): &(u32, bool, bool)| {
            let gives = gives.then_some(0x1000).into_iter().collect();
            (Tid(*tid), Looked { gives, lost: *lost, ..Looked::default() })
        };
        all.iter().map(one).collect()
    }

    #[test]
    fn slots_are_lost_only_if_all_who_wait_give_back_and_all_code_is_known() {
        let lost = |all: &[(u32, bool, bool)], waiters: &[u32]| {
            let waiters: Vec<Tid> = waiters.iter().copied().map(Tid).collect();
            is_lost(&looked(all), 0x1000, &waiters, true)
        };
        assert!(lost(&[(1, true, false), (2, true, false), (3, false, false)], &[1, 2]));
        assert!(
            !lost(&[(1, true, false), (2, false, false)], &[1, 2]),
            "a consumer does not give back what it takes"
        );
        assert!(!lost(&[(1, true, false), (2, true, false), (3, false, true)], &[1, 2]), "3 may give it");
        assert!(!lost(&[(1, true, false)], &[1]), "one alone");
    }
}
