//! Snapshots that Node.js writes, against V8's own totals; and our own, read back.

use std::path::Path;
use std::process::Command;

use biopsy_dotnet::heapsnapshot::write;
use biopsy_import::heap::open;
use biopsy_testkit::require_program;

const PROGRAM: &str = "
class Order { constructor(number) { this.lines = new Array(10).fill(number); this.text = 'order ' + number; } }
const shop = { orders: new Map() };
for (let number = 0; number < 5000; number++) shop.orders.set(number, new Order(number));
globalThis.shop = shop;
require('v8').writeHeapSnapshot(process.argv[1]);
";

/// Counted from the document by itself: objects, bytes, references that keep something alive.
fn totals(path: &Path) -> ([u64; 3], [u64; 3], [u64; 2]) {
    let document: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let numbers = |list: &str| -> Vec<u64> {
        document[list].as_array().unwrap().iter().map(|number| number.as_u64().unwrap()).collect()
    };
    let meta = &document["snapshot"]["meta"];
    let kinds = meta["node_types"][0].as_array().unwrap();
    let (nodes, edges) = (numbers("nodes"), numbers("edges"));
    let width = meta["node_fields"].as_array().unwrap().len();
    let is_root = |node: usize| kinds[nodes[node * width] as usize] == "synthetic";
    let (mut objects, mut roots) = ([0; 3], [0; 3]);
    let mut edge = 0;
    for node in 0..nodes.len() / width {
        let of = if is_root(node) { &mut roots } else { &mut objects };
        of[0] += 1;
        of[1] += nodes[node * width + 3];
        for _ in 0..nodes[node * width + 4] {
            let kind = &meta["edge_types"][0][edges[edge * 3] as usize];
            let keeps = kind != "weak" && kind != "shortcut";
            of[2] += u64::from(keeps && !is_root(edges[edge * 3 + 2] as usize / width));
            edge += 1;
        }
    }
    let said = |name: &str| document["snapshot"][name].as_u64().unwrap();
    (objects, roots, [said("node_count"), said("edge_count")])
}

#[test]
fn what_node_writes_is_read_with_its_totals_and_written_again() {
    if !require_program("node", &["--version"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("node.heapsnapshot");
    let output = Command::new("node").args(["-e", PROGRAM]).arg(&path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let heap = open(path.as_path()).unwrap().expect("it is known by its beginning");
    let (objects, roots, [nodes, edges]) = totals(&path);
    assert_eq!([heap.facts.objects, heap.facts.bytes, heap.facts.references], objects);
    assert_eq!(heap.facts.objects + roots[0], nodes, "V8's own count");
    assert!(heap.facts.whole && heap.facts.references <= edges && heap.facts.dangling == 0);
    let count = |name: &str| {
        let of = heap.graph.types().iter().position(|of| of.name == name).expect("a type");
        heap.graph.objects().filter(|object| object.of.0 as usize == of).count()
    };
    assert_eq!(count("Order"), 5000);
    let order = heap.graph.types().iter().find(|of| of.name == "Order").unwrap();
    assert!(order.fields.iter().any(|field| field == "lines"), "{:?}", order.fields);

    // Written by us, what is alive has equal totals, and is the same when it is read again.
    let again = folder.path().join("again.heapsnapshot");
    let written = write(&heap.graph, std::fs::File::create(&again).unwrap()).unwrap();
    let read = open(again.as_path()).unwrap().expect("a heap");
    assert_eq!((read.facts.objects, read.facts.bytes), (written.objects, written.bytes));
    assert_eq!(read.facts.references, written.references);
    assert_eq!(read.facts.live_bytes, heap.facts.live_bytes, "nothing else became unreachable");
    let (objects, ..) = totals(&again);
    assert_eq!([read.facts.objects, read.facts.bytes, read.facts.references], objects);
}
