//! Who holds what a thread waits for. What the locks themselves say is read from memory alone: no symbols are needed.
//!
//! A thread that waits for a lock is in `futex(2)`; its second register argument says how, its first where. The futex is a word of
//! the lock, or near it; the layouts stand at the head of `glibc`, `musl`, `rust` and `parking_lot`. Owners are known by the numbers
//! that threads have for themselves, which in a container are not those of the dump ([`OwnNumbers`](biopsy_image::OwnNumbers)). A
//! lock is only believed when the value that was waited for, the value in memory, the neighbouring fields and the list of threads
//! agree: most futexes are none of these, and a word that is 2 may be anything.
//!
//! Who holds a lock that has no owner in it is inferred, in `holders`, and each such [`Holder`] says how sure that is. A condition or a
//! futex of a runtime has nobody to be named: that it is waited for is said, and never called a deadlock.

mod futex_wait;
mod glibc;
mod guard;
mod holders;
mod lock;
mod musl;
mod named;
mod once;
mod parking_lot;
mod rust;
mod spin;
mod stuck;
mod tids;

use biopsy_image::{Image, Thread};
use biopsy_stacks::ahead::LockFamily;
use biopsy_stacks::image::{ImageStacks, ThreadStack};

use super::state::{ThreadState, WaitKind};
use futex_wait::{FUTEX_WAIT, FutexWait};

pub use lock::{Holder, LockKind, LockOwner, LockWait};
pub use stuck::{Nobody, StuckWait};

pub(super) use holders::infer;
pub(super) use once::find_makers;
pub(super) use spin::find as find_spin;
pub(super) use tids::Tids;

/// What a thread in `futex(2)` waits for, and which kind of code gives it back, where that is known.
pub(super) fn find(
    image: &dyn Image,
    tids: &Tids,
    thread: &Thread,
    stack: Option<&ThreadStack>,
    stacks: &ImageStacks,
    state: &ThreadState,
) -> Option<LockWait> {
    if state.wait() != Some(WaitKind::Futex) {
        return None;
    }
    let named = stack.and_then(|stack| named::named(stacks, stack));
    let wait = FutexWait::of(image, tids, thread, named)?;
    let shapes: &[fn(&FutexWait<'_>) -> Option<LockWait>] = &[
        glibc::priority_inheritance,
        glibc::join,
        glibc::mutex,
        glibc::robust_mutex,
        glibc::rwlock,
        musl::mutex,
        glibc::condition,
        glibc::semaphore,
        glibc::barrier,
        guard::initialization,
        once::once,
        rust::condition,
        rust::mutex,
        rust::rwlock,
        parking_lot::any,
        counter,
    ];
    let known = shapes.iter().find_map(|shape| shape(&wait));
    Some(known.unwrap_or_else(|| {
        let kind = named.unwrap_or(LockKind::Futex);
        wait.lock(0, kind, LockOwner::NotKnown, String::new())
    }))
}

/// It waits for a word of its own process to change, and the word has not. Words that processes share another one may change; the end of a
/// thread is told as if it were such a word.
pub(super) fn is_asleep(image: &dyn Image, tids: &Tids, thread: &Thread, lock: &LockWait) -> bool {
    let wait = FutexWait::of(image, tids, thread, None);
    wait.is_some_and(|wait| wait.is_unchanged() && (wait.private || lock.kind == LockKind::Join))
}

/// A word that is 0 and waited for to be something else: what it is only the code tells that changes it. So far a futex. libstdc++ 12
/// gives no time limit, and leaves whatever is in the register: its waits with one are of another kind.
fn counter(wait: &FutexWait<'_>) -> Option<LockWait> {
    let fits =
        wait.operation == FUTEX_WAIT && wait.is_unchanged() && wait.expected == 0 && wait.named.is_none();
    fits.then(|| LockWait {
        family: Some(LockFamily::Counter),
        timed: false,
        ..wait.lock(0, LockKind::Futex, LockOwner::NotKnown, String::new())
    })
}
