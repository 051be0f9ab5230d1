//! Kinds of locks by what their code does to their word, and what one instruction or call means for one.

/// How code takes and gives back a lock: what its word looks like decides which instructions count.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LockFamily {
    /// By calls alone, whose first argument is the lock: `pthread_rwlock_t`, `sem_t`, `pthread_mutex_t`.
    Calls,
    /// A word of 32 bits that is 0 when free: `Mutex` of Rust's standard library.
    Word,
    /// A byte whose lowest bit says that it is held: `Mutex` of parking_lot.
    Byte,
    /// A word of 32 bits that counts readers from 1, a writer is 0x3fff_ffff: `RwLock` of Rust's standard library.
    Readers,
    /// A word of 64 bits that counts readers from 16, a writer is 8: `RwLock` of parking_lot.
    ReadersFrom16,
    /// A word of 32 bits that counts what is left: `std::counting_semaphore` of libstdc++. Taken by an exchange for one less.
    Counter,
    /// A word that one spins at: given back by a plain store. `free`: its value when free.
    Spin {
        /// 1 for `pthread_spinlock_t`, 0 for others.
        free: u8,
    },
}

/// What for a lock is taken.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum HoldMode {
    /// Alone: a mutex, or a read-write lock to write.
    Alone,
    /// Among others: a read-write lock to read.
    Shared,
    /// Only a call was seen, and it serves both.
    NotKnown,
}

/// One step on a way: a lock is taken, or given back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Step {
    pub(super) takes: bool,
    pub(super) mode: HoldMode,
}

const fn takes(mode: HoldMode) -> Step {
    Step { takes: true, mode }
}

const fn gives(mode: HoldMode) -> Step {
    Step { takes: false, mode }
}

/// Rust's standard library (library/std/src/sys/sync/rwlock/futex.rs): the value of a writer.
const WRITER: u64 = 0x3fff_ffff;
/// parking_lot (src/raw_rwlock.rs).
const WRITER_BIT: u64 = 8;

impl LockFamily {
    /// `lock cmpxchg` that succeeded: `expected` was there and `new` is.
    pub(super) fn exchanged(self, expected: u64, new: u64) -> Option<Step> {
        match self {
            Self::Calls => None,
            Self::Counter => self.added(new.wrapping_sub(expected) & 0xffff_ffff),
            Self::Word => match (expected & 0xffff_ffff, new & 0xffff_ffff) {
                (0, 1..) => Some(takes(HoldMode::Alone)),
                (1.., 0) => Some(gives(HoldMode::Alone)),
                _ => None,
            },
            Self::Byte => match (expected & 1, new & 1) {
                (0, 1) => Some(takes(HoldMode::Alone)),
                (1, 0) => Some(gives(HoldMode::Alone)),
                _ => None,
            },
            Self::Readers => self.added(new.wrapping_sub(expected) & 0xffff_ffff),
            Self::ReadersFrom16 => match (expected & WRITER_BIT, new & WRITER_BIT) {
                (0, WRITER_BIT) => Some(takes(HoldMode::Alone)),
                (WRITER_BIT, 0) => Some(gives(HoldMode::Alone)),
                _ => self.added(new.wrapping_sub(expected)),
            },
            Self::Spin { free } => {
                match (expected & 0xff == u64::from(free), new & 0xff == u64::from(free)) {
                    (true, false) => Some(takes(HoldMode::Alone)),
                    (false, true) => Some(gives(HoldMode::Alone)),
                    _ => None,
                }
            }
        }
    }

    /// The same with values that are not known.
    pub(super) fn exchanged_unknown(self) -> Option<Step> {
        (self == Self::Counter).then_some(takes(HoldMode::Shared))
    }

    /// `lock xadd`, `add`, `sub`, `inc`, `dec`: the word changes by `amount`, as a number of its size.
    pub(super) fn added(self, amount: u64) -> Option<Step> {
        match self {
            Self::Counter => match (amount as u32).cast_signed() {
                1.. => Some(gives(HoldMode::Shared)),
                0 => None,
                i32::MIN..=-1 => Some(takes(HoldMode::Shared)),
            },
            Self::Readers => match amount & 0xffff_ffff {
                1 => Some(takes(HoldMode::Shared)),
                0xffff_ffff => Some(gives(HoldMode::Shared)),
                WRITER => Some(takes(HoldMode::Alone)),
                0xc000_0001 => Some(gives(HoldMode::Alone)),
                _ => None,
            },
            Self::ReadersFrom16 => {
                let signed = amount.cast_signed();
                match signed {
                    // Bit 2 goes along for an upgradable reader.
                    16 | 20 => Some(takes(HoldMode::Shared)),
                    -16 | -20 => Some(gives(HoldMode::Shared)),
                    -8 => Some(gives(HoldMode::Alone)),
                    _ => None,
                }
            }
            // `lock dec` of a spin lock that is 1 when free.
            Self::Spin { free: 1 } if amount & 0xff == 0xff => Some(takes(HoldMode::Alone)),
            Self::Spin { .. } | Self::Calls | Self::Word | Self::Byte => None,
        }
    }

