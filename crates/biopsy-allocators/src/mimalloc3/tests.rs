//! What is read of a process made by hand, whole and broken.

use biopsy_model::footprint::{Blocks, Footprint};

use super::layout::SLICE;
use crate::fuzz::MadeImage;
use crate::{footprint, with_blocks};

const UPPER: u64 = 0x7f20_0000_0000;
const ARENA: u64 = 0x7f60_0000_0000;
const PAGES: u64 = ARENA + 0x4000;
const START: u64 = ARENA + SLICE + 0x80;

fn sum(all: &[(u64, u64)]) -> Blocks {
    let bytes = all.iter().map(|(count, bytes)| count * bytes).sum();
    Blocks { count: all.iter().map(|(count, _)| count).sum(), bytes }
}

#[test]
fn a_made_process_is_counted_in_each_layout() {
    for layout in 0..MadeImage::MIMALLOC_3 {
        let Footprint { allocators, warnings, .. } = footprint(&MadeImage::of_mimalloc_3(layout), &[]);
        let [mimalloc] = allocators.as_slice() else { panic!("{layout}: {warnings:?}") };
        assert!(mimalloc.whole && warnings.is_empty(), "{layout}: {warnings:?}");
        let [nobody, arena] = mimalloc.arenas.as_slice() else { panic!("{mimalloc:#?}") };
        assert_eq!(arena.used, sum(&[(17, 64), (4, 2048), (1, 114_688), (1, 1 << 20)]), "{layout}");
        assert_eq!(arena.free, sum(&[(3, 64), (1, 114_688)]), "{layout}");
        assert_eq!(mimalloc.cached, sum(&[(2, 64)]), "{layout}");
        assert_eq!((arena.system, nobody.system), ((1 + 1 + 8 + 16) * SLICE, 22 * SLICE), "{layout}");
        assert_eq!((nobody.used.count, nobody.free.bytes), (0, SLICE), "{layout}");
    }
}

#[test]
fn blocks_in_use_are_listed_without_those_that_were_given_back() {
    for layout in 0..MadeImage::MIMALLOC_3 {
        let memory = with_blocks(&MadeImage::of_mimalloc_3(layout), &[], 1000);
        let blocks = memory.blocks.expect("they are few");
        let small = blocks.iter().filter(|block| block.size == 64);
        let small: Vec<u64> = small.map(|block| (block.start.0 - START) / 64).collect();
        assert_eq!(small, [0, 1, 2, 4, 6, 8, 10, 12, 13, 14, 15, 16, 17, 18, 19], "{layout}");
        assert_eq!(blocks.len(), 15 + 4 + 1 + 1, "{layout}");
        assert!(memory.areas.iter().any(|area| area.contains(&UPPER)), "{:x?}", memory.areas);
    }
}

/// Each line breaks one thing; what is told is less, and says so.
#[test]
fn what_is_broken_is_said() {
    for (what, address, word) in [
        ("a list that is a circle", START + 5 * 64, START + 3 * 64),
        ("a list that leads to the middle of a block", START + 3 * 64, START + 5 * 64 + 8),
        ("a list of given back blocks that is a circle", START + 11 * 64, START + 9 * 64),
        ("a list that begins nowhere", PAGES + 8, ARENA),
        ("more blocks in use than there are", PAGES + 16, 21 | 20 << 16 | 1022 << 32),
        ("fewer free blocks than there are", PAGES + 16, 20 | 20 << 16 | 1022 << 32),
        ("more blocks than there is room for", PAGES + 16, 17 | 20 << 16 | 1023 << 32),
        ("another slice of the arena", PAGES + 96, 5 | 1 << 32),
        ("the end of all addresses", PAGES + 88, u64::MAX - 7),
        ("a slice that leads to nothing", UPPER + (3 << 20) + 8, 8),
    ] {
        let mut made = MadeImage::of_mimalloc_3(0);
        made.word(address, word);
        let memory = with_blocks(&made, &[], 1000);
        let is_whole = memory.footprint.allocators.iter().any(|facts| facts.whole);
        assert!(!is_whole && !memory.footprint.warnings.is_empty(), "{what}: {:#?}", memory.footprint);
    }
}

#[test]
fn what_is_no_map_is_not_believed() {
    for (what, address, word) in [
        ("the lowest map elsewhere", UPPER, UPPER),
        ("a map that is nowhere", UPPER + 64, 0x1000),
        ("a map behind all addresses", UPPER + 64, u64::MAX - 4095),
    ] {
        let mut made = MadeImage::of_mimalloc_3(0);
        made.word(address, word);
        assert!(footprint(&made, &[]).allocators.is_empty(), "{what}");
    }
}
