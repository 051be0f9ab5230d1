//! Graphs of known shape.

use biopsy_model::Avma;
use proptest::prelude::*;

use super::*;

mod kept;
pub(crate) mod made;

fn built(nodes: &[(u64, u64, Vec<u64>)]) -> Graph {
    let mut builder = GraphBuilder::new();
    let of = builder.push_type(HeapType { name: "T".to_owned(), ..HeapType::default() });
    for (address, size, edges) in nodes {
        builder.push(Node { address: Avma(*address), of, size: *size, edges: edges.len() as u32 });
        edges.iter().for_each(|edge| builder.push_edge(Avma(*edge)));
    }
    builder.finish().unwrap().0
}

fn root(object: ObjectIndex) -> Root {
    Root { kind: RootKind::Other, address: Avma(0), object, is_interior: false, thread: 0 }
}

#[test]
fn objects_come_back_by_address_with_their_references() {
    let graph = built(&[
        (0x7000_0000, 24, vec![0x1000, 0x2000]),
        (0x1000, 32, vec![]),
        (0x2000, 24, vec![0x7000_0000, 0xdead]),
    ]);
    let objects: Vec<_> = graph.objects().map(|object| (object.address.0, object.size)).collect();
    assert_eq!(objects, [(0x1000, 32), (0x2000, 24), (0x7000_0000, 24)]);
    let far = graph.find(Avma(0x7000_0000)).unwrap();
    assert_eq!(
        graph.references(far).unwrap(),
        [graph.find(Avma(0x1000)).unwrap(), graph.find(Avma(0x2000)).unwrap()]
    );
    assert_eq!(graph.references(graph.find(Avma(0x2000)).unwrap()).unwrap(), [far]);
    assert_eq!(graph.find(Avma(0x1008)), None);
    assert_eq!(graph.find_holder(Avma(0x1008)), Some((graph.find(Avma(0x1000)).unwrap(), false)));
    assert_eq!(graph.find_holder(Avma(0x1020)), None);
    assert_eq!(graph.object(far).unwrap().address, Avma(0x7000_0000));
}

/// Objects of 32-bit processes lie at multiples of 4.
#[test]
fn objects_of_a_32_bit_process_are_all_there() {
    let nodes: Vec<_> =
        (0..1000u64).map(|i| (0x30_0000 + i * 12, 12, vec![0x30_0000 + (i + 1) % 1000 * 12])).collect();
    let graph = built(&nodes);
    assert_eq!(graph.len(), 1000);
    for (number, (address, _, edges)) in nodes.iter().enumerate() {
        let index = graph.find(Avma(*address)).unwrap();
        assert_eq!((index.0 as usize, graph.object(index).unwrap().address), (number, Avma(*address)));
        assert_eq!(graph.references(index).unwrap(), [graph.find(Avma(edges[0])).unwrap()]);
        assert_eq!(graph.find_holder(Avma(address + 4)), Some((index, false)));
        assert_eq!(graph.find(Avma(address + 4)), None);
    }
    assert!(graph.objects().map(|object| object.address.0).eq(nodes.iter().map(|node| node.0)));
}

#[test]
fn an_address_where_no_object_can_be_is_counted_and_moves_no_other() {
    let mut builder = GraphBuilder::new();
    let of = builder.push_type(HeapType::default());
    for address in [0x1001, 0x1008, 0x1018, 0x1022] {
        builder.push(Node { address: Avma(address), of, size: 12, edges: 0 });
    }
    let (graph, left_out, _) = builder.finish().unwrap();
    let addresses: Vec<u64> = graph.objects().map(|object| object.address.0).collect();
    assert_eq!((addresses.as_slice(), left_out), (&[0x1008, 0x1018][..], 2));
}

