//! The JSON documents of a recording, held to files that stay as they are: a change of the model changes no file.

mod sample;

use std::fs;
use std::path::{Path, PathBuf};

use biopsy_model::Pid;
use biopsy_model::capture::{Capture, CaptureHeader, EndedBy};
use biopsy_model::heap::{Collector, HeapFacts, HeapSource};
use biopsy_model::look::Look;
use biopsy_model::runtime_trace::CollectionReason;
use biopsy_recording::manifest::{Manifest, Member, Redaction};
use biopsy_recording::{Heaps, Limits, OpenError, RecordingFolder, layout, open, read_footprints};
use proptest::prelude::*;

/// A recording of documents alone, one of each kind.
fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/documents/golden")
}

/// Writes the documents of a recording as the recorders do.
fn write(capture: &Capture, path: &Path) {
    let folder = RecordingFolder::create(path).unwrap();
    folder.header(&CaptureHeader { end: None, ..capture.header.clone() }).unwrap();
    folder.processes(&capture.processes).unwrap();
    capture.runtimes.iter().for_each(|trace| folder.runtime_trace(trace.clone()).unwrap());
    capture.looks.iter().for_each(|look| folder.look(look).unwrap());
    capture.warnings.iter().for_each(|warning| folder.warn(warning).unwrap());
    folder.redactions(&capture.redactions).unwrap();
    folder.header(&capture.header).unwrap();
}

fn write_golden(path: &Path) {
    write(&sample::capture(), path);
    let folder = RecordingFolder::open_existing(path).unwrap();
    folder.heap_facts(1, &sample::heap_facts()).unwrap();
    folder.footprint(1, &sample::footprint()).unwrap();
    let facts = sample::dump_facts();
    folder.dump_facts(&layout::dump_member(facts.pid, 2, true, "json"), &facts).unwrap();
}

fn members(folder: &Path) -> Vec<String> {
    RecordingFolder::open_existing(folder).unwrap().members().unwrap()
}

/// A new member belongs there: `BIOPSY_WRITE_FIXTURES=1` writes the folder anew. A change of what is there is a change of the format.
#[test]
fn documents_are_written_byte_for_byte_as_ever() {
    if std::env::var_os("BIOPSY_WRITE_FIXTURES").is_some() {
        let _ = fs::remove_dir_all(golden());
        write_golden(&golden());
    }
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("r");
    write_golden(&path);
    assert_eq!(members(&path), members(&golden()));
    for member in members(&path) {
        let [written, golden] = [&path, &golden()].map(|at| fs::read_to_string(at.join(&member)).unwrap());
        assert_eq!(written, golden, "{member}");
    }
}

#[test]
fn documents_are_read_as_they_were_meant() {
    assert_eq!(open(golden(), &Limits::default()).unwrap(), sample::capture());
    assert_eq!(read_footprints(golden(), &Limits::default()), (vec![sample::footprint()], Vec::new()));
    let mut heaps = Heaps::open(golden(), &Limits::default()).unwrap().unwrap();
    assert_eq!(heaps.facts(1).unwrap(), sample::heap_facts());
}

#[test]
fn types_of_a_heap_are_a_line_each_with_what_is_known() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("r");
    let folder = RecordingFolder::create(&path).unwrap();
    folder.header(&CaptureHeader::default()).unwrap();
    let bytes = folder.heap_types(1, &sample::heap_types()).unwrap();
    let packed = fs::read(path.join("snapshots/1/types.jsonl.zst")).unwrap();
    assert_eq!(packed.len() as u64, bytes);
    let lines = String::from_utf8(zstd::decode_all(packed.as_slice()).unwrap()).unwrap();
    let expected = r#"{"name":"Free","method_table":32512,"free":true}
{"name":"App.Order<T>","module":"App.dll","method_table":32520,"fields":["lines","customer"],"repeats":true,"statics":[["All",32528]],"element_bytes":114,"family":"value","noted":["_size","same text"]}
{"name":"?"}
"#;
    assert_eq!(lines, expected);
    let mut heaps = Heaps::open(&path, &Limits::default()).unwrap().unwrap();
    assert_eq!(heaps.types(1).unwrap(), sample::heap_types());
}

