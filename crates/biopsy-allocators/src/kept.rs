//! The blocks in use, one by one, for whoever wants to know what they are.

use biopsy_model::Avma;

/// A block that a program has and has not given back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct UsedBlock {
    /// The first byte that the program sees.
    pub start: Avma,
    /// Bytes that it may use.
    pub size: u64,
}

/// From a chunk of glibc to what the program sees.
const BACK: u64 = 16;
/// Of a chunk in a heap, the program may also use the first word of the one behind.
const BEHIND: u64 = 8;

/// A list of blocks, as long as they are not too many.
#[derive(Default)]
pub(crate) struct Kept {
    /// How many more fit; `None`: nobody wants them, or they were too many.
    room: Option<usize>,
    used: Vec<UsedBlock>,
    /// Those of them that a cache keeps after they were given back, by their chunk.
    cached: Vec<u64>,
}

impl Kept {
    /// Up to so many.
    pub(crate) fn up_to(most: usize) -> Self {
        Self { room: Some(most), ..Self::default() }
    }

    #[inline]
    pub(crate) fn used(&mut self, chunk: u64, size: u64) {
        self.block(chunk.saturating_add(BACK), size.saturating_sub(BACK - BEHIND));
    }

    pub(crate) fn mapped(&mut self, chunk: u64, size: u64) {
        self.block(chunk.saturating_add(BACK), size.saturating_sub(BACK));
    }

    /// A block without a header.
    #[inline]
    pub(crate) fn block(&mut self, start: u64, size: u64) {
        let Some(room) = &mut self.room else { return };
        match room.checked_sub(1) {
            Some(less) => {
                *room = less;
                self.used.push(UsedBlock { start: Avma(start), size });
            }
            None => *self = Self::default(),
        }
    }

    pub(crate) fn is_cached(&mut self, chunk: u64) {
        self.block_is_cached(chunk.saturating_add(BACK));
    }

    /// A block without a header is kept by a cache.
    pub(crate) fn block_is_cached(&mut self, start: u64) {
        if self.room.is_some() {
            self.cached.push(start);
        }
    }

    /// Whether blocks are wanted, and were not too many so far.
    pub(crate) fn is_wanted(&self) -> bool {
        self.room.is_some()
    }

    /// All that are in use, by address; `None`: nobody wants them, or they are too many.
    pub(crate) fn finish(mut self) -> Option<Vec<UsedBlock>> {
        self.room?;
        self.cached.sort_unstable();
        self.used.retain(|block| self.cached.binary_search(&block.start.0).is_err());
        self.used.sort_unstable();
        Some(self.used)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_cache_keeps_is_not_in_use_and_too_many_are_none() {
        let fill = |most| {
            let mut kept = Kept::up_to(most);
            kept.used(0x2000, 48);
            kept.used(0x1000, 32);
            kept.mapped(0x9000, 4096);
            kept.is_cached(0x2000);
            kept.finish()
        };
        let expected =
            [(0x1010, 24), (0x9010, 4080)].map(|(start, size)| UsedBlock { start: Avma(start), size });
        assert_eq!(fill(3).as_deref(), Some(&expected[..]));
        assert_eq!(fill(2), None);
        assert_eq!(Kept::default().finish(), None);
    }

    /// Sizes and places that only a broken dump has do not go round.
    #[test]
    fn blocks_at_the_ends_of_all_numbers_are_small_and_last() {
        for (chunk, size, start, bytes) in [
            (0, 0, 16, 0),
            (0, 8, 16, 0),
            (0, 9, 16, 1),
            (u64::MAX, 32, u64::MAX, 24),
            (u64::MAX - 16, u64::MAX, u64::MAX, u64::MAX - 8),
        ] {
            let mut kept = Kept::up_to(1);
            kept.used(chunk, size);
            let block = UsedBlock { start: Avma(start), size: bytes };
            assert_eq!(kept.finish(), Some(vec![block]), "{size} bytes at {chunk:#x}");
        }
    }

    #[test]
    fn who_wants_no_blocks_is_asked_for_none() {
        let mut kept = Kept::default();
        kept.used(0x1000, 32);
        kept.is_cached(0x1000);
        assert!(!kept.is_wanted() && kept.used.is_empty() && kept.cached.is_empty());
        let mut kept = Kept::up_to(1);
        kept.used(0x1000, 32);
        assert!(kept.is_wanted(), "as many as are wanted");
        kept.used(0x2000, 32);
        assert!(!kept.is_wanted() && kept.used.capacity() == 0, "what was too much takes no memory");
        kept.block(0x3000, 8);
        assert_eq!(kept.finish(), None);
    }

    proptest! {
        /// Held against what the sentence says: those in use that no cache keeps, by address.
        #[test]
        fn what_is_listed_is_in_use_and_in_no_cache(
            rows in prop::collection::vec((0..30_u64, 0..3_u8), 0..40), most in 0..40_usize,
        ) {
            let mut kept = Kept::up_to(most);
            let (mut used, mut cached) = (Vec::new(), BTreeSet::new());
            for (number, what) in rows {
                let start = 0x1000 + number * 64;
                match what {
                    0 => {
                        kept.block(start, 64);
                        used.push(UsedBlock { start: Avma(start), size: 64 });
                    }
                    1 => {
                        kept.used(start - BACK, 64 + BACK - BEHIND);
                        used.push(UsedBlock { start: Avma(start), size: 64 });
                    }
                    _ => {
                        kept.is_cached(start - BACK);
                        cached.insert(start);
                    }
                }
            }
            let fits = used.len() <= most;
            used.retain(|block| !cached.contains(&block.start.0));
            used.sort();
            prop_assert_eq!(kept.finish(), fits.then_some(used));
        }
    }
}
