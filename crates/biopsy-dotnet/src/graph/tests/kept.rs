//! What an object keeps alive, asked for in each of the ways there are, of graphs in memory and on disk.

use proptest::prelude::*;

use super::made::{self, Made, Place, graph_of, noted_of, row};
use super::*;

type Pairs = Vec<(proptest::sample::Index, proptest::sample::Index)>;

fn dependents(count: usize, pairs: &Pairs) -> Vec<(ObjectIndex, ObjectIndex)> {
    let of = |index: &proptest::sample::Index| ObjectIndex(index.index(count) as u32);
    pairs.iter().map(|(key, value)| (of(key), of(value))).collect()
}

/// All that [`Graph::next_kept`] gives from a place on.
fn kept_from(graph: &Graph, index: ObjectIndex, from: u32) -> Vec<(u32, ObjectIndex)> {
    let (mut found, mut at) = (Vec::new(), from);
    while let Some((next, target)) = graph.next_kept(index, at, &mut Vec::new()).expect("it is read") {
        assert!(next > at, "a walk that goes on comes to an end");
        at = next;
        found.push((next, target));
    }
    found
}

proptest! {
    #[test]
    fn each_way_to_ask_gives_the_references_that_were_made(
        objects in made::objects(),
        pairs in proptest::collection::vec(any::<(proptest::sample::Index, proptest::sample::Index)>(), 0..6),
        budget in prop_oneof![Just(None), Just(Some(0)), (1..200u64).prop_map(Some)],
    ) {
        let mut graph = graph_of(&objects, budget);
        let dependents = dependents(objects.len(), &pairs);
        graph.set_roots(Vec::new(), dependents.clone());
        let buffer = &mut Vec::new();
        let starts: Vec<u32> = graph.reference_starts().chain([0]).collect();
        prop_assert_eq!(starts.len(), objects.len() + 1);
        for (number, made) in objects.iter().enumerate() {
            let index = ObjectIndex(number as u32);
            let wanted = made.references();
            let plain: Vec<_> = wanted.iter().map(|(_, target)| *target).collect();
            prop_assert_eq!(&graph.references(index).unwrap(), &plain);
            let mut numbered = Vec::new();
            graph.for_each_numbered_reference(index, buffer, |number, target| numbered.push((number, target))).unwrap();
            prop_assert_eq!(&numbered, &wanted);
            let mut targets = Vec::new();
            graph.for_each_target(index, buffer, |target| targets.push(target)).unwrap();
            let of_place = |place: &Place| match place {
                Place::Object(target) => Some(Some(ObjectIndex(*target))),
                Place::Nowhere => Some(None),
                Place::Empty => None,
            };
            prop_assert_eq!(targets, made.places.iter().filter_map(of_place).collect::<Vec<_>>());
            let mut later = Vec::new();
            graph.for_each_reference_from(index, (starts[number], starts[number + 1]), buffer, |target| later.push(target)).unwrap();
            prop_assert_eq!(&later, &plain);
            // Values of dependent handles come behind the references, each once, by number.
            let mut values: Vec<_> = dependents.iter().filter(|(key, _)| *key == index).map(|(_, value)| *value).collect();
            values.sort_unstable();
            values.dedup();
            let mut told = Vec::new();
            graph.for_each_dependent(index, |value| told.push(value));
            prop_assert_eq!(&told, &values);
            let all: Vec<_> = wanted
                .iter()
                .map(|(place, target)| (*place as u32 + 1, *target))
                .chain(values.iter().zip(made.places.len() as u32 + 1..).map(|(value, place)| (place, *value)))
                .collect();
            for from in 0..=all.last().map_or(0, |(place, _)| *place) {
                let rest: Vec<_> = all.iter().copied().filter(|(place, _)| *place > from).collect();
                prop_assert_eq!(kept_from(&graph, index, from), rest, "from {}", from);
            }
        }
        let behind = ObjectIndex(objects.len() as u32);
        prop_assert!(graph.references(behind).unwrap().is_empty() && kept_from(&graph, behind, 0).is_empty());
        prop_assert!(graph.object(behind).is_none() && graph.type_and_size(behind).is_none());
    }

    #[test]
    fn objects_are_what_they_were_made_and_are_found_at_any_address_in_them(objects in made::objects()) {
        let graph = graph_of(&objects, None);
        let empty: u64 = objects.iter().flat_map(|one| &one.places).filter(|place| **place == Place::Empty).count() as u64;
        let places: u64 = objects.iter().map(|one| one.places.len() as u64).sum();
        prop_assert_eq!((graph.edge_count(), graph.places_count()), (places - empty, places));
        let mut noted = Vec::new();
        graph.for_each_noted(|object, of, numbers| noted.push((object.0 as usize, of.0, numbers.to_vec())));
        let with_numbers = objects.iter().enumerate().filter(|(_, one)| made::NOTED[one.of as usize] > 0);
        let wanted: Vec<_> = with_numbers.map(|(number, one)| (number, one.of, noted_of(number, one.of))).collect();
        prop_assert_eq!(noted, wanted);
        let in_order: Vec<_> = graph.types_and_sizes().collect();
        for (number, (made, object)) in objects.iter().zip(graph.objects()).enumerate() {
            let Made { address, of, size, generation, .. } = made;
            let index = ObjectIndex(number as u32);
            let wanted = Object { index, address: Avma(*address), of: TypeIndex(*of), size: *size, generation: *generation };
            prop_assert_eq!((object, graph.object(index)), (wanted, Some(wanted)));
            prop_assert_eq!((graph.type_and_size(index), in_order[number]), (Some((wanted.of, *size)), (wanted.of, *size)));
            prop_assert_eq!(graph.find(Avma(*address)), Some(index));
            // At its beginning, in its middle, at its last byte; behind it is another one, or none.
            for inside in [0, 1, size / 2, size - 1] {
                prop_assert_eq!(graph.find_holder(Avma(address + inside)), Some((index, inside == 0)), "{} of {}", inside, size);
            }
            let behind = graph.find_holder(Avma(address + size));
            let next = objects.get(number + 1).filter(|next| next.address == address + size);
            prop_assert_eq!(behind, next.map(|_| (ObjectIndex(number as u32 + 1), true)));
        }
        prop_assert_eq!(graph.find_holder(Avma(objects[0].address - 1)), None);
    }

    #[test]
    fn sums_by_type_and_generation_are_those_of_the_objects_one_by_one(
        objects in made::objects(),
        live in proptest::collection::vec(any::<bool>(), 60),
    ) {
        let mut graph = graph_of(&objects, None);
        let sum = |which: &dyn Fn(usize, &Made) -> bool| {
            let chosen = objects.iter().enumerate().filter(|(number, one)| which(*number, one));
            chosen.fold(Totals::default(), |sum, (_, one)| Totals { objects: sum.objects + 1, bytes: sum.bytes + one.size })
        };
        prop_assert!(graph.by_type().iter().all(|one| one.live.is_none() && one.garbage().is_none()));
        let mut bits = Bits::new(objects.len());
        (0..objects.len()).filter(|number| live[*number]).for_each(|number| assert!(bits.insert(number)));
        graph.set_live(bits);
        let by_type = graph.by_type();
        prop_assert!(by_type.is_sorted_by(|one, next| (one.all.bytes, next.of) > (next.all.bytes, one.of)), "the largest first, then by number");
        for of in 0..4u32 {
            let all = sum(&|_, one| one.of == of);
            let living = sum(&|number, one| one.of == of && live[number]);
            let dead = sum(&|number, one| one.of == of && !live[number]);
            let found = by_type.iter().find(|one| one.of == TypeIndex(of));
            prop_assert_eq!(found.map(|one| (one.all, one.live, one.garbage())), (all.objects > 0).then_some((all, Some(living), Some(dead))));
        }
        let facts = graph.facts();
        let (all, free) = (sum(&|_, one| one.of != 2), sum(&|_, one| one.of == 2));
        prop_assert_eq!((facts.objects, facts.bytes, facts.free_objects, facts.free_bytes), (all.objects, all.bytes, free.objects, free.bytes));
        let living = sum(&|number, one| one.of != 2 && live[number]);
        prop_assert_eq!((facts.live_objects, facts.live_bytes), (Some(living.objects), Some(living.bytes)));
        prop_assert_eq!((facts.types, facts.references), (by_type.len() as u64, graph.edge_count()));
        let told: u64 = facts.generations.iter().map(|one| one.objects).sum();
        prop_assert_eq!(told, sum(&|_, one| one.of != 2 && one.generation != Generation::Unknown).objects);
        for generation in facts.generations {
            let wanted = sum(&|_, one| one.of != 2 && one.generation.name() == generation.name);
            prop_assert_eq!(Totals { objects: generation.objects, bytes: generation.bytes }, wanted);
        }
    }
}

