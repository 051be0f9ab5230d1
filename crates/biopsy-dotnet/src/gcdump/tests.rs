//! What is written reads back the same, and no bytes do harm.

use biopsy_bytes::Cursor;
use biopsy_model::{Avma, Pid};
use proptest::prelude::*;

use super::*;
use crate::graph::{Graph, GraphBuilder, HeapType, Node, ObjectIndex, Root, RootKind, mark};

fn sample() -> Graph {
    let mut builder = GraphBuilder::new();
    let text = builder.push_type(HeapType { name: "System.String".to_owned(), ..HeapType::default() });
    let node = builder.push_type(HeapType {
        name: "Näme<T>\u{202e}\u{1f9ea}".to_owned(),
        module: "a.dll".to_owned(),
        ..HeapType::default()
    });
    for (address, of, size, edges) in [
        (0x7f00_0000, text, 30, vec![]),
        (0x1000, node, 24, vec![0x7f00_0000, 0x2000]),
        (0x2000, node, 1 << 33, vec![0x1000]),
    ] {
        builder.push(Node { address: Avma(address), of, size, edges: edges.len() as u32 });
        edges.into_iter().for_each(|edge| builder.push_edge(Avma(edge)));
    }
    builder.push(Node { address: Avma(0x3000), of: node, size: 24, edges: 0 });
    let (mut graph, ..) = builder.finish().unwrap();
    let root = Root {
        kind: RootKind::StrongHandle,
        address: Avma(1),
        object: ObjectIndex(0),
        is_interior: false,
        thread: 0,
    };
    graph.set_roots(vec![root], Vec::new());
    graph.set_live(mark(&graph).unwrap());
    graph
}

#[test]
fn what_was_written_is_read() {
    let graph = sample();
    for garbage in [false, true] {
        let mut bytes = Vec::new();
        let options = WriteOptions {
            garbage,
            process_name: "holder".to_owned(),
            pid: Pid(7),
            tool: "biopsy".to_owned(),
            ..WriteOptions::default()
        };
        let written = write(&graph, &options, &mut bytes).unwrap();
        let dump = read(&bytes).unwrap();
        assert_eq!((dump.process_name.as_str(), dump.pid, dump.tool.as_str()), ("holder", Pid(7), "biopsy"));
        assert_eq!(dump.graph.len() as u64, written);
        assert_eq!(dump.graph.find(Avma(0x3000)).is_some(), garbage);
        let one = dump.graph.find(Avma(0x1000)).unwrap();
        let targets: Vec<u64> = dump
            .graph
            .references(one)
            .unwrap()
            .iter()
            .map(|of| dump.graph.object(*of).unwrap().address.0)
            .collect();
        assert_eq!(targets, [0x7f00_0000, 0x2000]);
        let of = dump.graph.object(one).unwrap().of;
        assert_eq!(dump.graph.type_of(of).unwrap().name, "Näme<T>\u{202e}\u{1f9ea}");
        assert_eq!(dump.graph.type_of(of).unwrap().module, "a.dll");
        assert_eq!(dump.graph.live().unwrap().count(), 3);
    }
}

