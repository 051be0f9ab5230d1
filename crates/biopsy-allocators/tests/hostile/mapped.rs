//! Large blocks with mappings of their own, wherever the kernel puts them.

use biopsy_allocators::{NativeMemory, with_blocks};
use biopsy_model::footprint::Blocks;

use crate::made::{Block, HEAD_OF_TODAY, HEAP_ADDRESSES, Made};
use crate::processes::{ARENA, HEAP, HEAP_BYTES, INFO, LIBC, LIBC_BYTES, SECOND, total};

const LARGE: u64 = 0x7d00_0000_0000;

/// A process whose library says that it has so many blocks in `bytes` of memory at `LARGE`.
fn with_mapped(count: u64, bytes: u64) -> Made {
    let mut made = Made::default();
    made.map(HEAP, HEAP_BYTES, None);
    made.map(LARGE, 0x8000, None);
    made.map(LIBC, LIBC_BYTES, Some("/lib/libc.so.6"));
    made.arena(ARENA, HEAD_OF_TODAY, 0, ARENA, HEAP_BYTES);
    let top = made.blocks(HEAP, HEAP + HEAP_BYTES, ARENA, HEAD_OF_TODAY, &[Block::Used(64)]);
    made.word(ARENA + 96, top);
    made.parameters(LIBC, count, bytes, HEAP);
    made
}

fn mapped(memory: &NativeMemory) -> Blocks {
    memory.footprint.allocators.first().map_or(Blocks::default(), |facts| facts.mapped)
}

#[test]
fn what_is_no_block_of_its_own_is_not_taken_for_one() {
    for (what, before, size) in [
        ("no size", 0, 2),
        ("a size that is no page", 0, 0x1010 | 2),
        ("the size of half a page", 0, 0x800 | 2),
        ("a block that is not mapped", 0, 0x2000),
        ("a block with one in use before it", 0, 0x2000 | 3),
        ("a block with a free one before it", 64, 0x2000 | 2),
        ("a block that ends behind its mapping", 0, 0x9000 | 2),
        ("a block that ends behind all addresses", 0, !0xfff | 2),
    ] {
        let mut made = with_mapped(1, 0x2000);
        made.word(LARGE, before);
        made.word(LARGE + 8, size);
        let memory = with_blocks(&made, &[], 100);
        assert_eq!(mapped(&memory), Blocks::default(), "{what}");
        let said = memory.footprint.warnings.iter().any(|one| one.contains("counts 1 blocks of 8192 bytes"));
        assert!(said && !memory.footprint.allocators[0].whole, "{what}: {:#?}", memory.footprint.warnings);
        assert_eq!(total(&memory.footprint), made.resident(), "{what}");
    }
}

/// Who counts none has none: memory that looks like a block is the program's own.
#[test]
fn blocks_that_nobody_counts_are_not_looked_for() {
    let mut made = with_mapped(0, 0);
    made.word(LARGE + 8, 0x2000 | 2);
    let memory = with_blocks(&made, &[], 100);
    assert_eq!(mapped(&memory), Blocks::default());
    assert!(memory.footprint.allocators[0].whole, "{:#?}", memory.footprint.warnings);
}

/// What lies in a block is not looked at, even where it looks like another one.
#[test]
fn what_is_in_a_block_is_no_block() {
    let mut made = with_mapped(2, 0x8000);
    made.word(LARGE + 8, 0x6000 | 2);
    made.word(LARGE + 0x3000 + 8, 0x1000 | 2);
    made.word(LARGE + 0x6000 + 8, 0x2000 | 2);
    let memory = with_blocks(&made, &[], 100);
    assert_eq!(mapped(&memory), Blocks { count: 2, bytes: 0x8000 }, "{:#?}", memory.footprint);
    let starts: Vec<u64> = memory.blocks.iter().flatten().map(|block| block.start.0).collect();
    assert_eq!(starts, [HEAP + 16, LARGE + 16, LARGE + 0x6000 + 16]);
}

/// A block may lie right below a heap, in the gap that aligning it has left, or right above one that is full. The kernel makes one mapping of
/// both where `vm.overcommit_memory` is 2 (otherwise heaps alone are `MAP_NORESERVE`), and so do writers of dumps that join neighbours.
#[test]
fn a_block_side_by_side_with_a_heap_is_found() {
    let (heap, below, above) = (SECOND[0], 0x3000, 0x2000);
    let mut made = Made::default();
    made.map(HEAP, HEAP_BYTES, None);
    made.map(heap - below, below + HEAP_ADDRESSES + above, None);
    made.map(LIBC, LIBC_BYTES, Some("/lib/libc.so.6"));
    let second = heap + INFO;
    made.arena(ARENA, HEAD_OF_TODAY, 0, second, HEAP_BYTES);
    let top = made.blocks(HEAP, HEAP + HEAP_BYTES, ARENA, HEAD_OF_TODAY, &[Block::Used(64)]);
    made.word(ARENA + 96, top);
    let behind = made.arena(second, HEAD_OF_TODAY, 0, ARENA, HEAP_ADDRESSES);
    made.word(heap, second);
    made.word(heap + 16, HEAP_ADDRESSES);
    let first = behind.next_multiple_of(16);
    let top = made.blocks(first, heap + HEAP_ADDRESSES, second, HEAD_OF_TODAY, &[Block::Used(4096)]);
    made.word(second + 96, top);
    made.word(heap - below + 8, below | 2);
    made.word(heap + HEAP_ADDRESSES + 8, above | 2);
    made.parameters(LIBC, 2, below + above, HEAP);
    let memory = with_blocks(&made, &[], 100);
    assert_eq!(mapped(&memory), Blocks { count: 2, bytes: below + above }, "{:#?}", memory.footprint);
    assert!(memory.footprint.allocators[0].whole, "{:#?}", memory.footprint.warnings);
    assert_eq!(total(&memory.footprint), made.resident());
    let starts: Vec<u64> = memory.blocks.iter().flatten().map(|block| block.start.0).collect();
    assert_eq!(starts, [HEAP + 16, heap - below + 16, first + 16, heap + HEAP_ADDRESSES + 16]);
}

/// A dump may have memory in the last page of all addresses, behind which there is none.
#[test]
fn the_last_page_of_all_is_searched_without_going_round() {
    let last_page = u64::MAX - 0xfff;
    let mut made = with_mapped(1, 0x1000);
    made.map(last_page, 0xff8, None);
    let memory = with_blocks(&made, &[], 100);
    assert_eq!(mapped(&memory), Blocks::default());
    assert_eq!(total(&memory.footprint), made.resident());
}

/// The data of a library that ends where addresses end: of its arena the last members would be behind them.
#[test]
fn an_arena_that_does_not_fit_below_the_end_of_all_addresses_is_none() {
    let pages = u64::MAX - 0x1fff;
    for back in (0..0x40).step_by(8) {
        let mut made = Made::default();
        made.map(pages, 0x1fff, Some("/lib/libc.so.6"));
        // `next` is so far from the end, and leads back to the arena.
        let next = u64::MAX - 15 - back;
        let bins = next - 16 - 127 * 16;
        let arena = bins - 112;
        for bin in (0..127).map(|number| bins + number * 16) {
            made.word(bin, bin - 16);
            made.word(bin + 8, bin - 16);
        }
        made.word(next, arena);
        let memory = with_blocks(&made, &[], 100);
        assert_eq!(total(&memory.footprint), made.resident(), "{back} bytes before the end");
        assert_eq!(memory.footprint.allocators.is_empty(), back < 32, "{back}: {:#?}", memory.footprint);
    }
}