#[test]
fn a_chain_of_a_million_is_marked_without_recursion() {
    let chain: Vec<_> =
        (0..1_000_000u64).map(|i| (0x10000 + i * 24, 24, vec![0x10000 + (i + 1) * 24])).collect();
    let mut graph = built(&chain);
    graph.set_roots(vec![root(ObjectIndex(10))], Vec::new());
    assert_eq!(mark(&graph).unwrap().count(), 999_990);
}

#[test]
fn the_value_of_a_dependent_handle_lives_with_its_key_alone() {
    let mut graph =
        built(&[(0x1000, 24, vec![]), (0x2000, 24, vec![]), (0x3000, 24, vec![]), (0x4000, 24, vec![])]);
    let dependents = vec![(ObjectIndex(2), ObjectIndex(1)), (ObjectIndex(0), ObjectIndex(2))];
    graph.set_roots(vec![root(ObjectIndex(0))], dependents.clone());
    let live = mark(&graph).unwrap();
    assert!((0..3).all(|index| live.contains(index)) && !live.contains(3));
    graph.set_roots(vec![root(ObjectIndex(3))], dependents);
    assert_eq!(mark(&graph).unwrap().count(), 1);
}

#[test]
fn garbage_is_counted_apart() {
    let mut graph = built(&[(0x1000, 24, vec![0x2000]), (0x2000, 100, vec![]), (0x3000, 1000, vec![])]);
    graph.set_roots(vec![root(ObjectIndex(0))], Vec::new());
    graph.set_live(mark(&graph).unwrap());
    let one = graph.by_type()[0];
    assert_eq!(one.all, Totals { objects: 3, bytes: 1124 });
    assert_eq!(one.live, Some(Totals { objects: 2, bytes: 124 }));
    assert_eq!(one.garbage(), Some(Totals { objects: 1, bytes: 1000 }));
}

proptest! {
    #[test]
    fn any_nodes_make_a_graph(nodes in proptest::collection::vec(
        (any::<u64>(), any::<u64>(), proptest::collection::vec(any::<u64>(), 0..4)), 0..60,
    )) {
        let graph = built(&nodes);
        for object in graph.objects() {
            prop_assert_eq!(graph.find(object.address), Some(object.index));
            prop_assert_eq!(graph.object(object.index), Some(object));
        }
        mark(&graph).unwrap();
    }
}

/// Objects at different addresses, some in spans of their own, with references to each other and to nothing.
type Model = Vec<(u64, u64, Vec<u64>)>;

fn model() -> impl Strategy<Value = Model> {
    let address =
        prop_oneof![4 => 0x1000u64..0x1100, 2 => 0x40_0000u64..0x40_0100, 1 => 0x8000_0000u64..0x8000_0020];
    proptest::collection::btree_map(address.clone().prop_map(|at| at * 8), 0u64..200, 1..40).prop_flat_map(
        move |objects| {
            let addresses: Vec<u64> = objects.keys().copied().collect();
            let count = objects.len();
            let target = prop_oneof![
                6 => proptest::sample::select(addresses),
                1 => address.clone().prop_map(|at| at * 8 + 4),
                1 => Just(0u64),
            ];
            proptest::collection::vec(proptest::collection::vec(target, 0..4), count).prop_map(move |edges| {
                objects.iter().zip(edges).map(|((address, size), edges)| (*address, *size, edges)).collect()
            })
        },
    )
}

/// What is live, by asking again until nothing changes.
fn live_by_rounds(graph: &Graph) -> Vec<bool> {
    let mut live = vec![false; graph.len()];
    graph.roots().iter().for_each(|root| live[root.object.0 as usize] = true);
    loop {
        let before = live.clone();
        for index in 0..graph.len() {
            if live[index] {
                let targets = graph.references(ObjectIndex(index as u32)).unwrap();
                targets.into_iter().for_each(|target| live[target.0 as usize] = true);
            }
        }
        for (key, value) in graph.dependents() {
            live[value.0 as usize] |= live[key.0 as usize];
        }
        if live == before {
            return live;
        }
    }
}

