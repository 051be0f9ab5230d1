//! Caches of threads in each layout: what they keep is free, and what only looks like one is a block of the program.

use biopsy_allocators::{NativeMemory, with_blocks};
use biopsy_model::footprint::{Blocks, MemoryKind};
use proptest::prelude::*;

use crate::made::{Block, HEAD_OF_TODAY, Made};
use crate::processes::{HEAP, process, total};

/// How the cache of a thread looks (`tcache_perthread_struct`).
#[derive(Clone, Copy, Debug)]
struct Layout {
    chunk: u64,
    /// Bytes of a count.
    count: u64,
    bins: u64,
    /// What is counted are blocks; otherwise how many more fit.
    counts_blocks: bool,
}

/// 2.26, 2.30 and 2.42.
const LAYOUTS: [Layout; 3] = [
    Layout { chunk: 0x250, count: 1, bins: 64, counts_blocks: true },
    Layout { chunk: 0x290, count: 2, bins: 64, counts_blocks: true },
    Layout { chunk: 0x300, count: 2, bins: 76, counts_blocks: false },
];
/// That of most systems.
const TODAY: Layout = LAYOUTS[1];
/// Blocks of which a bin keeps up to so many, unless it is told otherwise.
const FILL: u64 = 7;

impl Layout {
    fn bin(size: u64) -> u64 {
        (size - 32) / 16
    }

    /// Where the first block of a bin stands.
    fn first(self, cache: u64, bin: u64) -> u64 {
        cache + 16 + self.count * self.bins + bin * 8
    }

    /// Makes the chunk a cache that keeps these lists of chunks, each with the size of its blocks. Since 2.32 links are mixed with their own
    /// address.
    fn fill(self, made: &mut Made, cache: u64, lists: &[(u64, Vec<u64>)], mixed: bool) {
        let mut counts = vec![0_u64; 76];
        for (size, chunks) in lists {
            let bin = Self::bin(*size);
            let Some(first) = chunks.first() else { continue };
            made.word(self.first(cache, bin), first + 16);
            for (number, chunk) in chunks.iter().enumerate() {
                let next = chunks.get(number + 1).map_or(0, |next| next + 16);
                made.word(chunk + 16, if mixed { next ^ (chunk + 16) >> 12 } else { next });
            }
            counts[usize::try_from(bin).expect("it is small")] = chunks.len() as u64;
        }
        self.tell(made, cache, &counts);
    }

    /// Writes down how many blocks each bin keeps.
    fn tell(self, made: &mut Made, cache: u64, counts: &[u64]) {
        let in_word = 8 / self.count;
        for number in 0..self.bins / in_word {
            let counts = (0..in_word).map(|place| {
                let count = counts[usize::try_from(number * in_word + place).expect("it is small")];
                let count = if self.counts_blocks { count } else { FILL - count };
                count << (place * self.count * 8)
            });
            made.word(cache + 16 + number * 8, counts.sum());
        }
    }
}

/// A process that begins with a cache, with used blocks of these sizes behind it; where each of these is.
fn with_cache(layout: Layout, sizes: &[u64]) -> (Made, Vec<u64>) {
    let blocks: Vec<Block> =
        std::iter::once(&layout.chunk).chain(sizes).map(|size| Block::Used(*size)).collect();
    let mut at = HEAP + layout.chunk;
    let places = sizes.iter().map(|size| {
        at += size;
        at - size
    });
    let places = places.collect();
    (process(HEAD_OF_TODAY, &blocks), places)
}

fn cached(memory: &NativeMemory) -> Blocks {
    memory.footprint.allocators[0].cached
}

fn listed(memory: &NativeMemory) -> Vec<u64> {
    memory.blocks.iter().flatten().map(|block| block.start.0 - 16).collect()
}