/// Not beside the golden documents, whose digests it does not have.
#[test]
fn the_manifest_is_written_and_read_as_ever() {
    let member = |name: &str, bytes, media_type: &str, redaction| Member {
        name: name.to_owned(),
        bytes,
        sha256: "ab".repeat(32),
        media_type: media_type.to_owned(),
        redaction,
    };
    let members = vec![
        member("biopsy.json", 812, "application/json", Redaction::Redacted),
        member("report.html", 2, "text/html", Redaction::Derived),
        member("dumps/1.scrubbed.core", 3, "application/octet-stream", Redaction::Scrubbed),
        member("dumps/1.core", 4, "application/octet-stream", Redaction::Memory),
        member("trace/later.bin", u64::MAX, "", Redaction::Unknown),
    ];
    let warnings = sample::capture().warnings;
    let mut manifest = Manifest::new(members, &warnings);
    manifest.tool = "biopsy 0.1.0".to_owned();
    let golden = include_str!("manifest.json");
    assert_eq!(serde_json::to_string_pretty(&manifest).unwrap() + "\n", golden);
    let read: Manifest = serde_json::from_str(golden).unwrap();
    assert_eq!(read.members, manifest.members);
    assert_eq!(read.warnings().collect::<Vec<_>>(), warnings);
    let newer: Manifest = serde_json::from_str(r#"{"members":[{"redaction":"melted"}],"later":1}"#).unwrap();
    assert_eq!(newer.members[0].redaction, Redaction::Unknown);
}

/// Recordings of released versions, their documents read and written again.
#[test]
fn documents_of_earlier_recordings_are_written_as_they_were() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/recordings");
    let mut compared = 0;
    for zip in fs::read_dir(fixtures).unwrap().map(|entry| entry.unwrap().path()) {
        let scratch = tempfile::tempdir().unwrap();
        let (old, new) = (scratch.path().join("old"), scratch.path().join("new"));
        zip::ZipArchive::new(fs::File::open(&zip).unwrap()).unwrap().extract(&old).unwrap();
        write(&open(&old, &Limits::default()).unwrap(), &new);
        for member in members(&new) {
            // Where nothing was there is none.
            let Ok(before) = fs::read_to_string(old.join(&member)) else {
                assert_ne!(member, layout::HEADER);
                continue;
            };
            let after = fs::read_to_string(new.join(&member)).unwrap();
            assert_eq!(after, before, "{member} of {}", zip.display());
            compared += 1;
        }
    }
    assert!(compared >= 9, "{compared}");
}

/// A recording of one document beside an empty header.
fn with(member: &str, text: &str) -> (tempfile::TempDir, PathBuf) {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("r");
    let folder = RecordingFolder::create(&path).unwrap();
    folder.header(&CaptureHeader { end: Some(Default::default()), ..CaptureHeader::default() }).unwrap();
    folder.write_text(member, text).unwrap();
    (scratch, path)
}

fn read_with(member: &str, text: &str) -> Capture {
    let (_scratch, path) = with(member, text);
    open(&path, &Limits::default()).unwrap()
}

