//! Regions: memory divided into blocks of one size, of which those that are free are in lists through their first words.

use std::collections::{BTreeMap, BTreeSet};

use biopsy_image::{Image, MemoryExt};

use crate::window::Window;

/// Blocks so far apart are looked at one by one; with others all of the region is read.
const FAR: u64 = 4 << 10;

/// Bytes that are read at once: no allocator has regions of small blocks as large as that.
const LARGEST: u64 = 64 << 20;

/// One of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Region {
    /// The first block.
    pub(crate) start: u64,
    /// Bytes of a block, not 0.
    pub(crate) size: u64,
    /// How many blocks it has, and how many of them are in use; it ends before all addresses do.
    pub(crate) blocks: u64,
    pub(crate) used: u64,
    /// Where lists of its free blocks begin; 0: there is none.
    pub(crate) lists: [u64; 2],
}

impl Region {
    /// The number of the block at this address; `None`: there is none.
    pub(crate) fn number(&self, block: u64) -> Option<u64> {
        let into = block.checked_sub(self.start).filter(|into| into.is_multiple_of(self.size.max(1)))?;
        Some(into / self.size.max(1)).filter(|&number| number < self.blocks)
    }
}

/// Goes from block to block until the end; whether there is one, not farther than `most`. `next` gives 0 at the end, and nothing where the list
/// leads to no block. No list is longer than there are blocks, so that a circle ends.
pub(crate) fn followed(first: u64, most: u64, mut next: impl FnMut(u64) -> Option<u64>) -> bool {
    let mut at = first;
    for _ in 0..most {
        if at == 0 {
            return true;
        }
        let Some(to) = next(at) else { return false };
        at = to;
    }
    at == 0
}

/// Which blocks of a region are free, region by region.
pub(crate) struct FreeBlocks<'i> {
    image: &'i dyn Image,
    window: Window<'i>,
    bytes: Vec<u8>,
    /// A bit for each block of the region.
    marks: Vec<u64>,
    /// Regions whose lists have not as many blocks as they say.
    pub(crate) astray: usize,
}

impl<'i> FreeBlocks<'i> {
    pub(crate) fn new(image: &'i dyn Image) -> Self {
        Self { image, window: Window::new(image), bytes: Vec::new(), marks: Vec::new(), astray: 0 }
    }

    /// Calls `visit` with the first byte of each block that is in no list. `decoded` tells where a link leads.
    pub(crate) fn in_use(
        &mut self,
        region: &Region,
        decoded: impl Fn(u64) -> u64,
        mut visit: impl FnMut(u64),
    ) {
        self.marks.clear();
        self.marks.resize(usize::try_from(region.blocks.div_ceil(64)).unwrap_or_default(), 0);
        let expected = region.blocks.saturating_sub(region.used);
        self.fill(region);
        let mut free = 0;
        let mut whole = true;
        for list in region.lists {
            whole &= followed(list, region.blocks - free, |block| {
                let number = region.number(block)?;
                let mark = self.marks.get_mut(usize::try_from(number / 64).ok()?)?;
                let bit = 1 << (number % 64);
                if *mark & bit != 0 {
                    return None;
                }
                *mark |= bit;
                free += 1;
                self.link(region, block).map(&decoded)
            });
        }
        // One may be taken or given back just now.
        if !whole || free.abs_diff(expected) > 1 {
            self.astray += 1;
        }
        for (first, mark) in (0..region.blocks).step_by(64).zip(&self.marks) {
            for number in first..(first + 64).min(region.blocks) {
                if mark >> (number - first) & 1 == 0 {
                    visit(region.start + number * region.size);
                }
            }
        }
    }

    /// Reads all that links may be in, unless few words of it are.
    fn fill(&mut self, region: &Region) {
        let all = region.blocks.saturating_mul(region.size);
        let is_full = region.lists == [0, 0];
        let length = if is_full || region.size >= FAR || all > LARGEST { 0 } else { all };
        self.bytes.resize(usize::try_from(length).unwrap_or_default(), 0);
        let there = self.image.read_available(region.start, &mut self.bytes);
        self.bytes.truncate(there);
    }

