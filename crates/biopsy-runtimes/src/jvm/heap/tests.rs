//! Heaps of a made-up virtual machine.

use biopsy_model::footprint::RuntimeHeap;

use crate::fuzz::{JavaHeapPlaces, MadeImage, heap_fits_together, java_image};
use crate::{Limits, read_heaps};

const SPACE: u64 = 0x10_0000;
const SERIAL: usize = 0;
const PARALLEL: usize = 1;
const G1: usize = 2;

fn image(collector: Option<usize>) -> (MadeImage, JavaHeapPlaces) {
    let (mut image, places) = java_image(1);
    if let Some(collector) = collector {
        image.word(places.heap.collectors[collector], 1);
    }
    (image, places.heap)
}

fn heap(image: &MadeImage) -> RuntimeHeap {
    let mut heaps = read_heaps(image, None, &Limits::small());
    assert_eq!(heaps.len(), 1, "{heaps:#x?}");
    let heap = heaps.remove(0);
    heap_fits_together(&heap);
    heap
}

fn used(heap: &RuntimeHeap, pool: &str) -> Option<u64> {
    heap.memory.pools.iter().find(|one| one.name == pool).map(|pool| pool.used.bytes)
}

/// The pool that an address is in.
fn at(heap: &RuntimeHeap, address: u64) -> Option<(&str, u64)> {
    let area = heap.areas.iter().find(|area| area.range.contains(&address))?;
    Some((heap.memory.pools[area.pool].name.as_str(), area.used))
}

#[test]
fn the_spaces_of_each_collector_are_told_apart() {
    for (collector, name) in [(SERIAL, "Serial"), (PARALLEL, "Parallel")] {
        let (image, _) = image(Some(collector));
        let heap = heap(&image);
        assert_eq!(heap.warnings, Vec::<String>::new(), "{name}");
        assert_eq!(heap.memory.name, format!("Java 17.0.99 ({name})"));
        let spaces = ["eden", "survivors", "old", "not given to a space"].map(|pool| used(&heap, pool));
        assert_eq!(spaces, [Some(0x8000), Some(0x100), Some(SPACE), Some(0)], "{name}");
        assert_eq!(at(&heap, 0x8000_0000), Some(("eden", 0x8000)));
        assert_eq!(at(&heap, 0x8000_8000), Some(("eden", 0)));
        assert_eq!(at(&heap, 0x8000_0000 + 4 * SPACE), Some(("not given to a space", 0)));
    }
    let (image, _) = image(Some(G1));
    let heap = heap(&image);
    assert_eq!((heap.warnings.as_slice(), heap.memory.whole), (&[][..], true));
    let spaces = ["eden", "survivors", "old", "humongous"].map(|pool| used(&heap, pool));
    assert_eq!(spaces, [Some(0x8000), None, Some(SPACE), Some(0x2000)]);
    assert_eq!(at(&heap, 0x8000_0000 + 3 * SPACE), Some(("not given to a space", 0)));
}

#[test]
fn metaspace_code_and_cards_are_found() {
    let (image, _) = image(Some(G1));
    let heap = heap(&image);
    assert_eq!(at(&heap, 0x9000_0000), Some(("metaspace", SPACE)));
    assert_eq!(at(&heap, 0x9000_0000 + SPACE), Some(("class space", SPACE)));
    assert_eq!(at(&heap, 0xa000_0000), Some(("card table", 6 * SPACE / 512)));
    assert!(
        heap.memory.pools.iter().any(|pool| pool.name == "code cache" && pool.committed == 4096),
        "{heap:#x?}"
    );
}

/// Damages an image.
type Damage<'a> = &'a dyn Fn(&mut MadeImage, &JavaHeapPlaces);

#[test]
fn what_does_not_hold_together_is_said_and_the_rest_is_read() {
    let cases: [(&str, usize, Damage<'_>, &str); 6] = [
        (
            "a top outside",
            SERIAL,
            &|image, at| image.word(at.eden + 16, u64::MAX),
            "a space of Serial is not in it",
        ),
        (
            "no end",
            PARALLEL,
            &|image, at| image.word(at.eden + 8, 1 << 60),
            "a space of Parallel is not in it",
        ),
        (
            "two in one place",
            SERIAL,
            &|image, at| image.word(at.eden + 8, 0x8000_0000 + 2 * SPACE),
            "overlap",
        ),
        ("regions without an end", G1, &|image, at| image.word(at.regions + 8, 1 << 60), "were not found"),
        ("a region elsewhere", G1, &|image, at| image.word(at.region, 0x1000), "were not found"),
        ("a circle of nodes", G1, &|image, at| image.word(at.node, at.node), "metaspace: not read"),
    ];
    for (what, collector, change, why) in cases {
        let (mut image, places) = image(Some(collector));
        change(&mut image, &places);
        let heap = heap(&image);
        assert!(heap.warnings.concat().contains(why), "{what}: {:?}", heap.warnings);
        assert!(!heap.memory.whole && at(&heap, 0xa000_0000).is_some(), "{what}");
    }
    let (image, _) = image(None);
    let heap = heap(&image);
    let why = "Java heap: not read, because its collector is none of Serial, Parallel and G1";
    assert_eq!(heap.warnings, [why]);
}
