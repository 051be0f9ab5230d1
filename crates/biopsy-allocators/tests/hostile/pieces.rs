//! The data segment in several mappings: what is locked, kept out of dumps or made of huge pages is one of its own.

use biopsy_allocators::{NativeMemory, with_blocks};
use biopsy_image::Backing;
use proptest::prelude::*;

use crate::made::{Block, HEAD_OF_TODAY, Made};
use crate::processes::{ARENA, HEAP, HEAP_BYTES, LIBC, LIBC_BYTES, any_blocks, total};

/// A process whose heap is cut into mappings at these pages.
fn cut_at(pages: &[u64], blocks: &[Block]) -> Made {
    let mut made = Made::default();
    let ends = pages.iter().map(|page| page * 0x1000).chain([HEAP_BYTES]);
    let mut from = 0;
    for end in ends {
        made.map(HEAP + from, end - from, None);
        from = end;
    }
    filled(made, blocks)
}

/// With the library and its arena, and blocks from the heap's first byte on.
fn filled(mut made: Made, blocks: &[Block]) -> Made {
    made.map(LIBC, LIBC_BYTES, Some("/lib/libc.so.6"));
    made.arena(ARENA, HEAD_OF_TODAY, 0, ARENA, HEAP_BYTES);
    let top = made.blocks(HEAP, HEAP + HEAP_BYTES, ARENA, HEAD_OF_TODAY, blocks);
    made.word(ARENA + 96, top);
    made.parameters(LIBC, 0, 0, HEAP);
    made
}

fn read(made: &Made) -> NativeMemory {
    with_blocks(made, &[], 1000)
}

const SOME: [Block; 5] =
    [Block::Used(0x1800), Block::Free(0x1000), Block::Used(64), Block::Used(0x4000), Block::Fast(32)];

#[test]
fn a_heap_of_several_mappings_is_one_heap() {
    let whole = read(&cut_at(&[], &SOME));
    assert!(whole.footprint.allocators[0].whole, "{:#?}", whole.footprint.warnings);
    // In the middle of a block, before the last chunk, in it, and all of these.
    for pages in [&[1][..], &[2], &[6], &[7], &[31], &[1, 2], &[1, 2, 3, 6, 7, 8, 31]] {
        let made = cut_at(pages, &SOME);
        let found = read(&made);
        assert_eq!(found.footprint.allocators, whole.footprint.allocators, "cut at {pages:?}");
        assert_eq!(
            (found.blocks, found.areas),
            (whole.blocks.clone(), whole.areas.clone()),
            "cut at {pages:?}"
        );
        assert_eq!(total(&found.footprint), made.resident(), "cut at {pages:?}");
    }
}

/// What lies beside the heap is not its own, whatever the last chunk says.
#[test]
fn a_heap_does_not_go_on_behind_a_gap_or_into_a_file() {
    let label = || Backing::Anonymous { label: String::new() };
    let file = || Backing::File { path: "/opt/data".into(), offset: 0, deleted: false, identity: (1, 2) };
    for (what, gap, backing, shared) in [
        ("a gap", 0x1000, label(), false),
        ("a file", 0, file(), false),
        ("shared memory", 0, label(), true),
        ("what the kernel maps", 0, Backing::Kernel { label: "[vvar]".to_owned() }, false),
    ] {
        let mut made = Made::default();
        made.map(HEAP, HEAP_BYTES, None);
        made.map_as(HEAP + HEAP_BYTES + gap, 0x3000, backing, shared, false);
        let mut made = filled(made, &SOME);
        let top: u64 = HEAP + SOME.iter().map(|block| block.size()).sum::<u64>();
        for size in [0x1_0000_0000, u64::MAX] {
            made.word(top + 8, size | 1);
            let found = read(&made);
            let arena = &found.footprint.allocators[0].arenas[0];
            assert_eq!(arena.top, HEAP + HEAP_BYTES - top, "{what}, a last chunk of {size:#x} bytes");
        }
    }
}

/// Where the data segment could not grow: the arena has memory elsewhere, of which nothing leads to the first. That is said.
#[test]
fn memory_of_an_arena_that_is_not_found_is_said() {
    let mut made = Made::default();
    made.map(HEAP, HEAP_BYTES, None);
    made.map(HEAP + HEAP_BYTES + 0x1000, 0x8000, None);
    let mut made = filled(made, &SOME);
    let elsewhere = HEAP + HEAP_BYTES + 0x1000;
    made.word(elsewhere + 8, 0x8000 | 1);
    made.word(ARENA + 96, elsewhere);
    made.word(ARENA + 96 + 16 + 127 * 16 + 16 + 24, HEAP_BYTES + 0x8000);
    let found = read(&made);
    let facts = &found.footprint.allocators[0];
    assert!(!facts.whole, "{facts:#?}");
    let said = format!("has {} bytes from the system, of which {} were found", HEAP_BYTES + 0x8000, 0x8000);
    assert!(found.footprint.warnings.iter().any(|one| one.contains(&said)), "{:?}", found.footprint.warnings);
    assert_eq!(total(&found.footprint), made.resident());
}

proptest! {
    #[test]
    fn wherever_a_heap_is_cut_its_blocks_are_the_same(
        mut pages in prop::collection::vec(1..32_u64, 0..6), blocks in any_blocks(),
    ) {
        pages.sort_unstable();
        pages.dedup();
        let (whole, cut) = (read(&cut_at(&[], &blocks)), read(&cut_at(&pages, &blocks)));
        prop_assert_eq!(cut.footprint, whole.footprint);
        prop_assert_eq!(cut.blocks, whole.blocks);
    }
}