    fn link(&mut self, region: &Region, block: u64) -> Option<u64> {
        if region.size >= FAR {
            return self.window.word(block);
        }
        let at = usize::try_from(block - region.start).ok()?;
        let held = self.bytes.get(at..at.checked_add(8)?)?;
        held.try_into().ok().map(u64::from_le_bytes)
    }
}

/// Blocks that were given back and that their regions still count as used.
#[derive(Default)]
pub(crate) struct GivenBack {
    /// Each with its size.
    pub(crate) blocks: Vec<(u64, u64)>,
    /// Lists that lead to something else than blocks in use.
    pub(crate) astray: usize,
    seen: BTreeSet<u64>,
    /// How many of them are of each region, by its start.
    of_regions: BTreeMap<u64, u64>,
}

impl GivenBack {
    /// Adds a list, if it is `whole`: blocks that are in no other one, not more of a region than it has in use.
    pub(crate) fn take(&mut self, whole: bool, list: &[(u64, Region)]) {
        let mut is_astray = !whole;
        for (block, region) in list.iter().filter(|_| whole) {
            let of_region = self.of_regions.entry(region.start).or_default();
            if *of_region < region.used && self.seen.insert(*block) {
                *of_region += 1;
                self.blocks.push((*block, region.size));
            } else {
                is_astray = true;
            }
        }
        self.astray += usize::from(is_astray);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz::MadeImage;

    const START: u64 = 0x1000_0000;

    fn region(size: u64, blocks: u64, used: u64, lists: [u64; 2]) -> Region {
        Region { start: START, size, blocks, used, lists }
    }

    /// Of both ways to read: links that are words of what is read at once, and those far apart.
    #[test]
    fn what_is_in_no_list_is_in_use() {
        for size in [16, 8192] {
            let at = |number: u64| START + number * size;
            for (what, links, lists, used, whole) in [
                ("no list", vec![], [0, 0], 4, true),
                ("two lists", vec![(3, at(1)), (1, 0), (2, 0)], [at(3), at(2)], 1, true),
                ("one that is taken just now", vec![(1, 0)], [at(1), 0], 4, true),
                ("fewer than are free", vec![(1, 0)], [at(1), 0], 1, false),
                ("a circle", vec![(1, at(2)), (2, at(1))], [at(1), 0], 2, false),
                ("a circle of one", vec![(1, at(1))], [at(1), 0], 3, false),
                ("a block that is in both", vec![(1, 0)], [at(1), at(1)], 2, false),
                ("the middle of a block", vec![(1, at(2) + 8)], [at(1), 0], 3, false),
                ("behind the end", vec![(1, at(4))], [at(1), 0], 3, false),
                ("the end of all addresses", vec![(1, u64::MAX - 7)], [at(1), 0], 3, false),
            ] {
                let mut image = MadeImage::default();
                image.map(START..START + 4 * 8192, "");
                for (number, link) in links {
                    image.word(at(number), link);
                }
                let mut free = FreeBlocks::new(&image);
                let mut visited = Vec::new();
                free.in_use(&region(size, 4, used, lists), |link| link, |block| visited.push(block));
                assert_eq!(free.astray == 0, whole, "{what}, {size}");
                assert!(visited.len() <= 4 && visited.is_sorted(), "{what}, {size}: {visited:x?}");
                if what == "two lists" {
                    assert_eq!(visited, [at(0)], "{size}");
                }
            }
        }
    }

    #[test]
    fn what_was_given_back_is_counted_once_and_is_not_more_than_is_used() {
        let region = region(16, 8, 2, [0, 0]);
        let block = |number: u64| (START + number * 16, region);
        let mut given_back = GivenBack::default();
        given_back.take(false, &[block(0)]);
        assert_eq!((given_back.blocks.len(), given_back.astray), (0, 1), "a list that is not whole");
        given_back.take(true, &[block(1)]);
        given_back.take(true, &[block(1), block(2), block(3)]);
        assert_eq!(given_back.blocks, [(START + 16, 16), (START + 32, 16)]);
        assert_eq!(given_back.astray, 2);
    }
}
