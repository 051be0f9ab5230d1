//! Columns read back as they were written, and damaged ones are refused.

use std::collections::BTreeMap;
use std::io::{self, Read};

use biopsy_model::Avma;
use proptest::prelude::*;

use super::*;
use crate::graph::tests::made::{self, graph_of};
use crate::graph::{Bits, Graph, GraphBuilder, HeapType, Node, ObjectIndex, Root, RootKind, mark};

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

/// A column as NumPy would write it.
fn npy(element: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    npy::write_header(&mut bytes, element, shape).unwrap();
    bytes.extend(data);
    bytes
}

fn words<const N: usize>(words: [u32; N]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn longs<const N: usize>(longs: [u64; N]) -> Vec<u8> {
    longs.iter().flat_map(|long| long.to_le_bytes()).collect()
}

#[test]
fn what_is_no_graph_is_refused_with_the_column_and_the_reason() {
    const FOURS: &str = "<u4";
    let starts = |starts: [u32; 4]| npy(FOURS, "(4,)", &words(starts));
    for (column, bytes, reason) in [
        (Column::Addresses, npy("<u4", "(3,)", &words([8, 16, 24])), "3 elements of `<u4`"),
        (Column::Addresses, npy("<u8", "(4294967295,)", &[]), "4294967295 elements of `<u8`"),
        (
            Column::Addresses,
            npy("<u8", "(3,)", &longs([0x2000, 0x1000, 0x3000])),
            "0x1000 comes behind 0x2018",
        ),
        (
            Column::Addresses,
            npy("<u8", "(3,)", &longs([0x1000, 0x1010, 0x3000])),
            "0x1010 comes behind 0x1018",
        ),
        (
            Column::Addresses,
            npy("<u8", "(3,)", &longs([0x1000, 0x2001, 1 << 40])),
            "0x2001 is no place for an object",
        ),
        (Column::Types, npy(FOURS, "(3,)", &words([0, 1, 0])), "there is no type 1"),
        (Column::Types, npy("<u8", "(3,)", &longs([0; 3])), "elements are `<u8`"),
        (Column::Types, npy(FOURS, "(2,)", &words([0; 2])), "2 elements where 3 belong"),
        (Column::Sizes, npy("|u1", "(3,)", &[8; 3]), "elements are `|u1`"),
        (Column::Generations, npy(FOURS, "(3,)", &words([0; 3])), "elements are `<u4`"),
        (Column::EdgeStarts, npy(FOURS, "(3,)", &words([0; 3])), "3 elements where 4 belong"),
        (Column::EdgeStarts, starts([1, 2, 2, 3]), "references begin at 1"),
        (Column::EdgeStarts, starts([0, 2, 1, 3]), "1 comes behind 2"),
        (Column::EdgeStarts, starts([0, 2, 2, 4]), "4 comes behind 2"),
        (Column::EdgeStarts, starts([0, 2, 2, 2]), "3 references, of which the objects have 2"),
        (Column::Edges, npy("<u8", "(3,)", &longs([0; 3])), "elements are `<u8`"),
        (Column::Noted, npy("|u1", "(6,)", &[0; 6]), "elements are `|u1`"),
        (Column::Live, npy("|u1", "(2,)", &[1; 2]), "2 elements where 3 belong"),
        (Column::Roots, npy("<u8", "(1,)", &longs([0])), "elements are `<u8`"),
        (Column::Dependents, npy("<u8", "(1, 2)", &longs([0; 2])), "elements are `<u8`"),
    ] {
        let graph = sample();
        let mut files = written(&graph);
        files.0.insert(column, bytes);
        let refused = read(&files, graph.types().to_vec()).expect_err(reason);
        assert_eq!(refused.to_string(), format!("column `{}` is damaged: {reason}", column.name()));
    }
}

#[test]
fn a_column_that_every_graph_has_is_missed_and_one_that_ends_too_soon_is_an_error() {
    let graph = sample();
    let whole = written(&graph);
    for column in Column::ALL {
        let mut files = Files(whole.0.clone());
        let bytes = files.0.remove(column).expect("the sample has all");
        let found = read(&files, graph.types().to_vec());
        let optional = matches!(column, Column::Live | Column::Roots | Column::Dependents | Column::Noted);
        assert_eq!(found.is_ok(), optional, "{column:?}");
        if let Err(error) = found {
            assert_eq!(error.to_string(), format!("column `{}` is missing", column.name()));
        }
        for cut in 0..bytes.len() {
            files.0.insert(*column, bytes[..cut].to_vec());
            let refused = read(&files, graph.types().to_vec()).expect_err("it is cut");
            assert_eq!(refused.to_string(), format!("column `{}` cannot be read", column.name()), "{cut}");
        }
    }
}

#[test]
fn headers_of_other_writers_are_read_and_what_is_no_header_is_refused() {
    // numpy/lib/format.py: a dictionary of Python, keys in this order, spaces up to a multiple of 64.
    let header = |text: &str| {
        let length = u16::try_from(text.len()).unwrap().to_le_bytes();
        let bytes = [b"\x93NUMPY\x01\x00", &length[..], text.as_bytes()].concat();
        npy::read_header(&mut bytes.as_slice()).map_err(|error| error.to_string())
    };
    let read = |element: &str, count| Ok((element.to_owned(), count));
    for (text, found) in [
        ("{'descr': '<u8', 'fortran_order': False, 'shape': (3,), }  \n", read("<u8", 3)),
        ("{'descr':'|u1','fortran_order':False,'shape': (18446744073709551615,)}", read("|u1", u64::MAX)),
        ("{'descr': '<u4', 'fortran_order': False, 'shape': (7, 2), }", read("<u4", 7)),
        (
            "{'descr': [('a', '<u4'), ('b', '|u1')], 'fortran_order': False, 'shape': (1,), }",
            read("[('a', '<u4'), ('b', '|u1')]", 1),
        ),
        (
            "{'descr': '<u8', 'fortran_order': True, 'shape': (3,), }",
            Err("its order is Fortran's".to_owned()),
        ),
        (
            "{'descr': '<u8', 'fortran_order': False, 'shape': (), }",
            Err("its header has no `shape`".to_owned()),
        ),
        (
            "{'descr': '<u8', 'fortran_order': False, 'shape': (-1,), }",
            Err("its header has no `shape`".to_owned()),
        ),
        ("{'descr': '<u8', 'shape': (18446744073709551616,), }", Err("its header has no `shape`".to_owned())),
        ("{'shape': (3,), }", Err("its header has no `descr`".to_owned())),
        ("", Err("its header has no `descr`".to_owned())),
    ] {
        assert_eq!(header(text), found, "{text}");
    }
    for bytes in [&b"\x93NUMPY\x02\x00\0\0"[..], b"PK\x03\x04\0\0\0\0\0\0"] {
        let refused = npy::read_header(&mut { bytes }).expect_err("another version").to_string();
        assert_eq!(refused, "it does not begin like a `.npy` of version 1");
    }
    assert_eq!(
        npy::read_header(&mut &b"\x93NUMPY\x01\x00\x01\0\xff"[..]).unwrap_err().to_string(),
        "its header is no text"
    );
}

#[test]
fn values_that_a_later_version_may_write_are_taken_for_what_is_not_known() {
    let graph = sample();
    let mut files = written(&graph);
    files.0.insert(Column::Generations, npy("|u1", "(3,)", &[2, 6, 255]));
    // No object has number 3 or more: such references lead nowhere, and such roots and handles are left out.
    files.0.insert(Column::Edges, npy("<u4", "(3,)", &words([2, 3, u32::MAX - 1])));
    files.0.insert(Column::Dependents, npy("<u4", "(3, 2)", &words([0, 3, 3, 0, 2, 1])));
    let root = |kind: u8, object: u32| [&[kind, 0][..], &words([0, 0, 0, object])].concat();
    let roots = [root(200, 2), root(0, 3), root(11, 0)].concat();
    files.0.insert(Column::Roots, npy(super::write::ROOT, "(3,)", &roots));
    let again = read(&files, graph.types().to_vec()).unwrap();
    use crate::graph::Generation::{Gen2, Unknown};
    assert!(again.objects().map(|object| object.generation).eq([Gen2, Unknown, Unknown]));
    assert_eq!(again.references(ObjectIndex(0)).unwrap(), [ObjectIndex(2)]);
    assert!(again.references(ObjectIndex(2)).unwrap().is_empty());
    assert_eq!(again.edge_count(), 2, "one of the three is an empty place");
    assert_eq!(again.dependents(), [(ObjectIndex(2), ObjectIndex(1))]);
    let roots: Vec<_> = again.roots().iter().map(|root| (root.kind, root.object.0)).collect();
    assert_eq!(roots, [(RootKind::Other, 2), (RootKind::Static, 0)]);
}

proptest! {
    #[test]
    fn any_graph_reads_as_it_was_written(
        objects in made::objects(),
        budget in proptest::option::of(0..100u64),
        roots in proptest::collection::vec((0..RootKind::ALL.len(), any::<u64>(), any::<prop::sample::Index>(), any::<bool>(), any::<u32>()), 0..5),
        dependents in proptest::collection::vec(any::<(prop::sample::Index, prop::sample::Index)>(), 0..5),
        live in proptest::option::of(proptest::collection::vec(any::<bool>(), 60)),
    ) {
        let mut graph = graph_of(&objects, budget);
        let of = |index: &prop::sample::Index| ObjectIndex(index.index(objects.len()) as u32);
        let roots = roots.iter().map(|(kind, address, object, is_interior, thread)| Root {
            kind: RootKind::ALL[*kind], address: Avma(*address), object: of(object), is_interior: *is_interior, thread: *thread,
        });
        graph.set_roots(roots.collect(), dependents.iter().map(|(key, value)| (of(key), of(value))).collect());
        if let Some(live) = live {
            let mut bits = Bits::new(objects.len());
            (0..objects.len()).filter(|number| live[*number]).for_each(|number| assert!(bits.insert(number)));
            graph.set_live(bits);
        }
        let again = read(&written(&graph), graph.types().to_vec()).unwrap();
        prop_assert!(graph.objects().eq(again.objects()));
        let numbered = |graph: &Graph, index| {
            let mut all = Vec::new();
            graph.for_each_numbered_reference(index, &mut Vec::new(), |number, target| all.push((number, target))).unwrap();
            all
        };
        for (number, made) in objects.iter().enumerate() {
            prop_assert_eq!(numbered(&again, ObjectIndex(number as u32)), made.references());
        }
        prop_assert_eq!((again.edge_count(), again.places_count()), (graph.edge_count(), graph.places_count()));
        prop_assert_eq!((again.roots(), again.dependents(), again.live()), (graph.roots(), graph.dependents(), graph.live()));
        let noted = |graph: &Graph| {
            let mut all = Vec::new();
            graph.for_each_noted(|object, of, numbers| all.push((object, of, numbers.to_vec())));
            all
        };
        prop_assert_eq!(noted(&again), noted(&graph));
    }
}
