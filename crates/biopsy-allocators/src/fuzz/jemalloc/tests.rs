//! What is read of it, whole, broken and changed anywhere.

use biopsy_model::footprint::{Blocks, Footprint};
use proptest::prelude::*;

use super::*;
use crate::{footprint, with_blocks};

fn whole(made: &MadeJemalloc) -> bool {
    let footprint = footprint(made, &[]);
    footprint.allocators.first().is_some_and(|facts| facts.whole)
}

#[test]
fn a_made_process_is_counted_in_each_layout() {
    for is_newer in [true, false] {
        let made = MadeJemalloc::new(is_newer);
        let Footprint { allocators, warnings, .. } = footprint(&made, &[]);
        let [jemalloc] = allocators.as_slice() else { panic!("{warnings:?}") };
        assert!(jemalloc.whole && warnings.is_empty(), "{is_newer}: {warnings:?}");
        let [arena] = jemalloc.arenas.as_slice() else { panic!("{jemalloc:#?}") };
        let used = Blocks { count: 61 + 256 + 1, bytes: 61 * 64 + 256 * 48 + 16384 };
        let free = Blocks { count: 3 + 1, bytes: 3 * 64 + 8 * PAGE };
        assert_eq!((arena.used, arena.free), (used, free), "{is_newer}");
        assert_eq!(arena.system, 17 * PAGE, "{is_newer}");
        assert_eq!(jemalloc.cached, Blocks { count: 2, bytes: 128 }, "{is_newer}");
    }
}

#[test]
fn blocks_in_use_are_listed_without_those_that_threads_keep() {
    for is_newer in [true, false] {
        let memory = with_blocks(&MadeJemalloc::new(is_newer), &[], 1000);
        let blocks = memory.blocks.expect("they are few");
        assert_eq!(blocks.len(), 61 + 256 + 1 - 2);
        let starts: Vec<u64> = blocks.iter().take(4).map(|block| block.start.0).collect();
        assert_eq!(starts, [3, 4, 6, 7].map(|number| HEAP + number * 64));
        assert_eq!(blocks.last().map(|block| block.start.0), Some(HEAP + 4 * PAGE + 0x80));
        assert!(memory.areas.contains(&(BASE..BASE + BASE_BYTES)), "{:x?}", memory.areas);
        assert!(with_blocks(&MadeJemalloc::new(is_newer), &[], 10).blocks.is_none());
    }
}

/// Each line breaks one thing; what is told is less, and says so.
#[test]
fn what_is_broken_is_said() {
    for (what, address, word) in [
        ("the slab has other free regions than it says", EXTENTS + 64, 0x1f),
        ("an extent is of another page", EXTENTS + 8, HEAP + 0x20_0000),
        ("its last page is of another extent", LEAF + 3 * 8, EXTENTS),
        ("a size that fits no block", EXTENTS + 2 * 128 + 16, 4 * PAGE),
        ("a block that is kept is free", STACK, HEAP),
        ("a block that is kept is no region", STACK, HEAP + 33),
        ("the cache does not lead back", CACHE, SLOW + 8),
    ] {
        let mut made = MadeJemalloc::new(true);
        made.word(address, word);
        assert!(!whole(&made), "{what}");
    }
}

/// As -8 is one: a variable of a thread, the head of a bin, an extent.
#[test]
fn addresses_at_the_end_of_all_are_none() {
    for is_newer in [true, false] {
        for word in [u64::MAX - 7, u64::MAX - 63, u64::MAX] {
            for at in
                [VARIABLES + 0x1000, SLOW + 32, CACHE + 8, CACHE + 8 + BINS * 24, EXTENTS + 8, BASE + 24]
            {
                let mut made = MadeJemalloc::new(is_newer);
                made.word(at, word);
                let _ = footprint(&made, &[]);
            }
        }
    }
}

#[test]
fn what_does_not_hold_together_is_not_read_and_says_why() {
    let mut made = MadeJemalloc::new(true);
    for number in [1, 2, 3] {
        made.word(EXTENTS + number * 128, 7 << 17);
    }
    let footprint = footprint(&made, &[]);
    assert!(footprint.allocators.is_empty());
    let sentence = footprint.warnings.iter().find(|one| one.starts_with("jemalloc 5: not read, because"));
    assert!(sentence.is_some(), "{:?}", footprint.warnings);
    assert!(footprint.warnings.iter().any(|one| one.contains("jemalloc hands out is not told apart")));
    // A leaf that stands at two places is none.
    let mut made = MadeJemalloc::new(true);
    made.word(ROOT + (HEAP >> 30) * 8 + 8, LEAF);
    assert!(crate::footprint(&made, &[]).allocators.is_empty());
}

proptest! {
    /// Words that lead somewhere, or are as large as those that are there, go further than noise.
    #[test]
    fn any_pointers_are_followed_to_an_end(
        patches in prop::collection::vec((any::<u16>(), 0..PLACES.len(), 0..0x4000_u64, 0..3_u64, 0..64_u32), 0..40),
    ) {
        let bytes: Vec<u8> = patches.into_iter().flat_map(|(place, to, offset, kind, shift)| {
            let word = match kind {
                0 => PLACES[to].start + offset,
                1 => PLACES[to].start + offset / 64 * 64,
                _ => offset << shift,
            };
            place.to_le_bytes().into_iter().chain(word.to_le_bytes()).collect::<Vec<u8>>()
        }).collect();
        fuzz(&bytes);
    }
}
