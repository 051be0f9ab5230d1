//! Heaps made by hand, whole and damaged.

mod of_runtime;
mod outside;

use proptest::prelude::*;

use super::fuzz::{fuzz_heap, thread};
use super::synthetic::*;
use super::*;
use crate::graph::{Generation, Graph, RootKind};
use biopsy_model::Avma;

fn opened(memory: &Synthetic) -> Result<Heap<'_>, HeapError> {
    Heap::of(memory, Avma(GC), vec![thread()])
}

#[test]
fn a_small_heap_is_walked_whole() {
    let memory = Synthetic::new();
    let heap = opened(&memory).unwrap();
    let (graph, problems) = heap.walk(&HeapOptions { threads: 2, spill: None }).unwrap();
    assert!(problems.is_none(), "{problems:?}");
    let objects: Vec<_> = graph.objects().map(|one| (one.address.0, one.size, one.generation)).collect();
    assert_eq!(
        objects,
        [
            (YOUNG, 32, Generation::Gen0),
            (YOUNG + 0x100, 0x40, Generation::Gen0),
            (YOUNG + 0x140, 32, Generation::Gen0),
            (YOUNG + 0x160, 25, Generation::Gen0),
            (YOUNG + 0x180, 32, Generation::Gen0),
            (YOUNG + 0x1a0, 0x60, Generation::Gen0),
            (OLD, 32, Generation::Gen2),
            (OLD + 0x20, 56, Generation::Gen2),
            (OLD + 0x58, 0x100 - 0x58, Generation::Gen2),
            (BIG, 0x4000, Generation::Large),
        ]
    );
    let edges = |address: u64| -> Vec<u64> {
        let targets = graph.references(graph.find(Avma(address)).unwrap()).unwrap();
        targets.into_iter().map(|target| graph.object(target).unwrap().address.0).collect()
    };
    assert_eq!(edges(YOUNG), [YOUNG + 0x140]);
    assert_eq!(edges(YOUNG + 0x140), [OLD + 0x20]);
    assert_eq!(edges(YOUNG + 0x180), [YOUNG + 0x180]);
    assert_eq!(edges(OLD + 0x20), [BIG, OLD + 0x20]);
    assert_eq!(edges(BIG), [0u64; 0]);
}

#[test]
fn numbers_are_noted_and_equal_texts_get_equal_numbers() {
    let mut memory = Synthetic::new();
    // In the place of a gap, two texts of 8 bytes.
    for at in [YOUNG + 0x100, YOUNG + 0x120] {
        memory.put(at, BYTES);
        memory.put(at + 8, 8);
    }
    memory.put(YOUNG + 0x110, 77);
    memory.put(YOUNG + 0x130, 77);
    let heap = opened(&memory).unwrap();
    let noted = |graph: &Graph| {
        let mut all = Vec::new();
        graph.for_each_noted(|object, _, numbers| {
            all.push((graph.object(object).unwrap().address.0, numbers.to_vec()));
        });
        all
    };
    let (graph, problems) = heap.walk(&HeapOptions { threads: 2, spill: None }).unwrap();
    assert!(problems.is_none(), "{problems:?}");
    let expected: Vec<(u64, Vec<u32>)> = vec![
        (YOUNG, vec![0]),
        (YOUNG + 0x100, vec![1]),
        (YOUNG + 0x120, vec![1]),
        (YOUNG + 0x160, vec![0]),
        // Its field is a reference to itself.
        (YOUNG + 0x180, vec![YOUNG as u32 + 0x180]),
        (YOUNG + 0x1a0, vec![0]),
        (OLD, vec![0]),
        (BIG, vec![0]),
    ];
    assert_eq!(noted(&graph), expected);
    memory.put(YOUNG + 0x130, 78);
    let (graph, _) = opened(&memory).unwrap().walk(&HeapOptions::default()).unwrap();
    assert_eq!(noted(&graph)[1..3], [(YOUNG + 0x100, vec![0]), (YOUNG + 0x120, vec![0])]);
    // Without references nothing is noted.
    let (graph, _) = opened(&memory).unwrap().walk_objects(&HeapOptions::default()).unwrap();
    assert!(noted(&graph).is_empty());
}