#[test]
fn every_field_may_be_absent_and_unknown_ones_are_ignored() {
    let capture =
        read_with("dotnet/3.json", r#"{"pid":3,"later":[1],"collections":{"items":[{"number":1}]}}"#);
    let trace = &capture.runtimes[0];
    assert_eq!((trace.pid, trace.collections.items.len(), trace.collections.total), (Pid(3), 1, 0));
    assert_eq!(trace.collections.items[0].reason, CollectionReason::Other(String::new()));
    assert_eq!(read_with("stacks/3.json", "{}").looks, [Look::default()]);
    assert_eq!(read_with(layout::REDACTION, "{}").redactions, []);
    assert_eq!(read_with(layout::PROCESSES, "[{}]").processes[0].name, "");
    assert_eq!(read_with(layout::WARNINGS, "{}\n").warnings[0].code, "");
    let (_scratch, path) = with("snapshots/1/snapshot.json", r#"{"later": 1}"#);
    let facts = Heaps::open(&path, &Limits::default()).unwrap().unwrap().facts(1).unwrap();
    assert_eq!(facts, HeapFacts::default());
}

/// What a newer version calls something is kept, and written again as it was.
#[test]
fn words_of_newer_versions_are_kept() {
    let header = r#"{"format":"biopsy-recording","version":"1.7","end":{},"ended_by":"out-of-patience"}"#;
    let (scratch, path) = with("snapshots/1/snapshot.json", r#"{"source":"crystal","collector":"wheel"}"#);
    fs::write(path.join(layout::HEADER), header).unwrap();
    let capture = open(&path, &Limits::default()).unwrap();
    assert_eq!(capture.header.ended_by, EndedBy::Other("out-of-patience".to_owned()));
    let facts = Heaps::open(&path, &Limits::default()).unwrap().unwrap().facts(1).unwrap();
    assert_eq!(facts.source, HeapSource::Other("crystal".to_owned()));
    assert_eq!(facts.collector, Collector::Other("wheel".to_owned()));
    let again = scratch.path().join("again");
    write(&capture, &again);
    RecordingFolder::open_existing(&again).unwrap().heap_facts(1, &facts).unwrap();
    for (member, word) in [
        (layout::HEADER, r#""ended_by": "out-of-patience""#),
        ("snapshots/1/snapshot.json", r#""source": "crystal""#),
        ("snapshots/1/snapshot.json", r#""collector": "wheel""#),
    ] {
        let text = fs::read_to_string(again.join(member)).unwrap();
        assert!(text.contains(word), "{text}");
    }
}

#[test]
fn words_that_only_this_version_lacks_have_a_meaning_of_their_own() {
    let trace = |json: &str| read_with("dotnet/3.json", json).runtimes.remove(0);
    let unit = trace(r#"{"counters":[{"columns":[{"name":"a","unit":"furlongs"}]}]}"#);
    assert_eq!(unit.counters[0].columns[0].unit, biopsy_model::metric::Unit::Count);
    let level = trace(r#"{"messages":{"items":[{"level":"shouted"}]}}"#);
    assert_eq!(level.messages.items[0].level, biopsy_model::log::LogLevel::Unknown);
    let pool = trace(r#"{"thread_pool":{"items":[{"kind":{"change":"drained","reason":"r"}}]}}"#);
    let kind = &pool.thread_pool.items[0].kind;
    assert_eq!(*kind, biopsy_model::runtime_trace::ThreadPoolChange::Workers);
    let runtime = trace(r#"{"runtime":{"kind":"beam"}}"#);
    assert_eq!(runtime.runtime.kind, biopsy_model::process::RuntimeKind::Unknown);
}

#[test]
fn arrays_are_cut_or_filled() {
    let trace = |json: &str| read_with("dotnet/3.json", json).runtimes.remove(0);
    let groups = trace(r#"{"request_groups":[{"durations":[1,2]},{"durations":[]}]}"#).request_groups;
    assert_eq!((groups[0].durations[..3].to_vec(), groups[1].durations), (vec![1, 2, 0], [0; 40]));
    let sizes = trace(r#"{"collections":{"items":[{"sizes_after":[1,2,3,4,5,6,7]},{"sizes_after":null}]}}"#);
    let sizes: Vec<_> = sizes.collections.items.iter().map(|one| one.sizes_after).collect();
    assert_eq!(sizes, [Some([1, 2, 3, 4, 5]), None]);
}

/// `{}` is three bytes in a file and hundreds in memory.
#[test]
fn lists_that_are_too_long_are_left_out_with_a_warning() {
    let objects = |count: usize| format!("[{}]", vec!["{}"; count].join(","));
    let list = |count| format!(r#"{{"functions":{}}}"#, objects(count));
    assert_eq!(read_with("dotnet/3.json", &list(100_000)).runtimes[0].functions.len(), 100_000);
    for (member, text) in [
        ("dotnet/3.json", list(100_001)),
        ("stacks/3.json", format!(r#"{{"findings":{}}}"#, objects(100_001))),
        (layout::PROCESSES, objects(100_001)),
        (layout::REDACTION, format!(r#"{{"counts":{}}}"#, objects(100_001))),
    ] {
        let capture = read_with(member, &text);
        let warning = &capture.warnings[0];
        assert_eq!(warning.code, "recording.unreadable", "{member}");
        assert!(warning.message.contains("100000 elements"), "{}", warning.message);
    }
}

/// Every field of every document with a value of another kind.
#[test]
fn values_of_another_kind_are_named_and_cost_one_document() {
    for (member, text) in [
        ("dotnet/3.json", r#"{"pid": "three"}"#),
        ("dotnet/3.json", r#"{"collections": 7}"#),
        ("dotnet/3.json", r#"{"collections": {"items": [{"generation": 300}]}}"#),
        ("dotnet/3.json", r#"{"requests": {"items": [{"status": -1}]}}"#),
        ("stacks/3.json", r#"{"findings": null}"#),
        ("stacks/3.json", "7"),
        (layout::PROCESSES, "{}"),
        (layout::PROCESSES, r#"[{"key": 7}]"#),
        (layout::REDACTION, r#"{"counts": [{"count": 1.5}]}"#),
        (layout::REDACTION, ""),
    ] {
        let capture = read_with(member, text);
        let [warning] = &capture.warnings[..] else { panic!("{member}: {:?}", capture.warnings) };
        assert_eq!(warning.code, "recording.unreadable", "{member}: {text}");
        assert!(warning.message.starts_with(&format!("`{member}` left out: ")), "{}", warning.message);
    }
}

/// The golden recording in a folder of its own, to be damaged.
fn copy() -> (tempfile::TempDir, PathBuf) {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("r");
    for member in members(&golden()) {
        let to = path.join(&member);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(golden().join(&member), to).unwrap();
    }
    (scratch, path)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_document_that_is_cut_costs_itself_alone(which in any::<prop::sample::Index>(), at in any::<prop::sample::Index>()) {
        let (_scratch, path) = copy();
        let members = members(&path);
        let member = &members[which.index(members.len())];
        let bytes = fs::read(path.join(member)).unwrap();
        // Behind the last bracket there is the end of the line alone.
        let kept = at.index(bytes.len() - 1);
        fs::write(path.join(member), &bytes[..kept]).unwrap();
        let whole = sample::capture();
        match (member.as_str(), open(&path, &Limits::default())) {
            (layout::HEADER, found) => {
                prop_assert!(matches!(found, Err(OpenError::BadHeader { .. })), "{kept} bytes");
            }
            (_, Err(error)) => prop_assert!(false, "{member}: {error}"),
            (member, Ok(found)) => {
                let says = |code: &str| found.warnings.iter().any(|warning| warning.code == code);
                let told = match member {
                    // Between two lines nothing is missed.
                    layout::WARNINGS => bytes[..kept].ends_with(b"\n") || kept == 0 || says("recording.cut-short"),
                    "snapshots/1/snapshot.json" => {
                        Heaps::open(&path, &Limits::default()).unwrap().unwrap().facts(1).is_err()
                    }
                    "footprints/1.json" => !read_footprints(&path, &Limits::default()).1.is_empty(),
                    // For people and other programs: biopsy reads the dump itself.
                    "dumps/4711-2.scrubbed.json" => true,
                    _ => says("recording.unreadable"),
                };
                prop_assert!(told, "{member} of {kept} bytes: {:?}", found.warnings);
                prop_assert_eq!(&found.header, &whole.header);
                prop_assert!(member == "dotnet/4711.json" || found.runtimes == whole.runtimes);
                prop_assert!(member == "stacks/4711.json" || found.looks == whole.looks);
            }
        }
    }

    #[test]
    fn a_document_with_changed_bytes_is_read_or_refused(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let (_scratch, path) = copy();
        let members = members(&path);
        let member = path.join(&members[which.index(members.len())]);
        let mut bytes = fs::read(&member).unwrap();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        fs::write(&member, &bytes).unwrap();
        let _ = open(&path, &Limits::default());
        if let Ok(Some(mut heaps)) = Heaps::open(&path, &Limits::default()) {
            let _ = heaps.facts(1);
        }
    }
}
