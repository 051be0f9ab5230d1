//! Arenas that were made by hand: each layout, counted block by block, and what no program has but a dump may say.

use biopsy_allocators::footprint;
use biopsy_model::footprint::Blocks;
use proptest::prelude::*;

use crate::made::{Block, HEAD_OF_TODAY, HEADS, HEAP_ADDRESSES, Made};
use crate::processes::{
    ARENA, HEAP, HEAP_BYTES, INFO, LIBC, LIBC_BYTES, SECOND, any_blocks, fast, free, process, sum, total,
    two_arenas, used,
};

#[test]
fn each_layout_is_counted() {
    let blocks = [Block::Used(64), Block::Free(4096), Block::Used(1024), Block::Used(32)];
    for head in HEADS {
        let footprint = footprint(&process(head, &blocks), &[]);
        let [glibc] = footprint.allocators.as_slice() else { panic!("{head:?}: {footprint:#?}") };
        let arena = &glibc.arenas[0];
        assert_eq!((arena.used, arena.free), (sum(&blocks, used), sum(&blocks, free)), "{head:?}");
        assert_eq!((arena.system, arena.unknown), (HEAP_BYTES, 0), "{head:?}");
    }
}

#[test]
fn a_second_arena_of_two_heaps_is_counted() {
    let blocks: [&[Block]; 3] = [
        &[Block::Used(64)],
        &[Block::Used(2048), Block::Used(160), Block::Free(512), Block::Used(32)],
        &[Block::Free(1024), Block::Used(4096)],
    ];
    let made = two_arenas(blocks);
    let footprint = footprint(&made, &[]);
    let [glibc] = footprint.allocators.as_slice() else { panic!("{footprint:#?}") };
    let [main, second] = glibc.arenas.as_slice() else { panic!("{glibc:#?}") };
    assert_eq!((main.used, main.heaps), (sum(blocks[0], used), 1));
    assert_eq!(second.heaps, 2);
    // What is left of the older heap up to its fence is one block in use.
    assert_eq!(second.used.count, 3 + 1 + 1, "{second:#?}");
    assert_eq!(second.free.count, 2);
    assert_eq!(second.unknown, 0);
    assert_eq!(total(&footprint), made.resident());
}

/// A dump says that two arenas have the same memory: it is counted once, and that is said.
#[test]
fn arenas_that_overlap_are_counted_once() {
    let mut made = Made::default();
    let head = HEAD_OF_TODAY;
    made.map(SECOND[0], HEAP_BYTES, None);
    made.map(LIBC, LIBC_BYTES, Some("/lib/libc.so.6"));
    let second = SECOND[0] + INFO;
    made.arena(ARENA, head, 0, second, HEAP_BYTES);
    let behind = made.arena(second, head, 0, ARENA, HEAP_BYTES);
    made.word(SECOND[0], second);
    made.word(SECOND[0] + 16, HEAP_BYTES);
    let first = behind.next_multiple_of(16);
    let top =
        made.blocks(first, SECOND[0] + HEAP_BYTES, second, head, &[Block::Used(0x8000), Block::Used(64)]);
    // Both end in the same memory.
    for arena in [ARENA, second] {
        made.word(arena + head.0 + head.1 * 8, top);
    }
    let footprint = footprint(&made, &[]);
    assert!(
        total(&footprint) <= made.resident(),
        "{} of {}: {footprint:#?}",
        total(&footprint),
        made.resident()
    );
    assert!(footprint.warnings.iter().any(|warning| warning.contains("overlap")), "{:?}", footprint.warnings);
    assert!(!footprint.allocators[0].whole);
}

#[test]
fn an_end_that_is_nowhere_leaves_the_arena_out_and_says_so() {
    for top in [8, 0x1234_5678_9000, u64::MAX - 7] {
        let mut made = process(HEAD_OF_TODAY, &[Block::Used(64)]);
        made.word(ARENA + 96, top);
        let footprint = footprint(&made, &[]);
        assert!(
            footprint.warnings.iter().any(|warning| warning.contains("left out")),
            "{top:#x}: {footprint:#?}"
        );
        assert_eq!(total(&footprint), made.resident());
    }
}

#[test]
fn a_ring_of_arenas_that_never_comes_back_is_none() {
    let mut made = two_arenas([&[Block::Used(64)], &[], &[]]);
    // The second leads to itself.
    made.word(SECOND[0] + INFO + 96 + 16 + 127 * 16 + 16, SECOND[0] + INFO);
    let footprint = footprint(&made, &[]);
    assert!(footprint.allocators.is_empty());
    assert_eq!(total(&footprint), made.resident());
}

#[test]
fn heaps_in_a_circle_leave_the_arena_out() {
    let mut made = two_arenas([&[Block::Used(64)], &[Block::Used(64)], &[Block::Used(64)]]);
    made.word(SECOND[0] + 8, SECOND[1]);
    let footprint = footprint(&made, &[]);
    assert_eq!(footprint.allocators[0].arenas.len(), 1);
    assert!(footprint.warnings.iter().any(|warning| warning.contains("could not be told apart")));
    assert_eq!(total(&footprint), made.resident());
}

