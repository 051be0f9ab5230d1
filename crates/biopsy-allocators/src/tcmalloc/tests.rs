//! What is read of a process made by hand, whole and broken.

use biopsy_model::footprint::{Blocks, Footprint};

use super::span::PAGE;
use crate::fuzz::MadeImage;
use crate::{footprint, with_blocks};

const DATA: u64 = 0x7f10_0000_0000;
const BOOKS: u64 = 0x7f20_0000_0000;
const SPANS: u64 = BOOKS + 0x20_2000;
const HEAP: u64 = 0x7f30_0000_0000;

fn block(number: u64) -> u64 {
    HEAP + number * 64
}

#[test]
fn a_made_process_is_counted() {
    let Footprint { allocators, warnings, .. } = footprint(&MadeImage::of_tcmalloc(), &[]);
    let [tcmalloc] = allocators.as_slice() else { panic!("{warnings:?}") };
    assert!(tcmalloc.whole && warnings.is_empty(), "{warnings:?}");
    let [arena] = tcmalloc.arenas.as_slice() else { panic!("{tcmalloc:#?}") };
    assert_eq!(arena.used, Blocks { count: 126, bytes: 125 * 64 + 2 * PAGE });
    assert_eq!(arena.free, Blocks { count: 4, bytes: 3 * 64 + 5 * PAGE });
    assert_eq!((arena.system, arena.resident, arena.heaps), (8 * PAGE, 8 * PAGE, 1));
    assert_eq!(tcmalloc.cached, Blocks { count: 4, bytes: 4 * 64 });
}

#[test]
fn blocks_in_use_are_listed_without_those_that_caches_keep() {
    let memory = with_blocks(&MadeImage::of_tcmalloc(), &[], 1000);
    let blocks = memory.blocks.expect("they are few");
    assert_eq!(blocks.len(), 125 - 4 + 1);
    let missing: Vec<u64> =
        (0..128).filter(|&number| !blocks.iter().any(|one| one.start.0 == block(number))).collect();
    assert_eq!(missing, [3, 5, 7, 10, 11, 20, 21]);
    assert_eq!(blocks.last().map(|one| (one.start.0, one.size)), Some((HEAP + PAGE, 2 * PAGE)));
    let leaf = BOOKS + 0x1000;
    assert!(memory.areas.iter().any(|area| area.contains(&leaf)), "{:x?}", memory.areas);
    assert!(with_blocks(&MadeImage::of_tcmalloc(), &[], 10).blocks.is_none());
}

/// Each line breaks one thing; what is told is less, and says so.
#[test]
fn what_is_broken_is_said() {
    for (what, address, word) in [
        ("a list that is a circle", block(7), block(3)),
        ("a list that leads to the middle of a block", block(3), block(5) + 8),
        ("a cache whose list is a circle", block(11), block(10)),
        ("a cache that keeps what is free", block(11), HEAP + PAGE),
        ("a list that is moved and has no end", block(21), block(20)),
        ("more blocks in use than there is room for", SPANS + 40, 5 << 16 | 129),
        ("fewer free blocks than there are", SPANS + 40, 5 << 16 | 121),
        ("a class that nobody has", SPANS + 40, 127 << 16 | 1),
        ("a span of another page", SPANS + 48, 5),
        ("a span that ends behind all addresses", SPANS + 48 + 8, u64::MAX),
        ("no cache", DATA + 0x10_5000, 0),
        ("no central lists", DATA + 0x11_4000 + 8 + 2 * 1216, 0),
        ("no sizes", DATA + 0x11_0004 + 4, 0),
    ] {
        let mut made = MadeImage::of_tcmalloc();
        made.word(address, word);
        let memory = with_blocks(&made, &[], 1000);
        let is_whole = memory.footprint.allocators.iter().any(|facts| facts.whole);
        assert!(!is_whole && !memory.footprint.warnings.is_empty(), "{what}: {:#?}", memory.footprint);
    }
}

/// A root of which one word leads elsewhere is none, nor is one without a leaf.
#[test]
fn what_is_no_map_is_not_believed() {
    let page = HEAP >> 13;
    let word = DATA + 0x1040 + (page >> 18) * 8;
    for (what, address, to) in [
        ("no leaf", word, 0),
        ("a leaf that is at two places", word + 8, BOOKS + 0x1000),
        ("something else", word + 64, HEAP),
        ("the end of all addresses", word + 64, u64::MAX - 15),
    ] {
        let mut made = MadeImage::of_tcmalloc();
        made.word(address, to);
        assert!(footprint(&made, &[]).allocators.is_empty(), "{what}");
    }
}