    /// `xchg` of the word for `new`. For what it takes, only the caller's look at the old value says whether it did.
    pub(super) fn swapped(self, new: u64) -> Option<Step> {
        match self {
            Self::Word => Some(if new & 0xffff_ffff == 0 { gives } else { takes }(HoldMode::Alone)),
            Self::Byte => Some(if new & 1 == 0 { gives } else { takes }(HoldMode::Alone)),
            Self::Spin { free } => {
                Some(if new & 0xff == u64::from(free) { gives } else { takes }(HoldMode::Alone))
            }
            Self::ReadersFrom16 if new & !3 == 0 => Some(gives(HoldMode::Alone)),
            Self::Calls | Self::Counter | Self::Readers | Self::ReadersFrom16 => None,
        }
    }

    /// A plain store of `new`.
    pub(super) fn stored(self, new: u64) -> Option<Step> {
        match self {
            Self::Spin { free } => (new & 0xff == u64::from(free)).then_some(gives(HoldMode::Alone)),
            Self::Byte => (new & 1 == 0).then_some(gives(HoldMode::Alone)),
            Self::Calls | Self::Counter | Self::Word | Self::Readers | Self::ReadersFrom16 => None,
        }
    }

    /// The lock's word in bytes.
    pub(super) fn is_size(self, bytes: usize) -> bool {
        match self {
            Self::Calls => false,
            Self::Word | Self::Readers | Self::Counter => bytes == 4,
            Self::Byte => bytes == 1,
            Self::ReadersFrom16 => bytes == 8,
            Self::Spin { .. } => matches!(bytes, 1 | 4),
        }
    }

    /// What is found in a lock that is free.
    pub(super) fn free_value(self) -> u64 {
        match self {
            Self::Spin { free } => u64::from(free),
            Self::Calls | Self::Counter | Self::Word | Self::Byte | Self::Readers | Self::ReadersFrom16 => 0,
        }
    }

    /// What is found in a lock that is held.
    pub(super) fn held_value(self) -> u64 {
        match self {
            Self::Spin { free } => u64::from(1 - free.min(1)),
            Self::Calls | Self::Counter | Self::Word | Self::Byte | Self::Readers | Self::ReadersFrom16 => 1,
        }
    }

    /// A plain store may give it back.
    pub(super) fn by_stores(self) -> bool {
        matches!(self, Self::Spin { .. })
    }
}

/// What a call of a function of this name does to the lock that is its first argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Called {
    /// A lock is taken or given back, or, if `may_fail`, perhaps not.
    Step { step: Step, may_fail: bool },
    /// Does not come back.
    Ends,
    /// Nothing to locks, although its code may look so.
    Nothing,
}

