//! Made-up heaps for tests.

use biopsy_dotnet::graph::{
    Graph, GraphBuilder, HeapType, Node, ObjectIndex, Root, RootKind, TypeIndex, mark,
};
use biopsy_model::Avma;

/// Where the static field of the first type is.
pub(crate) const STATIC: u64 = 0x9000;

/// Types with their fields; objects with type, size and the numbers of what they refer to; numbers of what roots refer to.
pub(crate) fn graph(
    types: &[(&str, &[&str])],
    objects: &[(usize, u64, Vec<usize>)],
    roots: &[(RootKind, usize)],
) -> Graph {
    let mut builder = GraphBuilder::new();
    for (number, (name, fields)) in types.iter().enumerate() {
        builder.push_type(HeapType {
            name: (*name).to_owned(),
            fields: fields.iter().map(|field| (*field).to_owned()).collect(),
            statics: if number == 0 { vec![("All".to_owned(), Avma(STATIC))] } else { Vec::new() },
            ..HeapType::default()
        });
    }
    let address = |number: usize| Avma(0x10_0000 + number as u64 * 0x1000);
    for (number, (of, size, edges)) in objects.iter().enumerate() {
        let edges_count = edges.len() as u32;
        builder.push(Node {
            address: address(number),
            of: TypeIndex(*of as u32),
            size: *size,
            edges: edges_count,
        });
        edges.iter().for_each(|edge| builder.push_edge(address(*edge)));
    }
    let (mut graph, ..) = builder.finish().expect("nothing is spilled");
    let root = |(kind, object): &(RootKind, usize)| Root {
        kind: *kind,
        address: Avma(if *kind == RootKind::Static { STATIC } else { 0 }),
        object: ObjectIndex(*object as u32),
        is_interior: false,
        thread: 0,
    };
    graph.set_roots(roots.iter().map(root).collect(), Vec::new());
    let live = mark(&graph).expect("nothing is spilled");
    graph.set_live(live);
    graph
}
