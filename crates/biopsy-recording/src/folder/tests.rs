//! Tests of the folder: modes, and that nothing is followed or overwritten.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use biopsy_model::loss::Warning;

use crate::{RecordingFolder, WriteError, layout};

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn folders_are_0700_and_files_0600() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("recording");
    let folder = RecordingFolder::create(&path).unwrap();
    folder.header(&Default::default()).unwrap();
    folder.create_member("target/4711/limits.txt").unwrap().write_all(b"x").unwrap();
    folder.write_text("report.md", "x").unwrap();
    let warning = Warning { code: "a.b".into(), message: "m".into(), hint: None, time: None };
    folder.warn(&warning).unwrap();
    for name in ["", "target", "target/4711"] {
        assert_eq!(mode(&path.join(name)), 0o700, "{name}");
    }
    for name in ["biopsy.json", "target/4711/limits.txt", "report.md", "warnings.jsonl"] {
        assert_eq!(mode(&path.join(name)), 0o600, "{name}");
    }
    let left: Vec<_> = fs::read_dir(&path).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 4, "no temporary file stays: {left:?}");
}

/// Whoever may write to the folder above can rename things in it.
#[test]
fn a_folder_that_was_exchanged_is_not_read_packed_or_removed() {
    let scratch = tempfile::tempdir().unwrap();
    let (path, aside, out) =
        (scratch.path().join("r"), scratch.path().join("aside"), scratch.path().join("r.zip"));
    let folder = RecordingFolder::create(&path).unwrap();
    folder.header(&Default::default()).unwrap();
    fs::rename(&path, &aside).unwrap();
    fs::create_dir(&path).unwrap();
    fs::write(path.join("biopsy.json"), "another").unwrap();
    folder.write_text("report.md", "ours").unwrap();
    let bundle = folder.pack(&out).unwrap().finish().unwrap();
    let members: Vec<&str> = bundle.members.iter().map(|member| member.name.as_str()).collect();
    assert_eq!(members, ["biopsy.json", "report.md"]);
    assert_ne!(fs::read(folder.reach().join("biopsy.json")).unwrap(), b"another");
    assert!(folder.remove().is_err(), "what is there is not empty, and not ours");
    assert_eq!(fs::read(path.join("biopsy.json")).unwrap(), b"another");
    assert_eq!(fs::read_dir(&aside).unwrap().count(), 0, "our members are gone");
}

#[test]
fn a_folder_that_is_removed_is_gone_with_all_that_is_in_it() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("r");
    let folder = RecordingFolder::create(&path).unwrap();
    folder.write_text("target/1/limits.txt", "x").unwrap();
    folder.remove().unwrap();
    assert!(!path.exists());
}

#[test]
fn what_exists_is_refused_with_a_hint() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("recording");
    let folder = RecordingFolder::create(&path).unwrap();
    let error = RecordingFolder::create(&path).unwrap_err();
    assert!(matches!(error, WriteError::Exists { .. }));
    assert_eq!(error.hint().unwrap(), "choose another name; nothing is ever overwritten");
    folder.create_member("logs/a.jsonl").unwrap();
    assert!(matches!(folder.create_member("logs/a.jsonl"), Err(WriteError::Exists { .. })));
    // A dangling link is something, too: it must not be created through.
    symlink(scratch.path().join("elsewhere"), scratch.path().join("link")).unwrap();
    assert!(matches!(RecordingFolder::create(scratch.path().join("link")), Err(WriteError::Exists { .. })));
    assert!(!scratch.path().join("elsewhere").exists());
    let error = RecordingFolder::create(scratch.path().join("no/such/parent")).unwrap_err();
    assert_eq!(error.hint().unwrap(), "the folder it is to be created in does not exist");
}

#[test]
fn links_are_not_followed() {
    let scratch = tempfile::tempdir().unwrap();
    let victim = scratch.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    let path = scratch.path().join("recording");
    let folder = RecordingFolder::create(&path).unwrap();
    symlink(&victim, path.join("report.md")).unwrap();
    symlink(&victim, path.join("warnings.jsonl")).unwrap();
    assert!(matches!(folder.create_member("report.md"), Err(WriteError::Exists { .. })));
    let warning = Warning { code: "a.b".into(), message: "m".into(), hint: None, time: None };
    assert!(matches!(folder.warn(&warning), Err(WriteError::Io { .. })));
    // A replacing write replaces the link, not what it leads to.
    folder.write_text("report.md", "ours").unwrap();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    assert_eq!(fs::read_to_string(path.join("report.md")).unwrap(), "ours");
}

#[test]
fn a_folder_that_is_moved_away_keeps_its_members_together() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("recording");
    let folder = RecordingFolder::create(&path).unwrap();
    fs::rename(&path, scratch.path().join("moved")).unwrap();
    fs::create_dir(&path).unwrap();
    folder.write_text("report.md", "x").unwrap();
    assert!(scratch.path().join("moved/report.md").exists());
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
}

#[test]
fn bad_names_are_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = RecordingFolder::create(scratch.path().join("r")).unwrap();
    for name in ["../x", "/tmp/x", "a/../../x", ""] {
        assert!(matches!(folder.create_member(name), Err(WriteError::BadName { .. })), "{name}");
        assert!(matches!(folder.write_text(name, ""), Err(WriteError::BadName { .. })), "{name}");
    }
}

#[test]
fn the_header_is_replaced_whole() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("r");
    let folder = RecordingFolder::create(&path).unwrap();
    let mut header =
        biopsy_model::capture::CaptureHeader { tool: "biopsy 1".repeat(1000), ..Default::default() };
    folder.header(&header).unwrap();
    header.tool = "short".to_owned();
    folder.header(&header).unwrap();
    let text = fs::read_to_string(path.join(layout::HEADER)).unwrap();
    assert!(text.starts_with(
        "{\n  \"format\": \"biopsy-recording\",\n  \"version\": \"1.0\",\n  \"tool\": \"short\""
    ));
}

#[test]
fn two_sources_of_one_name_are_two_logs() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = RecordingFolder::create(scratch.path().join("r")).unwrap();
    let first = folder.log("/var/log/a b", "UTC").unwrap();
    let second = folder.log("/var/log/a_b", "UTC").unwrap();
    assert_eq!((first.member(), second.member()), ("logs/var_log_a_b.jsonl", "logs/var_log_a_b-2.jsonl"));
}

#[test]
fn a_full_disk_is_named_with_its_file() {
    // /dev/full refuses every write with ENOSPC.
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut member = super::MemberFile { file: full, shown: "rec/metrics/system.csv".into() };
    let error = member.write_all(b"x").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    assert_eq!(error.to_string(), "cannot write `rec/metrics/system.csv`: no space left");
    let error = member.write_error(error);
    assert!(matches!(error, WriteError::DiskFull { .. }));
    assert_eq!(error.hint().unwrap(), "free some space, or record to another disk");
}
