//! Recordings in `fixtures/` open for ever: one for each released version of the format, and the newest.

mod changed;

use std::path::{Path, PathBuf};
use std::process::Command;

fn recordings() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/recordings");
    let mut found: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()).collect();
    found.sort();
    found
}

fn analyze(file: &Path) -> serde_json::Value {
    let output =
        Command::new(env!("CARGO_BIN_EXE_biopsy")).args(["analyze", "--json"]).arg(file).output().unwrap();
    assert!(output.status.success(), "{}: {}", file.display(), String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn every_golden_recording_names_its_cause() {
    let recordings = recordings();
    assert!(!recordings.is_empty());
    for file in recordings {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let cause = match name.split('-').next() {
            Some("hot") => "compute_checksum_bit_by_bit",
            // Made up, with one of everything; what must be in there is a test of biopsy-recording.
            Some("format") => "",
            Some("lock") => "append_under_lock",
            _ => panic!("`{name}` is new: say what its report must name"),
        };
        let report = analyze(&file);
        assert_eq!(report["completeness"]["partial"], false, "{name}");
        assert!(
            report.to_string().contains(cause),
            "{name} does not name `{cause}`: {:#}",
            report["findings"]
        );
    }
}