#[test]
fn a_walk_goes_on_in_the_middle_of_many_references_on_disk() {
    // The first object refers to all, in pieces of what is read at once; each tenth place is empty.
    let places = |number: u32| match number {
        0 => (0..300).map(|to| if to % 10 == 9 { Place::Empty } else { Place::Object(to) }).collect(),
        _ => Vec::new(),
    };
    let objects = row(300, places);
    for budget in [None, Some(0)] {
        let mut graph = graph_of(&objects, budget);
        graph.set_roots(Vec::new(), vec![(ObjectIndex(0), ObjectIndex(7)), (ObjectIndex(0), ObjectIndex(3))]);
        let all = kept_from(&graph, ObjectIndex(0), 0);
        let numbers: Vec<u32> = all.iter().map(|(_, target)| target.0).collect();
        let wanted: Vec<u32> = (0..300).filter(|to| to % 10 != 9).chain([3, 7]).collect();
        assert_eq!(numbers, wanted);
        for from in [63, 64, 65, 127, 128, 129, 298, 299, 300, 301, 302] {
            let rest: Vec<_> = all.iter().copied().filter(|(place, _)| *place > from).collect();
            assert_eq!(kept_from(&graph, ObjectIndex(0), from), rest, "from {from}");
        }
    }
}

#[test]
fn references_on_disk_are_changed_there_also_where_they_are_more_than_a_piece() {
    let file = tempfile::tempfile().unwrap();
    let spill = Spill::beyond(1000, file);
    let small = spill.keep(vec![1; 250]).unwrap();
    let mut large = spill.keep((0..600_000).collect()).unwrap();
    assert!(matches!(small, super::super::edges::Edges::Memory(_)), "what fits into the budget stays");
    assert_eq!(spill.spilled_bytes(), 2_400_000);
    // Another one behind it, which must not change with it.
    let other = spill.keep(vec![5; 10]).unwrap();
    large.change(|target| target + 7).unwrap();
    let buffer = &mut Vec::new();
    assert!(large.get(0, 600_000, buffer).unwrap().iter().copied().eq(7..600_007));
    assert_eq!(large.get(599_998, 700_000, buffer).unwrap(), [600_005, 600_006], "no more than there are");
    assert!(large.get(600_000, 600_010, buffer).unwrap().is_empty());
    assert_eq!((other.get(0, 10, buffer).unwrap(), other.len()), (&[5; 10][..], 10));
    assert_eq!((large.heap_bytes(), small.heap_bytes()), (0, 1000));
}

