//! Heaps of recordings, `.gcdump` files and dumps.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use biopsy_dotnet::gcdump::{self, WriteOptions};
use biopsy_dotnet::graph::columns::{self, Column};
use biopsy_dotnet::graph::{Graph, GraphBuilder, HeapType, Node, Root, RootKind, mark};
use biopsy_image::testing::CoreBuilder;
use biopsy_import::heap::{HeapError, of_dump, of_gcdump, of_recording, open};
use biopsy_model::capture::CaptureHeader;
use biopsy_model::heap::{HeapFacts, HeapSource};
use biopsy_model::{Avma, Pid};
use biopsy_recording::{RecordingFolder, bundle};
use proptest::prelude::*;

/// Nodes in a chain, held by a handle where they are live.
fn graph(nodes: u64, live: bool) -> Graph {
    let mut builder = GraphBuilder::new();
    let of = builder.push_type(HeapType {
        name: "App.Node".to_owned(),
        noted: vec!["_size".to_owned()],
        ..HeapType::default()
    });
    for at in 0..nodes {
        builder.note(Avma(0x1000 + at * 0x20), vec![at as u32]);
        let edges = u32::from(at + 1 < nodes);
        builder.push(Node { address: Avma(0x1000 + at * 0x20), of, size: 24, edges });
        (0..edges).for_each(|_| builder.push_edge(Avma(0x1000 + (at + 1) * 0x20)));
    }
    let (mut graph, _, _) = builder.finish().unwrap();
    let root = graph.find(Avma(0x1000)).map(|object| Root {
        kind: RootKind::ALL[0],
        address: Avma(0x7f00),
        object,
        is_interior: false,
        thread: 0,
    });
    graph.set_roots(Vec::from_iter(root.filter(|_| live)), Vec::new());
    let bits = mark(&graph).unwrap();
    graph.set_live(bits);
    graph
}

/// Adds a snapshot of this number.
fn add(folder: &RecordingFolder, number: u32, graph: &Graph) {
    folder.heap_types(number, graph.types()).unwrap();
    for column in Column::ALL {
        folder
            .heap_column(number, column.name(), |out| columns::write(graph, *column, out).map(|_| ()))
            .unwrap();
    }
    let facts = HeapFacts { pid: Pid(7), source: HeapSource::Memory, ..graph.facts() };
    folder.heap_facts(number, &facts).unwrap();
}

/// A recording with snapshot 1 of three objects and snapshot 12 of five.
fn recording(scratch: &Path) -> PathBuf {
    let path = scratch.join("r");
    let folder = RecordingFolder::create(&path).unwrap();
    let header = CaptureHeader { target_name: "server".to_owned(), ..CaptureHeader::default() };
    folder.header(&header).unwrap();
    add(&folder, 1, &graph(3, true));
    add(&folder, 12, &graph(5, false));
    path
}

fn said(error: &HeapError) -> String {
    let cause = std::error::Error::source(error).map_or_else(String::new, |cause| format!(": {cause}"));
    format!("{error}{cause}")
}

#[test]
fn snapshots_of_recordings_are_opened_by_number_and_the_last_without() {
    let scratch = tempfile::tempdir().unwrap();
    let path = recording(scratch.path());
    let zip = scratch.path().join("r.zip");
    bundle(&path, &zip).unwrap();
    for place in [path, zip] {
        for (number, objects, live) in [(Some(1), 3, 3), (Some(12), 5, 0), (None, 5, 0)] {
            let heap = of_recording(&place, number).unwrap().unwrap();
            assert_eq!((heap.name.as_str(), heap.graph.len()), ("server", objects));
            assert_eq!(heap.facts.live_objects, Some(live));
            assert_eq!(
                heap.graph.facts(),
                HeapFacts { pid: Pid(0), source: HeapSource::Unknown, ..heap.facts }
            );
            assert_eq!(heap.graph.types()[0].name, "App.Node");
        }
        assert!(of_recording(&place, Some(2)).unwrap().is_none());
        assert_eq!(open(&place).unwrap().unwrap().graph.len(), 5);
    }
}

#[test]
fn what_has_no_heap_is_something_else() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("r");
    RecordingFolder::create(&path).unwrap().header(&CaptureHeader::default()).unwrap();
    assert!(open(&path).unwrap().is_none());
    let text = scratch.path().join("notes.txt");
    for bytes in [&b"hello"[..], b"", b"\x14\0\0\0!FastSerialization.2\x04\x04\x01", b"\x7fELF\x02"] {
        fs::write(&text, bytes).unwrap();
        assert!(open(&text).unwrap().is_none(), "{bytes:?}");
    }
    let none = open(scratch.path().join("none")).unwrap_err();
    assert!(matches!(none, HeapError::Recording(_)), "{none}");
    assert!(none.to_string().ends_with("no such file or folder"));
}

