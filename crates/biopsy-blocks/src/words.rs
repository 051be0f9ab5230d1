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