#[test]
fn a_million_objects_are_found_in_spans_that_begin_anywhere() {
    // Spans of 1, 2, 3, ... objects: those of one block, and blocks of one span.
    let mut builder = Vec::new();
    let (mut address, mut length, mut left) = (0x1000u64, 1500u64, 0u64);
    for _ in 0..5000 {
        if left == 0 {
            (length, left) = (length.div_ceil(2), length);
            builder.push(SpanBuilder::new(address, Generation::Gen0));
        }
        let span = builder.last_mut().unwrap();
        assert!(span.push(address, TypeIndex(0), 16));
        (address, left) = (address + 16, left - 1);
    }
    let spans = builder.into_iter().map(|span| span.finish(&Spill::never()).unwrap()).collect();
    let (graph, _) = Graph::from_spans(vec![HeapType::default()], spans);
    assert_eq!(graph.len(), 5000);
    for index in 0..5000u32 {
        let at = Avma(0x1000 + u64::from(index) * 16);
        assert_eq!(graph.object(ObjectIndex(index)).map(|object| object.address), Some(at));
        assert_eq!(graph.find(at), Some(ObjectIndex(index)));
    }
}

#[test]
fn spans_that_overlap_an_earlier_one_are_left_out_and_their_objects_are_counted() {
    let span = |start: u64, count: u64, size: u64| {
        let mut span = SpanBuilder::new(start, Generation::Gen0);
        (0..count).for_each(|number| assert!(span.push(start + number * size, TypeIndex(0), size)));
        span.finish(&Spill::never()).unwrap()
    };
    let empty = SpanBuilder::new(0x1000, Generation::Gen0).finish(&Spill::never()).unwrap();
    let spans = vec![span(0x3000, 4, 16), empty, span(0x1000, 2, 0x1008), span(0x3010, 3, 16)];
    let (graph, left_out) = Graph::from_spans(vec![HeapType::default()], spans);
    // The second object of the first span ends at 0x3010: the span at 0x3000 overlaps it, the one behind does not.
    let addresses: Vec<u64> = graph.objects().map(|object| object.address.0).collect();
    assert_eq!((addresses, left_out), (vec![0x1000, 0x2008, 0x3010, 0x3020, 0x3030], 4));
}

