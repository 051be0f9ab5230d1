//! All blocks by address, and which of them an address leads into.

use biopsy_allocators::UsedBlock;
use biopsy_model::Avma;

/// Blocks in the order of their addresses; those that overlap the one before are left out.
pub(crate) struct Heap {
    starts: Vec<u64>,
    sizes: Vec<u64>,
    /// By address.
    areas: Vec<Area>,
    /// Of all areas: the number of the first block that begins at or behind each page.
    pages: Vec<u32>,
    end: u64,
}

/// Blocks that lie near each other: heaps lie far apart, and a table over all addresses between them would be mostly empty.
struct Area {
    /// The page of its first block.
    first_page: u64,
    /// Where its entries in the table begin.
    entries: usize,
    /// Its first block.
    first: usize,
}

/// Bytes of a page of the index, as a power of two.
const PAGE: u32 = 12;
/// So many pages without the beginning of a block are between two areas.
const GAP: u64 = 512;
/// Entries of the index.
const MOST_PAGES: usize = 1 << 24;

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
        let mut heap = Self { starts, sizes, areas: Vec::new(), pages: Vec::new(), end };
        heap.index(MOST_PAGES);
        heap
    }

    /// `most`: entries of the table; behind these blocks are looked for without it.
    fn index(&mut self, most: usize) {
        let (mut first_page, mut last_page) = (0, 0);
        for (number, start) in self.starts.iter().enumerate() {
            let page = start >> PAGE;
            if self.areas.is_empty() || page - last_page > GAP {
                first_page = page;
                self.areas.push(Area { first_page, entries: self.pages.len(), first: number });
            }
            last_page = page;
            let entries = self.areas.last().map_or(0, |area| area.entries);
            let wanted = entries + (page - first_page) as usize + 1;
            while self.pages.len() < wanted.min(most) {
                self.pages.push(number as u32);
            }
        }
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
        let page = address >> PAGE;
        let after = self.areas.partition_point(|area| area.first_page <= page);
        let area = self.areas.get(after.checked_sub(1)?)?;
        let behind = self.areas.get(after);
        let entries = self.pages.get(area.entries..behind.map_or(self.pages.len(), |next| next.entries))?;
        let last = behind.map_or(self.starts.len(), |next| next.first);
        // Those that begin on the page of the address, and the last one before it.
        let page = (page - area.first_page) as usize;
        let to = entries.get(page + 1).map_or(last, |to| *to as usize);
        // Behind the table it may be any that is behind the last one of it.
        let from = entries.get(page).or(entries.last()).map_or(area.first, |from| *from as usize);
        let within = self.starts.get(from..to.max(from))?.partition_point(|start| *start <= address);
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
            room in prop::option::of(0..20_usize),
        ) {
            let mut at = 0x10_0000;
            let mut blocks = Vec::new();
            for (number, (gap, words)) in rows.into_iter().enumerate() {
                at += gap * 8 + if far && number % 20 == 19 { 1 << 40 } else { number as u64 * 512 };
                blocks.push(UsedBlock { start: Avma(at), size: words * 8 });
                at += words * 8;
            }
            let mut heap = Heap::new(blocks.clone());
            if let Some(most) = room {
                (heap.areas, heap.pages) = (Vec::new(), Vec::new());
                heap.index(most);
            }
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
