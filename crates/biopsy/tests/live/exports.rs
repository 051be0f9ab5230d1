//! One recording in every format, and other tools' recordings.

use std::process::Command;

use biopsy_testkit::{
    Privilege, Program, TargetProcess, machine_to_myself, require_all, require_program, temp_dir,
};

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
fn who_holds_the_blocks_of_a_program_is_told_of_a_snapshot_and_of_a_core() {
    if !require_all(&[Privilege::Ptrace]) || !require_program("python3", &["--version"]) {
        return;
    }
    let program = "
import time
class Tour:
    def __init__(self):
        self.bill = bytearray(400)
bills = [Tour() for _ in range(3000)]
print('READY', flush=True)
time.sleep(1000)
";
    let mut command = Command::new("python3");
    command.args(["-c", program]);
    let target = TargetProcess::spawn(command);
    let pid = target.pid().to_string();
    let folder = temp_dir("blocks");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (heap, core) = (at("heap"), at("full.core"));
    let taken = [
        biopsy(["snapshot", &pid, "--quiet", "--max-pause", "10s", "-o", &heap]).output().unwrap(),
        biopsy(["dump", &pid, "--kind", "full", "--raw", "--quiet", "--max-pause", "10s", "-o", &core])
            .output()
            .unwrap(),
    ];
    drop(target);
    for output in taken {
        assert!(output.status.success(), "{}", said(&output));
    }
    for file in [&heap, &core] {
        let asked = biopsy(["heap", file, "--symbols", "/", "--path-to", "Tour"]).output().unwrap();
        let answer = String::from_utf8_lossy(&asked.stdout).into_owned();
        assert!(answer.contains("static __main__.bills"), "{file}: {answer}{}", said(&asked));
        let profile = format!("{file}.pb.gz");
        let arguments = ["export", file, "--symbols", "/", "--to", "pprof", "--output", &profile];
        let exported = biopsy(arguments).output().unwrap();
        assert!(exported.status.success(), "{}", said(&exported));
        let bytes = unpacked(profile.as_ref());
        for name in ["static __main__.bills", "inuse_space", "Tour"] {
            assert!(bytes.windows(name.len()).any(|window| window == name.as_bytes()), "{file}: no {name}");
        }
    }
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
