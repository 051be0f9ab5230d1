//! Locks of parking_lot, which say nothing of their owners. A thread waits at a futex of its own, beside a note of the lock:
//!
//! ```text
//! waiter    -32 key: address of the lock (+ 1: a writer that waits for readers)  -24 next  -16 unpark token  -8 park token  0 futex
//! RawMutex  a byte: 1 held, 2 somebody waits
//! RawRwLock a word of 64 bits: 1 somebody waits, 2 a writer waits for readers, 4 upgradable, 8 writer, from 16 readers
//! Condvar   a word of 64 bits: the mutex, while somebody waits
//! ```
//!
//! Park tokens: 0 of mutexes and conditions, 8 to write, 16 to read, 20 to read upgradably. Amanieu/parking_lot: src/raw_mutex.rs,
//! src/raw_rwlock.rs, src/condvar.rs, core/src/parking_lot.rs. Rust lays out structures as it likes, so that all of it is checked.

use biopsy_image::MemoryExt;
use biopsy_stacks::ahead::LockFamily;

use super::futex_wait::{FUTEX_WAIT, FutexWait};
use super::lock::{LockKind, LockOwner, LockWait};

const TO_WRITE: u64 = 8;
const TO_READ: u64 = 16;
const UPGRADABLE: u64 = 4;
const MOST: u64 = 1 << 20;

pub(super) fn any(wait: &FutexWait<'_>) -> Option<LockWait> {
    let fits = wait.operation == FUTEX_WAIT && wait.private && wait.is_unchanged() && wait.expected == 1;
    if !fits {
        return None;
    }
    let (key, token) = (wait.long_at(-32)?, wait.long_at(-8)?);
    let found = |lock: u64, kind, owner, held_by: Option<u32>, proof| LockWait {
        futex: wait.futex,
        lock,
        kind,
        owner,
        proof,
        timed: wait.timed,
        held_by,
        family: held_by.map(|_| if token == 0 { LockFamily::Byte } else { LockFamily::ReadersFrom16 }),
        ..LockWait::default()
    };
    if key == 0 || wait.long_at(-24).is_none_or(|next| next != 0 && wait.image.read_u32(next).is_err()) {
        return None;
    }
    if token == 0 {
        // A mutex says "somebody waits" in its byte; a condition is the address of its mutex.
        let word = wait.image.read_u64(key).ok();
        if let Some(mutex) = word.filter(|word| *word > 4096 && wait.image.read_u32(*word).is_ok()) {
            let proof = format!(
                "the thread's note says that it is parked at {key:#x}, a condition with the mutex at {mutex:#x}"
            );
            let mut condition = found(key, LockKind::Condition, LockOwner::NotKnown, None, proof);
            condition.mutex = Some(mutex);
            return wait.is(&[LockKind::Condition]).then_some(condition);
        }
        let mut byte = [0];
        wait.image.read_exact(key, &mut byte).ok()?;
        let proof = format!(
            "the thread's note says that it is parked at {key:#x}, a mutex of parking_lot that is held"
        );
        return (byte == [3] && wait.is(&[LockKind::Mutex]))
            .then(|| found(key, LockKind::Mutex, LockOwner::NotKnown, Some(1), proof));
    }
    let lock = key & !3;
    let state = wait.image.read_u64(lock).ok()?;
    let parked = state & if key & 1 == 0 { 1 } else { 2 } != 0;
    let readers = state >> 4;
    let kind = match token {
        TO_WRITE => LockKind::RwLockWrite,
        TO_READ => LockKind::RwLockRead,
        token if token == TO_READ | UPGRADABLE => LockKind::RwLockRead,
        // A writer that waits for readers to leave has said already what it is.
        _ if key & 1 == 1 => LockKind::RwLockWrite,
        _ => return None,
    };
    let believed = parked && readers < MOST && state & (0xc | !0xf) != 0;
    believed.then(|| {
        let (owner, held_by, who) = match readers {
            0 => (LockOwner::NotKnown, 1, "a writer has".to_owned()),
            count => (LockOwner::Readers, count as u32, format!("{count} readers have")),
        };
        let proof = format!(
            "the thread's note says that it is parked at {key:#x}; {who} the lock of parking_lot there"
        );
        found(lock, kind, owner, Some(held_by), proof)
    })
}