#[test]
fn what_a_thread_keeps_is_free_in_each_layout() {
    for (layout, mixed) in LAYOUTS.iter().flat_map(|layout| [(*layout, true), (*layout, false)]) {
        let (mut made, places) = with_cache(layout, &[32, 64, 32, 1024, 64, 32]);
        let lists = [(32, vec![places[0], places[5]]), (1024, vec![places[3]])];
        layout.fill(&mut made, HEAP, &lists, mixed);
        let memory = with_blocks(&made, &[], 100);
        assert_eq!(cached(&memory), Blocks { count: 3, bytes: 1088 }, "{layout:?}, mixed: {mixed}");
        assert_eq!(listed(&memory), [HEAP, places[1], places[2], places[4]], "{layout:?}, mixed: {mixed}");
        let facts = &memory.footprint.allocators[0];
        assert!(facts.whole, "{:#?}", memory.footprint.warnings);
        let free: u64 = facts.classes.iter().map(|class| class.free.bytes).sum();
        assert_eq!(free, 1088, "{layout:?}: by size it is free");
        assert_eq!(total(&memory.footprint), made.resident());
    }
}

/// A thread was stopped after it has put a block into its list, and before it has counted that.
#[test]
fn one_bin_may_be_in_the_middle_of_a_change() {
    for counted in [1, 3] {
        let (mut made, places) = with_cache(TODAY, &[32, 32, 64]);
        let lists = [(32, vec![places[0], places[1]]), (64, vec![places[2]])];
        TODAY.fill(&mut made, HEAP, &lists, true);
        let mut counts = vec![0; 76];
        (counts[0], counts[2]) = (counted, 1);
        TODAY.tell(&mut made, HEAP, &counts);
        let memory = with_blocks(&made, &[], 100);
        assert_eq!(cached(&memory), Blocks { count: 3, bytes: 128 }, "{counted} are counted");
    }
}

/// A program has blocks of the size of a cache. Where one of them leads to a block of a list's size, that block is not free: a cache counts
/// what it keeps.
#[test]
fn a_block_of_a_program_that_leads_to_another_is_no_cache() {
    for (layout, counts, keeps) in [
        (LAYOUTS[0], [0, 0], 0),
        (LAYOUTS[0], [1, 0], 2),
        (LAYOUTS[1], [0, 0], 0),
        (LAYOUTS[1], [7, 5], 0),
        (LAYOUTS[1], [1, 1], 2),
    ] {
        let (mut made, places) = with_cache(layout, &[32, 64]);
        made.word(layout.first(HEAP, 0), places[0] + 16);
        made.word(layout.first(HEAP, 2), places[1] + 16);
        let mut all = vec![0; 76];
        (all[0], all[2]) = (counts[0], counts[1]);
        layout.tell(&mut made, HEAP, &all);
        let memory = with_blocks(&made, &[], 100);
        assert_eq!(cached(&memory).count, keeps, "{layout:?}, counts {counts:?}");
        assert_eq!(listed(&memory).len() as u64, 3 - keeps, "{layout:?}, counts {counts:?}");
    }
    // With one pointer in all of it, as most have.
    let (mut made, places) = with_cache(TODAY, &[32]);
    made.word(TODAY.first(HEAP, 0), places[0] + 16);
    assert_eq!(listed(&with_blocks(&made, &[], 100)), [HEAP, places[0]]);
}

#[test]
fn lists_that_lead_astray_make_it_no_cache() {
    let places = |number: u64| HEAP + TODAY.chunk + number * 32;
    let mixed = |chunk: u64, to: u64| to ^ (chunk + 16) >> 12;
    for (what, address, word) in [
        ("the second leads to the first", places(1) + 16, mixed(places(1), places(0) + 16)),
        ("the second leads to itself", places(1) + 16, mixed(places(1), places(1) + 16)),
        ("to a block of another size", places(1) + 16, mixed(places(1), HEAP + 16)),
        ("into the middle of a block", places(1) + 16, mixed(places(1), places(2) + 24)),
        ("to no memory", places(1) + 16, mixed(places(1), 0x1000)),
        ("to the end of all addresses", places(1) + 16, u64::MAX),
        ("the first has a mapping of its own", places(0) + 8, 32 | 3),
        ("the first has no size", places(0) + 8, 1),
        ("the list begins nowhere", TODAY.first(HEAP, 0), 0x10),
        ("the list begins before all addresses", TODAY.first(HEAP, 0), 8),
    ] {
        let (mut made, _) = with_cache(TODAY, &[32, 32, 32]);
        TODAY.fill(&mut made, HEAP, &[(32, vec![places(0), places(1)])], true);
        assert_eq!(cached(&with_blocks(&made, &[], 100)).count, 2, "{what}: before");
        made.word(address, word);
        let memory = with_blocks(&made, &[], 100);
        assert_eq!(cached(&memory), Blocks::default(), "{what}: {:#?}", memory.footprint);
        assert_eq!(total(&memory.footprint), made.resident(), "{what}");
    }
}

