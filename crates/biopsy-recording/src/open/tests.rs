//! Tests of opening: whole, partial, damaged, hostile and newer recordings.

use std::fs;
use std::io::{Cursor, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use biopsy_model::capture::{Capture, CaptureHeader};
use proptest::prelude::*;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use crate::testing::{sample_capture, write_capture};
use crate::{
    Limits, OpenError, RecordingFolder, bundle, fuzz_bundle, layout, open, open_bytes, read_warnings,
};

const HEADER: &str = r#"{"format":"biopsy-recording","version":"1.0","end":{}}"#;

/// A recording in a scratch folder.
fn recording() -> (tempfile::TempDir, PathBuf) {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("r");
    write_capture(&RecordingFolder::create(&path).unwrap(), &sample_capture());
    (scratch, path)
}

#[test]
fn warnings_are_read_alone_from_a_folder_and_from_a_bundle() {
    let (scratch, path) = recording();
    let folder = RecordingFolder::create(scratch.path().join("other")).unwrap();
    folder.header(&CaptureHeader::default()).unwrap();
    let warning = crate::warn::warning("context.not-read", "cannot read task".to_owned(), None);
    folder.warn(&warning).unwrap();
    let zip = scratch.path().join("other.zip");
    bundle(scratch.path().join("other"), &zip).unwrap();
    for place in [scratch.path().join("other"), zip] {
        assert_eq!(read_warnings(&place, &Limits::default()).unwrap(), std::slice::from_ref(&warning));
    }
    fs::write(path.join(layout::WARNINGS), "no json\n").unwrap();
    let about = read_warnings(&path, &Limits::default()).unwrap();
    assert!(about.iter().any(|one| one.message.contains(layout::WARNINGS)), "{about:?}");
    assert!(read_warnings(scratch.path().join("none"), &Limits::default()).is_err());
}

fn bundled() -> Vec<u8> {
    let (scratch, path) = recording();
    let out = scratch.path().join("r.zip");
    bundle(&path, &out).unwrap();
    fs::read(out).unwrap()
}

/// A zip of members in the order given; what a stranger could send.
fn zip_of(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in members {
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
        zip.start_file(*name, options).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn read_zip(bytes: Vec<u8>) -> Result<Capture, OpenError> {
    open_bytes("x.zip", bytes, &Limits::default())
}

fn codes(capture: &Capture) -> Vec<&str> {
    capture.warnings.iter().map(|warning| warning.code.as_str()).collect()
}

fn messages(capture: &Capture) -> String {
    capture.warnings.iter().map(|warning| warning.message.as_str()).collect::<Vec<_>>().join("\n")
}

/// Replaces bytes that occur in a zip, keeping all offsets.
fn patch(bytes: &mut [u8], from: &[u8], to: &[u8]) -> usize {
    assert_eq!(from.len(), to.len());
    let found: Vec<_> =
        bytes.windows(from.len()).enumerate().filter(|(_, w)| *w == from).map(|(at, _)| at).collect();
    for &at in &found {
        bytes[at..at + to.len()].copy_from_slice(to);
    }
    found.len()
}

#[test]
fn a_recording_comes_back_as_it_was_written() {
    let (scratch, path) = recording();
    let capture = sample_capture();
    assert_eq!(open(&path, &Limits::default()).unwrap(), capture);
    let out = scratch.path().join("not named zip");
    bundle(&path, &out).unwrap();
    assert_eq!(open(&out, &Limits::default()).unwrap(), capture);
    assert_eq!(read_zip(fs::read(&out).unwrap()).unwrap(), capture);
}

/// One recording of each released version of the format, opened for ever. `BIOPSY_WRITE_FIXTURES=1` writes the one of
/// this version; the others cannot be made again.
#[test]
fn recordings_of_earlier_versions_open() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/recordings");
    if std::env::var_os("BIOPSY_WRITE_FIXTURES").is_some() {
        let name = format!("format-{}.zip", crate::FormatVersion::RECORDING);
        fs::write(fixtures.join(name), bundled()).unwrap();
    }
    let found = open(fixtures.join("format-1.0.zip"), &Limits::default()).unwrap();
    assert_eq!(found, sample_capture());
}

#[test]
fn what_is_no_recording_is_said_so() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    let message = |name: &str| {
        let error = open(at(name), &Limits::default()).unwrap_err();
        error.to_string().replace(&format!("{}/", scratch.path().display()), "")
    };
    assert_eq!(message("none"), "cannot open `none`: no such file or folder");
    fs::create_dir(at("folder")).unwrap();
    assert_eq!(message("folder"), "`folder` is not a biopsy recording: it has no `biopsy.json`");
    fs::write(at("text"), "hello").unwrap();
    assert_eq!(message("text"), "`text` is not a biopsy recording: it is neither a folder nor a zip");
    fs::write(at("empty"), "").unwrap();
    assert_eq!(message("empty"), "`empty` is not a biopsy recording: it is empty");
    fs::write(at("timeline.bin"), "BIOPSYTL\x01\0\0\0").unwrap();
    assert_eq!(
        message("timeline.bin"),
        "`timeline.bin` is not a biopsy recording: it is the timeline of one; name the folder it came from"
    );
    fs::write(at("other.zip"), zip_of(&[("a", b"b")])).unwrap();
    assert_eq!(message("other.zip"), "`other.zip` is not a biopsy recording: it has no `biopsy.json`");
    fs::write(at("npm.zip"), zip_of(&[("biopsy.json", b"{}")])).unwrap();
    assert_eq!(
        message("npm.zip"),
        "`npm.zip` is not a biopsy recording: its `biopsy.json` is something else"
    );
    fs::write(at("json.zip"), zip_of(&[("biopsy.json", b"{\"format\": 3")])).unwrap();
    assert_eq!(message("json.zip"), "cannot read the header of `json.zip`");
    let mut cut = zip_of(&[("biopsy.json", HEADER.as_bytes())]);
    cut.truncate(cut.len() - 30);
    fs::write(at("cut.zip"), cut).unwrap();
    assert_eq!(message("cut.zip"), "cannot read the zip directory of `cut.zip`");
    assert!(open(at("cut.zip"), &Limits::default()).unwrap_err().hint().unwrap().contains("copy it again"));
    let status = std::process::Command::new("mkfifo").arg(at("fifo")).status().unwrap();
    assert!(status.success());
    assert_eq!(message("fifo"), "`fifo` is not a biopsy recording: it is neither a folder nor a file");
}

#[test]
fn a_newer_major_version_is_refused_and_a_newer_minor_is_read() {
    let header = |version: &str| HEADER.replace("1.0", version);
    let error = read_zip(zip_of(&[("biopsy.json", header("3.1").as_bytes())])).unwrap_err();
    assert_eq!(error.to_string(), "`x.zip` has format 3.1, this biopsy reads up to 1.0");
    assert_eq!(error.hint().unwrap(), "open it with a newer biopsy");
    let future = header("1.99").replace("\"end\"", "\"new\":[1,{}],\"end\"");
    let capture =
        read_zip(zip_of(&[("biopsy.json", future.as_bytes()), ("snapshots/1/heap.arrow", b"x")])).unwrap();
    assert!(capture.header.end.is_some());
}

#[test]
fn a_recording_without_end_is_partial() {
    let (_scratch, path) = recording();
    let capture = sample_capture();
    fs::remove_file(path.join(layout::HEADER)).unwrap();
    let folder = RecordingFolder::open_existing(&path).unwrap();
    folder.header(&biopsy_model::capture::CaptureHeader { end: None, ..capture.header.clone() }).unwrap();
    let timeline = fs::read(path.join(layout::TIMELINE)).unwrap();
    fs::write(path.join(layout::TIMELINE), &timeline[..timeline.len() - 40]).unwrap();
    fs::remove_file(path.join(layout::REDACTION)).unwrap();
    let found = open(&path, &Limits::default()).unwrap();
    assert_eq!(codes(&found), ["trace.no-bpf", "recording.cut-short", "recording.partial"]);
    assert_eq!((&found.metrics, &found.logs), (&capture.metrics, &capture.logs));
    assert_eq!(found.timeline.unwrap().samples.len(), 0);
}

/// kill -9 leaves each file as long as it happened to be.
#[test]
fn any_member_may_end_anywhere() {
    let (_scratch, path) = recording();
    for name in [
        layout::TIMELINE,
        layout::WARNINGS,
        layout::PROCESSES,
        layout::REDACTION,
        "metrics/disks.csv",
        "logs/var_log_mysql_error.log.jsonl",
        "target/4711/limits.txt",
    ] {
        let whole = fs::read(path.join(name)).unwrap();
        for length in 0..whole.len() {
            fs::write(path.join(name), &whole[..length]).unwrap();
            let found = open(&path, &Limits::default()).unwrap();
            // Lines and rows may be cut between two, a JSON value before its line end; a text has no end to miss.
            let complete = length == 0
                || whole[length - 1] == b'\n'
                || (name.ends_with(".json") && length + 1 == whole.len())
                || name.ends_with(".txt");
            let said = found.warnings.iter().any(|warning| warning.code.starts_with("recording."));
            assert!(said || complete, "{name} cut at {length}: {:?}", found.warnings);
        }
        fs::write(path.join(name), whole).unwrap();
    }
    assert_eq!(open(&path, &Limits::default()).unwrap(), sample_capture());
}

#[test]
fn members_that_are_not_as_the_manifest_says_are_named() {
    let (_scratch, path) = recording();
    let folder = RecordingFolder::open_existing(&path).unwrap();
    assert_eq!(folder.seal().unwrap(), []);
    assert_eq!(open(&path, &Limits::default()).unwrap(), sample_capture());
    fs::write(path.join("target/4711/limits.txt"), "Max open files 9999\n").unwrap();
    fs::write(path.join("metrics/disks.csv"), "").unwrap();
    fs::remove_file(path.join(layout::REDACTION)).unwrap();
    fs::write(path.join("extra"), "").unwrap();
    let found = open(&path, &Limits::default()).unwrap();
    assert_eq!(
        messages(&found).lines().skip(1).collect::<Vec<_>>(),
        [
            "`metrics/disks.csv` is not as it was recorded: it has 0 bytes, the manifest says 84",
            "`redaction.json` is not as it was recorded: it is missing",
            "`target/4711/limits.txt` is not as it was recorded: its digest is not the one in the manifest",
            "1 members are not in the manifest, first `extra`",
        ]
    );
}

#[test]
fn links_and_special_files_in_a_folder_are_not_read() {
    let (scratch, path) = recording();
    let secret = scratch.path().join("secret");
    fs::create_dir(&secret).unwrap();
    fs::write(secret.join("shadow.txt"), "root:x").unwrap();
    symlink(secret.join("shadow.txt"), path.join("target/shadow.txt")).unwrap();
    symlink(&secret, path.join("target/secret")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(path.join("target/fifo")).status().unwrap().success());
    let found = open(&path, &Limits::default()).unwrap();
    assert_eq!(found.context, sample_capture().context);
    assert_eq!(codes(&found).iter().filter(|&&code| code == "recording.not-a-file").count(), 3);
}

#[test]
fn a_folder_zipped_by_hand_is_read() {
    let members: Vec<(String, Vec<u8>)> = {
        let (_scratch, path) = recording();
        ["biopsy.json", "target/4711/limits.txt"]
            .iter()
            .map(|name| (format!("my recording/{name}"), fs::read(path.join(name)).unwrap()))
            .collect()
    };
    let members: Vec<(&str, &[u8])> = members.iter().map(|(n, b)| (n.as_str(), b.as_slice())).collect();
    let found = read_zip(zip_of(&members)).unwrap();
    assert_eq!(found.context, sample_capture().context);
    assert_eq!(codes(&found), ["recording.no-manifest"]);
}

// ---- hostile zips ----

#[test]
fn names_that_lead_elsewhere_are_left_out() {
    let mut bytes = zip_of(&[
        ("biopsy.json", HEADER.as_bytes()),
        ("target/aaaaaaaa", b"x"),
        ("target/bbbbbbbb", b"x"),
        ("target/ok", b"fine"),
    ]);
    assert_eq!(patch(&mut bytes, b"target/aaaaaaaa", b"../../etc/passw"), 2);
    assert_eq!(patch(&mut bytes, b"target/bbbbbbbb", b"target\\..\\..\\bb"), 2);
    let found = read_zip(bytes).unwrap();
    assert_eq!(found.context, [("target/ok".to_owned(), "fine".to_owned())]);
    assert!(
        messages(&found)
            .contains("2 members of the zip left out, first `../../etc/passw`: their names lead elsewhere")
    );
}

#[test]
fn duplicates_are_said() {
    let mut bytes =
        zip_of(&[("biopsy.json", HEADER.as_bytes()), ("target/a", b"first"), ("target/b", b"last")]);
    assert_eq!(patch(&mut bytes, b"target/b", b"target/a"), 2);
    let found = read_zip(bytes).unwrap();
    assert_eq!(found.context, [("target/a".to_owned(), "last".to_owned())]);
    assert!(codes(&found).contains(&"recording.duplicate-members"));
}

#[test]
fn links_in_a_zip_are_left_out() {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    zip.start_file("biopsy.json", SimpleFileOptions::default()).unwrap();
    zip.write_all(HEADER.as_bytes()).unwrap();
    zip.add_symlink("target/passwd", "/etc/passwd", SimpleFileOptions::default()).unwrap();
    let found = read_zip(zip.finish().unwrap().into_inner()).unwrap();
    assert_eq!(found.context, []);
    assert!(messages(&found).contains("1 member of the zip left out, first `target/passwd`: they are links"));
}

#[test]
fn bombs_are_stopped_by_what_they_claim_and_by_what_they_give() {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    zip.start_file("biopsy.json", SimpleFileOptions::default()).unwrap();
    zip.write_all(HEADER.as_bytes()).unwrap();
    zip.start_file("target/bomb", SimpleFileOptions::default()).unwrap();
    zip.write_all(&vec![0; 3 << 20]).unwrap();
    let honest = zip.finish().unwrap().into_inner();
    let limits = Limits { member_bytes: 1 << 20, ..Limits::default() };
    let found = open_bytes("x.zip", honest.clone(), &limits).unwrap();
    assert!(messages(&found).contains("first `target/bomb`: they claim more bytes than the limit"));
    assert_eq!(found.context, []);
    let limits = Limits { total_bytes: 1 << 20, ..Limits::default() };
    let error = open_bytes("x.zip", honest.clone(), &limits).unwrap_err();
    assert_eq!(error.to_string(), "`x.zip` claims 3145782 unpacked bytes, the limit is 1048576");
    let limits = Limits { free_bytes: 1 << 20, ratio: 50, ..Limits::default() };
    let error = open_bytes("x.zip", honest.clone(), &limits).unwrap_err().to_string();
    assert!(error.starts_with("`x.zip` claims 3145782 unpacked bytes, the limit is 12"), "{error}");
    // The same, claiming to be small.
    let mut liar = honest;
    assert!(patch(&mut liar, &(3_u32 << 20).to_le_bytes(), &1000_u32.to_le_bytes()) >= 1);
    let found = read_zip(liar).unwrap();
    assert_eq!(found.context, []);
    assert!(messages(&found).contains("`target/bomb` left out"), "{}", messages(&found));
}

/// Each packing would multiply what the other allows.
#[test]
fn what_is_packed_twice_is_left_out() {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in [("biopsy.json", HEADER.as_bytes()), ("trace/timeline.bin", &vec![0; 1 << 20])] {
        zip.start_file(name, SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    let found = read_zip(zip.finish().unwrap().into_inner()).unwrap();
    let told = "first `trace/timeline.bin`: they are packed once more than biopsy packs";
    assert!(messages(&found).contains(told), "{}", messages(&found));
}

#[test]
fn too_many_members_are_refused() {
    let names: Vec<String> = (0..300).map(|n| format!("target/{n}")).collect();
    let mut members: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b""[..])).collect();
    members.push(("biopsy.json", HEADER.as_bytes()));
    let limits = Limits { members: 200, ..Limits::default() };
    let error = open_bytes("x.zip", zip_of(&members), &limits).unwrap_err();
    assert_eq!(error.to_string(), "`x.zip` claims 301 members, the limit is 200");
}

/// A 64-bit end record that claims 2^40 members, which the zip library would take memory for.
#[test]
fn a_claim_of_a_trillion_members_is_refused_before_memory_is_taken() {
    let mut bytes = zip_of(&[("biopsy.json", HEADER.as_bytes())]);
    let end = bytes.len() - 22;
    let plain_end = bytes.split_off(end);
    let record_at = bytes.len() as u64;
    let directory_at = u32::from_le_bytes(plain_end[16..20].try_into().unwrap());
    bytes.extend(b"PK\x06\x06");
    bytes.extend(44_u64.to_le_bytes());
    bytes.extend([45, 0, 45, 0]);
    bytes.extend([0; 8]); // disks
    bytes.extend((1_u64 << 40).to_le_bytes()); // members on this disk
    bytes.extend((1_u64 << 40).to_le_bytes()); // members
    bytes.extend((46_u64 << 40).to_le_bytes()); // size of the directory
    bytes.extend(u64::from(directory_at).to_le_bytes());
    bytes.extend(b"PK\x06\x07");
    bytes.extend([0; 4]);
    bytes.extend(record_at.to_le_bytes());
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend(b"PK\x05\x06");
    bytes.extend([0; 4]);
    bytes.extend([0xff; 12]); // "see the 64-bit record"
    bytes.extend([0, 0]);
    let error = read_zip(bytes).unwrap_err();
    assert_eq!(error.to_string(), "`x.zip` claims 1099511627776 members, the limit is 10000");
}

#[test]
fn a_list_of_a_million_nothings_is_refused() {
    let list = format!("[{}{{}}]", "{},".repeat(1_000_000));
    let found =
        read_zip(zip_of(&[("biopsy.json", HEADER.as_bytes()), ("target/processes.json", list.as_bytes())]))
            .unwrap();
    assert_eq!(found.processes, []);
    assert!(messages(&found).contains("expected a list of at most 100000 elements"), "{}", messages(&found));
}

#[test]
fn everything_in_a_recording_may_be_nonsense() {
    let found = read_zip(zip_of(&[
        ("biopsy.json", HEADER.as_bytes()),
        ("trace/timeline.bin", b"nonsense"),
        ("metrics/a.csv", b"nonsense\n1,2,3\n"),
        ("metrics/b.csv", b"\xff\xfe\x00"),
        ("logs/a.jsonl", b"nonsense\n{}\n[]\n"),
        ("redaction.json", b"[1,2]"),
        ("warnings.jsonl", b"nonsense\n\"x\"\n"),
        ("manifest.json", b"{\"members\": 7}"),
        ("target/processes.json", b"{}"),
        ("target/x", b"\xff\xfe"),
    ]))
    .unwrap();
    assert_eq!(found.timeline, None);
    assert_eq!(found.context, [("target/x".to_owned(), "\u{fffd}\u{fffd}".to_owned())]);
    let mut codes = codes(&found);
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(
        codes,
        ["recording.bad-lines", "recording.bad-table", "recording.cut-short", "recording.unreadable"]
    );
}

#[test]
fn a_newer_timeline_leaves_the_rest() {
    let found = read_zip(zip_of(&[
        ("biopsy.json", HEADER.as_bytes()),
        ("trace/timeline.bin", b"BIOPSYTL\x09\0\0\0\x10\0\0\0"),
        ("target/x", b"y"),
    ]))
    .unwrap();
    assert_eq!(found.context.len(), 1);
    assert!(messages(&found).contains("the timeline has format 9.0, this biopsy reads up to 1.0"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_mutation_of_a_bundle_is_read_without_panic(
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6),
        cut in proptest::option::weighted(0.2, any::<proptest::sample::Index>()),
    ) {
        thread_local!(static BUNDLE: Vec<u8> = bundled());
        BUNDLE.with(|bundle| {
            let mut bytes = bundle.clone();
            for (index, value) in changes {
                let length = bytes.len();
                bytes[index.index(length)] = value;
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len()));
            }
            fuzz_bundle(&bytes);
        });
    }
}

#[test]
fn the_path_of_a_recording_may_be_relative() {
    // `Path::new("")` and the like must be errors, not panics.
    assert!(open(Path::new(""), &Limits::default()).is_err());
}
