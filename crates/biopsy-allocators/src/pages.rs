//! Words at addresses that lie anywhere, by pages that are kept for the next one.

use std::collections::HashMap;

use biopsy_image::{Image, MemoryExt};

const PAGE: usize = 4096;
/// Pages that are kept: 16 MiB. What describes the extents of a heap of a gigabyte is about as much.
const MOST: usize = 4096;

/// Memory that was read.
pub(crate) struct Pages<'i> {
    image: &'i dyn Image,
    held: HashMap<u64, Vec<u8>>,
}

impl<'i> Pages<'i> {
    pub(crate) fn new(image: &'i dyn Image) -> Self {
        Self { image, held: HashMap::new() }
    }

    /// The words from `address`, a multiple of 8, on; `None` where they are not in the image.
    pub(crate) fn words<const N: usize>(&mut self, address: u64) -> Option<[u64; N]> {
        let mut words = [0; N];
        for (number, word) in words.iter_mut().enumerate() {
            *word = self.word(address.checked_add(number as u64 * 8)?)?;
        }
        Some(words)
    }

    /// The word at `address`, a multiple of 8.
    pub(crate) fn word(&mut self, address: u64) -> Option<u64> {
        let at = usize::try_from(address % PAGE as u64).ok()?;
        let bytes = self.page(address - at as u64).get(at..at + 8)?;
        bytes.try_into().ok().map(u64::from_le_bytes)
    }

    fn page(&mut self, start: u64) -> &[u8] {
        if self.held.len() >= MOST && !self.held.contains_key(&start) {
            self.held.clear();
        }
        let image = self.image;
        self.held.entry(start).or_insert_with(|| {
            let mut bytes = vec![0; PAGE];
            let there = image.read_available(start, &mut bytes);
            bytes.truncate(there);
            bytes
        })
    }
}
