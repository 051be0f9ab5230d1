//! Heaps with bits turned over: warnings, never a panic, never a walk without end.

use std::collections::BTreeMap;
use std::ops::Range;

use biopsy_dotnet::graph::Graph;
use biopsy_dotnet::heap::{Heap, HeapOptions, Problems};
use biopsy_dotnet::runtime::{Options, Runtime, find_runtimes};
use biopsy_image::{Image, ImageModule, Mapping, ProcessFacts, ReadError, Thread};
use biopsy_testkit::{DOTNET_RUNTIMES, dotnet_target, require_all};

use super::{NEEDED, quiet};

/// An image in which some bytes are others.
struct Damaged<'i> {
    image: &'i dyn Image,
    /// What is turned over in the byte at each address.
    bits: BTreeMap<u64, u8>,
}

impl Image for Damaged<'_> {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        let read = self.image.read(address, buffer)?;
        for (at, bits) in self.bits.range(address..address.saturating_add(read as u64)) {
            buffer[(at - address) as usize] ^= bits;
        }
        Ok(read)
    }
    fn mappings(&self) -> &[Mapping] {
        self.image.mappings()
    }
    fn threads(&self) -> &[Thread] {
        self.image.threads()
    }
    fn modules(&self) -> &[ImageModule] {
        self.image.modules()
    }
    fn process(&self) -> &ProcessFacts {
        self.image.process()
    }
    fn written(&self, range: Range<u64>, runs: &mut Vec<Range<u64>>) -> Result<(), ReadError> {
        self.image.written(range, runs)
    }
}

/// The heap of a damaged image; `None`: it was refused.
fn walk(image: &Damaged<'_>) -> Option<(Graph, Problems)> {
    let found = find_runtimes(image);
    let runtime = Runtime::open(Box::new(image), found.first()?, &Options::default()).ok()?;
    let heap = Heap::open(&runtime).ok()?;
    let (mut graph, mut problems) = heap.walk(&HeapOptions::default()).expect("nothing is spilled");
    heap.find_live(&mut graph, &mut problems).expect("nothing is spilled");
    Some((graph, problems))
}

/// Numbers that are the same each time (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

#[test]
fn bits_that_are_turned_over_in_objects_and_types_are_warnings() {
    if !require_all(&NEEDED) {
        return;
    }
    const ROUNDS: u64 = 24;
    for runtime in DOTNET_RUNTIMES {
        let target = dotnet_target(runtime, "holder", &["--objects", "2000"]);
        // The frozen copy ends with its process: that lives until all has been read.
        let (image, whole) = quiet(target.pid());
        let objects: Vec<_> = whole.objects().collect();
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
        let (mut refused, mut told, mut unseen) = (0, 0, 0);
        for round in 0..ROUNDS {
            let mut bits = BTreeMap::new();
            let object = objects[numbers.below(objects.len() as u64) as usize];
            // The word that says the type, what follows it (a length, references), anywhere, or the type itself.
            let place = match round % 4 {
                0 => object.address.0 + 5,
                1 => object.address.0 + 8 + numbers.below(4),
                2 => object.address.0 + numbers.below(object.size.max(16)),
                _ => {
                    whole.type_of(object.of).expect("a type").method_table.0.wrapping_sub(24)
                        + numbers.below(64)
                }
            };
            bits.insert(place, if round % 4 == 0 { 0x20 } else { 1 << numbers.below(8) });
            for _ in 0..numbers.below(8) {
                let more = objects[numbers.below(objects.len() as u64) as usize];
                bits.insert(more.address.0 + numbers.below(more.size), 1 << numbers.below(8));
            }
            let Some((graph, problems)) = walk(&Damaged { image: &image, bits }) else {
                refused += 1;
                continue;
            };
            if round % 4 == 0 {
                // No type is there: that cannot go unseen.
                assert!(!problems.is_none(), "{runtime}: round {round}");
            }
            let mut end = 0;
            for object in graph.objects() {
                assert!(object.address.0 >= end, "{runtime}: objects overlap");
                end = object.address.0 + object.size;
            }
            if problems.is_none() { unseen += 1 } else { told += 1 }
        }
        eprintln!(
            "{runtime}: of {ROUNDS}, {refused} refused, {told} walked with warnings, {unseen} not seen"
        );
        assert!(told > 0, "{runtime}");
    }
}