#[test]
fn bins_in_circles_and_links_that_lead_astray_end() {
    let blocks = [Block::Fast(32), Block::Fast(32), Block::Fast(48), Block::Used(64)];
    let first = HEAP;
    for (what, address, word) in [
        ("the second leads to the first", HEAP + 32 + 16, first ^ (HEAP + 32 + 16) >> 12),
        ("to itself", first + 16, first ^ (first + 16) >> 12),
        ("to a block of another size", first + 16, (HEAP + 64) ^ (first + 16) >> 12),
        ("into the middle of a block", first + 16, (HEAP + 40) ^ (first + 16) >> 12),
        ("out of memory", first + 16, 0x1000 ^ (first + 16) >> 12),
        ("mixed with another address", first + 16, (HEAP + 32) ^ 0x1234_5678),
        ("behind the end of all addresses", ARENA + 16, u64::MAX - 7),
    ] {
        let mut made = process(HEAD_OF_TODAY, &blocks);
        let whole = footprint(&made, &[]);
        assert_eq!(whole.allocators[0].arenas[0].fast, sum(&blocks, fast));
        made.word(address, word);
        let footprint = footprint(&made, &[]);
        assert!(
            footprint.warnings.iter().any(|warning| warning.contains("lead astray")),
            "{what}: {footprint:#?}"
        );
        assert_eq!(total(&footprint), made.resident(), "{what}");
    }
}

/// A dump says that an arena has given back more small blocks than it has, because they are those of another one: none of them is free.
#[test]
fn fast_bins_with_more_than_their_arena_has_lead_astray() {
    let blocks = [Block::Used(32); 3];
    let mut made = two_arenas([&blocks, &[], &[]]);
    let chunks = [HEAP, HEAP + 32, HEAP + 64];
    made.word(SECOND[0] + INFO + HEAD_OF_TODAY.0, chunks[0]);
    for (number, chunk) in chunks.iter().enumerate() {
        let next = chunks.get(number + 1).copied().unwrap_or(0);
        made.word(chunk + 16, next ^ (chunk + 16) >> 12);
    }
    let footprint = footprint(&made, &[]);
    let [main, second] = footprint.allocators[0].arenas.as_slice() else { panic!("{footprint:#?}") };
    assert_eq!((main.used, main.fast), (sum(&blocks, used), Blocks::default()));
    assert_eq!((second.used.count, second.fast), (1, Blocks::default()), "what is left of its older heap");
    assert!(footprint.warnings.iter().any(|warning| warning.contains("lead astray")), "{footprint:#?}");
    assert_eq!(total(&footprint), made.resident());
}

/// Those behind the place from where no chunks can be told apart were never counted as used.
#[test]
fn blocks_in_fast_bins_behind_a_break_are_unknown() {
    let blocks = [Block::Used(64), Block::Fast(32), Block::Used(4096), Block::Fast(32)];
    let mut made = process(HEAD_OF_TODAY, &blocks);
    made.word(HEAP + 96 + 8, 8 | 1);
    let footprint = footprint(&made, &[]);
    let arena = &footprint.allocators[0].arenas[0];
    assert_eq!((arena.used, arena.fast), (sum(&blocks[..1], used), sum(&blocks[..2], fast)));
    assert_eq!(arena.unknown, 4096 + 32);
    assert_eq!(total(&footprint), made.resident());
}

/// A block of a program has the size of a thread's cache now and then, and small numbers where that has its lists.
#[test]
fn numbers_of_a_program_are_no_cache() {
    for (size, counts) in [(0x250, 64), (0x290, 128), (0x300, 152)] {
        let blocks = [Block::Used(size), Block::Used(64)];
        for number in [1, 7, 15, 16, 24, u64::MAX] {
            let mut made = process(HEAD_OF_TODAY, &blocks);
            made.word(HEAP + 16 + counts, number);
            let footprint = footprint(&made, &[]);
            assert_eq!(footprint.allocators[0].arenas[0].used, sum(&blocks, used), "{size:#x}, {number}");
            assert_eq!(total(&footprint), made.resident());
        }
    }
}

#[test]
fn sizes_that_lead_nowhere_leave_the_rest_unknown() {
    for size in [0, 16, 24, 40, HEAP_BYTES, HEAP_BYTES + 16, !7, 1 << 63] {
        let mut made = process(HEAD_OF_TODAY, &[Block::Used(64), Block::Used(4096), Block::Used(64)]);
        made.word(HEAP + 64 + 8, size | 1);
        let footprint = footprint(&made, &[]);
        let arena = &footprint.allocators[0].arenas[0];
        assert_eq!(arena.used, Blocks { count: 1, bytes: 64 }, "{size:#x}");
        assert_eq!(arena.unknown, 4096 + 64, "{size:#x}");
        assert_eq!(total(&footprint), made.resident());
    }
}

