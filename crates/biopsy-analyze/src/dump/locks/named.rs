//! What a thread waits for, by the names of its innermost functions.

use biopsy_stacks::image::{ImageStacks, ThreadStack};

use super::lock::LockKind;

/// Frames looked at for the function that waits.
const INNER: usize = 8;

const NAMES: &[(&str, LockKind)] = &[
    ("pthread_mutex_lock", LockKind::Mutex),
    ("pthread_mutex_timedlock", LockKind::Mutex),
    ("pthread_mutex_clocklock", LockKind::Mutex),
    ("lll_lock_wait", LockKind::Mutex),
    ("pthread_rwlock_rdlock", LockKind::RwLockRead),
    ("pthread_rwlock_timedrdlock", LockKind::RwLockRead),
    ("pthread_rwlock_wrlock", LockKind::RwLockWrite),
    ("pthread_rwlock_timedwrlock", LockKind::RwLockWrite),
    ("pthread_cond_wait", LockKind::Condition),
    ("pthread_cond_timedwait", LockKind::Condition),
    ("pthread_cond_clockwait", LockKind::Condition),
    ("pthread_clockjoin_ex", LockKind::Join),
    ("pthread_timedjoin_ex", LockKind::Join),
    ("pthread_join", LockKind::Join),
    ("pthread_barrier_wait", LockKind::Barrier),
    ("new_sem_wait", LockKind::Semaphore),
    ("sem_wait", LockKind::Semaphore),
    ("sem_timedwait", LockKind::Semaphore),
    ("sem_clockwait", LockKind::Semaphore),
    ("cxa_guard_acquire", LockKind::Initialization),
    ("pthread_once", LockKind::Once),
    ("std::sys::sync::once::futex::Once", LockKind::Once),
    ("std::sys_common::once::futex::Once", LockKind::Once),
    ("std::sys::sync::condvar::futex::Condvar", LockKind::Condition),
    ("std::sys::sync::mutex::futex::Mutex", LockKind::Mutex),
    ("std::sys::sync::rwlock::futex::RwLock::read", LockKind::RwLockRead),
    ("std::sys::sync::rwlock::futex::RwLock::write", LockKind::RwLockWrite),
    ("parking_lot::raw_mutex::RawMutex", LockKind::Mutex),
    ("parking_lot::condvar::Condvar", LockKind::Condition),
];

/// What the innermost functions with a name say.
pub(super) fn named(stacks: &ImageStacks, stack: &ThreadStack) -> Option<LockKind> {
    let frames = stack.frames.iter().take(INNER).filter_map(|frame| stacks.place(frame.place));
    frames.flat_map(|place| &place.functions).find_map(|function| by_name(&function.name))
}

/// What a function with this name waits for.
pub(super) fn by_name(name: &str) -> Option<LockKind> {
    let name = name.trim_start_matches(['_', '<']);
    NAMES.iter().find(|(known, _)| name.starts_with(known)).map(|(_, kind)| *kind)
}
