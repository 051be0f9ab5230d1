//! Memory read in large pieces, in order of addresses.

use std::ops::Range;

use biopsy_image::{Image, MemoryExt, PAGE_SIZE};

/// Bytes of a piece.
const PIECE: usize = 1 << 20;

/// Small pieces of memory that are read in order of their addresses.
pub(crate) struct InOrder<'i> {
    image: &'i dyn Image,
    start: u64,
    bytes: Vec<u8>,
    filled: usize,
    /// Memory ends where the piece ends.
    is_last: bool,
}

impl<'i> InOrder<'i> {
    pub(crate) fn new(image: &'i dyn Image) -> Self {
        Self { image, start: 0, bytes: Vec::new(), filled: 0, is_last: false }
    }

    /// The bytes of a range, as many as there are from its beginning on, up to the size of a piece.
    pub(crate) fn get(&mut self, start: u64, size: u64) -> &[u8] {
        let size = usize::try_from(size).unwrap_or(PIECE).min(PIECE);
        let offset = start.wrapping_sub(self.start);
        let held = start >= self.start && offset.saturating_add(size as u64) <= self.filled as u64;
        // What ended where memory ends is not asked for again.
        let ends_here =
            self.is_last && (self.start..self.start.saturating_add(self.filled as u64)).contains(&start);
        if !held && !ends_here {
            self.bytes.resize(PIECE, 0);
            self.start = start;
            self.filled = self.image.read_available(start, &mut self.bytes);
            self.is_last = self.filled < PIECE;
        }
        let from = usize::try_from(start.wrapping_sub(self.start)).unwrap_or(usize::MAX);
        let to = from.saturating_add(size).min(self.filled);
        self.bytes.get(from..to).unwrap_or_default()
    }
}

/// Pages of a range that may be missing: a dump may say that there is more than all machines have.
pub(crate) const MISSING: usize = 1 << 20;

/// The parts of a range that somebody wrote to: what was never written leads nowhere, and reserved addresses may be more than there is memory.
pub(crate) fn written(image: &dyn Image, range: Range<u64>) -> Vec<Range<u64>> {
    let mut runs = Vec::new();
    match image.written(range.clone(), &mut runs) {
        Ok(()) => runs,
        Err(_) => vec![range],
    }
}

/// Words of a range that are not zero, with their addresses, piece by piece; what is missing is left out, page by page.
pub(crate) fn for_each(image: &dyn Image, range: Range<u64>, mut each: impl FnMut(u64, u64, Option<u64>)) {
    let mut bytes = vec![0; PIECE];
    let Some(mut at) = range.start.checked_next_multiple_of(8) else { return };
    let mut missing = 0;
    while at < range.end && missing < MISSING {
        let length = usize::try_from(range.end - at).unwrap_or(PIECE).min(PIECE);
        let Some(part) = bytes.get_mut(..length) else { break };
        let read = image.read_available(at, part);
        let words = part.get(..read).unwrap_or_default().as_chunks::<8>().0;
        for (number, word) in words.iter().enumerate() {
            let value = u64::from_le_bytes(*word);
            if value != 0 {
                let next = words.get(number + 1).map(|next| u64::from_le_bytes(*next));
                each(at + number as u64 * 8, value, next);
            }
        }
        at = match read {
            0 => {
                missing += 1;
                (at / PAGE_SIZE + 1).saturating_mul(PAGE_SIZE)
            }
            read => at.saturating_add((read as u64).next_multiple_of(8)),
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::made::Pieces;

    /// Pages that are there or not, from [`START`] on; the last may be cut.
    fn pages() -> impl Strategy<Value = Pieces> {
        (proptest::collection::vec(any::<bool>(), 1..7), 1..4096_usize, any::<u64>()).prop_map(
            |(there, last, seed)| {
                let mut pieces = Vec::new();
                for (number, _) in there.iter().enumerate().filter(|(_, there)| **there) {
                    let start = START + number as u64 * 4096;
                    let words = (0..512_u64).map(|word| match word.wrapping_mul(seed | 1) >> 5 & 3 {
                        0 => 0,
                        _ => start + word,
                    });
                    let mut bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
                    if number + 1 == there.len() {
                        bytes.truncate(last);
                    }
                    pieces.push((start, bytes));
                }
                Pieces::new(pieces)
            },
        )
    }

    const START: u64 = 0x10_0000;

    /// The word at an address, all of which lies before `end`.
    fn word(image: &Pieces, at: u64, end: u64) -> Option<u64> {
        let bytes: Option<Vec<u8>> = (at..at + 8).map(|at| image.byte(at).filter(|_| at < end)).collect();
        bytes.map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight")))
    }

    proptest! {
        #[test]
        fn words_are_those_of_the_pages_that_are_there(image in pages(), from in 0..9000_u64, length in 0..30_000_u64) {
            let (from, end) = (START - 100 + from, START - 100 + from + length);
            let mut found = Vec::new();
            for_each(&image, from..end, |at, value, next| found.push((at, value, next)));
            let whole = (from.next_multiple_of(8)..end).step_by(8);
            let wanted: Vec<_> = whole
                .filter_map(|at| Some((at, word(&image, at, end).filter(|word| *word != 0)?, word(&image, at + 8, end))))
                .collect();
            prop_assert_eq!(found, wanted);
        }

        #[test]
        fn ranges_in_order_are_read_as_far_as_memory_goes(image in pages(), ranges in proptest::collection::vec((0..3000_u64, 0..9000_u64), 1..12)) {
            let mut memory = InOrder::new(&image);
            let mut at = START - 100;
            for (gap, size) in ranges {
                at += gap;
                let wanted: Vec<u8> = (at..at + size).map_while(|at| image.byte(at)).collect();
                prop_assert_eq!(memory.get(at, size), wanted, "{:#x} {}", at, size);
                at += size / 2;
            }
        }
    }

    #[test]
    fn no_more_than_a_piece_is_read_at_once_and_the_next_goes_on_behind_it() {
        let bytes: Vec<u8> = (0..PIECE + 100).map(|at| (at % 251) as u8).collect();
        let image = Pieces::new(vec![(START, bytes.clone())]);
        let mut memory = InOrder::new(&image);
        assert_eq!(memory.get(START, u64::MAX), &bytes[..PIECE]);
        assert_eq!(memory.get(START + 50, PIECE as u64), &bytes[50..PIECE + 50]);
        assert_eq!(memory.get(START + PIECE as u64, 200), &bytes[PIECE..]);
        assert!(memory.get(START + PIECE as u64 + 100, 8).is_empty() && memory.get(u64::MAX, 8).is_empty());
        // Back again: what is asked for out of order is read, too.
        assert_eq!(memory.get(START, 3), &bytes[..3]);
    }

    #[test]
    fn the_end_of_all_addresses_is_the_end() {
        let image = Pieces::default();
        for range in [u64::MAX - 9..u64::MAX, u64::MAX - 3..u64::MAX, 0..0] {
            for_each(&image, range, |_, _, _| panic!("nothing is there"));
        }
        // More than is looked for page by page: it ends.
        for_each(&image, 0..u64::MAX, |_, _, _| panic!("nothing is there"));
        assert_eq!(
            written(&image, 5..9),
            vec![Range { start: 5, end: 9 }],
            "who cannot tell what was written has all of it"
        );
    }
}
