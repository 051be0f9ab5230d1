//! Threads whose work a signal handler interrupted, and which wait inside of the handler.
//!
//! A handler runs on top of whatever the thread did. If that had a lock, and the handler wants it, the thread waits for itself. Locks with an
//! owner in them say so. Those of the C library itself (of `malloc`, `localtime`, streams) have none: a word that is 2. But who has one is
//! inside of the C library, between taking it and giving it back; where the interrupted frame is, and no other thread runs there or waits
//! there for something else, it is the interrupted one.

use biopsy_image::{Image, MemoryExt};
use biopsy_model::{Confidence, Tid};
use biopsy_stacks::image::{ImageStacks, Place, ThreadStack};
use biopsy_stacks::unwind::FoundBy;
use rustc_hash::FxHashMap;

use super::locks::{Holder, LockKind, LockOwner, LockWait};

/// What a signal handler interrupted on this thread: the innermost function there; `None`: no handler runs, or it has no name.
pub(super) fn function(stacks: &ImageStacks, stack: &ThreadStack) -> Option<String> {
    let at = position(stack)?;
    let place = stacks.place(stack.frames.get(at)?.place)?;
    place.functions.first().map(|function| function.name.clone())
}

/// The number of the frame that was interrupted by the innermost handler.
fn position(stack: &ThreadStack) -> Option<usize> {
    stack.frames.iter().skip(1).position(|frame| frame.found == FoundBy::SignalFrame).map(|at| at + 1)
}

/// Says in the waits for locks of the C library that an interrupted thread has them.
pub(super) fn find_owners(image: &dyn Image, stacks: &ImageStacks, waits: &mut [(Tid, &mut LockWait)]) {
    let by_tid: FxHashMap<Tid, &ThreadStack> =
        stacks.threads.iter().map(|stack| (stack.tid, stack)).collect();
    let nameless = |wait: &LockWait| {
        let held = image.read_u32(wait.futex).is_ok_and(|word| word == 2);
        wait.kind == LockKind::Mutex
            && wait.owner == LockOwner::NotKnown
            && wait.family.is_none()
            && !wait.timed
            && held
    };
    let found = waits.iter().filter(|(_, wait)| nameless(wait)).find_map(|(tid, wait)| {
        let stack = by_tid.get(tid)?;
        let interrupted = stacks.place(stack.frames.get(position(stack)?)?.place)?;
        let waits_in = innermost(stacks, stack)?;
        (interrupted.module.is_some() && interrupted.module == waits_in.module).then_some((
            *tid,
            wait.lock,
            waits_in.module,
        ))
    });
    let Some((owner, lock, module)) = found else { return };
    let others: FxHashMap<Tid, u64> = waits.iter().map(|(tid, wait)| (*tid, wait.lock)).collect();
    // Somebody else may have it: who is in the same library, and not in a call of the system for another reason than this lock.
    let may_have = |stack: &&ThreadStack| {
        let inside = innermost(stacks, stack).is_some_and(|place| place.module == module);
        let in_call = stack.code_before == Some([0x0f, 0x05]);
        let waits_for_it = others.get(&stack.tid) == Some(&lock);
        let waits_for_other = others.contains_key(&stack.tid) && !waits_for_it;
        stack.tid != owner && inside && !waits_for_it && (!in_call || waits_for_other)
    };
    if stacks.threads.iter().any(|stack| may_have(&stack)) {
        return;
    }
    let inside = by_tid.get(&owner).and_then(|stack| function(stacks, stack));
    let inside = inside.map_or(String::new(), |name| format!(" in `{name}`"));
    for (_, wait) in waits.iter_mut().filter(|(_, wait)| wait.lock == lock) {
        wait.owner = LockOwner::Thread(owner);
        wait.holders =
            vec![Holder { thread: owner, confidence: Confidence::VeryLikely, site: None, shared: false }];
        wait.proof = format!(
            "the word at {lock:#x} is 2, a lock of the C library that is held and waited for; a signal handler interrupted thread {owner}{inside} of \
             the C library, and no other thread is in its code without waiting"
        );
    }
}

fn innermost<'s>(stacks: &'s ImageStacks, stack: &ThreadStack) -> Option<&'s Place> {
    stacks.place(stack.frames.first()?.place)
}
