//! Tests of heaps: they are read from folders and bundles, and whatever is damaged is an error.

use std::io::Read;
use std::path::Path;

use biopsy_model::capture::CaptureHeader;
use biopsy_model::heap::{HeapFacts, HeapSource, HeapType};
use proptest::prelude::*;

use super::*;
use crate::bundle;

const RATIO: u64 = 200;

fn of(name: &str) -> HeapType {
    HeapType { name: name.to_owned(), ..HeapType::default() }
}

/// A recording with heaps 2 and 10, of which only the first is finished.
fn recording(scratch: &Path) -> PathBuf {
    let path = scratch.join("r");
    let folder = RecordingFolder::create(&path).unwrap();
    folder.header(&CaptureHeader::default()).unwrap();
    for number in [10, 2] {
        folder.heap_types(number, &[of("Free"), of("App.Order")]).unwrap();
        folder.heap_column(number, "edges", |out| out.write_all(&[7; 1000])).unwrap();
    }
    let facts = HeapFacts { objects: 3, source: HeapSource::Memory, ..HeapFacts::default() };
    folder.heap_facts(2, &facts).unwrap();
    path
}

fn opened(path: &Path) -> Heaps {
    Heaps::open(path, &Limits::default()).unwrap().unwrap()
}

fn column(heaps: &mut Heaps, name: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    heaps.open_column(2, name, RATIO).unwrap().map(|mut from| from.read_to_end(&mut bytes).unwrap())?;
    Some(bytes)
}

#[test]
fn heaps_are_read_from_folders_and_bundles() {
    let scratch = tempfile::tempdir().unwrap();
    let path = recording(scratch.path());
    let zip = scratch.path().join("r.zip");
    bundle(&path, &zip).unwrap();
    for place in [path, zip] {
        let mut heaps = opened(&place);
        assert_eq!(heaps.numbers(), [2, 10]);
        assert_eq!(heaps.types(2).unwrap(), [of("Free"), of("App.Order")]);
        let facts = heaps.facts(2).unwrap();
        assert_eq!((facts.objects, facts.source), (3, HeapSource::Memory));
        assert_eq!(column(&mut heaps, "edges").unwrap(), [7; 1000]);
        assert_eq!(column(&mut heaps, "live"), None);
        let unfinished = heaps.facts(10).unwrap_err().to_string();
        assert_eq!(unfinished, format!("snapshot 10 of `{}` was not finished", place.display()));
        assert_eq!(heaps.types(3).unwrap(), [], "there is no third");
    }
}

/// However it is written, a member is one stream of zstd at level 1, several blocks of it.
#[test]
fn members_are_packed_as_one_stream() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("r");
    let folder = RecordingFolder::create(&path).unwrap();
    let types: Vec<HeapType> = (0..20_000).map(|number| of(&format!("App.Type{number}"))).collect();
    let lines: String = types.iter().map(|of| format!("{{\"name\":\"{}\"}}\n", of.name)).collect();
    let bytes = folder.heap_types(1, &types).unwrap();
    let member = std::fs::read(path.join("snapshots/1/types.jsonl.zst")).unwrap();
    assert_eq!(member.len() as u64, bytes);
    assert!(member == zstd::encode_all(lines.as_bytes(), 1).unwrap());
    let in_pieces = folder
        .heap_column(1, "a", |out| lines.as_bytes().chunks(999).try_for_each(|some| out.write_all(some)));
    assert_eq!(in_pieces.unwrap(), bytes);
    assert!(matches!(folder.heap_types(1, &types), Err(WriteError::Exists { .. })), "never written over");
}

/// The disk is full, or the columns cannot be made: the member is named.
#[test]
fn a_column_that_cannot_be_written_is_named() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = RecordingFolder::create(scratch.path().join("r")).unwrap();
    let error =
        folder.heap_column(1, "edges", |_| Err(io::Error::from(io::ErrorKind::StorageFull))).unwrap_err();
    let message = error.to_string();
    assert!(message.contains("snapshots/1/edges.npy.zst"), "{message}");
    assert!(matches!(error, WriteError::DiskFull { .. }), "{error:?}");
}

