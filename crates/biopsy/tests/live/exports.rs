//! One recording in every format, and other tools' recordings.

use std::process::Command;

use biopsy_testkit::{Privilege, Program, TargetProcess, machine_to_myself, require_all, temp_dir};

use crate::support::{biopsy, capture_unharmed, said};

const LIVE: &[Privilege] = &[Privilege::Cc, Privilege::Perf, Privilege::Bpf];

#[test]
fn every_export_holds_the_function() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let mut target = TargetProcess::start(Program::HotFunction, &[]);
    let captured = capture_unharmed(&target, "2s", &[]);
    target.stop();
    for format in ["firefox", "perfetto", "pprof", "speedscope", "collapsed"] {
        let file = captured.folder.path().join(format!("export.{format}"));
        let output =
            biopsy(["export", "--to", format, "--output"]).arg(&file).arg(&captured.file).output().unwrap();
        assert!(output.status.success(), "{format}: {}", said(&output));
        let bytes = unpacked(&file);
        let name = b"compute_checksum_bit_by_bit";
        assert!(bytes.windows(name.len()).any(|window| window == name), "{format} lacks the function");
        // It refuses to overwrite.
        let again =
            biopsy(["export", "--to", format, "--output"]).arg(&file).arg(&captured.file).output().unwrap();
        assert!(!again.status.success(), "{format} was overwritten");
    }
}

/// The bytes, without gzip around them.
fn unpacked(file: &std::path::Path) -> Vec<u8> {
    let bytes = std::fs::read(file).unwrap();
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return bytes;
    }
    let output = Command::new("gzip").arg("-dc").stdin(std::fs::File::open(file).unwrap()).output().unwrap();
    assert!(output.status.success());
    output.stdout
}

#[test]
fn a_perf_data_file_is_analysed() {
    if !require_all(LIVE) || !require_all(&[Privilege::PerfTool]) {
        return;
    }
    let _machine = machine_to_myself();
    let folder = temp_dir("perf-data");
    let file = folder.path().join("perf.data");
    let mut target = TargetProcess::start(Program::HotFunction, &[]);
    let status = Command::new("perf")
        .args(["record", "-q", "-F", "499", "-g", "-p", &target.pid().to_string(), "-o"])
        .arg(&file)
        .args(["--", "sleep", "2"])
        .status()
        .unwrap();
    assert!(status.success());
    target.stop();
    let shown = biopsy(["analyze", "--json", "--symbols", "/"]).arg(&file).output().unwrap();
    assert!(shown.status.success(), "{}", said(&shown));
    let report: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert!(report.to_string().contains("compute_checksum_bit_by_bit"), "{:#}", report["functions"]);
}
