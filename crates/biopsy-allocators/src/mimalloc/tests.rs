//! What is read of a process made by hand, whole and broken.

use biopsy_model::footprint::{Blocks, Footprint};

use super::layout::{BUILDS, SLICE};
use crate::fuzz::MadeImage;
use crate::{footprint, with_blocks};

const SEGMENT: u64 = 0x7f60_0000_0000;
const HEAP: u64 = 0x7f50_0000_0000;
const MIB: u64 = 19 * SLICE;

fn sum(all: &[(u64, u64)]) -> Blocks {
    let bytes = all.iter().map(|(count, bytes)| count * bytes).sum();
    Blocks { count: all.iter().map(|(count, _)| count).sum(), bytes }
}

#[test]
fn a_made_process_is_counted_in_each_layout() {
    for (layout, build) in BUILDS.iter().enumerate() {
        let Footprint { allocators, warnings, .. } = footprint(&MadeImage::of_mimalloc(layout), &[]);
        let [mimalloc] = allocators.as_slice() else { panic!("{layout}: {warnings:?}") };
        assert!(mimalloc.whole && warnings.is_empty(), "{layout}: {warnings:?}");
        let [arena] = mimalloc.arenas.as_slice() else { panic!("{mimalloc:#?}") };
        assert_eq!(arena.used, sum(&[(17, 64), (4, 2048), (1, 114_688), (1, MIB)]), "{layout}");
        assert_eq!(arena.free, sum(&[(3, 64), (1, 114_688)]), "{layout}");
        assert_eq!(mimalloc.cached, sum(&[(2, 64)]), "{layout}");
        assert_eq!(arena.system, build.segment.unit + 20 * SLICE, "{layout}");
        assert_eq!((arena.heaps, arena.unknown), (2, 0), "{layout}");
    }
}

#[test]
fn blocks_in_use_are_listed_without_those_that_were_given_back() {
    for layout in 0..MadeImage::MIMALLOC {
        let memory = with_blocks(&MadeImage::of_mimalloc(layout), &[], 1000);
        let blocks = memory.blocks.expect("they are few");
        assert_eq!(blocks.len(), 15 + 4 + 1 + 1, "{layout}");
        let first = blocks[0].start.0;
        let small: Vec<u64> = blocks
            .iter()
            .filter(|block| block.size == 64)
            .map(|block| (block.start.0 - first) / 64)
            .collect();
        assert_eq!(small, [0, 1, 2, 4, 6, 8, 10, 12, 13, 14, 15, 16, 17, 18, 19], "{layout}");
        assert!(with_blocks(&MadeImage::of_mimalloc(layout), &[], 10).blocks.is_none());
    }
}

/// Each line breaks one thing; what is told is less, and says so.
#[test]
fn what_is_broken_is_said() {
    let build = &BUILDS[0];
    let page = SEGMENT + build.segment.first as u64 + build.page.bytes as u64;
    let start = SEGMENT + SLICE + 192;
    for (what, address, word) in [
        ("a list that is a circle", start + 5 * 64, start + 3 * 64),
        ("a list that leads to the middle of a block", start + 3 * 64, start + 5 * 64 + 8),
        ("a list that leads to nothing", start + 3 * 64, 8),
        ("a list of given back blocks that is a circle", start + 9 * 64, start + 9 * 64),
        ("a heap whose list leads to no block", HEAP + build.delayed, HEAP),
        ("a heap that is not there", page + build.page.heap as u64, 0x10_0000),
        ("blocks of another size than there is room for", page + build.page.size as u64, 80),
        ("a page of which all is used and blocks are free", page + build.page.used as u64, 20),
        ("a segment that counts more pages", SEGMENT + build.segment.used as u64, 9),
        ("a slice that leads behind the end", page + 2 * build.page.bytes as u64, 600),
    ] {
        let mut made = MadeImage::of_mimalloc(0);
        made.word(address, word);
        let memory = with_blocks(&made, &[], 1000);
        let is_whole = memory.footprint.allocators.iter().any(|facts| facts.whole);
        assert!(!is_whole && !memory.footprint.warnings.is_empty(), "{what}: {:#?}", memory.footprint);
    }
}

/// A head in a segment is what was there before, and one of another process is nobody's.
#[test]
fn heads_that_are_no_segments_are_not_believed() {
    for (what, address, word) in [
        ("another secret", BUILDS[0].segment.cookie, 0x1234),
        ("another kind", BUILDS[0].segment.kind, 2),
        ("no slices", BUILDS[0].segment.slices, 0),
        ("more slices than there can be", BUILDS[0].segment.slices, u64::MAX),
        ("no room for the head", BUILDS[0].segment.info, 0),
    ] {
        let mut made = MadeImage::of_mimalloc(0);
        // The other one keeps what is right.
        made.word(SEGMENT + BUILDS[0].segment.unit + address as u64, word);
        let found = footprint(&made, &[]);
        let used = found.allocators.first().map(|facts| facts.arenas[0].used.count);
        assert!(used.is_none_or(|used| used == 22 || used == 1), "{what}: {found:#?}");
    }
}

/// As the memory of anybody may be.
#[test]
fn words_that_only_look_like_a_head_are_no_allocator() {
    let segment = BUILDS[0].segment;
    let mut made = MadeImage::default();
    made.map(SEGMENT..SEGMENT + segment.unit, "");
    for (place, word) in
        [(segment.slices, 512), (segment.entries, 512), (segment.info, 1), (segment.cookie, 7)]
    {
        made.word(SEGMENT + place as u64, word);
    }
    let found = footprint(&made, &[]);
    assert!(found.allocators.is_empty() && found.warnings.is_empty(), "{found:#?}");
}

#[test]
fn segments_that_were_given_back_are_free() {
    let mut made = MadeImage::of_mimalloc(0);
    let huge = SEGMENT + BUILDS[0].segment.unit;
    let description = huge + BUILDS[0].segment.first as u64 + BUILDS[0].page.bytes as u64;
    for (address, word) in [
        (huge + BUILDS[0].segment.used as u64, 0),
        (description + 8, 0),
        (description + BUILDS[0].page.size as u64, 0),
        (description + BUILDS[0].page.used as u64, 0),
    ] {
        made.word(address, word);
    }
    let found = footprint(&made, &[]);
    let [nobody, thread] = found.allocators[0].arenas.as_slice() else { panic!("{found:#?}") };
    assert_eq!((nobody.used.count, nobody.system, thread.used.count), (0, 20 * SLICE, 22));
    assert!(found.allocators[0].whole, "{found:#?}");
}
