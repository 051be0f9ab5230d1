//! A thread that tries again and again to get a lock.

use biopsy_image::{Image, Thread};
use biopsy_stacks::ahead::spins_at;
use biopsy_stacks::image::ImageStacks;

use super::lock::{LockKind, LockOwner, LockWait};

/// Of a thread that runs: the lock that the loop around its instruction is about.
pub(in crate::dump) fn find(image: &dyn Image, thread: &Thread, stacks: &ImageStacks) -> Option<LockWait> {
    let spins = spins_at(image, stacks, thread.registers.as_ref()?)?;
    let proof = format!(
        "the thread goes round in a few instructions that wait for the word at {:#x}, and for nothing else, to change",
        spins.lock
    );
    Some(LockWait {
        futex: spins.lock,
        lock: spins.lock,
        kind: LockKind::Spin,
        owner: LockOwner::NotKnown,
        proof,
        held_by: Some(1),
        family: Some(spins.family),
        ..LockWait::default()
    })
}
