//! Locks of musl.
//!
//! ```text
//! mutex_t   0 type  4 lock: owner | 1 << 31 (futex)
//! ```

use super::futex_wait::FutexWait;
use super::lock::{LockKind, LockWait};

const OWNER: u32 = 0x3fff_ffff;

pub(super) fn mutex(wait: &FutexWait<'_>) -> Option<LockWait> {
    let word = wait.word?;
    let (owner, kind) = (word & OWNER, wait.at(-4)?);
    let fits = wait.is_unchanged()
        && word >> 31 == 1
        && wait.tids.has(owner)
        && kind & 0xf <= 3
        && kind < 0x100
        && wait.is(&[LockKind::Mutex]);
    let proof = "the futex holds the owner and the mark of waiters".to_owned();
    fits.then(|| wait.lock(4, LockKind::Mutex, wait.tids.owner(owner), proof))
}