#[test]
fn damage_is_named_by_member() {
    let cases: [(&str, &[u8], &str); 7] = [
        ("types.jsonl.zst", b"no zstd", "the types of snapshot 12 are damaged: "),
        ("snapshot.json", b"{\"objects\": \"many\"}", "the facts of snapshot 12 are damaged: "),
        ("snapshot.json", b"", "snapshot 12 of `"),
        ("addresses.npy.zst", b"no zstd", "column `addresses` cannot be read: "),
        ("edges.npy.zst", b"no zstd", "column `edges` cannot be read: "),
        ("roots.npy.zst", b"", "column `roots` cannot be read: "),
        ("live.npy.zst", b"\x28\xb5\x2f\xfd", "column `live` cannot be read: "),
    ];
    for (member, bytes, expected) in cases {
        let scratch = tempfile::tempdir().unwrap();
        let path = recording(scratch.path());
        fs::write(path.join("snapshots/12").join(member), bytes).unwrap();
        let error = open(&path).unwrap_err();
        assert!(said(&error).starts_with(expected), "{member}: {}", said(&error));
        assert_eq!(error.hint(), None, "{member}");
        assert_eq!(of_recording(&path, Some(1)).unwrap().unwrap().graph.len(), 3, "the other is whole");
    }
}

#[test]
fn columns_that_a_graph_needs_are_missed_and_others_are_not() {
    for column in Column::ALL {
        let scratch = tempfile::tempdir().unwrap();
        let path = recording(scratch.path());
        fs::remove_file(path.join(format!("snapshots/12/{}.npy.zst", column.name()))).unwrap();
        match (column, open(&path)) {
            (Column::Roots | Column::Dependents | Column::Noted, Ok(Some(heap))) => {
                assert_eq!(heap.graph.len(), 5)
            }
            (Column::Live, Ok(Some(heap))) => assert!(heap.graph.live().is_none()),
            (_, Err(error)) => {
                assert_eq!(error.to_string(), format!("column `{}` is missing", column.name()));
            }
            (_, other) => panic!("{column:?}: {other:?}"),
        }
    }
}

#[test]
fn columns_that_do_not_fit_each_other_are_damaged() {
    for (column, from) in
        [("types", "edges"), ("sizes", "addresses"), ("generations", "types"), ("live", "sizes")]
    {
        let scratch = tempfile::tempdir().unwrap();
        let path = recording(scratch.path());
        let at = |name| path.join(format!("snapshots/12/{name}.npy.zst"));
        let other = path.join(format!("snapshots/1/{from}.npy.zst"));
        fs::copy(other, at(column)).unwrap();
        let error = open(&path).unwrap_err();
        assert!(error.to_string().starts_with(&format!("column `{column}` is damaged: ")), "{error}");
    }
}

/// Without the types there are objects of no type.
#[test]
fn objects_without_types_are_damaged() {
    let scratch = tempfile::tempdir().unwrap();
    let path = recording(scratch.path());
    fs::remove_file(path.join("snapshots/12/types.jsonl.zst")).unwrap();
    assert_eq!(open(&path).unwrap_err().to_string(), "column `types` is damaged: there is no type 0");
}

fn gcdump() -> Vec<u8> {
    let options = WriteOptions {
        garbage: false,
        process_name: "server".to_owned(),
        pid: Pid(4711),
        unix_seconds: Some(1_763_720_628),
        tool: "test".to_owned(),
    };
    let mut bytes = std::io::Cursor::new(Vec::new());
    gcdump::write(&graph(4, true), &options, &mut bytes).unwrap();
    bytes.into_inner()
}

#[test]
fn gcdumps_tell_what_a_runtime_told() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("any.name");
    fs::write(&path, gcdump()).unwrap();
    for heap in [of_gcdump(&path).unwrap().unwrap(), open(&path).unwrap().unwrap()] {
        assert_eq!((heap.name.as_str(), heap.facts.pid, heap.graph.len()), ("server", Pid(4711), 4));
        assert_eq!((heap.facts.source, heap.facts.whole), (HeapSource::Runtime, true));
        assert_eq!((heap.facts.objects, heap.facts.bytes, heap.facts.live_objects), (4, 96, Some(4)));
        assert!(heap.facts.taken_at_unix_seconds > 1.7e9);
        assert_eq!(heap.facts.warnings, [""; 0]);
    }
    assert!(of_recording(&path, None).unwrap().is_none());
}