#[test]
fn of_several_roots_the_one_that_tells_most_stands_for_the_object() {
    let mut objects = row(6, |_| Vec::new());
    // The last two are of the frozen heap.
    let frozen = SpanBuilder::new(0x20_0000, Generation::Frozen);
    drop(objects.split_off(4));
    let mut spans = vec![frozen];
    for address in [0x20_0000, 0x20_0018] {
        assert!(spans[0].push(address, TypeIndex(0), 24));
    }
    let mut gen2 = SpanBuilder::new(0x10_0000, Generation::Gen2);
    objects.iter().for_each(|one| assert!(gen2.push(one.address, TypeIndex(0), 24)));
    spans.push(gen2);
    let spans = spans.into_iter().map(|span| span.finish(&Spill::never()).unwrap()).collect();
    let (mut graph, _) = Graph::from_spans(vec![HeapType::default()], spans);
    let of = |kind, object, thread| Root { kind, thread, ..root(ObjectIndex(object)) };
    graph.set_roots(
        vec![
            of(RootKind::Stack, 0, 1),
            of(RootKind::Stack, 4, 1),
            of(RootKind::FinalizerQueue, 1, 0),
            of(RootKind::StrongHandle, 0, 2),
            of(RootKind::Static, 1, 3),
            of(RootKind::StrongHandle, 0, 4),
            of(RootKind::Stack, 2, 5),
            of(RootKind::Other, 99, 6),
            of(RootKind::PinnedHandle, 5, 7),
        ],
        Vec::new(),
    );
    let found: Vec<_> = graph
        .first_kept()
        .into_iter()
        .map(|(object, root)| (object.0, root.map(|root| (root.kind, root.thread))))
        .collect();
    assert_eq!(
        found,
        [
            (1, Some((RootKind::Static, 3))),
            (0, Some((RootKind::StrongHandle, 2))),
            (5, Some((RootKind::PinnedHandle, 7))),
            // Never collected, whatever a stack may say.
            (4, None),
            (2, Some((RootKind::Stack, 5))),
        ]
    );
    assert_eq!(
        mark(&graph).unwrap().count(),
        5,
        "what is first kept is alive, frozen objects without a root, too"
    );
}

#[test]
fn static_fields_are_known_by_their_addresses_also_of_types_without_objects() {
    let mut graph = graph_of(&row(1, |_| Vec::new()), None);
    let of = |name: &str, table: u64, statics: &[(&str, u64)]| HeapType {
        name: name.to_owned(),
        method_table: Avma(table),
        statics: statics.iter().map(|(name, at)| ((*name).to_owned(), Avma(*at))).collect(),
        ..HeapType::default()
    };
    graph.types = vec![of("A", 0x100, &[]), of("B", 0x200, &[("old", 0x50)])];
    graph.index_statics();
    let at = |graph: &Graph, at| {
        graph.static_at(Avma(at)).map(|(of, field)| format!("{} {field}", of.name)).unwrap_or_default()
    };
    assert_eq!([at(&graph, 0x50), at(&graph, 0x51)], ["B old", ""]);
    graph.add_statics(vec![
        of("not A's name", 0x100, &[("one", 0x10), ("two", 0x18)]),
        of("B", 0x200, &[("new", 0x58)]),
        of("C", 0x300, &[("three", 0x60)]),
    ]);
    let names: Vec<&str> = graph.types().iter().map(|of| of.name.as_str()).collect();
    assert_eq!(names, ["A", "B", "C"]);
    assert_eq!(
        [0x10, 0x18, 0x58, 0x60].map(|field| at(&graph, field)),
        ["A one", "A two", "B new", "C three"]
    );
    assert_eq!(at(&graph, 0x50), "", "a field that is no more where it was");
}
