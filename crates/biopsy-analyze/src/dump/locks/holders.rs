//! Who holds locks that do not say it: by the code that threads will run next.

use std::thread::ScopedJoinHandle;

use biopsy_image::Image;
use biopsy_model::symbol::place_name;
use biopsy_model::{Confidence, Tid};
use biopsy_stacks::ahead::{Ahead, Hold, HoldMode, LockFamily, Looked, Wanted, WaysSay};
use biopsy_stacks::image::{ImageStacks, Place, ThreadStack};
use rustc_hash::FxHashMap;

use super::lock::{Holder, LockKind, LockOwner, LockWait};
use super::stuck::{self, StuckWait};

/// Locks that are looked for at most.
const LOCKS: usize = 4096;
/// From so many threads on one half of them is looked at by a second processor.
const WORTH_A_THREAD: usize = 32;

/// What was found out beside the holders.
#[derive(Debug, Default)]
pub(in crate::dump) struct Inferred {
    /// What could not be determined, in words.
    pub(in crate::dump) problems: Vec<String>,
    /// Waits that nobody is left to end.
    pub(in crate::dump) stuck: Vec<StuckWait>,
}

/// Finds out who holds what is waited for, and says so in the waits.
pub(in crate::dump) fn infer(
    image: &dyn Image,
    stacks: &ImageStacks,
    waits: &mut [(Tid, &mut LockWait)],
) -> Inferred {
    let mut wanted: FxHashMap<u64, Wanted> = FxHashMap::default();
    let conditions = waits.iter().any(|(_, wait)| wait.kind == LockKind::Condition);
    for (_, wait) in waits.iter() {
        if let Some(family) = wait.family.filter(|_| wait.thread().is_none() && wanted.len() < LOCKS) {
            wanted.insert(wait.lock, Wanted { lock: wait.lock, family });
        }
    }
    if wanted.is_empty() && !conditions {
        return Inferred::default();
    }
    let all: Vec<Wanted> = wanted.into_values().collect();
    let Some(mut ahead) = Ahead::new(image, stacks, &all) else { return Inferred::default() };
    let waiting: FxHashMap<Tid, (u64, Option<u64>)> =
        waits.iter().map(|(tid, wait)| (*tid, (wait.lock, wait.mutex))).collect();
    let mut holds: FxHashMap<u64, Vec<Holder>> = FxHashMap::default();
    let mut looked: FxHashMap<Tid, Looked> = FxHashMap::default();
    let mut is_exhausted = false;
    if !all.is_empty() {
        let (found, others_are_exhausted) = look_at_all(image, stacks, &all, &waiting, &mut ahead);
        is_exhausted = others_are_exhausted;
        for (stack, found) in stacks.threads.iter().zip(found) {
            for hold in &found.holds {
                holds.entry(hold.lock).or_default().push(holder(stacks, stack, hold));
            }
            looked.insert(stack.tid, found);
        }
    }
    let of_counter = |wait: &LockWait| wait.family == Some(LockFamily::Counter);
    for (_, wait) in waits.iter_mut() {
        // Until its code says so it is no semaphore.
        if let Some(candidates) =
            holds.get(&wait.lock).filter(|_| wait.thread().is_none() && !of_counter(wait))
        {
            settle(wait, candidates);
        }
    }
    let stuck = if is_exhausted || ahead.is_exhausted() {
        Vec::new()
    } else {
        stuck::find(&mut ahead, stacks, &looked, waits)
    };
    for (_, wait) in waits.iter_mut() {
        let semaphore = of_counter(wait) && wait.kind == LockKind::Semaphore;
        if let Some(candidates) = holds.get(&wait.lock).filter(|_| semaphore) {
            settle(wait, candidates);
        }
    }
    let mut problems = Vec::new();
    if is_exhausted || ahead.is_exhausted() {
        problems.push(
            "who holds locks that do not say it, in all threads: there is too much code to look at"
                .to_owned(),
        );
    }
    Inferred { problems, stuck }
}

/// What lies ahead of each thread, one half of many by a thread of its own, and whether that had not enough room.
fn look_at_all(
    image: &dyn Image,
    stacks: &ImageStacks,
    wanted: &[Wanted],
    waiting: &FxHashMap<Tid, (u64, Option<u64>)>,
    ahead: &mut Ahead<'_>,
) -> (Vec<Looked>, bool) {
    let look = |ahead: &mut Ahead<'_>, threads: &[ThreadStack]| -> Vec<Looked> {
        let at = |stack: &ThreadStack| {
            let (waits_for, takes_again) = waiting.get(&stack.tid).copied().unzip();
            ahead.look(stack, waits_for, takes_again.flatten())
        };
        threads.iter().map(at).collect()
    };
    let mut second = Ahead::new(image, stacks, wanted).filter(|_| stacks.threads.len() >= WORTH_A_THREAD);
    let half = if second.is_some() { stacks.threads.len() / 2 } else { 0 };
    let (others, threads) = stacks.threads.split_at(half);
    let (found, rest) = std::thread::scope(|scope| {
        let started = second
            .as_mut()
            .and_then(|second| std::thread::Builder::new().spawn_scoped(scope, || look(second, others)).ok());
        let rest = look(ahead, threads);
        let join = |thread: ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        (started.map(join), rest)
    });
    // Where no thread could be started, this one does it.
    let mut all = found.or_else(|| second.as_mut().map(|second| look(second, others))).unwrap_or_default();
    all.extend(rest);
    (all, second.is_some_and(|second| second.is_exhausted()))
}

