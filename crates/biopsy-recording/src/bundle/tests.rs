//! Tests of sealing and packing: what is in a bundle, who can open it, and what is left after a failure.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use super::{Temporary, bundle, pack, write_zip};
use crate::manifest::{Manifest, Redaction};
use crate::testing::{sample_capture, write_capture};
use crate::{RecordingFolder, WriteError, layout};

fn recording() -> (tempfile::TempDir, RecordingFolder) {
    let scratch = tempfile::tempdir().unwrap();
    let folder = RecordingFolder::create(scratch.path().join("r")).unwrap();
    write_capture(&folder, &sample_capture());
    (scratch, folder)
}

fn names_in(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn the_header_is_first_and_the_manifest_last() {
    let (scratch, folder) = recording();
    // What is left of a kill in the middle of a replacing write, and an older manifest.
    fs::write(folder.path().join(".tmp-0123456789abcdef"), "x").unwrap();
    fs::write(folder.path().join(layout::MANIFEST), "{}").unwrap();
    let out = scratch.path().join("out.zip");
    let bundle = bundle(folder.path(), &out).unwrap();
    assert_eq!(bundle.warnings, []);
    assert_eq!(bundle.bytes, fs::metadata(&out).unwrap().len());
    assert_eq!(fs::metadata(&out).unwrap().permissions().mode() & 0o7777, 0o600);
    assert_eq!(names_in(scratch.path()), ["out.zip", "r"]);
    let mut zip = zip::ZipArchive::new(fs::File::open(&out).unwrap()).unwrap();
    let names: Vec<String> = zip.file_names().map(|name| name.unwrap().into_owned()).collect();
    assert_eq!(
        names,
        [
            "biopsy.json",
            "logs/var_log_mysql_error.log.jsonl",
            "metrics/disks.csv",
            "redaction.json",
            "target/4711/limits.txt",
            "target/processes.json",
            "trace/timeline.bin",
            "warnings.jsonl",
            "manifest.json",
        ]
    );
    let manifest: Manifest = serde_json::from_reader(zip.by_name("manifest.json").unwrap()).unwrap();
    assert_eq!(manifest.members, bundle.members);
    let limits = manifest.members.iter().find(|member| member.name == "target/4711/limits.txt").unwrap();
    assert_eq!(
        (limits.bytes, limits.sha256.as_str(), limits.media_type.as_str(), limits.redaction),
        (
            20,
            // printf 'Max open files 1024\n' | sha256sum
            "7da079c19eef59914c082ecd1d36062a0f5d22ad537a1be14a8cbc53b2771807",
            "text/plain; charset=utf-8",
            Redaction::Redacted
        )
    );
    let stored = zip.by_name("trace/timeline.bin").unwrap();
    assert_eq!(stored.compressed_size(), stored.size(), "zstd inside deflate gains nothing");
}

#[test]
fn the_same_recording_gives_the_same_bytes() {
    let (scratch, folder) = recording();
    let (first, second) = (scratch.path().join("1.zip"), scratch.path().join("2.zip"));
    bundle(folder.path(), &first).unwrap();
    bundle(folder.path(), &second).unwrap();
    assert!(fs::read(first).unwrap() == fs::read(second).unwrap());
}

#[test]
fn nothing_is_overwritten_and_no_link_followed() {
    let (scratch, folder) = recording();
    let out = scratch.path().join("out.zip");
    fs::write(&out, "mine").unwrap();
    assert!(matches!(bundle(folder.path(), &out), Err(WriteError::Exists { .. })));
    assert_eq!(fs::read_to_string(&out).unwrap(), "mine");
    let link = scratch.path().join("link.zip");
    symlink(scratch.path().join("elsewhere"), &link).unwrap();
    assert!(matches!(bundle(folder.path(), &link), Err(WriteError::Exists { .. })));
    assert_eq!(names_in(scratch.path()), ["link.zip", "out.zip", "r"]);
}

/// Somebody creates the name while the bundle is being packed.
#[test]
fn the_name_is_taken_only_if_it_is_free_at_the_end() {
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("out.zip");
    let temporary = Temporary::create(&out).unwrap();
    let [meanwhile] = &names_in(scratch.path())[..] else { panic!("one file") };
    assert!(
        meanwhile.starts_with("out.zip.partial-"),
        "{meanwhile}: what a killed biopsy leaves tells what it is"
    );
    fs::write(&out, "mine").unwrap();
    let error = temporary.rename(&out).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
    assert_eq!(fs::read_to_string(&out).unwrap(), "mine");
    assert_eq!(names_in(scratch.path()), ["out.zip"]);
}

#[test]
fn a_full_disk_names_the_bundle_and_keeps_the_folder() {
    let (scratch, folder) = recording();
    // More than the buffers hold, so that the write fails in the middle.
    fs::write(folder.path().join("big.zst"), vec![7; 2 << 20]).unwrap();
    let out = scratch.path().join("out.zip");
    let full = Temporary {
        path: scratch.path().join("none"),
        file: OpenOptions::new().write(true).open("/dev/full").unwrap(),
    };
    let error = write_zip(&folder, &full, &out).unwrap_err().keeping(folder.path());
    assert_eq!(error.to_string(), format!("cannot write `{}`: no space left", out.display()));
    assert_eq!(
        error.hint().unwrap(),
        format!(
            "what was recorded is kept in `{}`; free some space, or write the bundle to another disk",
            folder.path().display()
        )
    );
    assert!(folder.path().join("biopsy.json").exists());
}

#[test]
fn a_folder_that_is_no_recording_is_not_packed() {
    let scratch = tempfile::tempdir().unwrap();
    let home = scratch.path().join("home");
    fs::create_dir(&home).unwrap();
    fs::write(home.join("private"), "x").unwrap();
    let out = scratch.path().join("out.zip");
    assert!(matches!(bundle(&home, &out), Err(WriteError::NotARecording { .. })));
    assert!(matches!(bundle(scratch.path().join("none"), &out), Err(WriteError::Io { .. })));
    let (_other, folder) = recording();
    let error = bundle(folder.path(), scratch.path().join("no/such/out.zip")).unwrap_err();
    assert_eq!(error.hint().unwrap(), "the folder it is to be created in does not exist");
    assert_eq!(names_in(scratch.path()), ["home"]);
}

#[test]
fn links_are_left_out_with_a_warning_in_the_manifest() {
    let (scratch, folder) = recording();
    symlink("/etc/passwd", folder.path().join("target/passwd")).unwrap();
    let out = scratch.path().join("out.zip");
    let bundle = bundle(folder.path(), &out).unwrap();
    assert_eq!(bundle.warnings.len(), 1);
    let found = crate::open(&out, &crate::Limits::default()).unwrap();
    assert!(found.warnings.contains(&bundle.warnings[0]));
    assert_eq!(found.context, sample_capture().context);
}

/// Other people's programs open it.
#[test]
fn other_programs_open_it() {
    let (scratch, folder) = recording();
    let out = scratch.path().join("out.zip");
    bundle(folder.path(), &out).unwrap();
    let python = "import sys, zipfile\n\
                  zip = zipfile.ZipFile(sys.argv[1])\n\
                  assert zip.testzip() is None\n\
                  assert zip.namelist()[0] == 'biopsy.json' and zip.namelist()[-1] == 'manifest.json'\n\
                  print(zip.read('target/4711/limits.txt').decode(), end='')";
    if biopsy_testkit::require_program("python3", &["--version"]) {
        let done = Command::new("python3").args(["-c", python]).arg(&out).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        assert_eq!(done.stdout, b"Max open files 1024\n");
    }
    if biopsy_testkit::require_program("unzip", &["-v"]) {
        let done = Command::new("unzip").arg("-tq").arg(&out).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    }
}

#[test]
fn what_is_packed_can_be_looked_through_before_it_has_its_name() {
    let (scratch, folder) = recording();
    let out = scratch.path().join("out.zip");
    let packed = pack(folder.path(), &out).unwrap();
    assert!(!out.exists());
    let mut seen = Vec::new();
    packed
        .each_member(|name, reader| {
            let bytes = io::copy(reader, &mut io::sink()).unwrap();
            seen.push((name.to_owned(), bytes));
        })
        .unwrap();
    assert_eq!(seen.first().map(|(name, _)| name.as_str()), Some(layout::HEADER));
    assert_eq!(seen.last().map(|(name, _)| name.as_str()), Some(layout::MANIFEST));
    let timeline = fs::metadata(folder.path().join(layout::TIMELINE)).unwrap().len();
    assert!(seen.contains(&(layout::TIMELINE.to_owned(), timeline)), "{seen:?}");
    drop(packed);
    assert_eq!(names_in(scratch.path()), ["r"], "nothing is left of it");
    pack(folder.path(), &out).unwrap().finish().unwrap();
    assert!(out.exists());
}