/// Counts of mappings that are not there: what was found is counted, and the difference is said.
#[test]
fn blocks_with_mappings_of_their_own_are_counted_as_far_as_they_are_there() {
    let mut made = Made::default();
    let large = 0x7d00_0000_0000;
    made.map(HEAP, HEAP_BYTES, None);
    made.map(large, 0x8000, None);
    made.map(LIBC, LIBC_BYTES, Some("/lib/libc.so.6"));
    made.arena(ARENA, HEAD_OF_TODAY, 0, ARENA, HEAP_BYTES);
    let top = made.blocks(HEAP, HEAP + HEAP_BYTES, ARENA, HEAD_OF_TODAY, &[Block::Used(64)]);
    made.word(ARENA + 96, top);
    made.word(large + 8, 0x3000 | 2);
    made.word(large + 0x3000 + 8, 0x5000 | 2);
    made.parameters(LIBC, 2, 0x8000, HEAP);
    let whole = footprint(&made, &[]);
    assert_eq!(whole.allocators[0].mapped, Blocks { count: 2, bytes: 0x8000 }, "{whole:#?}");
    assert!(whole.allocators[0].whole);
    // The second is said to be larger than its mapping.
    made.word(large + 0x3000 + 8, 0x6000 | 2);
    let less = footprint(&made, &[]);
    assert_eq!(less.allocators[0].mapped, Blocks { count: 1, bytes: 0x3000 });
    assert!(
        !less.allocators[0].whole && less.warnings.iter().any(|warning| warning.contains("1 of 12288 bytes"))
    );
    assert_eq!(total(&less), made.resident());
}

/// Where nothing is mapped in a process, but may be in a dump that somebody made.
#[test]
fn memory_at_the_end_of_all_addresses_is_read_without_going_round() {
    let head = HEAD_OF_TODAY;
    let last_page = u64::MAX - 0xfff;
    let mut made = Made::default();
    made.map(last_page - HEAP_ADDRESSES, 0x1000, None);
    made.map(last_page, 0xff8, Some("/lib/libc.so.6"));
    made.arena(last_page, head, last_page, last_page, 0x1000);
    assert!(total(&footprint(&made, &[])) <= made.resident());
    // Empty bins up to the very end.
    for at in (last_page..u64::MAX - 32).step_by(16) {
        made.word(at, at - 16);
        made.word(at + 8, at - 16);
    }
    assert!(total(&footprint(&made, &[])) <= made.resident());

    // A heap that ends where addresses end.
    let heap = u64::MAX - HEAP_ADDRESSES + 1;
    let mut made = Made::default();
    made.map(LIBC, LIBC_BYTES, Some("/lib/libc.so.6"));
    made.map(heap, 0x2000, None);
    let second = heap + INFO;
    made.arena(ARENA, head, ARENA, second, 0);
    made.arena(second, head, heap + 0x1000, ARENA, 0x2000);
    made.word(heap, second);
    made.word(heap + 16, HEAP_ADDRESSES);
    let footprint = footprint(&made, &[]);
    assert!(total(&footprint) <= made.resident(), "{footprint:#?}");
}

proptest! {
    /// Whatever a program did, all is found, by kind and by size.
    #[test]
    fn blocks_are_counted_as_they_were_made(which in 0..2_usize, blocks in any_blocks()) {
        let made = process(HEADS[which], &blocks);
        let footprint = footprint(&made, &[]);
        let glibc = &footprint.allocators[0];
        let arena = &glibc.arenas[0];
        prop_assert!(glibc.whole, "{:#?}", footprint);
        prop_assert_eq!(arena.used, sum(&blocks, used));
        prop_assert_eq!(arena.free, sum(&blocks, free));
        prop_assert_eq!(arena.fast, sum(&blocks, fast));
        let all: u64 = blocks.iter().map(|block| block.size()).sum();
        prop_assert_eq!(arena.top, HEAP_BYTES - all);
        let by_size: u64 = glibc.classes.iter().map(|class| class.used.bytes + class.free.bytes).sum();
        prop_assert_eq!(by_size, all);
        prop_assert_eq!(total(&footprint), made.resident());
    }

    /// Any words of two arenas may be anything: addresses of anything in them, mostly.
    #[test]
    fn changed_words_never_make_more_memory_than_there_is(
        changes in prop::collection::vec((0..5_usize, 0..0x400_u64, 0..5_usize, 0..0x1000_u64, 0..8_u64), 1..30),
    ) {
        let some: &[Block] = &[Block::Used(64), Block::Free(4096), Block::Fast(32), Block::Used(0x290)];
        let mut made = two_arenas([some, some, some]);
        let places = [HEAP, SECOND[0], SECOND[0] + INFO + 96, SECOND[1], ARENA];
        for (at, word, to, offset, flags) in changes {
            made.word(places[at] + word * 8, places[to] + offset * 16 + flags);
        }
        let footprint = footprint(&made, &[]);
        prop_assert!(total(&footprint) <= made.resident(), "{:#?}", footprint);
    }
}
