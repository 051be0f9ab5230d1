//! Processes that use glibc's malloc, and what is to be found in them.

use biopsy_model::footprint::{Blocks, Footprint};
use proptest::prelude::*;

use crate::made::{Block, HEAD_OF_TODAY, HEAP_ADDRESSES, Made};

pub(crate) const HEAP: u64 = 0x5500_0000_0000;
pub(crate) const HEAP_BYTES: u64 = 0x2_0000;
pub(crate) const LIBC: u64 = 0x7f00_0000_0000;
pub(crate) const LIBC_BYTES: u64 = 0x4000;
pub(crate) const ARENA: u64 = LIBC + 0x400;
/// Heaps of a second arena, newest last.
pub(crate) const SECOND: [u64; 2] = [0x7e00_0000_0000, 0x7e00_0000_0000 + HEAP_ADDRESSES];
/// Bytes of `heap_info`.
pub(crate) const INFO: u64 = 48;

/// A process with these blocks in its main arena.
pub(crate) fn process(head: (u64, u64), blocks: &[Block]) -> Made {
    let mut made = Made::default();
    made.map(HEAP, HEAP_BYTES, None);
    made.map(LIBC, LIBC_BYTES, Some("/lib/libc.so.6"));
    made.arena(ARENA, head, 0, ARENA, HEAP_BYTES);
    let top = made.blocks(HEAP, HEAP + HEAP_BYTES, ARENA, head, blocks);
    made.word(ARENA + head.0 + head.1 * 8, top);
    made
}

/// The same with a second arena of two heaps.
pub(crate) fn two_arenas(blocks: [&[Block]; 3]) -> Made {
    let head = HEAD_OF_TODAY;
    let mut made = Made::default();
    made.map(HEAP, HEAP_BYTES, None);
    for heap in SECOND {
        made.map(heap, HEAP_BYTES, None);
    }
    made.map(LIBC, LIBC_BYTES, Some("/lib/libc.so.6"));
    let second = SECOND[0] + INFO;
    made.arena(ARENA, head, 0, second, HEAP_BYTES);
    let top = made.blocks(HEAP, HEAP + HEAP_BYTES, ARENA, head, blocks[0]);
    made.word(ARENA + head.0 + head.1 * 8, top);
    let behind = made.arena(second, head, 0, ARENA, 2 * HEAP_BYTES);
    for (number, heap) in SECOND.into_iter().enumerate() {
        made.word(heap, second);
        made.word(heap + 8, if number == 0 { 0 } else { SECOND[0] });
        made.word(heap + 16, HEAP_BYTES);
    }
    let end = SECOND[0] + HEAP_BYTES;
    // A heap that is full ends in a fence: two headers.
    let first = behind.next_multiple_of(16);
    let fence = made.blocks(first, end, second, head, blocks[1]);
    made.word(fence + 8, (end - 2 * 16 - fence) | 1);
    made.word(end - 2 * 16 + 8, 16 | 1);
    made.word(end - 16 + 8, 1);
    let top = made.blocks(SECOND[1] + INFO, SECOND[1] + HEAP_BYTES, second, head, blocks[2]);
    made.word(second + head.0 + head.1 * 8, top);
    made
}

pub(crate) fn sum(blocks: &[Block], of: fn(&Block) -> bool) -> Blocks {
    let mut sum = Blocks::default();
    blocks.iter().filter(|block| of(block)).for_each(|block| sum.add(block.size()));
    sum
}

pub(crate) fn used(block: &Block) -> bool {
    matches!(block, Block::Used(_))
}

pub(crate) fn free(block: &Block) -> bool {
    matches!(block, Block::Free(_))
}

pub(crate) fn fast(block: &Block) -> bool {
    matches!(block, Block::Fast(_))
}

/// There is never more than there is.
pub(crate) fn total(footprint: &Footprint) -> u64 {
    footprint.parts.iter().map(|part| part.resident).fold(0, u64::saturating_add)
}

pub(crate) fn any_blocks() -> impl Strategy<Value = Vec<Block>> {
    let one = prop_oneof![
        (2..200_u64).prop_map(|units| Block::Used(units * 16)),
        (2..12_u64).prop_map(|units| Block::Fast(units * 16)),
        (2..200_u64).prop_map(|units| Block::Free(units * 16)),
    ];
    prop::collection::vec(one, 0..40).prop_map(|mut blocks| {
        // Two free ones side by side would be one.
        blocks.dedup_by(|one, before| free(one) && free(before));
        blocks
    })
}
