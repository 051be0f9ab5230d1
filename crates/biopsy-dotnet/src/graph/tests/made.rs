//! Graphs that are described object by object: in spans of any length, of any generation, in memory or on disk.

use proptest::prelude::*;

use crate::graph::*;

/// A place for a reference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Object(u32),
    Empty,
    /// It leads to no object.
    Nowhere,
}

/// An object as it was made.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) address: u64,
    pub(crate) of: u32,
    pub(crate) size: u64,
    pub(crate) generation: Generation,
    pub(crate) places: Vec<Place>,
    /// Whether a span begins with it.
    begins: bool,
}

impl Made {
    /// The objects that it refers to, in order, with the number of the place.
    pub(crate) fn references(&self) -> Vec<(usize, ObjectIndex)> {
        let object = |(number, place): (usize, &Place)| match place {
            Place::Object(target) => Some((number, ObjectIndex(*target))),
            Place::Empty | Place::Nowhere => None,
        };
        self.places.iter().enumerate().filter_map(object).collect()
    }
}

/// How many numbers are noted of the objects of each type.
pub(crate) const NOTED: [usize; 4] = [0, 2, 0, 1];

/// What is noted of an object: numbers that no two objects share.
pub(crate) fn noted_of(index: usize, of: u32) -> Vec<u32> {
    (0..NOTED[of as usize]).map(|number| (index * 10 + number) as u32).collect()
}

pub(crate) fn types() -> Vec<HeapType> {
    let noted = |count: usize| (0..count).map(|number| format!("n{number}")).collect();
    let of = |(number, count): (usize, &usize)| HeapType {
        name: format!("T{number}"),
        noted: noted(*count),
        is_free: number == 2,
        ..HeapType::default()
    };
    NOTED.iter().enumerate().map(of).collect()
}

/// The graph of these objects; references of more than so many bytes are in a file.
pub(crate) fn graph_of(objects: &[Made], in_memory: Option<u64>) -> Graph {
    let spill = match in_memory {
        Some(bytes) => Spill::beyond(bytes, tempfile::tempfile().expect("a file")),
        None => Spill::never(),
    };
    let mut spans = Vec::new();
    let mut open: Option<SpanBuilder> = None;
    for (index, object) in objects.iter().enumerate() {
        if object.begins {
            spans.extend(open.take().map(|span| span.finish(&spill).expect("it is written")));
        }
        let span = open.get_or_insert_with(|| SpanBuilder::new(object.address, object.generation));
        assert!(span.push(object.address, TypeIndex(object.of), object.size), "{object:?}");
        span.targets.extend(object.places.iter().map(|place| match place {
            Place::Object(target) => *target,
            Place::Empty => EMPTY,
            Place::Nowhere => NO_OBJECT,
        }));
        span.noted.extend(noted_of(index, object.of));
    }
    spans.extend(open.map(|span| span.finish(&spill).expect("it is written")));
    // They may come in any order.
    spans.reverse();
    let (graph, left_out) = Graph::from_spans(types(), spans);
    assert_eq!((graph.len(), left_out), (objects.len(), 0));
    if in_memory == Some(0) {
        assert_eq!(spill.spilled_bytes(), objects.iter().map(|one| one.places.len() as u64 * 4).sum::<u64>());
    }
    graph
}

const GENERATIONS: [Generation; 7] = [
    Generation::Gen0,
    Generation::Gen1,
    Generation::Gen2,
    Generation::Large,
    Generation::Pinned,
    Generation::Frozen,
    Generation::Unknown,
];

/// Objects that do not overlap: small and beyond 4 GiB, side by side and far apart, with references to themselves, to each other, to nothing.
pub(crate) fn objects() -> impl Strategy<Value = Vec<Made>> {
    let gap = prop_oneof![4 => Just(0u64), 3 => 1u64..40, 1 => 1u64 << 19..1 << 24];
    let size = prop_oneof![12 => 1u64..30, 1 => (1u64 << 29) - 2..(1 << 29) + 3, 1 => 1u64 << 33..1 << 34];
    let object = (gap, size, 0..4u32, proptest::option::weighted(0.1, 0..7usize));
    (proptest::collection::vec(object, 1..60), any::<bool>())
        .prop_flat_map(|(objects, is_32_bit)| {
            let place = place(objects.len() as u32);
            let places = proptest::collection::vec(proptest::collection::vec(place, 0..5), objects.len());
            (Just(objects), Just(if is_32_bit { 4 } else { 8 }), places)
        })
        .prop_map(|(objects, unit, places)| laid_out(objects, unit, places))
}

fn place(count: u32) -> impl Strategy<Value = Place> + Clone {
    prop_oneof![6 => (0..count).prop_map(Place::Object), 1 => Just(Place::Empty), 1 => Just(Place::Nowhere)]
}

fn laid_out(objects: Vec<(u64, u64, u32, Option<usize>)>, unit: u64, places: Vec<Vec<Place>>) -> Vec<Made> {
    let (mut end, mut generation, mut start) = (0x10_0000u64, Generation::Gen2, 0);
    let mut made = Vec::new();
    for ((gap, units, of, change), places) in objects.into_iter().zip(places) {
        let address = end.next_multiple_of(unit) + gap * unit;
        let begins = made.is_empty() || change.is_some() || address - start > 1 << 30;
        generation = change.map_or(generation, |number| GENERATIONS[number]);
        if begins {
            start = address;
        }
        // Not a whole number of units: an array of bytes.
        let size = units * unit - units % 3;
        end = address + size;
        made.push(Made { address, of, size, generation, places, begins });
    }
    made
}

/// So many objects of 24 bytes in one span, each with the references that `places` says.
pub(crate) fn row(count: u32, places: impl Fn(u32) -> Vec<Place>) -> Vec<Made> {
    let object = |number: u32| Made {
        address: 0x10_0000 + u64::from(number) * 24,
        of: 0,
        size: 24,
        generation: Generation::Gen2,
        places: places(number),
        begins: number == 0,
    };
    (0..count).map(object).collect()
}