#[test]
fn what_handles_and_finalizers_hold_is_live_and_the_rest_is_garbage() {
    let memory = Synthetic::new();
    let heap = opened(&memory).unwrap();
    let (mut graph, mut problems) = heap.walk(&HeapOptions::default()).unwrap();
    let roots = heap.find_live(&mut graph, &mut problems).unwrap();
    assert!(problems.is_none());
    assert_eq!(roots.missing, [""; 0]);
    let kinds: Vec<_> = graph.roots().iter().map(|root| root.kind).collect();
    assert_eq!(kinds, [RootKind::StrongHandle, RootKind::FinalizerQueue]);
    let live = graph.live().unwrap();
    let garbage: Vec<_> =
        graph.objects().filter(|one| !live.contains(one.index.0 as usize)).map(|one| one.address.0).collect();
    // Free space, a byte array nobody holds, and a node that holds itself.
    assert_eq!(garbage, [YOUNG + 0x100, YOUNG + 0x160, YOUNG + 0x180, OLD + 0x58]);
}

/// The problems once it is known what is live, with a reference of one object changed to where nothing lies.
fn problems_with_a_stale_reference(field: u64) -> Problems {
    let mut memory = Synthetic::new();
    memory.put(field, OLD + 0x28);
    let heap = opened(&memory).unwrap();
    let (mut graph, mut problems) = heap.walk(&HeapOptions::default()).unwrap();
    assert_eq!(problems, Problems { dangling: 1, ..Problems::default() });
    heap.find_live(&mut graph, &mut problems).unwrap();
    problems
}

#[test]
fn references_of_garbage_to_what_was_swept_are_no_damage() {
    let of_garbage = problems_with_a_stale_reference(YOUNG + 0x190);
    assert_eq!(of_garbage, Problems { stale: 1, ..Problems::default() });
    assert!(of_garbage.is_none());
    let of_live = problems_with_a_stale_reference(OLD + 0x40);
    assert_eq!(of_live, Problems { dangling: 1, ..Problems::default() });
    assert!(!of_live.is_none());
}

/// Places in the description of the segments of generations 2 and of large objects.
const OF_OLD: u64 = GC + 0x3000 + 64;
const OF_BIG: u64 = GC + 0x3000 + 128;
const MEM: u64 = 32;
const NEXT: u64 = 48;

#[test]
fn lists_of_segments_that_lie_are_left_where_they_do() {
    let walked = |changes: &[(u64, u64)]| {
        let mut memory = Synthetic::new();
        changes.iter().for_each(|(at, value)| memory.put(*at, *value));
        let (graph, problems) = opened(&memory).unwrap().walk(&HeapOptions::default()).unwrap();
        (graph.len(), problems)
    };
    let all = walked(&[]).0;
    // A circle, and a segment that is in two lists: each is walked once.
    for next in [OF_OLD, OF_BIG, GC + 0x3000] {
        let (objects, problems) = walked(&[(OF_OLD + NEXT, next)]);
        assert!(objects == all && problems.is_none(), "{next:#x}: {objects} {problems:?}");
    }
    for (changes, address, problem) in [
        (vec![(OF_BIG + MEM, BIG + 0x4008)], OF_BIG, Problem::BadSegment),
        (vec![(OF_BIG + MEM, BIG + 4)], OF_BIG, Problem::BadSegment),
        (vec![(OF_BIG + NEXT, 0x10)], 0x10, Problem::Unreadable),
        (vec![(OF_BIG + MEM, OLD + 0x58), (OF_BIG, OLD + 0x200)], OLD + 0x58, Problem::BadSegment),
    ] {
        let (objects, problems) = walked(&changes);
        assert_eq!(problems.first, [(Avma(address), problem)], "{changes:x?}");
        assert!(objects >= all - 1, "the others are there: {objects} of {all}");
    }
}

#[test]
fn numbers_of_the_collector_that_cannot_be_are_refused() {
    for (size, is_damaged) in
        [(63, true), (64, false), (256, false), (4095, false), (4096, true), (u64::MAX, true)]
    {
        let mut memory = Synthetic::new();
        memory.put(GC + 8, size);
        let refused = matches!(opened(&memory), Err(HeapError::Damaged { found, .. }) if found == size);
        assert_eq!(refused, is_damaged, "{size}");
    }
    let mut memory = Synthetic::new();
    memory.put(GC + 48, 0x10);
    assert!(matches!(opened(&memory), Err(HeapError::Memory { .. })));
    for generation in 0..5 {
        memory.put(GC + 48, GC + 0x2000);
        memory.put(GC + 0x2000 + generation * 256 + 56, 0);
    }
    assert!(matches!(opened(&memory), Err(HeapError::Empty)));
}

