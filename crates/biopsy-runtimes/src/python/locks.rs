//! Locks of `threading`: what a thread waits for, and who has it.
//!
//! ```text
//! _thread.lock     16 semaphore of glibc (the futex)  32 locked
//! _thread.lock     16 PyMutex, one byte: 1 locked, 2 somebody waits (later releases of 3.13, told by the size of the type)
//! _thread.RLock    16 semaphore  24 owner (pthread_t)  32 count
//! ```
//! (3.8 to 3.13, Modules/_threadmodule.c, Include/internal/pycore_lock.h.) Who waits for a `PyMutex` waits at a semaphore on its own
//! stack (Python/parking_lot.c), with the address of the mutex beside it. A `Lock` has no owner; the stack of whoever took it by `with` says that it is inside of
//! the block.

use super::attributes;
use super::layout::same;
use super::objects::Objects;

/// Bytes of a thread's stack in which the lock that it waits for is looked for: `acquire` is a few calls above the system call.
const STACK: usize = 16 << 10;

/// Bits of a `PyMutex`: somebody has it, somebody waits for it.
const LOCKED: u8 = 1;
const PARKED: u8 = 2;

/// A lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Lock {
    /// Address of the object.
    pub(super) object: u64,
    pub(super) locked: bool,
    /// The owner of an `RLock`: a `pthread_t`.
    pub(super) owner: Option<u64>,
    pub(super) reentrant: bool,
}

/// The lock at an address; `None`: it is none.
pub(super) fn lock_at(objects: &Objects<'_, '_>, object: u64) -> Option<Lock> {
    let reentrant = match &*objects.type_name(object) {
        "_thread.lock" => false,
        "_thread.RLock" => true,
        _ => return None,
    };
    if !reentrant && is_mutex(objects, object) {
        let locked = objects.u8(object, same::LOCK_MUTEX)? & LOCKED != 0;
        return Some(Lock { object, locked, owner: None, reentrant });
    }
    objects.pointer(object, same::LOCK_SEMAPHORE)?;
    let (locked, owner) = if reentrant {
        let count = objects.word(object, same::RLOCK_COUNT)?;
        (count > 0, objects.pointer(object, same::RLOCK_OWNER).filter(|_| count > 0))
    } else {
        (objects.u8(object, same::LOCK_LOCKED)? == 1, None)
    };
    Some(Lock { object, locked, owner, reentrant })
}

/// Whether a `_thread.lock` is made of a `PyMutex`.
fn is_mutex(objects: &Objects<'_, '_>, object: u64) -> bool {
    let size = objects.pointer(object, same::TYPE).and_then(|kind| objects.word(kind, same::TYPE_SIZE));
    size == Some(same::LOCK_OF_MUTEX_SIZE)
}

/// The lock that an object is, or that a `Condition` is about: its first attribute that is one.
pub(super) fn lock_of(objects: &Objects<'_, '_>, object: u64) -> Option<Lock> {
    lock_at(objects, object).or_else(|| {
        let is_condition = objects.is(object, "Condition");
        let attributes = if is_condition { attributes::of(objects, object) } else { Vec::new() };
        attributes.into_iter().find_map(|attribute| lock_at(objects, attribute))
    })
}

/// Words on a thread's stack, from its stack pointer on.
pub(super) fn words(objects: &Objects<'_, '_>, sp: u64) -> Vec<u64> {
    let mut bytes = vec![0; STACK];
    let read = objects.memory.read_available(sp, &mut bytes);
    bytes.truncate(read);
    let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    words.filter(|word| word % 8 == 0 && (0x1_0000..1 << 47).contains(word)).collect()
}

/// The lock whose semaphore a thread waits at: one that the calls above the system call have on the stack, which begins at `sp`.
pub(super) fn waited_for(objects: &Objects<'_, '_>, stack: &[u64], sp: u64, futex: u64) -> Option<Lock> {
    let of_semaphore = |word: &&u64| objects.word(**word, same::LOCK_SEMAPHORE) == Some(futex);
    let found = stack.iter().filter(of_semaphore).find_map(|word| lock_at(objects, *word));
    // What lies this near behind the stack may be somebody else's: only where no lock has it as its own.
    let on_stack = (sp..sp.saturating_add(STACK as u64)).contains(&futex);
    found.or_else(|| {
        let parked = |word: &u64| {
            let object = word.checked_sub(same::LOCK_MUTEX)?;
            let waits = objects.u8(object, same::LOCK_MUTEX)? & PARKED != 0;
            lock_at(objects, object).filter(|lock| waits && !lock.reentrant && is_mutex(objects, object))
        };
        on_stack.then(|| stack.iter().find_map(parked)).flatten()
    })
}
