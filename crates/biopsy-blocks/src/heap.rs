//! All blocks by address, and which of them an address leads into.

use biopsy_allocators::UsedBlock;
use biopsy_model::Avma;

/// Blocks in the order of their addresses; those that overlap the one before are left out.
pub(crate) struct Heap {
    starts: Vec<u64>,
    sizes: Vec<u64>,
    /// The number of the first block that begins at or behind each page of the area, and that of none.
    pages: Vec<u32>,
    first_page: u64,
    end: u64,
}

/// Bytes of a page of the index, as a power of two; it grows where the addresses are far apart.
const PAGE: u32 = 12;
/// Entries of the index.
const MOST_PAGES: u64 = 1 << 24;

/// The number of a block.
pub(crate) type BlockNumber = u32;

impl Heap {
    pub(crate) fn new(mut blocks: Vec<UsedBlock>) -> Self {
        blocks.sort_unstable();
        let (mut starts, mut sizes) = (Vec::with_capacity(blocks.len()), Vec::with_capacity(blocks.len()));
        let mut end = 0_u64;
        for block in blocks {
            let Avma(start) = block.start;
            let block_end = start.checked_add(block.size.max(1));
            let Some(block_end) = block_end.filter(|_| start >= end && start.is_multiple_of(8)) else {
                continue;
            };
            if starts.len() >= u32::MAX as usize - 1 {
                break;
            }
            starts.push(start);
            sizes.push(block.size);
            end = block_end;
        }
        // Heaps lie far apart: a table over all addresses between would be mostly empty, so it is over what is there, by runs of blocks.
        let mut heap = Self { starts, sizes, pages: Vec::new(), first_page: 0, end };
        heap.index();
        heap
    }

    fn index(&mut self) {
        let Some((&first, &last)) = self.starts.first().zip(self.starts.last()) else { return };
        self.first_page = first >> PAGE;
        let count = (last >> PAGE) - self.first_page + 1;
        if count > MOST_PAGES {
            return;
        }
        self.pages.reserve_exact(count as usize + 1);
        for (number, start) in self.starts.iter().enumerate() {
            let page = (start >> PAGE) - self.first_page;
            while self.pages.len() as u64 <= page {
                self.pages.push(number as u32);
            }
        }
        self.pages.push(self.starts.len() as u32);
    }

    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    pub(crate) fn start(&self, number: BlockNumber) -> Option<u64> {
        self.starts.get(number as usize).copied()
    }

    pub(crate) fn size(&self, number: BlockNumber) -> Option<u64> {
        self.sizes.get(number as usize).copied()
    }

    /// The block that an address leads to or into.
    #[inline]
    pub(crate) fn find(&self, address: u64) -> Option<BlockNumber> {
        let first = *self.starts.first()?;
        if address < first || address >= self.end {
            return None;
        }
        let page = (address >> PAGE) - self.first_page;
        // Those that begin on the page of the address, and the last one before it.
        let (from, to) = if self.pages.is_empty() {
            (0, self.starts.len())
        } else {
            let from = self.pages.get(page as usize).copied().unwrap_or(self.starts.len() as u32) as usize;
            let to = self.pages.get(page as usize + 1).map_or(self.starts.len(), |to| *to as usize);
            (from, to)
        };
        let within = self.starts.get(from..to)?.partition_point(|start| *start <= address);
        let number = (from + within).checked_sub(1)?;
        (address - self.starts[number] < self.sizes[number]).then_some(number as u32)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_address_is_found_in_the_block_that_has_it(
            rows in prop::collection::vec((0..40_u64, 1..30_u64), 0..60),
            far in any::<bool>(),
        ) {
            let mut at = 0x10_0000;
            let mut blocks = Vec::new();
            for (number, (gap, words)) in rows.into_iter().enumerate() {
                at += gap * 8 + if far && number == 20 { 1 << 40 } else { number as u64 * 512 };
                blocks.push(UsedBlock { start: Avma(at), size: words * 8 });
                at += words * 8;
            }
            let heap = Heap::new(blocks.clone());
            let addresses = blocks.iter().flat_map(|one| [one.start.0 - 1, one.start.0, one.start.0 + 3, one.start.0 + one.size - 1, one.start.0 + one.size]);
            for address in addresses {
                let expected = blocks.iter().position(|one| address >= one.start.0 && address - one.start.0 < one.size);
                prop_assert_eq!(heap.find(address), expected.map(|number| number as u32));
            }
        }
    }

    #[test]
    fn blocks_that_overlap_are_left_out() {
        let block = |start, size| UsedBlock { start: Avma(start), size };
        let heap =
            Heap::new(vec![block(0x1000, 64), block(0x1020, 64), block(0x1040, 8), block(u64::MAX - 7, 64)]);
        assert_eq!((heap.len(), heap.find(0x1020), heap.find(0x1040)), (2, Some(0), Some(1)));
        assert_eq!(Heap::new(Vec::new()).find(0), None);
    }
}