#[test]
fn a_background_collection_that_sweeps_is_seen() {
    let mut memory = Synthetic::new();
    assert!(!opened(&memory).unwrap().is_being_swept());
    // `c_gc_state`: marking 0, planning 1, free 2.
    for (state, swept) in [(0, false), (1, true), (2, false)] {
        memory.put(GC + 72, GC + 0x1040);
        memory.put(GC + 0x1040, state);
        assert_eq!(opened(&memory).unwrap().is_being_swept(), swept, "{state}");
    }
}

#[test]
fn references_beyond_the_budget_are_on_disk_and_the_same() {
    let memory = Synthetic::new();
    let heap = opened(&memory).unwrap();
    let spill = crate::graph::Spill::beyond(0, tempfile::tempfile().unwrap());
    let options = HeapOptions { threads: 1, spill: Some(spill) };
    let (spilled, _) = heap.walk(&options).unwrap();
    assert!(options.spill.unwrap().spilled_bytes() > 0);
    let (kept, _) = heap.walk(&HeapOptions::default()).unwrap();
    for object in kept.objects() {
        assert_eq!(kept.references(object.index).unwrap(), spilled.references(object.index).unwrap());
    }
}

#[test]
fn in_the_middle_of_a_collection_it_says_so() {
    let mut memory = Synthetic::new();
    memory.put(GC + 0x1000 + 24, 1);
    assert!(matches!(opened(&memory), Err(HeapError::Collecting)));
}

#[test]
fn an_object_that_is_being_made_is_no_damage() {
    let mut memory = Synthetic::new();
    // The thread has taken the room of the first object, and has not written its type yet.
    (0..4).for_each(|word| memory.put(YOUNG + word * 8, 0));
    let (graph, problems) = opened(&memory).unwrap().walk(&HeapOptions::default()).unwrap();
    assert!(problems.is_none(), "{problems:?}");
    assert!(graph.find(Avma(YOUNG)).is_none() && graph.find(Avma(YOUNG + 0x140)).is_some());
    // Where something was written, it is none.
    memory.put(YOUNG + 16, 1);
    let (_, problems) = opened(&memory).unwrap().walk(&HeapOptions::default()).unwrap();
    assert_eq!(problems.first, [(Avma(YOUNG), Problem::NoMethodTable)]);
}

#[test]
fn room_that_no_thread_knows_of_yet_is_no_damage() {
    let mut memory = Synthetic::new();
    // The last object of the youngest, behind the room of the only thread.
    (YOUNG + 0x180..YOUNG + 0x200).step_by(8).for_each(|at| memory.put(at, 0));
    let (graph, problems) = opened(&memory).unwrap().walk(&HeapOptions::default()).unwrap();
    assert!(problems.is_none(), "{problems:?}");
    assert!(graph.find(Avma(YOUNG + 0x160)).is_some() && graph.find(Avma(YOUNG + 0x180)).is_none());
    // Among old objects it is damage, and so is what is not empty.
    memory.put(YOUNG + 0x1f0, 1);
    let (_, problems) = opened(&memory).unwrap().walk(&HeapOptions::default()).unwrap();
    assert_eq!(problems.first, [(Avma(YOUNG + 0x180), Problem::NoMethodTable)]);
}

#[test]
fn behind_a_broken_object_the_rest_of_the_segment_is_skipped_and_counted() {
    let mut memory = Synthetic::new();
    memory.put(YOUNG + 0x140, 0x1234);
    let (graph, problems) = opened(&memory).unwrap().walk(&HeapOptions::default()).unwrap();
    assert_eq!(problems.first, [(Avma(YOUNG + 0x140), Problem::NoMethodTable)]);
    assert_eq!(problems.skipped_bytes, 0x200 - 0x140);
    assert_eq!(problems.dangling, 1);
    assert!(graph.find(Avma(BIG)).is_some() && graph.find(Avma(YOUNG + 0x180)).is_none());
}

#[test]
fn an_array_that_claims_more_than_its_segment_is_no_object() {
    let mut memory = Synthetic::new();
    memory.put(BIG + 8, u64::MAX);
    let (graph, problems) = opened(&memory).unwrap().walk(&HeapOptions::default()).unwrap();
    assert_eq!(problems.first, [(Avma(BIG), Problem::TooLong)]);
    assert!(graph.find(Avma(BIG)).is_none());
}

proptest! {
    #[test]
    fn any_damage_is_survived(bytes in proptest::collection::vec(any::<u8>(), 0..96)) {
        fuzz_heap(&bytes);
    }
}
