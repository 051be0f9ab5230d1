//! What threads keep for themselves after it was given back (`tcache_t`), found without symbols in the memory below each thread's control
//! block, where variables of threads are, and from there along the ring of all caches of an arena.
//!
//! ```text
//!  5.3   cache: slow half │ bins: head, requests, low bits of ...     slow half: ring │ ring │ 32 bins │ arena ...
//!  5.2   cache: 16 │ bins: low water, count, requests, end │ ring │ ring │ hook │ ring │ bins │ bins of large blocks │ arena ...
//! ```
//!
//! Each half of the newer one says where the other is; the older one says where its own bins are. Every block that a bin keeps is a
//! region, or a block, of the bin's size and not free.

use std::collections::BTreeSet;

use biopsy_image::{Image, mapping};

use super::extents::{Extents, Held};
use super::layout::CacheLayout;
use crate::pages::Pages;

/// Bytes below the control block that are searched.
const BELOW: u64 = 64 << 10;
/// Caches of one process.
const MOST: usize = 1 << 16;
/// Bytes of a bin, in both layouts.
const BIN: u64 = 24;
/// Bins for large blocks, at most: up to 8 MiB.
const MOST_LARGE: usize = 37;
/// From the slow half to the pointer to the bins, and from the cache to its bins (5.3).
const SLOW_TO_BINS: u64 = 32;
const CACHE_TO_BINS: u64 = 8;
/// From the last bin to the pointer to the bins, and from its ring to it (5.2).
const BINS_TO_POINTER: u64 = 56;
const RING_TO_POINTER: u64 = 16;
/// From there the bins for large blocks are not farther (5.2): arena, next bin, a byte for each bin.
const POINTER_TO_LARGE: u64 = 128;
/// Blocks that one bin may keep: its end is told by 16 bits.
const MOST_OF_BIN: u64 = 1 << 13;

/// What they keep.
#[derive(Default)]
pub(super) struct Cached {
    /// Blocks, each with its size.
    pub(super) blocks: Vec<(u64, u64)>,
    /// How many caches there are.
    pub(super) caches: usize,
    /// Bins that keep something else than blocks of their size.
    pub(super) astray: usize,
}

/// Where the bins of a cache are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Cache {
    /// What the ring leads through.
    ring: u64,
    small: u64,
    /// Of larger blocks; right behind the others in the newer layout.
    large: u64,
}

/// Reads all caches of all threads.
pub(super) fn read(image: &dyn Image, pages: &mut Pages<'_>, extents: &Extents) -> Cached {
    let bins = extents.build.sizes.bins();
    let mut caches = BTreeSet::new();
    for thread in image.threads() {
        let Some(base) = thread.registers.as_ref().map(|registers| registers.fs_base & !7) else { continue };
        let Some(around) = mapping::find(image.mappings(), base) else { continue };
        let mut at = base.saturating_sub(BELOW).max(around.start);
        while at < base {
            if let Some(cache) = cache(pages, extents.build.layout.caches, bins, at) {
                ring(pages, extents.build.layout.caches, bins, cache, &mut caches);
            }
            at += 8;
        }
    }
    let mut cached = Cached { caches: caches.len(), ..Cached::default() };
    // No block is kept twice, so that there are no more of them than blocks in use.
    let mut left = extents.used();
    let mut seen = BTreeSet::new();
    for cache in caches {
        // Addresses at the end of all are in no image.
        let bin = |of: u64, number: usize| of.wrapping_add(number as u64 * BIN);
        let small = (0..bins).map(|number| (number, bin(cache.small, number)));
        let large = (0..MOST_LARGE).map(|number| (bins + number, bin(cache.large, number)));
        for (class, bin) in small.chain(large) {
            let Some((from, count)) = stack(pages, extents.build.layout.caches, bin) else { break };
            let Some(less) = left.checked_sub(count) else {
                cached.astray += 1;
                return cached;
            };
            let kept: Option<Vec<_>> = (0..count)
                .map(|number| {
                    let block = pages.word(from.checked_add(number * 8)?)?;
                    Some((block, block_of(pages, extents, class, block)?))
                })
                .collect();
            match kept {
                Some(kept) => {
                    left = less;
                    cached.blocks.extend(kept.into_iter().filter(|kept| seen.insert(kept.0)));
                }
                // Behind the bins that there are something else follows.
                None if class >= bins => break,
                None => cached.astray += 1,
            }
        }
    }
    cached
}

/// The cache that this place of a thread's variables is part of: its slow half, or the pointer to its bins.
fn cache(pages: &mut Pages<'_>, layout: CacheLayout, bins: usize, at: u64) -> Option<Cache> {
    match layout {
        CacheLayout::Stacks => {
            let small = pages.word(at.checked_add(SLOW_TO_BINS)?)?;
            let cache = small.checked_sub(CACHE_TO_BINS).filter(|cache| cache % 8 == 0)?;
            let leads_back = cache != 0 && pages.word(cache)? == at;
            let large = small.checked_add(bins as u64 * BIN).filter(|_| leads_back)?;
            Some(Cache { ring: at, small, large })
        }
        CacheLayout::Counted => {
            let small = pages.word(at)?;
            let is_own = small.checked_add(bins as u64 * BIN + BINS_TO_POINTER)? == at;
            let large = is_own.then(|| pages.word(at.checked_add(8)?))??;
            let follows = (16..POINTER_TO_LARGE).contains(&large.wrapping_sub(at)) && large % 8 == 0;
            let ring = at.checked_sub(RING_TO_POINTER).filter(|_| follows)?;
            Some(Cache { ring, small, large })
        }
    }
}

/// All caches of the arena that this one is of.
fn ring(pages: &mut Pages<'_>, layout: CacheLayout, bins: usize, first: Cache, caches: &mut BTreeSet<Cache>) {
    let mut next = first;
    while caches.len() < MOST && caches.insert(next) {
        let Some(ring) = pages.word(next.ring).filter(|ring| ring % 8 == 0) else { return };
        let at = match layout {
            CacheLayout::Stacks => Some(ring),
            CacheLayout::Counted => ring.checked_add(RING_TO_POINTER),
        };
        let Some(other) = at.and_then(|at| cache(pages, layout, bins, at)) else { return };
        next = other;
    }
}

/// Where the blocks of a bin are written down, and how many; `None`: it is none.
fn stack(pages: &mut Pages<'_>, layout: CacheLayout, bin: u64) -> Option<(u64, u64)> {
    let [first, _, third] = pages.words(bin)?;
    match layout {
        CacheLayout::Stacks => {
            let (head, empty) = (first, third >> 32 & 0xffff);
            let bytes = empty.wrapping_sub(head) & 0xffff;
            (head % 8 == 0 && bytes % 8 == 0).then_some((head, bytes / 8))
        }
        CacheLayout::Counted => {
            let (count, end) = (first >> 32, third);
            let from = end.checked_sub(count.checked_mul(8)?)?;
            (end % 8 == 0 && count < MOST_OF_BIN).then_some((from, count))
        }
    }
}

/// The bytes of a block that a bin for this size keeps; `None`: it is no such block, or free.
fn block_of(pages: &mut Pages<'_>, extents: &Extents, class: usize, block: u64) -> Option<u64> {
    let extent = extents.holding(block).filter(|extent| extents.class(extent) == class)?;
    match extents.held(extent)? {
        Held::Slab { region, .. } => {
            let into = block - extent.start;
            (into.is_multiple_of(region) && !extent.is_free(pages, into / region)).then_some(region)
        }
        Held::Block { bytes } => (block == extent.first_byte()).then_some(bytes),
        Held::Free | Held::Retained => None,
    }
}
