//! Free blocks that look used: those in the caches of threads (`tcache_perthread_struct`, since 2.26) and in fast bins.

use std::collections::HashSet;

use biopsy_model::footprint::Blocks;

use super::chunk::{ALIGNMENT, BACK, Header, SMALLEST};
use super::find::Layout;
use super::spans::Spans;
use crate::blocks::Classes;
use crate::kept::Kept;
use crate::window::Window;

/// Chunks that may be the cache of a thread: more than threads, and they are only looked at once.
const MOST_CACHES: usize = 1 << 20;
/// The bins for single sizes come first: 32, 48, ...
const EXACT_BINS: u64 = 64;

/// How the cache of a thread looks, by the size of its chunk.
#[derive(Clone, Copy)]
struct CacheLayout {
    chunk: u64,
    /// Bytes of a count; the pointers to the first blocks follow the counts.
    count: u64,
    bins: u64,
    /// What is counted are the blocks of each list; otherwise how many more fit.
    counts_blocks: bool,
}

/// 2.26 to 2.29, 2.30 to 2.41, and since 2.42, where what is counted is what still fits.
const LAYOUTS: [CacheLayout; 3] = [
    CacheLayout { chunk: 0x250, count: 1, bins: 64, counts_blocks: true },
    CacheLayout { chunk: 0x290, count: 2, bins: 64, counts_blocks: true },
    CacheLayout { chunk: 0x300, count: 2, bins: 76, counts_blocks: false },
];

impl CacheLayout {
    /// Whether the cache counts what its lists have. Of one bin a thread may be in the middle of taking or giving back a block; a program's
    /// own block of this size may well lead to one that looks like a list.
    fn counts(self, window: &mut Window<'_>, chunk: u64, lists: &[Vec<(u64, u64)>]) -> bool {
        if !self.counts_blocks {
            return true;
        }
        let mut counted = |bin: u64| {
            let at = bin * self.count;
            let word = window.word(chunk + BACK + at / 8 * 8)?;
            Some(word >> (at % 8 * 8) & ((1 << (self.count * 8)) - 1))
        };
        let (mut right, mut wrong) = (0, 0);
        for (bin, list) in (0..).zip(lists) {
            match counted(bin) == Some(list.len() as u64) {
                true if list.is_empty() => {}
                true => right += 1,
                false => wrong += 1,
            }
        }
        wrong == 0 || (wrong == 1 && right > 0)
    }
}

/// Chunks that have the size of a thread's cache.
#[derive(Default)]
pub(super) struct Caches {
    chunks: Vec<(u64, CacheLayout)>,
}

impl Caches {
    /// Remembers the chunk, if it may be one.
    pub(super) fn look_at(&mut self, chunk: u64, size: u64) {
        if let Some(layout) = LAYOUTS.iter().find(|one| one.chunk == size)
            && self.chunks.len() < MOST_CACHES
        {
            self.chunks.push((chunk, *layout));
        }
    }

    /// What they hold; `classes` learns of it. `left` is how many blocks there can be in all, so that a list that is a circle ends.
    pub(super) fn count(
        &self,
        window: &mut Window<'_>,
        classes: &mut Classes,
        kept: &mut Kept,
        told_apart: &Spans,
        left: &mut u64,
    ) -> Blocks {
        let mut cached = Blocks::default();
        // A dump may say that two threads keep the same block.
        let mut seen = HashSet::new();
        for (chunk, layout) in &self.chunks {
            let firsts = chunk + BACK + layout.count * layout.bins;
            let lists: Option<Vec<u64>> = (0..layout.bins).map(|bin| window.word(firsts + bin * 8)).collect();
            // All of them are lists of blocks of their bin's size, as long as is counted, or it is no cache.
            let found: Option<Vec<Vec<(u64, u64)>>> = (0..)
                .zip(lists.unwrap_or_default())
                .map(|(bin, first)| list(window, first, 0, |size| fits(bin, size), left))
                .collect();
            let found = found.filter(|lists| layout.counts(window, *chunk, lists));
            let kept_here = found.into_iter().flatten().flatten();
            for (chunk, size) in
                kept_here.filter(|(chunk, _)| told_apart.holds(*chunk) && seen.insert(*chunk))
            {
                cached.add(size);
                classes.is_cached(size);
                kept.is_cached(chunk);
            }
        }
        cached
    }
}

/// Whether blocks of this size are kept in this bin.
fn fits(bin: u64, size: u64) -> bool {
    bin >= EXACT_BINS || size == SMALLEST + bin * ALIGNMENT
}

/// The chunks in the fast bins of an arena, with their sizes; `None` where one of them leads astray. `left` as in [`Caches::count`].
pub(super) fn fast(
    window: &mut Window<'_>,
    arena: u64,
    layout: Layout,
    told_apart: &Spans,
    left: &mut u64,
) -> Option<Vec<(u64, u64)>> {
    let mut fast = Vec::new();
    for bin in 0..layout.fast_count {
        let first = window.word(arena + layout.fast_bins + bin * 8)?;
        let first = if first == 0 { 0 } else { first.checked_add(BACK)? };
        let list = list(window, first, BACK, |size| fits(bin, size), left)?;
        fast.extend(list.into_iter().filter(|(chunk, _)| told_apart.holds(*chunk)));
    }
    Some(fast)
}

/// The chunks of a list, with their sizes, that begins with the block at `first`, until a link is 0; `None`: it is no such list. Links lead to
/// blocks in caches (`link` is 0), to their chunks in fast bins (`link` is [`BACK`]).
fn list(
    window: &mut Window<'_>,
    first: u64,
    link: u64,
    fits: impl Fn(u64) -> bool,
    left: &mut u64,
) -> Option<Vec<(u64, u64)>> {
    let size_of = |window: &mut Window<'_>, block: u64| {
        let header = Header::read(window, block.checked_sub(BACK).filter(|at| at % ALIGNMENT == 0)?)?;
        // What is in the list looks used to its neighbour.
        let looks_used = |window: &mut Window<'_>| {
            let behind = block.checked_sub(BACK)?.checked_add(header.size)?;
            Header::read(window, behind).map(|behind| behind.previous_in_use)
        };
        let fits = fits(header.size) && !header.is_mapped && looks_used(window)?;
        fits.then_some(header.size)
    };
    let mut chunks = Vec::new();
    let mut at = first;
    while at != 0 {
        let size = size_of(window, at)?;
        chunks.push((at - BACK, size));
        *left = left.checked_sub(1)?;
        let word = window.word(at)?;
        // Since 2.32 a link is mixed with its own address, one that is 0 too (`PROTECT_PTR`).
        let mixed = word ^ (at >> 12);
        at = match (word, mixed) {
            (0, _) | (_, 0) => 0,
            _ => [mixed, word]
                .into_iter()
                .filter_map(|next| next.checked_add(link))
                .find(|&next| size_of(window, next).is_some())?,
        };
    }
    Some(chunks)
}