#[test]
fn what_has_no_heap_is_told_from_what_is_damaged() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("r");
    RecordingFolder::create(&path).unwrap().header(&CaptureHeader::default()).unwrap();
    assert!(Heaps::open(&path, &Limits::default()).unwrap().is_none());
    let text = scratch.path().join("text");
    std::fs::write(&text, "no zip").unwrap();
    assert!(Heaps::open(&text, &Limits::default()).unwrap().is_none());
    assert!(Heaps::open(scratch.path().join("none"), &Limits::default()).is_err());
}

#[test]
fn facts_and_types_that_are_none_are_named() {
    let scratch = tempfile::tempdir().unwrap();
    let path = recording(scratch.path());
    let at = |name: &str| path.join(layout::snapshot_member(2, name));
    std::fs::write(at(layout::FACTS), "{\"objects\": -1}").unwrap();
    std::fs::write(at(layout::TYPES), "no zstd").unwrap();
    let mut heaps = opened(&path);
    assert_eq!(heaps.facts(2).unwrap_err().to_string(), "the facts of snapshot 2 are damaged");
    assert_eq!(heaps.types(2).unwrap_err().to_string(), "the types of snapshot 2 are damaged");
    std::fs::write(at(layout::FACTS), "").unwrap();
    assert!(matches!(opened(&path).facts(2), Err(HeapReadError::Unfinished { number: 2, .. })));
}

#[test]
fn types_keep_their_numbers_and_end_at_the_limits() {
    let limits = Limits { types: 3, line_bytes: 40, ..Limits::default() };
    let read = |text: &str| read_types(text.as_bytes(), &limits).map_err(|error| error.to_string());
    let names = |text: &str| -> Vec<String> { read(text).unwrap().into_iter().map(|of| of.name).collect() };
    assert_eq!(names("{\"name\":\"A\"}\n\n{\"name\":\"B\"}"), ["A", "", "B"]);
    assert_eq!(names(""), [""; 0]);
    assert_eq!(read("\n\n\n\n").unwrap_err(), "there are more than 3 types");
    assert_eq!(read(&"x".repeat(41)).unwrap_err(), "type 0 has more than 40 bytes");
}

#[test]
fn a_column_of_equal_numbers_needs_leave_to_be_unpacked() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("r");
    let folder = RecordingFolder::create(&path).unwrap();
    folder.heap_column(1, "types", |out| (0..100).try_for_each(|_| out.write_all(&[0; 1 << 16]))).unwrap();
    folder.header(&CaptureHeader::default()).unwrap();
    let limits = Limits { free_bytes: 1 << 20, ..Limits::default() };
    let mut heaps = Heaps::open(&path, &limits).unwrap().unwrap();
    let mut unpacked = |ratio| {
        let from = heaps.open_column(1, "types", ratio).unwrap().unwrap();
        io::copy(&mut { from }, &mut io::sink())
    };
    assert!(unpacked(RATIO).is_err());
    assert_eq!(unpacked(u64::MAX).unwrap(), 100 << 16);
}

#[test]
fn numbers_are_no_text_that_redaction_looks_at() {
    for (member, is_column) in [("edges.npy.zst", true), ("types.jsonl.zst", true), ("snapshot.json", false)]
    {
        assert_eq!(layout::is_column(&layout::snapshot_member(1, member)), is_column, "{member}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_heap_that_is_cut_or_changed_is_an_error_or_read(cut in 0_usize..400, at in 0_usize..400, byte: u8) {
        let scratch = tempfile::tempdir().unwrap();
        let path = recording(scratch.path());
        for name in [layout::FACTS, layout::TYPES, "edges.npy.zst"] {
            let path = path.join(layout::snapshot_member(2, name));
            let mut bytes = std::fs::read(&path).unwrap();
            if let Some(old) = bytes.get_mut(at) {
                *old = byte;
            }
            bytes.truncate(cut);
            std::fs::write(&path, bytes).unwrap();
        }
        let mut heaps = opened(&path);
        let _ = heaps.facts(2);
        prop_assert!(heaps.types(2).map_or(0, |types| types.len()) <= 3);
        if let Some(from) = heaps.open_column(2, "edges", RATIO).unwrap() {
            let _ = io::copy(&mut { from }, &mut io::sink());
        }
        prop_assert_eq!(heaps.types(10).unwrap().len(), 2, "the other is as it was");
    }
}
