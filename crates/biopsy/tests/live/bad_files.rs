//! Files that are not recordings, or not whole ones.

use biopsy_testkit::{Privilege, Program, TargetProcess, machine_to_myself, require_all, temp_dir};

use crate::support::{analyze, biopsy, capture, complaint, said, succeeded};

#[test]
fn a_file_that_is_missing_empty_or_something_else() {
    let folder = temp_dir("bad-files");
    let text = complaint(biopsy(["analyze"]).arg(folder.path().join("missing.zip")));
    assert!(text.contains("missing.zip"), "{text}");
    for (name, bytes) in [
        ("empty.zip", &b""[..]),
        ("text.zip", b"this is not a recording"),
        ("zip-start.zip", b"PK\x03\x04"),
        ("perf.data", b"PERFILE2"),
        ("elf", b"\x7fELF\x02\x01\x01"),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let text = complaint(biopsy(["analyze"]).arg(&path));
        assert!(text.contains(name), "{text}");
    }
}

#[test]
fn a_folder_that_is_not_a_recording() {
    let folder = temp_dir("bad-folder");
    let text = complaint(biopsy(["analyze"]).arg(folder.path()));
    assert!(text.contains("biopsy.json"), "{text}");
}

#[test]
fn a_bundle_cut_anywhere_is_refused_or_read_and_never_a_crash() {
    if !require_all(&[Privilege::Cc, Privilege::Perf, Privilege::Bpf]) {
        return;
    }
    let _machine = machine_to_myself();
    let mut target = TargetProcess::start(Program::HotFunction, &[]);
    let captured = capture(target.pid(), "1s", &[]);
    target.stop();
    let whole = std::fs::read(&captured.file).unwrap();
    let cut = captured.folder.path().join("cut.zip");
    for part in [1, 25, 50, 75, 99] {
        std::fs::write(&cut, &whole[..whole.len() * part / 100]).unwrap();
        let output = biopsy(["analyze", "--json"]).arg(&cut).output().unwrap();
        let text = said(&output);
        assert!(succeeded(&output) || text.contains("error: "), "{part} %: {text}");
        assert!(!text.contains("panicked"), "{part} %: {text}");
    }
    // Damage in the middle instead of a missing end.
    for part in [10, 30, 50, 70, 90] {
        let mut damaged = whole.clone();
        let at = damaged.len() * part / 100;
        damaged[at..at + 16].fill(0xaa);
        std::fs::write(&cut, &damaged).unwrap();
        let output = biopsy(["analyze", "--json"]).arg(&cut).output().unwrap();
        let text = said(&output);
        assert!(succeeded(&output) || text.contains("error: "), "{part} %: {text}");
        assert!(!text.contains("panicked"), "{part} %: {text}");
    }
}

#[test]
fn a_recording_of_a_newer_version_is_refused_with_both_versions() {
    if !require_all(&[Privilege::Cc, Privilege::Perf, Privilege::Bpf]) {
        return;
    }
    let _machine = machine_to_myself();
    let mut target = TargetProcess::start(Program::Idle, &[]);
    let folder = temp_dir("newer");
    let place = folder.path().join("recording");
    let output = biopsy(["capture", &target.pid().to_string(), "--for", "1s", "--folder", "--output"])
        .arg(&place)
        .output()
        .unwrap();
    assert!(succeeded(&output), "{}", said(&output));
    target.stop();
    assert_eq!(analyze(&place)["completeness"]["partial"], false);

    let header = place.join("biopsy.json");
    let mut json: serde_json::Value = serde_json::from_slice(&std::fs::read(&header).unwrap()).unwrap();
    assert!(json["version"].is_string(), "{json:#}");
    json["version"] = serde_json::json!("99.0");
    std::fs::write(&header, json.to_string()).unwrap();
    let text = complaint(biopsy(["analyze"]).arg(&place));
    assert!(text.contains("99.0") && text.contains("hint: "), "{text}");
}