/// A file of 12 bytes a node, all of which claim the same thousand references.
#[test]
fn nodes_that_share_a_place_do_not_multiply_its_references() {
    let string = |text: &str| [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat();
    let object = |name: &str| [&[4, 4, 1][..], &[0; 8], &string(name), &[6]].concat();
    let file = |nodes: u32| {
        let blob = [&[0, 0x87, 0x68][..], &[0; 1000]].concat(); // type 0, 1000 children
        let mut bytes = [string(MAGIC), object(HEAP_DUMP), object(MEMORY_GRAPH), vec![0; 12]].concat();
        bytes.extend([&1u32.to_le_bytes()[..], &string("A"), &8u32.to_le_bytes(), &string("")].concat());
        bytes.extend([&nodes.to_le_bytes()[..], &vec![0; nodes as usize * 4]].concat());
        bytes.extend([&(blob.len() as u32).to_le_bytes()[..], &blob, &nodes.to_le_bytes()].concat());
        bytes.extend((1..=u64::from(nodes)).flat_map(|number| (number * 0x100).to_le_bytes()));
        bytes
    };
    assert_eq!(read(&file(1)).unwrap().graph.edge_count(), 1000);
    assert_eq!(read(&file(1000)).unwrap_err().field, "children of a node");
}

/// As a reader counts that was seen to refuse files with a count of bytes: units of UTF-16, each in 1 to 3 bytes.
#[test]
fn lengths_of_names_count_units_of_utf_16() {
    let mut bytes = Vec::new();
    write(&sample(), &WriteOptions::default(), &mut bytes).unwrap();
    // U+1F9EA is the pair D83E DDEA.
    let name =
        [&10i32.to_le_bytes(), "Näme<T>\u{202e}".as_bytes(), &[0xed, 0xa0, 0xbe, 0xed, 0xb7, 0xaa]].concat();
    assert!(bytes.windows(name.len()).any(|window| window == name));
}

#[test]
fn numbers_take_the_bytes_that_the_readers_of_others_expect() {
    let encoded = |value| {
        let mut out = Vec::new();
        write::cint(&mut out, value);
        out
    };
    assert_eq!(encoded(0), [0]);
    assert_eq!(encoded(63), [63]);
    assert_eq!(encoded(64), [0x80, 64]);
    assert_eq!(encoded(-1), [0x7f]);
    assert_eq!(encoded(-65), [0xff, 0x3f]);
    assert_eq!(encoded(8192), [0x80, 0xc0, 0]);
    assert_eq!(encoded(i32::MAX).len(), 5);
}

proptest! {
    #[test]
    fn numbers_come_back(value in any::<i32>()) {
        let mut out = Vec::new();
        write::cint(&mut out, value);
        let mut cursor = Cursor::new(&out);
        prop_assert_eq!(super::read::cint(&mut cursor, "value").unwrap(), value);
        prop_assert!(cursor.is_empty());
    }

    #[test]
    fn a_damaged_file_is_an_error_or_a_graph(at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>()) {
        let mut bytes = Vec::new();
        write(&sample(), &WriteOptions::default(), &mut bytes).unwrap();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = read(&bytes);
        bytes.truncate(cut.index(bytes.len()));
        let _ = read(&bytes);
    }
}

/// A file with one object of type `A`, and what stands behind the graph.
fn with_trailer(version: u32, trailer: &[u8]) -> Vec<u8> {
    let string = |text: &str| [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat();
    let object = |name: &str, version: u32| {
        [&[4, 4, 1][..], &version.to_le_bytes(), &[0; 4], &string(name), &[6]].concat()
    };
    let mut bytes =
        [string(MAGIC), object(HEAP_DUMP, version), object(MEMORY_GRAPH, 1), vec![0; 12]].concat();
    bytes.extend([&1u32.to_le_bytes()[..], &string("A"), &8u32.to_le_bytes(), &string("")].concat());
    bytes.extend([&1u32.to_le_bytes()[..], &[0; 4], &2u32.to_le_bytes(), &[0, 0]].concat());
    bytes.extend([&1u32.to_le_bytes()[..], &0x1000u64.to_le_bytes()].concat());
    bytes.extend([tag::END_OBJECT]);
    bytes.extend(trailer);
    bytes
}

/// Log, time, machine, process, pid, sizes.
fn process(ticks: i64) -> Vec<u8> {
    let string = |text: &str| [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat();
    [
        &string("log")[..],
        &ticks.to_le_bytes(),
        &string("host"),
        &string("shop"),
        &7u32.to_le_bytes(),
        &[0; 16],
    ]
    .concat()
}

#[test]
fn what_stands_behind_the_graph_is_read_in_every_version() {
    let ticks = TICKS_OF_1970 + 1000 * TICKS_PER_SECOND;
    let named = |object: &[u8]| [&[tag::BEGIN_OBJECT, tag::BEGIN_OBJECT, 1][..], object].concat();
    let kind = |version: u32, name: &str| {
        [&version.to_le_bytes()[..], &[0; 4], &(name.len() as u32).to_le_bytes(), name.as_bytes(), &[6]]
            .concat()
    };
    // The first segment says what they are, the second refers to it; of version 0 they are shorter.
    let heap = |version: u32| {
        let ends = if version == 0 { 48 } else { 56 };
        let first = [named(&kind(version, "Segment")), vec![0; ends], vec![6]].concat();
        let second =
            [vec![tag::BEGIN_OBJECT, tag::OBJECT_REFERENCE, 0, 0, 0, 0], vec![0; ends], vec![6]].concat();
        [named(&kind(0, "DotNetHeapInfo")), vec![0; 8], 2u32.to_le_bytes().to_vec(), first, second, vec![6]]
            .concat()
    };
    let tool = |tool: &str| {
        [&[0; 4][..], &[tag::STRING], &(tool.len() as u32).to_le_bytes(), tool.as_bytes()].concat()
    };
    let java_script = [named(&kind(0, "JSHeapInfo")), vec![6]].concat();
    for (version, trailer, pid, tool, is_whole) in [
        (4, vec![0; 25], 0, "", true),
        (5, [vec![0; 25], process(ticks)].concat(), 7, "", true),
        (8, [vec![0; 9], vec![1, 1], process(ticks), tool("t 1")].concat(), 7, "t 1", true),
        (10, [vec![0; 9], java_script.clone(), vec![1], process(ticks), tool("t")].concat(), 7, "t", true),
        (10, [vec![0; 9], vec![1], heap(0), process(ticks), tool("t")].concat(), 7, "t", true),
        (10, [vec![0; 9], vec![1], heap(1), process(ticks), tool("t")].concat(), 7, "t", true),
        // A tag that nobody knows; sizes of segments that are not told.
        (10, [vec![0; 9], vec![1, 1], process(ticks), vec![0, 0, 0, 0, 77]].concat(), 7, "", true),
        (10, [vec![0; 9], vec![9], process(ticks)].concat(), 0, "", false),
        (10, [vec![0; 9], vec![1, 1], process(ticks)[..20].to_vec()].concat(), 0, "", false),
    ] {
        let dump = read(&with_trailer(version, &trailer)).expect("the graph is there");
        assert_eq!(dump.graph.len(), 1);
        assert_eq!(
            (dump.pid.0, dump.tool.as_str(), dump.incomplete.is_none()),
            (pid, tool, is_whole),
            "{version}"
        );
        if pid == 7 {
            assert_eq!((dump.process_name.as_str(), dump.local_unix_seconds), ("shop", Some(1000)));
        }
    }
    let whole = with_trailer(10, &[vec![0; 9], vec![1], heap(1), process(0), tool("t")].concat());
    assert_eq!(read(&whole).unwrap().local_unix_seconds, None);
    let graph = with_trailer(10, &[]).len();
    for cut in 0..whole.len() {
        match read(&whole[..cut]) {
            Ok(dump) => {
                assert!(cut + 1 >= graph && (dump.incomplete.is_some() || cut + 6 >= whole.len()), "{cut}")
            }
            Err(_) => assert!(cut < graph, "{cut}"),
        }
    }
}
