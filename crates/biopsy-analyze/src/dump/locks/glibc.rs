//! Locks of glibc.
//!
//! ```text
//! pthread_mutex_t    0 lock (futex)  4 count  8 owner  12 users  16 kind; robust ones: the futex is the owner
//! pthread_rwlock_t   0 readers  4 writers  8 write phase (futex)  12 writers (futex)  24 current writer  28 shared  32 zeros  48 flags
//! pthread_t          its thread id is the futex that pthread_join waits at
//! sem_t              0 value (futex)  4 waiters  8 private
//! pthread_barrier_t  0 in  4 round (futex)  8 count  12 shared  16 out
//! pthread_cond_t     0 waits << 1 (64 bits)  8 start of group 1 << 1 (64 bits)  16 references  24 sizes  36 waiters << 3  40, 44 signals (futex)
//!   since 2.41       0, 8 the same  16 sizes  28 waiters << 3  32, 36 signals (futex)
//! its waiter's stack position << 1 | group (64 bits), address of the condition, address of the mutex, private (32 bits)
//! ```
//!
//! x86-64, since 2.25: `struct_mutex.h`, `struct_rwlock.h`, `thread-shared-types.h`, `internaltypes.h`, `pthread_cond_wait.c`. Measured
//! on 2.36.

use biopsy_image::MemoryExt;
use biopsy_stacks::ahead::LockFamily;

use super::futex_wait::{FUTEX_LOCK_PI, FUTEX_LOCK_PI2, FUTEX_WAIT, FUTEX_WAIT_BITSET, FutexWait};
use super::lock::{LockKind, LockOwner, LockWait};

/// The bits of a futex that are the owner, of mutexes that inherit priority and of robust ones.
const OWNER: u32 = 0x3fff_ffff;
const WAITERS: u32 = 1 << 31;
const ROBUST: u32 = 16;
/// Readers of one lock, waiters at one semaphore: more are no number of threads.
const MOST: u32 = 1 << 16;
/// How far up from a waiter's stack pointer its note of the condition lies, in bytes.
const NOTE: usize = 1024;

/// The end of a mutex's fields make sense: kinds 0 to 3; robust 16, inheriting 32, protecting 64, shared 128, elision 256, 512.
fn is_mutex(users: u32, kind: u32) -> bool {
    kind & 0xf <= 3 && kind < 0x400 && (1..1 << 24).contains(&users)
}

pub(super) fn priority_inheritance(wait: &FutexWait<'_>) -> Option<LockWait> {
    if !matches!(wait.operation, FUTEX_LOCK_PI | FUTEX_LOCK_PI2) {
        return None;
    }
    let owner = wait.word? & OWNER;
    let proof = "a mutex with priority inheritance: its futex is its owner".to_owned();
    wait.tids.could_be(owner).then(|| wait.lock(0, LockKind::Mutex, wait.tids.owner(owner), proof))
}

/// The kernel clears the word and wakes waiters when a thread ends, and does so as for a shared futex.
pub(super) fn join(wait: &FutexWait<'_>) -> Option<LockWait> {
    let word = wait.word?;
    let fits = wait.is_unchanged() && !wait.private && wait.tids.has(word);
    let proof = "the futex holds the id of the thread, and is the word that the kernel clears at its end";
    (fits && wait.is(&[LockKind::Join]))
        .then(|| wait.lock(0, LockKind::Join, wait.tids.owner(word), proof.to_owned()))
}

pub(super) fn mutex(wait: &FutexWait<'_>) -> Option<LockWait> {
    // 2 is "locked, with waiters"; a timed lock waits by bit set. So do locks of Rust, without a time, behind whose word lies what they guard:
    // an address of a thread's arena looks like the number of a thread.
    let waits = match wait.operation {
        FUTEX_WAIT => true,
        FUTEX_WAIT_BITSET => wait.timed && wait.named == Some(LockKind::Mutex),
        _ => false,
    };
    if !waits || wait.expected != 2 || wait.word != Some(2) || !wait.is(&[LockKind::Mutex]) {
        return None;
    }
    let (owner, users, kind) = (wait.at(8)?, wait.at(12)?, wait.at(16)?);
    let known = wait.tids.has(owner) || wait.tids.is_parent(owner);
    let believed = known || (wait.named.is_some() && wait.tids.could_be(owner));
    let proof = format!(
        "`futex` waits for a value other than 2 at {:#x}; there is 2 (locked, with waiters), and {owner} in the field of the owner",
        wait.futex
    );
    (is_mutex(users, kind) && believed).then(|| wait.lock(0, LockKind::Mutex, wait.tids.owner(owner), proof))
}

