//! Small heap dumps, byte by byte; real ones are in `tests/hprof.rs`.

mod model;

use std::io::Cursor;

use biopsy_dotnet::graph::Graph;
use biopsy_model::heap::HeapFacts;
use proptest::prelude::{ProptestConfig, any, prop, proptest};

use super::{HprofError, read_from};

const OBJECT: u64 = 0x100;
const NODE: u64 = 0x180;
const ARRAY: u64 = 0x200;

/// A file with identifiers of eight bytes.
struct Dump(Vec<u8>);

impl Dump {
    fn new() -> Self {
        let mut bytes = b"JAVA PROFILE 1.0.2\0".to_vec();
        bytes.extend(8_u32.to_be_bytes());
        bytes.extend(1_700_000_000_000_u64.to_be_bytes());
        Self(bytes)
    }

    fn record(mut self, tag: u8, body: &[u8]) -> Self {
        self.0.push(tag);
        self.0.extend([0; 4]);
        self.0.extend(u32::try_from(body.len()).expect("short").to_be_bytes());
        self.0.extend(body);
        self
    }

    fn class_name(self, class: u64, name: &str) -> Self {
        let number = class + 1;
        let loaded =
            [&1_u32.to_be_bytes()[..], &class.to_be_bytes(), &[0; 4], &number.to_be_bytes()].concat();
        self.record(0x01, &[&number.to_be_bytes(), name.as_bytes()].concat()).record(0x02, &loaded)
    }
}

/// A class with fields of these types.
fn class(object: u64, parent: u64, fields: &[u8]) -> Vec<u8> {
    let mut body = vec![0x20];
    body.extend(object.to_be_bytes());
    body.extend([0; 4]);
    body.extend(parent.to_be_bytes());
    body.extend([0; 5 * 8 + 4 + 2 + 2]);
    body.extend(u16::try_from(fields.len()).expect("few").to_be_bytes());
    for field in fields {
        body.extend([0; 8]);
        body.push(*field);
    }
    body
}

fn instance(object: u64, class: u64, values: &[u8]) -> Vec<u8> {
    let length = u32::try_from(values.len()).expect("short").to_be_bytes();
    [&[0x21][..], &object.to_be_bytes(), &[0; 4], &class.to_be_bytes(), &length, values].concat()
}

fn numbers(object: u64, length: u32, element: u8, bytes: usize) -> Vec<u8> {
    [&[0x23][..], &object.to_be_bytes(), &[0; 4], &length.to_be_bytes(), &[element], &vec![7; bytes]].concat()
}

/// A list of two nodes with an array, kept by a thread, and a node that nobody keeps.
fn list() -> Vec<u8> {
    let node = |next: u64, data: u64, size: u32| {
        [&data.to_be_bytes()[..], &size.to_be_bytes(), &next.to_be_bytes()].concat()
    };
    let references = [
        &[0x22][..],
        &0x5000_u64.to_be_bytes(),
        &[0; 4],
        &2_u32.to_be_bytes(),
        &ARRAY.to_be_bytes(),
        &0x1000_u64.to_be_bytes(),
        &0_u64.to_be_bytes(),
    ]
    .concat();
    let heap = [
        [&[0x08][..], &0x5000_u64.to_be_bytes(), &[0; 8]].concat(),
        class(OBJECT, 0, &[]),
        // Its own fields come first, those of its parent behind them.
        class(NODE, 0x1c0, &[2, 10]),
        class(0x1c0, OBJECT, &[2]),
        class(ARRAY, OBJECT, &[]),
        instance(0x1000, NODE, &node(0x1100, 0x2000, 1)),
        instance(0x1100, NODE, &node(0, 0, 2)),
        instance(0x1200, NODE, &node(0x1000, 0, 3)),
        numbers(0x2000, 10, 8, 10),
        references,
    ]
    .concat();
    Dump::new()
        .class_name(OBJECT, "java/lang/Object")
        .class_name(NODE, "shop/Node")
        .class_name(ARRAY, "[Lshop/Node;")
        .record(0x1c, &heap)
        .record(0x2c, &[])
        .0
}

fn read(bytes: &[u8]) -> Result<(Graph, HeapFacts), HprofError> {
    read_from(Cursor::new(bytes), Cursor::new(bytes))
}

fn objects_of(graph: &Graph, name: &str) -> Option<(u64, u64, u64)> {
    let by_type = graph.by_type();
    let row = by_type.iter().find(|row| graph.type_of(row.of).is_some_and(|of| of.name == name))?;
    Some((row.all.objects, row.all.bytes, row.live.map_or(0, |live| live.objects)))
}

