//! Columns read back as they were written, and damaged ones are refused.

use std::collections::BTreeMap;
use std::io::{self, Read};

use biopsy_model::Avma;
use proptest::prelude::*;

use super::*;
use crate::graph::{Graph, GraphBuilder, HeapType, Node, ObjectIndex, Root, RootKind, mark};

struct Files(BTreeMap<Column, Vec<u8>>);

impl ColumnSource for Files {
    fn open(&self, column: Column) -> io::Result<Option<Box<dyn Read + '_>>> {
        Ok(self.0.get(&column).map(|bytes| Box::new(bytes.as_slice()) as Box<dyn Read>))
    }
}

fn sample() -> Graph {
    let mut builder = GraphBuilder::new();
    let noted = vec!["_size".to_owned(), "_version".to_owned()];
    let of = builder.push_type(HeapType { name: "A".to_owned(), noted, ..HeapType::default() });
    builder.note(Avma(0x2000), vec![7, 8]);
    for (address, size, edges) in [
        (0x1000u64, 24u64, vec![0x7f00_0000u64, 0x2000]),
        (0x2000, 1 << 33, vec![]),
        (0x7f_0000_0000, 24, vec![0x1000]),
    ] {
        builder.push(Node { address: Avma(address), of, size, edges: edges.len() as u32 });
        edges.into_iter().for_each(|edge| builder.push_edge(Avma(edge)));
    }
    let (mut graph, ..) = builder.finish().unwrap();
    let root = Root {
        kind: RootKind::Stack,
        address: Avma(9),
        object: ObjectIndex(0),
        is_interior: true,
        thread: 7,
    };
    graph.set_roots(vec![root], vec![(ObjectIndex(0), ObjectIndex(1))]);
    graph.set_live(mark(&graph).unwrap());
    graph
}

fn written(graph: &Graph) -> Files {
    let mut files = BTreeMap::new();
    for column in Column::ALL {
        let mut bytes = Vec::new();
        if write(graph, *column, &mut bytes).unwrap() {
            files.insert(*column, bytes);
        }
    }
    Files(files)
}

#[test]
fn what_was_written_is_read() {
    let graph = sample();
    let again = read(&written(&graph), graph.types().to_vec()).unwrap();
    assert_eq!(graph.objects().collect::<Vec<_>>(), again.objects().collect::<Vec<_>>());
    for object in graph.objects() {
        assert_eq!(graph.references(object.index).unwrap(), again.references(object.index).unwrap());
    }
    assert_eq!(
        (graph.roots(), graph.dependents(), graph.live()),
        (again.roots(), again.dependents(), again.live())
    );
}

#[test]
fn what_was_noted_is_read_and_no_fewer_numbers_than_the_types_say() {
    let noted = |graph: &Graph| {
        let mut all = Vec::new();
        graph.for_each_noted(|object, _, numbers| all.push((object.0, numbers.to_vec())));
        all
    };
    let graph = sample();
    let mut files = written(&graph);
    let expected = [(0, vec![0, 0]), (1, vec![7, 8]), (2, vec![0, 0])];
    assert_eq!(noted(&read(&files, graph.types().to_vec()).unwrap()), expected);
    // Of a version that notes less, of one that notes more, and of none.
    let with = |count: usize| {
        let names = (0..count).map(|number| number.to_string()).collect();
        vec![HeapType { name: "A".to_owned(), noted: names, ..HeapType::default() }]
    };
    assert_eq!(noted(&read(&files, with(1)).unwrap()).len(), 3);
    assert!(read(&files, with(3)).unwrap_err().to_string().contains("6 numbers are not enough"));
    assert!(read(&files, with(17)).unwrap_err().to_string().contains("more than 16 numbers"));
    files.0.remove(&Column::Noted);
    let without = read(&files, graph.types().to_vec()).unwrap();
    assert!(noted(&without).is_empty() && without.types()[0].noted.is_empty());
}

#[test]
fn headers_are_what_numpy_expects() {
    let files = written(&sample());
    let bytes = &files.0[&Column::Types];
    assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00");
    let length = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    assert_eq!((10 + length) % 64, 0);
    assert!(bytes[10..].starts_with(b"{'descr': '<u4', 'fortran_order': False, 'shape': (3,), }"));
    assert_eq!(bytes[10 + length - 1], b'\n');
}

proptest! {
    #[test]
    fn damaged_columns_are_an_error_or_a_graph(which in 0usize..9, at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>()) {
        let graph = sample();
        let mut files = written(&graph);
        if let Some(bytes) = files.0.get_mut(&Column::ALL[which]) {
            let at = at.index(bytes.len());
            if cut { bytes.truncate(at) } else { bytes[at] = byte }
        }
        if let Ok(graph) = read(&files, graph.types().to_vec()) {
            mark(&graph).unwrap();
        }
    }
}
