//! The threads of a dump, by the numbers that are in its memory.

use biopsy_image::{Image, OwnNumbers};
use biopsy_model::Tid;
use rustc_hash::FxHashMap;

use super::lock::LockOwner;

/// The threads of the dump.
#[derive(Debug)]
pub(in crate::dump) struct Tids {
    /// By the numbers that threads have for themselves: those are in their memory.
    own: OwnNumbers,
    /// No thread id is above it: `/proc/sys/kernel/pid_max` is at most 2^22.
    max: u32,
    /// The parent, whose threads may have held what was copied by fork.
    parent: Option<u32>,
    /// How many threads are in `futex(2)`, by its first argument.
    at_futex: FxHashMap<u64, u32>,
}

impl Tids {
    pub(in crate::dump) fn new(image: &dyn Image) -> Self {
        let mut at_futex = FxHashMap::default();
        for registers in image.threads().iter().filter_map(|thread| thread.registers.as_ref()) {
            if registers.system_call() == Some(202) {
                *at_futex.entry(registers.rdi).or_default() += 1;
            }
        }
        let parent = image.process().parent.map(|parent| parent.0).filter(|parent| *parent > 1);
        Self { own: OwnNumbers::of(image), max: 1 << 22, parent, at_futex }
    }

    pub(super) fn has(&self, tid: u32) -> bool {
        tid != 0 && self.own.thread(tid).is_some()
    }

    pub(super) fn could_be(&self, tid: u32) -> bool {
        tid != 0 && tid <= self.max
    }

    /// The parent's main thread: the one that called fork, for the most part.
    pub(super) fn is_parent(&self, tid: u32) -> bool {
        self.parent == Some(tid)
    }

    pub(super) fn owner(&self, tid: u32) -> LockOwner {
        match self.own.thread(tid) {
            Some(tid) => LockOwner::Thread(tid),
            // It may be one whose number is not known.
            None if !self.own.is_complete() => LockOwner::NotKnown,
            None => LockOwner::Elsewhere(Tid(tid)),
        }
    }

    /// How many threads are in `futex(2)` at this address.
    pub(super) fn waiting_at(&self, futex: u64) -> u32 {
        self.at_futex.get(&futex).copied().unwrap_or(0)
    }
}