/// Robust mutexes: the kernel marks them when their owner dies, so that the word is the owner.
pub(super) fn robust_mutex(wait: &FutexWait<'_>) -> Option<LockWait> {
    let word = wait.word?;
    let owner = word & OWNER;
    let fits = wait.is_unchanged() && word & WAITERS != 0 && wait.is(&[LockKind::Mutex]);
    let (stated, users, kind) = (wait.at(8)?, wait.at(12)?, wait.at(16)?);
    let believed = fits && kind & ROBUST != 0 && is_mutex(users, kind) && stated == owner;
    let proof = "a robust mutex: its futex is its owner, with the mark of waiters".to_owned();
    (believed && wait.tids.could_be(owner))
        .then(|| wait.lock(0, LockKind::Mutex, wait.tids.owner(owner), proof))
}

/// The fields of a read-write lock around a futex that is `offset` bytes from its start.
struct RwLock {
    readers: u32,
    writer: u32,
}

impl RwLock {
    fn around(wait: &FutexWait<'_>, offset: i64) -> Option<Self> {
        let at = |field: i64| wait.at(field - offset);
        Some(Self { readers: at(0)?, writer: at(24)? })
    }

    /// What is never anything else: the room behind the fields, and flags (`PREFER_WRITER` and the like).
    fn is_whole(wait: &FutexWait<'_>, offset: i64) -> bool {
        let long = |field: i64| wait.long_at(field - offset);
        let shared = wait.at(28 - offset).is_some_and(|shared| shared <= 1);
        let flags = wait.at(48 - offset).is_some_and(|flags| flags <= 3);
        shared && flags && long(32) == Some(0) && long(40) == Some(0)
    }

    fn count(&self) -> u32 {
        self.readers >> 3
    }
}

/// Readers: bit 0 write phase, bit 1 a writer has it or wants it, bit 2 a reader waits, above them their number.
pub(super) fn rwlock(wait: &FutexWait<'_>) -> Option<LockWait> {
    let rwlock = [LockKind::RwLockRead, LockKind::RwLockWrite];
    if !wait.is_unchanged() || !wait.is(&rwlock) {
        return None;
    }
    // Offset of the futex in the lock, and what it waits for: bit 0 the phase or the lock, bit 1 "somebody waits".
    let candidates = [
        (8_u8, 3_u32, LockKind::RwLockRead),
        (12, 3, LockKind::RwLockWrite),
        (8, 2, LockKind::RwLockWrite),
        (0, wait.expected, LockKind::RwLockRead),
    ];
    candidates.into_iter().find_map(|(offset, expected, kind)| {
        let contradicts = wait.named.is_some_and(|named| named == LockKind::RwLockRead && kind != named);
        if wait.expected != expected || contradicts {
            return None;
        }
        let back = i64::from(offset);
        let lock = RwLock::around(wait, back)?;
        let kind = if expected == 3 { wait.named.unwrap_or(kind) } else { kind };
        let believed = wait.named.is_some() || RwLock::is_whole(wait, back);
        let at = wait.futex.wrapping_sub(offset.into());
        if lock.readers & 2 != 0 && wait.tids.has(lock.writer) && expected == 3 {
            let writer = lock.writer;
            let proof =
                format!("the read-write lock at {at:#x} has {writer} in the field of the current writer");
            return Some(wait.lock(offset.into(), kind, wait.tids.owner(writer), proof));
        }
        let by_readers = lock.writer == 0 && (1..MOST).contains(&lock.count()) && lock.readers & 1 == 0;
        let waits = match offset {
            // A reader that lets writers go first.
            0 => lock.readers & 4 != 0 && wait.at(48).is_some_and(|flags| flags == 2),
            _ => lock.readers & 2 != 0,
        };
        (by_readers && believed && waits && (offset != 8 || expected == 2)).then(|| {
            let proof = format!("{} readers have the lock at {at:#x}", lock.count());
            let mut found = wait.lock(offset.into(), kind, LockOwner::Readers, proof);
            found.held_by = Some(lock.count());
            found.family = Some(LockFamily::Calls);
            found
        })
    })
}

/// Nobody owns a semaphore; without a name it is believed if it counts those who wait.
pub(super) fn semaphore(wait: &FutexWait<'_>) -> Option<LockWait> {
    let (waiters, private) = (wait.at(4)?, wait.at(8)?);
    let waiting = wait.tids.waiting_at(wait.futex);
    let fits = wait.is_unchanged()
        && wait.expected == 0
        && wait.operation == FUTEX_WAIT_BITSET
        && (1..MOST).contains(&waiters)
        && matches!((wait.private, private), (true, 0) | (false, 128));
    let believed = match wait.named {
        Some(named) => named == LockKind::Semaphore,
        None => waiters == waiting,
    };
    let proof = format!("the semaphore at {:#x} is 0, and counts {waiters} who wait", wait.futex);
    (fits && believed).then(|| LockWait {
        family: Some(LockFamily::Calls),
        ..wait.lock(0, LockKind::Semaphore, LockOwner::NotKnown, proof)
    })
}

