//! What is written, read as the documentation of the format has it.

use biopsy_model::Avma;
use serde_json::Value;

use super::write;
use crate::graph::{Graph, GraphBuilder, HeapType, Node, ObjectIndex, Root, RootKind, TypeIndex, mark};

/// A static list of two entries, a text that is shared, an entry that is garbage, and free space.
fn graph() -> Graph {
    let mut builder = GraphBuilder::new();
    let mut of = |name: &str, fields: &[&str], is_free| {
        let fields = fields.iter().map(|field| (*field).to_owned()).collect();
        let statics = if name == "App.Trail" { vec![("All".to_owned(), Avma(0x9000))] } else { Vec::new() };
        builder.push_type(HeapType {
            name: name.to_owned(),
            fields,
            is_free,
            statics,
            ..HeapType::default()
        });
    };
    of("App.Trail", &["first", "second"], false);
    of("App.Entry", &["Text \"quoted\""], false);
    of("System.String[]", &[], false);
    of("free", &[], true);
    let objects: [(u32, u64, &[u64]); 6] =
        [(0, 32, &[1, 2]), (1, 24, &[3]), (1, 24, &[3]), (2, 100, &[]), (1, 24, &[3]), (3, 5000, &[])];
    for (number, (of, size, edges)) in objects.iter().enumerate() {
        let address = Avma(0x10_0000 + number as u64 * 0x1000);
        builder.push(Node { address, of: TypeIndex(*of), size: *size, edges: edges.len() as u32 });
        edges.iter().for_each(|edge| builder.push_edge(Avma(0x10_0000 + edge * 0x1000)));
    }
    let (mut graph, ..) = builder.finish().expect("nothing is spilled");
    let root = |kind, object| Root {
        kind,
        address: Avma(0x9000),
        object: ObjectIndex(object),
        is_interior: false,
        thread: 0,
    };
    graph.set_roots(vec![root(RootKind::Static, 0), root(RootKind::StrongHandle, 3)], Vec::new());
    let live = mark(&graph).expect("nothing is spilled");
    graph.set_live(live);
    graph
}

fn numbers(value: &Value) -> Vec<u64> {
    value.as_array().expect("a list").iter().map(|one| one.as_u64().expect("a number")).collect()
}

#[test]
fn nodes_edges_and_names_are_as_the_format_has_them() {
    let mut bytes = Vec::new();
    let written = write(&graph(), &mut bytes).expect("memory");
    assert_eq!(
        (written.objects, written.references, written.bytes),
        (4, 4, 180),
        "garbage and gaps are left out"
    );
    let read: Value = serde_json::from_slice(&bytes).expect("JSON");
    let meta = &read["snapshot"]["meta"];
    let (nodes, edges) = (numbers(&read["nodes"]), numbers(&read["edges"]));
    let (wide, wide_edge) = (
        meta["node_fields"].as_array().expect("a list").len(),
        meta["edge_fields"].as_array().expect("a list").len(),
    );
    assert_eq!(read["snapshot"]["node_count"].as_u64(), Some((nodes.len() / wide) as u64));
    assert_eq!(read["snapshot"]["edge_count"].as_u64(), Some((edges.len() / wide_edge) as u64));
    let name = |number: u64| read["strings"][number as usize].as_str().expect("a name");
    let mut told = Vec::new();
    let mut edge = edges.chunks(wide_edge);
    for node in nodes.chunks(wide) {
        for _ in 0..node[4] {
            let one = edge.next().expect("as many as the nodes say");
            assert_eq!(one[2] % wide as u64, 0);
            let to = &nodes[one[2] as usize..][..wide];
            let by = match meta["edge_types"][0][one[0] as usize].as_str() {
                Some("element") => one[1].to_string(),
                _ => name(one[1]).to_owned(),
            };
            told.push(format!("{}.{by} {}", name(node[1]), name(to[1])));
        }
    }
    assert!(edge.next().is_none(), "no edges are left over");
    let expected = [
        ".0 (strong handles)",
        ".1 (statics)",
        "(strong handles).0 System.String[]",
        "(statics).App.Trail.All App.Trail",
        "App.Trail.first App.Entry",
        "App.Trail.second App.Entry",
        "App.Entry.Text \"quoted\" System.String[]",
        "App.Entry.Text \"quoted\" System.String[]",
    ];
    assert_eq!(told, expected);
    let mut ids: Vec<u64> = nodes.chunks(wide).map(|node| node[2]).collect();
    ids.dedup();
    assert_eq!(ids.len(), nodes.len() / wide, "each has its own");
}

#[test]
fn nothing_at_all_is_a_document_too() {
    let (graph, ..) = GraphBuilder::new().finish().expect("nothing is spilled");
    let mut bytes = Vec::new();
    write(&graph, &mut bytes).expect("memory");
    let read: Value = serde_json::from_slice(&bytes).expect("JSON");
    assert_eq!(read["snapshot"]["node_count"].as_u64(), Some(1));
    assert!(numbers(&read["edges"]).is_empty());
}