/// Behind a break in a heap no chunks are told apart: what is kept there is not taken off those before it.
#[test]
fn what_is_kept_behind_a_break_was_never_in_use() {
    let (mut made, places) = with_cache(TODAY, &[64, 4096, 64]);
    TODAY.fill(&mut made, HEAP, &[(64, vec![places[2], places[0]])], true);
    assert_eq!(cached(&with_blocks(&made, &[], 100)), Blocks { count: 2, bytes: 128 });
    made.word(places[1] + 8, 8 | 1);
    let memory = with_blocks(&made, &[], 100);
    let arena = &memory.footprint.allocators[0].arenas[0];
    assert_eq!(arena.used, Blocks { count: 2, bytes: TODAY.chunk + 64 });
    assert_eq!((cached(&memory), arena.unknown), (Blocks { count: 1, bytes: 64 }, 4096 + 64));
    assert_eq!(listed(&memory), [HEAP]);
    assert_eq!(memory.footprint.resident(&MemoryKind::Allocated), TODAY.chunk);
}

/// What a thread keeps looks used to its neighbour, so that it is not merged with it. A free block in a list is not one of a cache.
#[test]
fn a_list_with_a_block_that_is_free_already_is_none() {
    let (mut made, places) = with_cache(TODAY, &[64, 4096]);
    TODAY.fill(&mut made, HEAP, &[(64, vec![places[0]])], true);
    made.word(places[1] + 8, 4096);
    let memory = with_blocks(&made, &[], 100);
    assert_eq!(cached(&memory), Blocks::default());
    assert_eq!(memory.footprint.allocators[0].arenas[0].free, Blocks { count: 1, bytes: 64 });
}

/// A dump says that two threads keep the same block: it is one block, and free once.
#[test]
fn a_block_that_two_caches_keep_is_free_once() {
    let (mut made, places) = with_cache(TODAY, &[TODAY.chunk, 32, 4096]);
    for cache in [HEAP, places[0]] {
        TODAY.fill(&mut made, cache, &[(32, vec![places[1]])], true);
    }
    let memory = with_blocks(&made, &[], 100);
    assert_eq!(cached(&memory), Blocks { count: 1, bytes: 32 }, "{:#?}", memory.footprint);
    assert_eq!(listed(&memory), [HEAP, places[0], places[2]]);
}

proptest! {
    /// Whatever a thread keeps, in any order, is told from what the program has.
    #[test]
    fn any_blocks_that_are_kept_are_free(
        which in 0..LAYOUTS.len(),
        rows in prop::collection::vec((0..20_u64, any::<bool>()), 0..30),
        mixed in any::<bool>(),
    ) {
        let layout = LAYOUTS[which];
        let sizes: Vec<u64> = rows.iter().map(|(unit, _)| 32 + unit * 16).collect();
        let (mut made, places) = with_cache(layout, &sizes);
        let mut lists: Vec<(u64, Vec<u64>)> = (0..20).map(|unit| (32 + unit * 16, Vec::new())).collect();
        let mut expected = Blocks::default();
        let mut in_use = vec![HEAP];
        for ((unit, is_kept), place) in rows.iter().zip(&places) {
            let list = &mut lists[*unit as usize].1;
            if *is_kept && (list.len() as u64) < FILL {
                list.insert(0, *place);
                expected.add(32 + unit * 16);
            } else {
                in_use.push(*place);
            }
        }
        layout.fill(&mut made, HEAP, &lists, mixed);
        let memory = with_blocks(&made, &[], 100);
        prop_assert_eq!(cached(&memory), expected);
        prop_assert_eq!(listed(&memory), in_use);
        prop_assert!(memory.footprint.allocators[0].whole);
    }
}