#[test]
fn objects_have_types_sizes_and_what_keeps_them() {
    let (graph, facts) = read(&list()).expect("it is whole");
    // Header 12, fields 4 + 4 + 4.
    assert_eq!(objects_of(&graph, "shop.Node"), Some((3, 72, 2)));
    assert_eq!(objects_of(&graph, "byte[]"), Some((1, 32, 1)));
    assert_eq!(objects_of(&graph, "shop.Node[]"), Some((1, 24, 1)));
    assert_eq!(objects_of(&graph, "java.lang.Class"), Some((4, 64, 4)));
    assert!(facts.whole && facts.dangling == 0, "{facts:?}");
    assert_eq!(facts.taken_at_unix_seconds, 1_700_000_000.0);
    assert_eq!(facts.roots, [("thread".to_owned(), 1)]);
}

#[test]
fn a_file_that_ends_early_gives_what_is_there_and_says_so() {
    let whole = list();
    let (graph, facts) = read(&whole[..whole.len() - 60]).expect("what is there");
    assert_eq!(objects_of(&graph, "shop.Node").map(|(objects, ..)| objects), Some(3));
    assert!(!facts.whole);
    assert!(facts.warnings.iter().any(|text| text.contains("not whole")), "{:?}", facts.warnings);
}

#[test]
fn an_object_of_a_class_that_is_not_described_is_counted_and_said() {
    let heap = [class(OBJECT, 0, &[]), instance(0x1000, 0xdead0, &[0; 16])].concat();
    let (graph, facts) = read(&Dump::new().record(0x0c, &heap).0).expect("it opens");
    assert_eq!(objects_of(&graph, "?0xdead0").map(|(objects, ..)| objects), Some(1));
    assert!(!facts.whole && facts.problems == 1);
}

#[test]
fn parents_in_a_circle_end() {
    let heap =
        [class(0x100, 0x180, &[2]), class(0x180, 0x100, &[2]), instance(0x1000, 0x100, &[0; 16])].concat();
    let (_, facts) = read(&Dump::new().record(0x1c, &heap).0).expect("it opens");
    assert!(!facts.whole);
}

#[test]
fn fields_without_end_are_none() {
    // Each may be in a file; all together are more than an object can have.
    let full = vec![2; usize::from(u16::MAX)];
    for (parent, fields, whole) in
        [(0, &full[..], true), (0x180, &full, false), (0x100, &full[..40_000], false)]
    {
        let heap =
            [class(0x100, parent, fields), class(0x180, 0, &[2, 2]), instance(0x1000, 0x100, &[0; 16])]
                .concat();
        let (graph, facts) = read(&Dump::new().record(0x1c, &heap).0).expect("it opens");
        assert_eq!((facts.whole, facts.problems), (whole, u64::from(!whole)), "{parent:#x} {}", fields.len());
        assert_eq!(graph.len(), 3);
    }
}

#[test]
fn values_that_are_cut_give_the_references_before_the_cut() {
    for (bytes, found) in [(0, 0), (7, 0), (8, 1), (15, 1), (16, 2), (24, 2)] {
        let values = [0x2000_u64.to_be_bytes(), 0x3000_u64.to_be_bytes(), [0xee; 8]].concat();
        let heap = [
            class(0x100, 0, &[2, 2]),
            instance(0x1000, 0x100, &values[..bytes]),
            instance(0x2000, 0x100, &[0; 16]),
            instance(0x3000, 0x100, &[0; 16]),
        ]
        .concat();
        let (graph, _) = read(&Dump::new().record(0x1c, &heap).0).expect("it opens");
        let object = graph.find(biopsy_model::Avma(0x1000)).expect("it is there");
        // And its class.
        assert_eq!(graph.references(object).unwrap().len(), found + 1, "{bytes}");
    }
}

#[test]
fn lengths_that_cannot_be_are_refused_before_memory_is_taken() {
    let array = [&[0x22][..], &0x1000_u64.to_be_bytes(), &[0; 4], &u32::MAX.to_be_bytes(), &[0; 8]].concat();
    let (graph, facts) = read(&Dump::new().record(0x1c, &array).0).expect("the head is there");
    assert!(graph.is_empty() && !facts.whole);
    assert!(matches!(read(b"JAVA PROFILE 1.0.2\0\0\0\0\x07"), Err(HprofError::Unexpected { .. })));
    assert!(matches!(read(b"JAVA PROFILE 1.0.2"), Err(HprofError::Cut { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_make_it_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..16),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = list();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(bytes.len() - cut.index(20));
        let _ = read(&bytes);
    }
}
