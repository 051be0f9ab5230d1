//! Words of memory read in order, in large pieces.

use biopsy_image::{Image, MemoryExt};

/// Bytes of the first piece: what lies around one header. Lists of free blocks lead anywhere, and copying is most of what they cost.
const FIRST: usize = 256;
/// So far behind a piece the reader still goes on from it.
const NEAR: u64 = 4 << 10;
/// Most bytes at once, reached by doubling while the reader goes on where the last piece ended.
const LARGEST: usize = 1 << 20;

/// A piece of memory that was read, and moves with the reader.
pub(crate) struct Window<'i> {
    image: &'i dyn Image,
    start: u64,
    bytes: Vec<u8>,
    /// Of these, how many were there.
    filled: usize,
    next: usize,
}

impl<'i> Window<'i> {
    pub(crate) fn new(image: &'i dyn Image) -> Self {
        Self { image, start: 0, bytes: Vec::new(), filled: 0, next: FIRST }
    }

    /// The word at `address`; `None` where it is not in the image.
    pub(crate) fn word(&mut self, address: u64) -> Option<u64> {
        if let Some(word) = self.held(address) {
            return Some(word);
        }
        let end = self.start.wrapping_add(self.filled as u64);
        let goes_on = self.filled > 0 && address >= self.start && address.wrapping_sub(end) < NEAR;
        self.next = if goes_on { (self.next * 2).min(LARGEST) } else { FIRST };
        self.bytes.resize(self.next, 0);
        self.start = address;
        self.filled = self.image.read_available(address, &mut self.bytes);
        self.held(address)
    }

    fn held(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.start)?).ok()?;
        let bytes = self.bytes.get(..self.filled)?.get(at..at.checked_add(8)?)?;
        bytes.try_into().ok().map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use biopsy_image::{Absence, ImageModule, Mapping, ProcessFacts, ReadError, Thread};
    use proptest::prelude::*;

    use super::*;

    /// Words that are their own addresses, from `start` to `end` without a hole between; counts reads.
    struct Words {
        start: u64,
        end: u64,
        hole: u64,
        process: ProcessFacts,
        reads: AtomicUsize,
    }

    impl Words {
        fn new(start: u64, end: u64, hole: u64) -> Self {
            Self { start, end, hole, process: ProcessFacts::default(), reads: AtomicUsize::new(0) }
        }

        fn byte(&self, at: u64) -> Option<u8> {
            let is_there = at >= self.start && at < self.end && at / 8 * 8 != self.hole;
            is_there.then(|| (at / 8 * 8).to_le_bytes()[(at % 8) as usize])
        }

        fn reads(&self) -> usize {
            self.reads.swap(0, Ordering::Relaxed)
        }
    }

    impl Image for Words {
        fn read(&self, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
            self.reads.fetch_add(1, Ordering::Relaxed);
            let mut done = 0;
            for (at, to) in (address..=u64::MAX).zip(buffer) {
                let Some(byte) = self.byte(at) else { break };
                *to = byte;
                done += 1;
            }
            if done == 0 { Err(ReadError::Missing { address, why: Absence::Unmapped }) } else { Ok(done) }
        }

        fn mappings(&self) -> &[Mapping] {
            &[]
        }

        fn threads(&self) -> &[Thread] {
            &[]
        }

        fn modules(&self) -> &[ImageModule] {
            &[]
        }

        fn process(&self) -> &ProcessFacts {
            &self.process
        }
    }

    #[test]
    fn words_in_order_take_few_reads() {
        let words = Words::new(0, 1 << 20, u64::MAX);
        let mut window = Window::new(&words);
        for at in (0..1 << 20).step_by(8) {
            assert_eq!(window.word(at), Some(at));
        }
        // 256 bytes, then twice as many each time; the last piece ends where memory does.
        assert!(words.reads() <= 14, "more than one for each doubling");
    }

    /// Lists lead anywhere: what is copied for a word far away is what lies around it.
    #[test]
    fn a_word_far_away_begins_small_again() {
        let words = Words::new(0, 1 << 22, u64::MAX);
        let mut window = Window::new(&words);
        for at in (0..1 << 16).step_by(8) {
            window.word(at);
        }
        assert_eq!(window.word(1 << 21), Some(1 << 21));
        assert_eq!(window.bytes.len(), FIRST);
        assert_eq!(window.word(8), Some(8), "and back");
        assert_eq!(window.bytes.len(), FIRST);
    }

    #[test]
    fn words_at_the_ends_of_memory_are_whole_or_not_there() {
        let last = u64::MAX - 15;
        for (start, end, at, word) in [
            (0x1000, 0x2000, 0xff8, None),
            (0x1000, 0x2000, 0xffc, None),
            (0x1000, 0x2000, 0x1000, Some(0x1000)),
            (0x1000, 0x2000, 0x1ff8, Some(0x1ff8)),
            (0x1000, 0x2000, 0x1ff9, None),
            (0x1000, 0x2000, 0x2000, None),
            (0x1000, 0x1ffc, 0x1ff8, None),
            (last, u64::MAX, last, Some(last)),
            (last, u64::MAX, last + 8, None),
            (last, u64::MAX, u64::MAX, None),
        ] {
            let words = Words::new(start, end, u64::MAX);
            assert_eq!(Window::new(&words).word(at), word, "{at:#x} of {start:#x}..{end:#x}");
        }
    }

    proptest! {
        /// In whatever order words are asked for, each is what a read of it alone gives, at the price of two reads at most.
        #[test]
        fn each_word_is_what_a_read_of_it_alone_gives(
            places in prop::collection::vec(0..0x500_u64, 1..200), hole in 0..0x280_u64, start in 0..4_u64,
        ) {
            let words = Words::new(start * 8, 0x1400, hole * 16);
            let mut window = Window::new(&words);
            for at in places.into_iter().map(|place| place * 8) {
                let found = window.word(at);
                prop_assert!(words.reads() <= 2, "at {:#x}", at);
                prop_assert_eq!(found, words.read_u64(at).ok(), "at {:#x}", at);
                words.reads();
            }
        }
    }
}
