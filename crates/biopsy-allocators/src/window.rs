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