proptest! {
    #[test]
    fn a_graph_says_what_it_was_told(nodes in model(), probes in proptest::collection::vec(any::<u64>(), 20)) {
        let graph = built(&nodes);
        prop_assert_eq!(graph.len(), nodes.len());
        let index_of = |address: u64| nodes.iter().position(|(at, ..)| *at == address).map(|at| ObjectIndex(at as u32));
        for (address, size, edges) in &nodes {
            let object = graph.object(graph.find(Avma(*address)).unwrap()).unwrap();
            prop_assert_eq!((object.address, object.size), (Avma(*address), *size));
            let wanted: Vec<_> = edges.iter().filter_map(|target| index_of(*target)).collect();
            prop_assert_eq!(graph.references(object.index).unwrap(), wanted);
        }
        prop_assert_eq!(graph.edge_count(), nodes.iter().map(|(_, _, edges)| edges.len() as u64).sum::<u64>());
        // Inside of objects, at their ends, between them, and anywhere.
        let near = nodes.iter().flat_map(|(at, size, _)| [at + size / 2, at + size, (at + size).wrapping_sub(1), at - 1]);
        for probe in near.chain(probes) {
            let last = nodes.iter().rposition(|(at, ..)| *at <= probe);
            let wanted = last.filter(|last| probe - nodes[*last].0 < nodes[*last].1);
            let wanted = wanted.map(|last| (ObjectIndex(last as u32), nodes[last].0 == probe));
            prop_assert_eq!(graph.find_holder(Avma(probe)), wanted, "{:#x}", probe);
            prop_assert_eq!(graph.find(Avma(probe)), index_of(probe));
        }
    }

    #[test]
    fn what_is_marked_is_what_can_be_reached(
        nodes in model(),
        roots in proptest::collection::vec((any::<proptest::sample::Index>(), any::<bool>()), 0..4),
        dependents in proptest::collection::vec(any::<(proptest::sample::Index, proptest::sample::Index)>(), 0..6),
    ) {
        let mut graph = built(&nodes);
        let of = |index: &proptest::sample::Index| ObjectIndex(index.index(nodes.len()) as u32);
        let roots = roots.iter().map(|(object, on_stack)| Root {
            kind: if *on_stack { RootKind::Stack } else { RootKind::StrongHandle },
            ..root(of(object))
        });
        graph.set_roots(roots.collect(), dependents.iter().map(|(key, value)| (of(key), of(value))).collect());
        let marked = mark_counted(&graph).unwrap();
        let wanted = live_by_rounds(&graph);
        let live: Vec<bool> = (0..graph.len()).map(|index| marked.live.contains(index)).collect();
        prop_assert_eq!(&live, &wanted);
        // References of live objects that lead nowhere are counted once, by whether a stack alone keeps the object.
        let lead_nowhere = |edges: &[u64]| edges.iter().filter(|to| graph.find(Avma(**to)).is_none()).count() as u64;
        let all: u64 = nodes.iter().zip(&wanted).filter(|(_, live)| **live).map(|((_, _, edges), _)| lead_nowhere(edges)).sum();
        prop_assert_eq!(marked.dangling + marked.dangling_from_stacks, all);
        graph.set_live(marked.live);
        let mut certain = graph.clone();
        let without_stacks = graph.roots().iter().filter(|root| root.kind != RootKind::Stack).copied().collect();
        certain.set_roots(without_stacks, graph.dependents().to_vec());
        prop_assert_eq!(mark_counted(&certain).unwrap().dangling, marked.dangling);
        // Totals by type are those of the objects one by one.
        let (all, live) = graph.totals();
        let sum = |objects: Vec<Object>| Totals {
            objects: objects.len() as u64,
            bytes: objects.iter().map(|object| object.size).sum(),
        };
        prop_assert_eq!(all, sum(graph.objects().collect()));
        prop_assert_eq!(live, Some(sum(graph.objects().filter(|one| wanted[one.index.0 as usize]).collect())));
    }
}
