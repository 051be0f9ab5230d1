//! What is done once: `Once`, `OnceLock` and `LazyLock` of Rust, `pthread_once`, and `std::call_once`, which is made of it.
//!
//! ```text
//! Once             0 futex: 3 not done, 1 being done, 0 done; + 4: somebody waits      (1.84 and later)
//!                           0 not done, 2 being done, 4 done; 3 being done and somebody waits   (before)
//! pthread_once_t   0 futex: 0 not done, 1 being done (with the number of forks above it), 2 done
//! ```
//!
//! library/std/src/sys/sync/once/futex.rs, nptl/pthread_once.c. Neither notes who does it. But the function that does it has the address of
//! the word in its own frame (what marks it as done, or as not done after all) or in a register that it keeps, and calls what the program
//! gave it: who is further in has not done it yet.

use biopsy_image::{Image, MemoryExt};
use biopsy_model::{Confidence, Tid};
use biopsy_stacks::image::{ImageStacks, ThreadStack};

use super::futex_wait::FutexWait;
use super::lock::{Holder, LockKind, LockOwner, LockWait};
use super::named;

/// A frame of such a function, at most.
const FRAME: u64 = 1024;
/// Frames of a thread that are looked at.
const FRAMES: usize = 256;

/// Values of the word while it is being done, and somebody waits: of Rust, then of glibc before a fork, without its number of forks.
fn is_being_done(word: u32) -> bool {
    matches!(word, 3 | 5) || word & 3 == 1
}

pub(super) fn once(wait: &FutexWait<'_>) -> Option<LockWait> {
    let fits = wait.named == Some(LockKind::Once) && wait.is_unchanged() && is_being_done(wait.expected);
    fits.then(|| {
        let proof = format!("the word at {:#x} says that it is being done, and waited for", wait.futex);
        // `pthread_once` gives no time, and leaves whatever is in the register.
        LockWait {
            timed: false,
            held_by: Some(1),
            ..wait.lock(0, LockKind::Once, LockOwner::NotKnown, proof)
        }
    })
}

/// Who does what others wait for, and says so in the waits.
pub(in crate::dump) fn find_makers(
    image: &dyn Image,
    stacks: &ImageStacks,
    waits: &mut [(Tid, &mut LockWait)],
) {
    if !waits.iter().any(|(_, wait)| wait.kind == LockKind::Once) {
        return;
    }
    let makers: Vec<(&ThreadStack, usize)> =
        stacks.threads.iter().flat_map(|stack| doing(stacks, stack).map(move |at| (stack, at))).collect();
    for (_, wait) in waits.iter_mut().filter(|(_, wait)| wait.kind == LockKind::Once) {
        let known = makers.iter().filter(|(stack, at)| has(image, stacks, stack, *at, wait.lock));
        let mut all: Vec<(Tid, usize)> = known.map(|(stack, at)| (stack.tid, *at)).collect();
        all.dedup_by_key(|(tid, _)| *tid);
        // It is done by one thread at a time.
        let [(thread, _)] = all.as_slice() else { continue };
        wait.owner = LockOwner::Thread(*thread);
        wait.proof.push_str("; the thread is inside of what is done once, in a frame that has this address");
        wait.holders = vec![Holder {
            thread: *thread,
            confidence: Confidence::AlmostCertain,
            site: None,
            shared: false,
        }];
    }
}

/// Frames of functions that do something once, and have called what they do.
fn doing<'s>(stacks: &'s ImageStacks, stack: &'s ThreadStack) -> impl Iterator<Item = usize> + 's {
    let is_once = move |at: &usize| {
        let place = stack.frames.get(*at).and_then(|frame| stacks.place(frame.place));
        place.is_some_and(|place| {
            place.functions.iter().any(|function| named::by_name(&function.name) == Some(LockKind::Once))
        })
    };
    // Who waits there is in it too, and innermost of the program: below are only calls that wait.
    let waits = (0..stack.frames.len().min(FRAMES)).take_while(move |at| {
        let place = stack.frames.get(*at).and_then(|frame| stacks.place(frame.place));
        place.is_some_and(|place| {
            let mut names =
                place.functions.iter().map(|function| function.name.trim_start_matches(['_', '<']));
            names.all(|name| {
                name.starts_with("syscall") || name.contains("futex") || named::by_name(name).is_some()
            })
        })
    });
    let inner = waits.count();
    (inner..stack.frames.len().min(FRAMES)).filter(is_once)
}

/// The frame has the address in what it keeps: a register, or its part of the stack.
fn has(image: &dyn Image, stacks: &ImageStacks, stack: &ThreadStack, at: usize, lock: u64) -> bool {
    let registers = stacks.code.registers(stack.tid);
    let Some(frame) = registers.get(at) else { return false };
    if frame.fp == Some(lock) || frame.saved.contains(&Some(lock)) {
        return true;
    }
    let end = registers.get(at + 1).map_or(frame.sp, |caller| caller.sp).min(frame.sp.saturating_add(FRAME));
    let words = (frame.sp..end).step_by(8);
    words.into_iter().any(|word| image.read_u64(word).ok() == Some(lock))
}

#[cfg(test)]
mod tests {
    use super::is_being_done;

    #[test]
    fn words_of_what_is_being_done_are_told_from_others() {
        for (word, is) in
            [(0, false), (1, true), (2, false), (3, true), (4, false), (5, true), (0x101, true), (6, false)]
        {
            assert_eq!(is_being_done(word), is, "{word}");
        }
    }
}
