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
}