fn holder(stacks: &ImageStacks, stack: &ThreadStack, hold: &Hold) -> Holder {
    let confidence = match (hold.ways, hold.cleanup) {
        (WaysSay::All, true) => Confidence::AlmostCertain,
        (WaysSay::All, false) | (WaysSay::Some | WaysSay::Nothing, true) => Confidence::VeryLikely,
        // Where the ways say no, the clean-up knows nothing of what is done in between.
        (WaysSay::No, _) | (WaysSay::Some | WaysSay::Nothing, false) => Confidence::Possible,
    };
    let place = stack.frames.get(hold.frame).and_then(|frame| stacks.place(frame.place));
    Holder {
        thread: stack.tid,
        confidence,
        site: place.map(|place| site(stacks, place)),
        shared: hold.mode == HoldMode::Shared,
    }
}

/// The function of the frame, or, where that is of a library of threads, locks and guards, the outermost of those inlined into it.
fn site(stacks: &ImageStacks, place: &Place) -> String {
    const GUARDS: &[&str] =
        &["std::", "core::", "alloc::", "parking_lot", "lock_api::", "<std::", "<core::", "<lock_api::"];
    let own = |name: &&str| !GUARDS.iter().any(|guard| name.starts_with(guard));
    let names = || place.functions.iter().map(|function| function.name.as_str());
    if let Some(name) = names().rev().find(own).or_else(|| names().next_back()) {
        return name.to_owned();
    }
    let module = stacks.module_of(place).map_or("", |module| module.name());
    place_name(module, place.function_start.unwrap_or(place.offset))
}

/// Who of the candidates may hold this lock together, by what its word says.
fn settle(wait: &mut LockWait, candidates: &[Holder]) {
    let by_readers = wait.owner == LockOwner::Readers;
    let rwlock = matches!(wait.kind, LockKind::RwLockRead | LockKind::RwLockWrite);
    // A call that gives back serves readers and writers; an operation on the word says which it was.
    let fits = |holder: &&Holder| !rwlock || by_readers || !holder.shared;
    let mut holders: Vec<Holder> = candidates.iter().filter(fits).cloned().collect();
    if wait.kind.any_is_enough() {
        wait.holders = holders;
        return;
    }
    let room = wait.held_by.unwrap_or(1) as usize;
    let sure = |least: Confidence, holders: &[Holder]| {
        holders.iter().filter(|holder| holder.confidence >= least).count()
    };
    // More than can hold it: those that are surer than the others are left.
    for least in [Confidence::VeryLikely, Confidence::AlmostCertain] {
        if sure(Confidence::VeryLikely, &holders) > room {
            for holder in holders.iter_mut().filter(|holder| holder.confidence <= least) {
                holder.confidence = Confidence::Possible;
            }
        }
    }
    let known: Vec<&Holder> =
        holders.iter().filter(|holder| holder.confidence > Confidence::Possible).collect();
    if let ([one], 1) = (known.as_slice(), room) {
        wait.owner = LockOwner::Thread(one.thread);
        wait.proof.push_str("; the owner is inferred: on its way out, the thread gives the lock back");
        if one.confidence == Confidence::AlmostCertain {
            wait.proof.push_str(", and the compiler's tables say that it holds it there");
        }
    }
    wait.holders = holders;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(kind: LockKind, owner: LockOwner, held_by: u32) -> LockWait {
        LockWait { lock: 0x1000, kind, owner, held_by: Some(held_by), ..LockWait::default() }
    }

    fn may(thread: u32, confidence: Confidence) -> Holder {
        Holder { thread: Tid(thread), confidence, site: None, shared: false }
    }

    fn settled(mut wait: LockWait, candidates: &[Holder]) -> (LockOwner, Vec<Confidence>) {
        settle(&mut wait, candidates);
        (wait.owner, wait.holders.iter().map(|holder| holder.confidence).collect())
    }

    #[test]
    fn one_candidate_is_the_owner_and_two_are_none() {
        use Confidence::{AlmostCertain, Possible, VeryLikely};
        let mutex = || wait(LockKind::Mutex, LockOwner::NotKnown, 1);
        let (owner, _) = settled(mutex(), &[may(7, VeryLikely), may(8, Possible)]);
        assert_eq!(owner, LockOwner::Thread(Tid(7)));
        let two = settled(mutex(), &[may(7, VeryLikely), may(8, VeryLikely)]);
        assert_eq!(two, (LockOwner::NotKnown, vec![Possible, Possible]));
        let surer = settled(mutex(), &[may(7, AlmostCertain), may(8, VeryLikely)]);
        assert_eq!(surer, (LockOwner::Thread(Tid(7)), vec![AlmostCertain, Possible]));
        assert_eq!(settled(mutex(), &[may(7, Possible)]).0, LockOwner::NotKnown);
    }

    #[test]
    fn as_many_readers_as_the_lock_counts_are_believed() {
        use Confidence::{Possible, VeryLikely};
        let readers = |count| wait(LockKind::RwLockWrite, LockOwner::Readers, count);
        let reads = |thread| Holder { shared: true, ..may(thread, VeryLikely) };
        assert_eq!(settled(readers(2), &[reads(7), reads(8)]).1, [VeryLikely, VeryLikely]);
        assert_eq!(settled(readers(1), &[reads(7), reads(8)]).1, [Possible, Possible]);
        assert_eq!(settled(readers(1), &[reads(7)]).0, LockOwner::Thread(Tid(7)));
        let writer =
            settled(wait(LockKind::RwLockRead, LockOwner::NotKnown, 1), &[reads(7), may(8, VeryLikely)]);
        assert_eq!(writer.0, LockOwner::Thread(Tid(8)), "a reader does not keep readers out");
    }
}
