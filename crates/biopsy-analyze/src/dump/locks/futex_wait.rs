//! A wait at a futex, with the words around it.

use biopsy_image::{GeneralRegisters, Image, MemoryExt, Thread};

use super::lock::{LockKind, LockOwner, LockWait};
use super::tids::Tids;

pub(super) const FUTEX_WAIT: u64 = 0;
pub(super) const FUTEX_LOCK_PI: u64 = 6;
pub(super) const FUTEX_WAIT_BITSET: u64 = 9;
pub(super) const FUTEX_LOCK_PI2: u64 = 13;
/// FUTEX_PRIVATE_FLAG; the next bit is FUTEX_CLOCK_REALTIME.
const PRIVATE: u64 = 128;

/// A call of `futex(2)` that waits.
pub(super) struct FutexWait<'a> {
    pub(super) image: &'a dyn Image,
    pub(super) tids: &'a Tids,
    pub(super) futex: u64,
    pub(super) operation: u64,
    pub(super) private: bool,
    /// The value that was waited for to change.
    pub(super) expected: u32,
    /// The value now.
    pub(super) word: Option<u32>,
    /// Its fourth argument is a time.
    pub(super) timed: bool,
    /// Where the thread's stack is used from.
    pub(super) sp: u64,
    /// What the functions say, where they have names.
    pub(super) named: Option<LockKind>,
}

impl<'a> FutexWait<'a> {
    /// `None`: it does not wait.
    pub(super) fn of(
        image: &'a dyn Image,
        tids: &'a Tids,
        thread: &Thread,
        named: Option<LockKind>,
    ) -> Option<Self> {
        let GeneralRegisters { rdi: futex, rsi, rdx, r10, rsp, .. } = *thread.registers.as_ref()?;
        let operation = rsi & 0x7f;
        let waits = matches!(operation, FUTEX_WAIT | FUTEX_WAIT_BITSET | FUTEX_LOCK_PI | FUTEX_LOCK_PI2);
        waits.then(|| Self {
            image,
            tids,
            futex,
            operation,
            private: rsi & PRIVATE != 0,
            expected: rdx as u32,
            word: image.read_u32(futex).ok(),
            timed: r10 != 0,
            sp: rsp,
            named,
        })
    }

    /// The 32-bit word that lies `offset` bytes from the futex.
    pub(super) fn at(&self, offset: i64) -> Option<u32> {
        self.image.read_u32(self.futex.checked_add_signed(offset)?).ok()
    }

    pub(super) fn long_at(&self, offset: i64) -> Option<u64> {
        self.image.read_u64(self.futex.checked_add_signed(offset)?).ok()
    }

    /// It waits for a word to change, and the word has not.
    pub(super) fn is_wait(&self) -> bool {
        matches!(self.operation, FUTEX_WAIT | FUTEX_WAIT_BITSET)
    }

    pub(super) fn is_unchanged(&self) -> bool {
        self.is_wait() && self.word == Some(self.expected)
    }

    /// Names agree, or there are none.
    pub(super) fn is(&self, kinds: &[LockKind]) -> bool {
        self.named.is_none_or(|named| kinds.contains(&named))
    }

    /// The lock that the futex is a part of: `before` bytes from it.
    pub(super) fn lock(&self, before: u64, kind: LockKind, owner: LockOwner, proof: String) -> LockWait {
        LockWait {
            futex: self.futex,
            lock: self.futex.wrapping_sub(before),
            kind,
            owner,
            proof,
            timed: self.timed,
            ..LockWait::default()
        }
    }
}
