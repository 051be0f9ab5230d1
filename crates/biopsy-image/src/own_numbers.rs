//! The numbers that threads have for themselves.
//!
//! A process in a pid namespace (in a container) knows its threads by other numbers than those who look at it from outside, and a dump
//! has the numbers of whoever wrote it: the kernel writes the inner ones, gdb, createdump and biopsy on the host the outer ones.
//! What is in memory, the owner of a mutex for example, is always an inner one. Taken for an outer one it names nobody, or the
//! wrong thread.
//!
//! The C library keeps the inner number of each thread in its control block, which `fs_base` points to:
//!
//! ```text
//! glibc  struct pthread   0 and 0x10: its own address   0x2d0 tid     (x86-64; the same since 2.4)
//! musl   struct pthread   0: its own address            0x30 tid      (since 1.2; 0x38 before)
//! ```

use std::collections::{BTreeMap, BTreeSet};

use biopsy_model::Tid;

use crate::{Image, MemoryExt};

/// Offsets of the number in a control block, and whether the block has its address at 0x10 too.
const PLACES: [(u64, bool); 3] = [(0x2d0, true), (0x30, false), (0x38, false)];
/// No thread id is above it: `/proc/sys/kernel/pid_max` is at most 2^22.
const MAX: u32 = 1 << 22;

/// Which thread of an image has which number for itself.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct OwnNumbers {
    /// By inner number; empty: the numbers of the image are the inner ones, as far as can be told.
    inner: BTreeMap<u32, Tid>,
    outer: BTreeSet<Tid>,
}

impl OwnNumbers {
    /// Finds them out.
    #[must_use]
    pub fn of(image: &dyn Image) -> Self {
        let outer: BTreeSet<Tid> = image.threads().iter().map(|thread| thread.tid).collect();
        let inner = PLACES.into_iter().map(|place| at(image, place)).find(|found| !found.is_empty());
        let inner = inner.unwrap_or_default();
        // One that agrees proves that all are of one namespace. Numbers that two threads claim are none.
        let same = inner.iter().any(|(number, tid)| number.as_ref() == Some(&tid.0));
        let numbered: BTreeMap<u32, Tid> =
            inner.iter().filter_map(|(number, tid)| Some(((*number)?, *tid))).collect();
        let distinct = numbered.len() == inner.iter().filter(|(number, _)| number.is_some()).count();
        Self { inner: if same || !distinct { BTreeMap::new() } else { numbered }, outer }
    }

    /// The thread that has this number for itself; `None`: no thread of the image, or it cannot be told.
    #[must_use]
    pub fn thread(&self, number: u32) -> Option<Tid> {
        if self.inner.is_empty() {
            return self.outer.get(&Tid(number)).copied();
        }
        self.inner.get(&number).copied()
    }

    /// Whether the number of each thread is known, so that one that is not found is no thread of the image.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.inner.is_empty() || self.inner.len() == self.outer.len()
    }

    /// Whether threads have other numbers for themselves than in the image.
    #[must_use]
    pub fn differ(&self) -> bool {
        !self.inner.is_empty()
    }
}

/// What each thread has at this place of its control block, for those that have a control block of this kind.
fn at(image: &dyn Image, (offset, twice): (u64, bool)) -> Vec<(Option<u32>, Tid)> {
    let number = |base: u64| {
        let is_own = |at: u64| image.read_u64(base.checked_add(at)?).ok().map(|word| word == base);
        if !is_own(0)? || is_own(0x10)? != twice {
            return None;
        }
        let number = image.read_u32(base.checked_add(offset)?).ok()?;
        // Cleared when the thread is about to be gone.
        (1..=MAX).contains(&number).then_some(number)
    };
    let threads = image.threads().iter();
    let found: Vec<_> = threads
        .map(|thread| {
            let base = thread.registers.as_ref().map(|registers| registers.fs_base).filter(|base| *base != 0);
            (base.and_then(number), thread.tid)
        })
        .collect();
    if found.iter().any(|(number, _)| number.is_some()) { found } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::CoreBuilder;
    use crate::{GeneralRegisters, Limits, open_bytes};

    const BLOCKS: u64 = 0x7000_0000;

    /// Threads by number outside, and what their control blocks say; `None`: no block.
    fn numbers(threads: &[(u32, Option<u32>)], musl: bool) -> OwnNumbers {
        let mut core = CoreBuilder::new();
        let mut memory = vec![0_u8; 0x1000 * threads.len()];
        for (index, (tid, number)) in threads.iter().enumerate() {
            let base = BLOCKS + 0x1000 * index as u64;
            let registers = GeneralRegisters { fs_base: base, ..GeneralRegisters::default() };
            core = core.thread(*tid, 0, &registers);
            let Some(number) = number else { continue };
            let mut put = |at: usize, bytes: &[u8]| {
                let start = 0x1000 * index + at;
                memory[start..start + bytes.len()].copy_from_slice(bytes);
            };
            put(0, &base.to_le_bytes());
            if !musl {
                put(0x10, &base.to_le_bytes());
            }
            put(if musl { 0x30 } else { 0x2d0 }, &number.to_le_bytes());
        }
        let opened = open_bytes("test", core.memory(BLOCKS, 6, memory).build(), &Limits::default()).unwrap();
        OwnNumbers::of(&*opened.image)
    }

    #[test]
    fn of_one_namespace() {
        for musl in [false, true] {
            let found = numbers(&[(4711, Some(4711)), (4712, Some(4712))], musl);
            assert_eq!((found.thread(4712), found.thread(2)), (Some(Tid(4712)), None));
            assert!(found.is_complete() && !found.differ());
        }
        // Without control blocks of a C library (Go, for example) nothing else is known.
        let found = numbers(&[(4711, None), (4712, None)], false);
        assert_eq!(found.thread(4711), Some(Tid(4711)));
        assert!(found.is_complete());
    }

    #[test]
    fn of_another_namespace() {
        for musl in [false, true] {
            let found = numbers(&[(4711, Some(1)), (4720, Some(8))], musl);
            assert_eq!((found.thread(1), found.thread(8)), (Some(Tid(4711)), Some(Tid(4720))));
            assert_eq!(found.thread(4711), None, "nobody in there has that number");
            assert!(found.is_complete() && found.differ());
        }
        let found = numbers(&[(4711, Some(1)), (4720, None)], false);
        assert_eq!(found.thread(1), Some(Tid(4711)));
        assert!(!found.is_complete(), "one may be anybody");
    }

    #[test]
    fn nonsense_is_not_believed() {
        let found = numbers(&[(4711, Some(7)), (4712, Some(7))], false);
        assert_eq!((found.thread(7), found.thread(4711)), (None, Some(Tid(4711))));
        let found = numbers(&[(4711, Some(0)), (4712, Some(u32::MAX))], false);
        assert_eq!(found.thread(4711), Some(Tid(4711)));
    }
}
