//! Locks of Rust's standard library (1.62 and later), which say nothing of their owners.
//!
//! ```text
//! Mutex     0 futex: 0 free, 1 held, 2 held and waited for   4 poisoned (a byte)
//! RwLock    0 state (futex of readers)  4 number of wake-ups (futex of writers)   state: readers, 0x3fff_ffff a writer,
//!           1 << 30 readers wait, 1 << 31 writers wait
//! Condvar   0 number of notifications ever (futex)
//! Parker    0 futex: -1 while parked
//! ```
//!
//! library/std/src/sys/sync/{mutex,rwlock,condvar,thread_parking}/futex.rs. All waits are by bit set, and private.

use biopsy_stacks::ahead::LockFamily;

use super::futex_wait::{FUTEX_WAIT_BITSET, FutexWait};
use super::lock::{LockKind, LockOwner, LockWait};

const COUNT: u32 = 0x3fff_ffff;
const READERS_WAIT: u32 = 1 << 30;
const WRITERS_WAIT: u32 = 1 << 31;
const MOST: u32 = 1 << 16;

fn is_ours(wait: &FutexWait<'_>) -> bool {
    wait.operation == FUTEX_WAIT_BITSET && wait.private && wait.is_unchanged()
}

pub(super) fn mutex(wait: &FutexWait<'_>) -> Option<LockWait> {
    // A condition that was notified twice has a 2 too, and a mutex of glibc more words.
    let poisoned = wait.at(4)? & 0xff;
    let fits = is_ours(wait) && wait.expected == 2 && poisoned <= 1 && wait.is(&[LockKind::Mutex]);
    let proof = format!("the futex at {:#x} is 2: a mutex of Rust that is held, and waited for", wait.futex);
    fits.then(|| LockWait {
        held_by: Some(1),
        family: Some(LockFamily::Word),
        ..wait.lock(0, LockKind::Mutex, LockOwner::NotKnown, proof)
    })
}

pub(super) fn rwlock(wait: &FutexWait<'_>) -> Option<LockWait> {
    if !is_ours(wait) || !wait.is(&[LockKind::RwLockRead, LockKind::RwLockWrite]) {
        return None;
    }
    let plausible = |count: u32| count == COUNT || count < MOST;
    let found = |before: u64, kind, state: u32| {
        let (at, count) = (wait.futex.wrapping_sub(before), state & COUNT);
        let (owner, held_by, who) = match count {
            COUNT => (LockOwner::NotKnown, 1, "a writer has".to_owned()),
            count => (LockOwner::Readers, count, format!("{count} readers have")),
        };
        let proof = format!("{who} the lock of Rust at {at:#x}, by its word");
        LockWait {
            held_by: Some(held_by),
            family: Some(LockFamily::Readers),
            ..wait.lock(before, kind, owner, proof)
        }
    };
    let state = wait.word?;
    // A thread that is parked has the same in its futex as a lock with a writer and all that may wait.
    if state == u32::MAX && wait.named.is_none() {
        return None;
    }
    if state & READERS_WAIT != 0 && plausible(state & COUNT) && state & COUNT != 0 {
        return Some(found(0, LockKind::RwLockRead, state));
    }
    let state = wait.at(-4)?;
    (state & WRITERS_WAIT != 0 && plausible(state & COUNT) && state & COUNT != 0)
        .then(|| found(4, LockKind::RwLockWrite, state))
}

/// A word that only counts: believed where a name says what it is.
pub(super) fn condition(wait: &FutexWait<'_>) -> Option<LockWait> {
    if !is_ours(wait) || wait.named != Some(LockKind::Condition) {
        return None;
    }
    let proof = match wait.expected {
        0 => format!("the condition at {:#x} was never notified", wait.futex),
        1 => format!("the condition at {:#x} was notified once, before this wait began", wait.futex),
        times => format!(
            "the condition at {:#x} was notified {times} times, all before this wait began",
            wait.futex
        ),
    };
    Some(wait.lock(0, LockKind::Condition, LockOwner::NotKnown, proof))
}
