//! Blocks of memory for jemalloc's own structures (`base_block_t`, `src/base.c`): multiples of 2 MiB, at multiples of 2 MiB.
//!
//! ```text
//!  size │ next │ extent of what is left: bits, address, bytes, ... │ structures ... │ what is left
//! ```

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use crate::pages::Pages;

/// What they are multiples of (`HUGEPAGE`).
const UNIT: u64 = 2 << 20;
/// Units that a place in a block may be behind its start: blocks grow by and by, to this where the bookkeeping has some gigabytes.
const MOST_UNITS: u64 = 256;
/// Headers that are looked at in all, each once: a heap of hundreds of gigabytes has as many units.
const MOST_LOOKS: usize = 1 << 18;
/// Addresses that are in no block and were gone back from.
const MOST_WITHOUT: usize = 1 << 15;
/// A block is not larger.
const LARGEST: u64 = 1 << 40;
/// The smallest header: size, next, the first words of an extent.
const HEADER: u64 = 40;

/// Those that were found.
pub(super) struct Bases {
    /// Ends by their starts.
    blocks: BTreeMap<u64, u64>,
    /// Units at whose start none begins.
    bare: HashSet<u64>,
    /// Units in which nothing of one is.
    without: HashSet<u64>,
    left: usize,
}

impl Bases {
    pub(super) fn new() -> Self {
        Self { blocks: BTreeMap::new(), bare: HashSet::new(), without: HashSet::new(), left: MOST_LOOKS }
    }

    /// The block that this address is in.
    pub(super) fn holding(&mut self, pages: &mut Pages<'_>, address: u64) -> Option<Range<u64>> {
        if let Some(known) = self.known(address) {
            return Some(known);
        }
        let unit = address / UNIT;
        if self.without.contains(&unit) || self.without.len() >= MOST_WITHOUT {
            return None;
        }
        for unit in (0..MOST_UNITS).map_while(|back| unit.checked_sub(back)) {
            if self.bare.contains(&unit) {
                continue;
            }
            self.left = self.left.checked_sub(1)?;
            let start = unit * UNIT;
            if let Some([size, next]) = block(pages, start) {
                self.remember(pages, start, size, next);
                break;
            }
            self.bare.insert(unit);
        }
        let found = self.known(address);
        if found.is_none() {
            self.without.insert(unit);
        }
        found
    }

    fn known(&self, address: u64) -> Option<Range<u64>> {
        let (&start, &end) = self.blocks.range(..=address).next_back()?;
        (address < end).then_some(start..end)
    }

    /// The block, and those that its list leads to.
    fn remember(&mut self, pages: &mut Pages<'_>, mut start: u64, mut size: u64, mut next: u64) {
        loop {
            if self.blocks.insert(start, start + size).is_some() || next == 0 {
                return;
            }
            let Some(left) = self.left.checked_sub(1) else { return };
            self.left = left;
            start = next;
            let Some(more) = block(pages, start) else { return };
            [size, next] = more;
        }
    }

    /// All of them, by address; those that overlap are one.
    pub(super) fn ranges(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for (&start, &end) in &self.blocks {
            match ranges.last_mut() {
                Some(last) if start <= last.end => last.end = last.end.max(end),
                _ => ranges.push(start..end),
            }
        }
        ranges
    }
}

/// Size and next of the block at this address, if one is there: what is left of it ends where it ends.
fn block(pages: &mut Pages<'_>, start: u64) -> Option<[u64; 2]> {
    let [size, next, _, left_at, left] = pages.words(start)?;
    let end = start.checked_add(size)?;
    let sizes = (1..=LARGEST).contains(&size) && size.is_multiple_of(UNIT) && next.is_multiple_of(UNIT);
    let ends = left_at >= start + HEADER && left_at.checked_add(left) == Some(end);
    (sizes && ends).then_some([size, next])
}