pub(super) fn barrier(wait: &FutexWait<'_>) -> Option<LockWait> {
    let (arrived, count, shared, left) = (wait.at(-4)?, wait.at(4)?, wait.at(8)?, wait.at(12)?);
    let here = arrived.checked_sub(wait.word?)?;
    let waiting = wait.tids.waiting_at(wait.futex);
    let fits = wait.is_unchanged()
        && (1..MOST).contains(&count)
        && (1..count).contains(&here)
        && left <= arrived
        && matches!(shared, 0 | 128);
    let believed = match wait.named {
        Some(named) => named == LockKind::Barrier,
        None => here == waiting && wait.operation == FUTEX_WAIT,
    };
    let proof = format!("{here} of {count} have come to the barrier");
    (fits && believed).then(|| wait.lock(4, LockKind::Barrier, LockOwner::NotKnown, proof))
}

/// Offsets of a condition: of its two futexes, of the number of waiters.
const CONDITIONS: [([u8; 2], u8); 2] = [([40, 44], 36), ([32, 36], 28)];

pub(super) fn condition(wait: &FutexWait<'_>) -> Option<LockWait> {
    if !wait.is_wait() || !wait.is(&[LockKind::Condition]) || wait.operation != FUTEX_WAIT_BITSET {
        return None;
    }
    CONDITIONS.into_iter().find_map(|(futexes, waiters_at)| {
        futexes.into_iter().find_map(|offset| {
            let start = wait.futex.checked_sub(offset.into())?;
            let waits = wait.image.read_u64(start).ok()? >> 1;
            let waiters = wait.image.read_u32(start.checked_add(waiters_at.into())?).ok()? >> 3;
            let waiting: u32 =
                futexes.iter().map(|offset| wait.tids.waiting_at(start.wrapping_add(u64::from(*offset)))).sum();
            if waiters == 0 || waiters < waiting || u64::from(waiters) > waits {
                return None;
            }
            let note = note(wait, start);
            // Without the waiter's own note only a name tells a condition from other words.
            if note.is_none() && wait.named.is_none() {
                return None;
            }
            let group = wait.image.read_u64(start.checked_add(8)?).ok()? >> 1;
            let proof = match waits.checked_sub(u64::from(waiters)) {
                Some(0) if group == 0 => format!(
                    "the condition at {start:#x} has seen {waits} waits, and none of them has ended: nobody has signalled it while \
                     somebody waited"
                ),
                Some(ended) => format!("the condition at {start:#x} has seen {waits} waits, of which {ended} have ended"),
                None => String::new(),
            };
            let mut found = wait.lock(offset.into(), LockKind::Condition, LockOwner::NotKnown, proof);
            found.mutex = note;
            Some(found)
        })
    })
}

/// The mutex that goes with a condition: only the waiter's stack says it.
fn note(wait: &FutexWait<'_>, condition: u64) -> Option<u64> {
    let mut stack = vec![0; NOTE];
    let there = wait.image.read_available(wait.sp, &mut stack);
    let (words, _) = stack.get(..there)?.as_chunks::<8>();
    let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    words.windows(4).find_map(|window| {
        let [position, at, mutex, private] = *window else { return None };
        let fits = at == condition
            && matches!(private as u32, 0 | 128)
            && position <= wait.image.read_u64(condition).ok()?.saturating_add(1)
            && wait.image.read_u32(mutex).is_ok();
        fits.then_some(mutex)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tids::Tids;
    use super::*;
    use biopsy_image::testing::CoreBuilder;
    use biopsy_image::{Limits, open_bytes};

    /// What a wait at a word 2 is taken for: behind it the words of a hash table in a thread's arena, or those of a mutex of glibc.
    fn owner(operation: u64, timed: bool, behind: [u32; 4]) -> Option<LockOwner> {
        const HEAP: u64 = 0x55_0000_0000;
        let words: Vec<u8> =
            [[2, 0].as_slice(), &behind].concat().iter().flat_map(|word| word.to_le_bytes()).collect();
        let core = CoreBuilder::new().process(10, "patient", "").memory(HEAP, 6, words);
        let opened = open_bytes("test", core.build(), &Limits::default()).expect("a core");
        let tids = Tids::new(&*opened.image);
        let wait = FutexWait {
            image: &*opened.image,
            tids: &tids,
            futex: HEAP,
            operation,
            private: true,
            expected: 2,
            word: Some(2),
            timed,
            sp: 0,
            named: Some(LockKind::Mutex),
        };
        mutex(&wait).map(|lock| lock.owner)
    }

    #[test]
    fn what_a_mutex_of_rust_guards_is_no_owner() {
        // The address 0x7f3c_0000_0c20, and a mask of 3.
        let table = [0xc20, 0x7f3c, 3, 0];
        assert_eq!(owner(FUTEX_WAIT_BITSET, false, table), None);
        let mutex = [3104, 1, 0, 0];
        assert!(owner(FUTEX_WAIT, false, mutex).is_some(), "`pthread_mutex_lock`");
        assert!(owner(FUTEX_WAIT_BITSET, true, mutex).is_some(), "`pthread_mutex_timedlock`");
    }
}
