//! Heaps of made-up processes.

use biopsy_model::footprint::RuntimeHeap;

use crate::fuzz::{MadeImage, go_heap_image, go_image, heap_fits_together};
use crate::{Limits, read_heaps};

const HEAP: u64 = 0xc0_0000_0000;
const LIST: u64 = 0x7f00_0000_0000;
const CHUNK: u64 = 0x7f00_0010_0000;
const SLICE: u64 = 0x40_5100;

fn heap(image: &MadeImage) -> RuntimeHeap {
    let mut heaps = read_heaps(image, None, &Limits::small());
    assert_eq!(heaps.len(), 1, "{heaps:#x?}");
    let heap = heaps.remove(0);
    heap_fits_together(&heap);
    heap
}

#[test]
fn objects_stacks_and_free_pages_are_told_apart_in_each_version() {
    for minor in 19..=26 {
        let heap = heap(&go_heap_image(minor));
        assert_eq!(heap.warnings, Vec::<String>::new(), "1.{minor}");
        assert_eq!((heap.memory.name, heap.memory.whole), (format!("Go 1.{minor}.3"), true));
        let used: Vec<(&str, u64, u64)> = heap
            .memory
            .pools
            .iter()
            .take(3)
            .map(|pool| (pool.name.as_str(), pool.used.count, pool.used.bytes))
            .collect();
        assert_eq!(
            used,
            [("objects", 4, 3 * 48 + 8192), ("stacks of goroutines", 0, 8192), ("free pages", 0, 0)],
            "1.{minor}"
        );
        let committed: Vec<u64> = heap.memory.pools.iter().take(3).map(|pool| pool.committed).collect();
        assert_eq!(committed, [16384, 8192, 8192], "1.{minor}");
        let classes: Vec<(u64, u64, u64)> = heap
            .memory
            .classes
            .iter()
            .map(|class| (class.up_to, class.used.count, class.free.count))
            .collect();
        assert_eq!(classes, [(48, 3, 167), (8192, 1, 0)], "1.{minor}");
        let at = |address| heap.areas.iter().find(|area| area.range.contains(&address)).map(|area| area.pool);
        let places = [HEAP, HEAP + 0x2000, HEAP + 0x4000, HEAP + 0x6000, HEAP + 0x1000_0000, LIST, CHUNK];
        let pools = [Some(0), Some(1), Some(0), Some(2), None, Some(3), Some(3)];
        assert_eq!(places.map(at), pools, "1.{minor}: {:x?}", heap.areas);
    }
}

#[test]
fn what_does_not_lead_back_to_itself_is_not_believed() {
    for (what, at, word, why) in [
        ("no list", SLICE, 0x1000, "the list of its spans was not found"),
        ("a list without an end", SLICE + 8, 1 << 60, "the list of its spans was not found"),
        ("no map", SLICE + 144, 0, "the map of its arenas was not found"),
        ("a map of others", SLICE + 144, LIST, "the map of its arenas was not found"),
        ("numbers without an end", SLICE + 144 + 96, u64::MAX, "the map of its arenas was not found"),
    ] {
        let mut image = go_heap_image(22);
        image.word(at, word);
        let heap = heap(&image);
        assert_eq!(heap.warnings, [format!("Go heap of Go 1.22.3: not read, because {why}")], "{what}");
        assert!(heap.areas.is_empty() && heap.memory.pools.is_empty(), "{what}");
    }
    let heap = heap(&go_image(22));
    assert!(heap.warnings.concat().contains("the list of its spans was not found"), "{:?}", heap.warnings);
}

#[test]
fn a_span_in_the_middle_of_a_change_counts_as_free_and_is_said() {
    let mut image = go_heap_image(22);
    // More objects than have room.
    image.put(CHUNK + 0x100 + 96, &[200, 0]);
    let heap = heap(&image);
    assert!(!heap.memory.whole && heap.warnings.concat().contains("1 of 3 spans"), "{:?}", heap.warnings);
    assert_eq!(heap.memory.pools[0].used.bytes, 8192);
    assert_eq!(heap.areas.iter().find(|area| area.range.contains(&HEAP)).map(|area| area.pool), Some(2));
}

#[test]
fn a_chain_of_chunks_that_is_a_circle_ends() {
    let mut image = go_heap_image(22);
    image.word(CHUNK, CHUNK);
    let heap = heap(&image);
    assert!(heap.memory.whole, "{:?}", heap.warnings);
    // What of the chunk is known otherwise is still bookkeeping: bits of objects.
    assert!(heap.areas.iter().any(|area| area.range.contains(&(CHUNK + 0x1000))));
    assert!(!heap.areas.iter().any(|area| area.range.contains(&CHUNK)), "{:x?}", heap.areas);
}
