//! A Java heap by hand: one that three collectors have, each in its own way, with a card table and metaspace.

use super::made_module::Data;

/// As in the image of threads: types, the types above them, and their fields.
pub(super) const TYPES: &[(&str, Option<&str>, &[&str])] = &[
    ("CollectedHeap", None, &["_reserved", "-"]),
    ("MemRegion", None, &["_start", "_word_size"]),
    ("GenCollectedHeap", Some("CollectedHeap"), &["-", "-", "_young_gen", "_old_gen"]),
    ("G1CollectedHeap", Some("CollectedHeap"), &["-", "-", "-", "-", "_hrm", "-"]),
    ("HeapRegionManager", None, &["_regions", "-"]),
    ("G1HeapRegionTable", None, &["_base", "_length"]),
    ("HeapRegion", None, &["_bottom", "_end", "_top", "_type"]),
    ("HeapRegionType", None, &["_tag"]),
    ("DefNewGeneration", None, &["_eden_space", "_from_space", "_to_space"]),
    ("TenuredGeneration", None, &["_the_space"]),
    ("Space", None, &["_bottom", "_end"]),
    ("ContiguousSpace", Some("Space"), &["-", "-", "_top"]),
    ("PSYoungGen", None, &["_eden_space", "_from_space", "_to_space"]),
    ("PSOldGen", None, &["_object_space"]),
    ("MutableSpace", None, &["_bottom", "_end", "_top"]),
    ("CardTableBarrierSet", None, &["_card_table"]),
    ("CardTable", None, &["_byte_map", "_byte_map_size"]),
];
/// Where the heap is; nothing of it is mapped.
const HEAP: u64 = 0x8000_0000;
/// Bytes of a space and of a region.
const SPACE: u64 = 0x10_0000;
/// Where metaspace and the card table are.
const METASPACE: u64 = 0x9000_0000;
const CARDS: u64 = 0xa000_0000;

/// Where things are that tests change.
#[derive(Clone, Copy, Debug, Default)]
pub struct JavaHeapPlaces {
    /// The switches `UseSerialGC`, `UseParallelGC`, `UseG1GC`.
    pub collectors: [u64; 3],
    /// Bottom, end and top of eden.
    pub eden: u64,
    /// Bottom, end, top and tag of the first region.
    pub region: u64,
    /// The list of regions, and how many it says to have.
    pub regions: u64,
    /// The first node of metaspace: the next one, address, bytes.
    pub node: u64,
}

/// Variables of the runtime that lead to the heap: owner, name, address.
type Variables = Vec<(&'static str, &'static str, u64)>;

/// Adds it, and its switches to `flags`.
pub(super) fn heap(data: &mut Data, flags: &mut Vec<u64>) -> (Variables, JavaHeapPlaces) {
    let mut places = JavaHeapPlaces::default();
    for (name, place) in
        [b"UseSerialGC".as_slice(), b"UseParallelGC", b"UseG1GC"].into_iter().zip(&mut places.collectors)
    {
        *place = data.words(&[0]);
        flags.extend([data.text(name), *place]);
    }
    let mut space = |number: u64, used: u64| {
        let start = HEAP + number * SPACE;
        data.words(&[start, start + SPACE, start + used])
    };
    let [eden, from, to, old] =
        [(0, 0x8000), (1, 0x100), (2, 0), (3, SPACE)].map(|(at, used)| space(at, used));
    places.eden = eden;
    let (young, tenured) = (data.words(&[eden, from, to]), data.words(&[old]));
    let mut region = |number: u64, used: u64, tag: u64| {
        let start = HEAP + number * SPACE;
        data.words(&[start, start + SPACE, start + used, tag])
    };
    let regions = [(0, 0x8000, 2), (1, SPACE, 16), (2, 0x2000, 12), (3, 0, 0)];
    let regions = regions.map(|(number, used, tag)| region(number, used, tag));
    places.region = regions[0];
    let mut list = regions.to_vec();
    // Never used.
    list.push(0);
    let list = data.words(&list);
    let heap = data.words(&[HEAP, 6 * SPACE / 8, young, tenured, list, 5]);
    places.regions = heap + 32;
    let [heap, grain, young, tenured] = [heap, SPACE, young, tenured].map(|word| data.words(&[word]));
    let table = data.words(&[CARDS, 6 * SPACE / 512]);
    let barriers = data.words(&[table]);
    let barriers = data.words(&[barriers]);
    for (name, start) in [(b"non-class-space".as_slice(), METASPACE), (b"class-space", METASPACE + SPACE)] {
        let name = data.text(name);
        let node = data.words(&[0, start, SPACE, 7, start, SPACE / 8, 9]);
        if start == METASPACE {
            places.node = node;
        }
        let list = data.words(&[0x77, name, node, 1, 0, SPACE / 8, 0x80]);
        let context = data.words(&[name, list, 0]);
        data.words(&[context]);
    }
    let variables = vec![
        ("Universe", "_collectedHeap", heap),
        ("HeapRegion", "GrainBytes", grain),
        ("ParallelScavengeHeap", "_young_gen", young),
        ("ParallelScavengeHeap", "_old_gen", tenured),
        ("BarrierSet", "_barrier_set", barriers),
    ];
    (variables, places)
}