/// By the name as it stands in symbol tables: mangled names contain the plain one.
pub(super) fn called(name: &str) -> Option<Called> {
    let step = |step| Some(Called::Step { step, may_fail: false });
    let tries = |step| Some(Called::Step { step, may_fail: true });
    let plain = name.strip_prefix("__").unwrap_or(name);
    let plain = plain.split_once('@').map_or(plain, |(plain, _)| plain);
    match plain {
        "pthread_mutex_unlock" | "pthread_spin_unlock" => return step(gives(HoldMode::Alone)),
        // The first use of a variable that a function keeps (Itanium C++ ABI, 3.3.3).
        "cxa_guard_release" | "cxa_guard_abort" => return step(gives(HoldMode::Alone)),
        "cxa_guard_acquire" => return tries(takes(HoldMode::Alone)),
        "pthread_rwlock_unlock" => return step(gives(HoldMode::NotKnown)),
        "sem_post" | "new_sem_post" => return step(gives(HoldMode::Shared)),
        "pthread_mutex_lock" | "pthread_spin_lock" | "pthread_rwlock_wrlock" => {
            return step(takes(HoldMode::Alone));
        }
        "pthread_rwlock_rdlock" => return step(takes(HoldMode::Shared)),
        "sem_wait" | "new_sem_wait" => return step(takes(HoldMode::Shared)),
        "pthread_mutex_trylock"
        | "pthread_mutex_timedlock"
        | "pthread_mutex_clocklock"
        | "pthread_spin_trylock"
        | "pthread_rwlock_trywrlock"
        | "pthread_rwlock_timedwrlock"
        | "pthread_rwlock_clockwrlock" => return tries(takes(HoldMode::Alone)),
        "pthread_rwlock_tryrdlock"
        | "pthread_rwlock_timedrdlock"
        | "pthread_rwlock_clockrdlock"
        | "sem_trywait"
        | "sem_timedwait"
        | "sem_clockwait" => return tries(takes(HoldMode::Shared)),
        "_Unwind_Resume"
        | "abort"
        | "exit"
        | "_exit"
        | "quick_exit"
        | "assert_fail"
        | "stack_chk_fail"
        | "cxa_throw"
        | "cxa_rethrow"
        | "longjmp"
        | "siglongjmp"
        | "longjmp_chk"
        | "pthread_exit"
        | "clang_call_terminate"
        | "cxa_bad_cast"
        | "fortify_fail" => return Some(Called::Ends),
        _ => {}
    }
    // Of C++ and Rust.
    const ENDS: &[&str] = &[
        "__throw_",
        "9terminatev",
        "panicking",
        "begin_panic",
        "panic_fmt",
        "panic_bounds_check",
        "unwrap_failed",
        "expect_failed",
        "handle_alloc_error",
        "rust_panic",
        "_Unwind_Resume",
    ];
    if ENDS.iter().any(|end| name.contains(end)) && !name.contains("panic_count") {
        return Some(Called::Ends);
    }
    const SLOW: &[(&str, Step)] = &[
        ("unlock_exclusive_slow", gives(HoldMode::Alone)),
        ("unlock_shared_slow", gives(HoldMode::Shared)),
        ("unlock_upgradable_slow", gives(HoldMode::Shared)),
        ("unlock_fair_slow", gives(HoldMode::Alone)),
        ("unlock_slow", gives(HoldMode::Alone)),
        ("lock_exclusive_slow", takes(HoldMode::Alone)),
        ("lock_shared_slow", takes(HoldMode::Shared)),
        ("lock_upgradable_slow", takes(HoldMode::Shared)),
        ("lock_slow", takes(HoldMode::Alone)),
        ("lock_contended", takes(HoldMode::Alone)),
        ("read_contended", takes(HoldMode::Shared)),
        ("write_contended", takes(HoldMode::Alone)),
    ];
    if let Some((_, slow)) = SLOW.iter().find(|(slow, _)| name.contains(slow)) {
        return step(*slow);
    }
    // What wakes waiters after an unlock whose word was written before.
    let wakes = name.contains("5Mutex4wake") || name.contains("wake_writer_or_readers");
    wakes.then_some(Called::Nothing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(name: &str) -> Option<(bool, HoldMode)> {
        match called(name) {
            Some(Called::Step { step, .. }) => Some((step.takes, step.mode)),
            _ => None,
        }
    }

    #[test]
    fn names_of_symbol_tables_are_known() {
        assert_eq!(step("pthread_rwlock_unlock"), Some((false, HoldMode::NotKnown)));
        assert_eq!(step("__pthread_rwlock_unlock"), Some((false, HoldMode::NotKnown)));
        assert_eq!(step("pthread_rwlock_rdlock@GLIBC_2.34"), Some((true, HoldMode::Shared)));
        assert_eq!(
            step("_ZN11parking_lot9raw_mutex8RawMutex11unlock_slow17h0E"),
            Some((false, HoldMode::Alone))
        );
        assert_eq!(step("_ZN11parking_lot9raw_mutex8RawMutex9lock_slow17h0E"), Some((true, HoldMode::Alone)));
        let contended = "_ZN3std3sys4sync5mutex5futex5Mutex14lock_contended17h8eE";
        assert_eq!(step(contended), Some((true, HoldMode::Alone)));
        assert_eq!(called("_ZN3std3sys4sync5mutex5futex5Mutex4wake17h8eE"), Some(Called::Nothing));
        assert_eq!(called("_ZN4core9panicking5panic17h8eE"), Some(Called::Ends));
        assert_eq!(called("_ZN3std9panicking11panic_count17is_zero_slow_path17hE"), None);
        assert_eq!(called("memcpy"), None);
    }

    #[test]
    fn words_say_which_mode_is_given_back() {
        let readers = LockFamily::Readers;
        assert_eq!(readers.added((-1_i64).cast_unsigned()), Some(gives(HoldMode::Shared)));
        assert_eq!(readers.added((-0x3fff_ffff_i64).cast_unsigned()), Some(gives(HoldMode::Alone)));
        assert_eq!(readers.exchanged(0, WRITER), Some(takes(HoldMode::Alone)));
        assert_eq!(readers.exchanged(5, 6), Some(takes(HoldMode::Shared)));
        let from_16 = LockFamily::ReadersFrom16;
        assert_eq!(from_16.exchanged(8, 0), Some(gives(HoldMode::Alone)));
        assert_eq!(from_16.added((-16_i64).cast_unsigned()), Some(gives(HoldMode::Shared)));
        assert_eq!(from_16.exchanged(0x21, 0x31), Some(takes(HoldMode::Shared)));
        assert_eq!(LockFamily::Byte.exchanged(3, 2), Some(gives(HoldMode::Alone)));
        assert_eq!(LockFamily::Word.exchanged(0, 1), Some(takes(HoldMode::Alone)));
        assert_eq!(LockFamily::Word.exchanged(1, 2), None, "it was held before and after");
        assert_eq!(LockFamily::Calls.exchanged(0, 1), None);
    }
}