/// Files that other tools wrote, for 32-bit processes of long ago.
#[test]
fn gcdumps_of_other_tools_are_opened() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/others");
    for (name, least) in [("javascript-32-bit.gcdump.zst", 1_000), ("wpf-32-bit.gcdump.zst", 1_000)] {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("x.gcdump");
        let packed = fs::File::open(fixtures.join(name)).unwrap();
        fs::write(&path, zstd::decode_all(packed).unwrap()).unwrap();
        let heap = open(&path).unwrap().unwrap();
        assert!(heap.facts.objects > least && heap.facts.types > 10, "{name}: {:?}", heap.facts);
        assert_eq!(heap.facts.objects, heap.graph.facts().objects, "{name}");
    }
}

#[test]
fn a_gcdump_that_is_cut_is_an_error_or_says_what_is_missing() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("x.gcdump");
    let whole = gcdump();
    let mut incomplete = 0;
    for length in 0..whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        match of_gcdump(&path) {
            Ok(None) => assert!(length < 27, "{length}: it begins like one"),
            Ok(Some(heap)) => {
                assert_eq!(heap.graph.len(), 4, "{length}");
                incomplete += usize::from(!heap.facts.warnings.is_empty());
            }
            Err(error) => {
                let expected = format!("`{}` is damaged: ", path.display());
                assert!(said(&error).starts_with(&expected), "{}", said(&error));
            }
        }
    }
    assert!(incomplete > 20, "what stands behind the graph may be missing: {incomplete}");
}

#[test]
fn dumps_without_a_heap_say_so() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("1.core");
    fs::write(&path, CoreBuilder::new().process(11, "server", "server").build()).unwrap();
    let error = of_dump(&path, &Default::default(), &Default::default()).unwrap_err();
    let expected = "has no .NET runtime that can be read, and no blocks of glibc's malloc";
    assert_eq!(error.to_string(), format!("`{}` {expected}", path.display()));
    fs::write(&path, "no core").unwrap();
    assert!(matches!(of_dump(&path, &Default::default(), &Default::default()), Err(HeapError::Dump(_))));
    let packed = scratch.path().join("1.core.bz2");
    fs::write(&packed, b"BZh91AY&SY").unwrap();
    let error = of_dump(&packed, &Default::default(), &Default::default()).unwrap_err();
    assert!(error.hint().unwrap().contains("unpack it first"), "{error}");
    assert!(matches!(
        of_dump(&scratch.path().join("none"), &Default::default(), &Default::default()),
        Err(HeapError::Dump(_))
    ));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is changed in a member, unpacked, and wherever it is cut: an error or a graph.
    #[test]
    fn damaged_members_do_no_harm(
        which in 0..Column::ALL.len() + 2,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let scratch = tempfile::tempdir().unwrap();
        let path = recording(scratch.path());
        let name = match Column::ALL.get(which) {
            Some(column) => format!("{}.npy.zst", column.name()),
            None if which == Column::ALL.len() => "types.jsonl.zst".to_owned(),
            None => "snapshot.json".to_owned(),
        };
        let member = path.join("snapshots/12").join(&name);
        let mut bytes = Vec::new();
        let file = fs::File::open(&member).unwrap();
        let is_packed = name.ends_with(".zst");
        if is_packed {
            zstd::Decoder::new(file).unwrap().read_to_end(&mut bytes).unwrap();
        } else {
            bytes = fs::read(&member).unwrap();
        }
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let bytes = if is_packed { zstd::encode_all(bytes.as_slice(), 1).unwrap() } else { bytes };
        fs::write(&member, bytes).unwrap();
        if let Ok(Some(heap)) = open(&path) {
            prop_assert_eq!(heap.graph.len(), 5);
            let _ = heap.graph.facts();
        }
    }

    #[test]
    fn damaged_gcdumps_do_no_harm(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..10),
    ) {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("x.gcdump");
        let mut bytes = gcdump();
        for (at, byte) in changes {
            // It still begins like one.
            let at = 27 + at.index(bytes.len() - 27);
            bytes[at] = byte;
        }
        fs::write(&path, bytes).unwrap();
        let _ = open(&path);
    }
}
