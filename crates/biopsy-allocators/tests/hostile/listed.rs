//! Blocks in use, one by one: each is listed once, where the program sees it, up to as many as are wanted.

use biopsy_allocators::fuzz::{MadeImage, MadeJemalloc, MadeProcess};
use biopsy_allocators::{UsedBlock, footprint, with_blocks};
use biopsy_image::Image;
use biopsy_model::Avma;
use proptest::prelude::*;

use crate::made::{Block, HEAD_OF_TODAY, HEADS};
use crate::processes::{ARENA, HEAP, any_blocks, process, used};

/// What a program sees of blocks that lie side by side from the start of the heap on.
fn seen(blocks: &[Block]) -> Vec<UsedBlock> {
    let mut at = HEAP;
    let mut seen = Vec::new();
    for block in blocks {
        if used(block) {
            // Without its header, with the first word of the one behind.
            seen.push(UsedBlock { start: Avma(at + 16), size: block.size() - 8 });
        }
        at += block.size();
    }
    seen
}

/// How many blocks an image has, asked without a limit.
fn count(image: &dyn Image) -> usize {
    with_blocks(image, &[], usize::MAX).blocks.map_or(0, |blocks| blocks.len())
}

#[test]
fn as_many_blocks_as_are_wanted_are_listed_and_one_more_is_too_many() {
    let blocks = [Block::Used(64), Block::Free(512), Block::Used(32), Block::Used(4096), Block::Used(48)];
    let images: [&dyn Image; 7] = [
        &process(HEAD_OF_TODAY, &blocks),
        &MadeProcess::of_musl(),
        &MadeJemalloc::new(true),
        &MadeJemalloc::new(false),
        &MadeImage::of_mimalloc(0),
        &MadeImage::of_mimalloc_3(0),
        &MadeImage::of_tcmalloc(),
    ];
    for image in images {
        let all = with_blocks(image, &[], usize::MAX);
        // Those that a cache keeps need room while nobody knows yet that it does.
        let cached: u64 = all.footprint.allocators.iter().map(|facts| facts.cached.count).sum();
        let room = count(image) + usize::try_from(cached).expect("they are few");
        assert!(room > 0, "{:#?}", all.footprint);
        assert_eq!(with_blocks(image, &[], room).blocks, all.blocks);
        assert_eq!(with_blocks(image, &[], room - 1).blocks, None);
        assert_eq!(with_blocks(image, &[], 0).blocks, None);
    }
}

/// How many are listed changes nothing of what is counted.
#[test]
fn what_is_counted_does_not_depend_on_what_is_listed() {
    let images: [&dyn Image; 6] = [
        &MadeProcess::new(),
        &MadeProcess::of_musl(),
        &MadeJemalloc::new(true),
        &MadeImage::of_mimalloc(0),
        &MadeImage::of_mimalloc_3(0),
        &MadeImage::of_tcmalloc(),
    ];
    for image in images {
        let counted = footprint(image, &[]);
        for most in [0, 1, 3, usize::MAX] {
            assert_eq!(with_blocks(image, &[], most).footprint, counted, "up to {most}");
        }
    }
}

#[test]
fn a_heap_without_blocks_has_an_empty_list_and_no_heap_has_none() {
    let empty = with_blocks(&process(HEAD_OF_TODAY, &[]), &[], 10);
    assert_eq!(empty.blocks, Some(Vec::new()), "{:#?}", empty.footprint);
    let mut made = process(HEAD_OF_TODAY, &[]);
    made.word(ARENA + 96 + 16 + 127 * 16 + 16, 0);
    let nothing = with_blocks(&made, &[], 10);
    assert!(nothing.blocks.is_none() && nothing.areas.is_empty(), "{nothing:#?}");
}

#[test]
fn more_blocks_are_seen_where_they_were_given_out() {
    for sizes in [&[][..], &[32], &[64, 64, 4096], &[0x290, 0x250, 0x300]] {
        let (made, given) = MadeProcess::with_blocks(sizes);
        let without = with_blocks(&MadeProcess::new(), &[], 100).blocks.expect("they are few");
        let listed = with_blocks(&made, &[], 100).blocks.expect("they are few");
        let more: Vec<UsedBlock> = listed.iter().filter(|one| !without.contains(one)).copied().collect();
        let expected: Vec<UsedBlock> = given
            .iter()
            .zip(sizes)
            .map(|(start, size)| UsedBlock { start: Avma(*start), size: size - 8 })
            .collect();
        assert_eq!(more, expected, "{sizes:x?}");
    }
}

proptest! {
    /// In every layout, whatever lies between them.
    #[test]
    fn the_blocks_that_were_given_out_are_listed(which in 0..HEADS.len(), blocks in any_blocks()) {
        // Layouts without fast bins do not know blocks in them.
        let head = HEADS[which];
        let blocks: Vec<Block> =
            blocks.into_iter().filter(|block| head.1 > 0 || !matches!(block, Block::Fast(_))).collect();
        let mut separate = blocks;
        separate.dedup_by(|one, before| matches!((one, before), (Block::Free(_), Block::Free(_))));
        let memory = with_blocks(&process(head, &separate), &[], 1000);
        prop_assert_eq!(memory.blocks, Some(seen(&separate)));
        let facts = &memory.footprint.allocators[0];
        prop_assert!(facts.whole, "{:#?}", memory.footprint);
        let by_size: u64 = facts.classes.iter().map(|class| class.used.count).sum();
        prop_assert_eq!(by_size, facts.arenas[0].used.count);
        prop_assert!(facts.classes.windows(2).all(|pair| pair[0].up_to < pair[1].up_to));
    }
}
