//! Recordings that perf makes now, with names from this machine. Needs perf and its privileges.

use biopsy_analyze::{Analysis, analyze};
use biopsy_import::Limits;
use biopsy_import::perf_data::read;
use biopsy_model::capture::Capture;
use biopsy_testkit::{Privilege, Program, TargetProcess, require, require_all, temp_dir};
use std::process::Command;

/// Records a program of the testkit for a second.
fn record(program: Program, options: &[&str]) -> Option<(Capture, Analysis)> {
    if !require_all(&[Privilege::Perf, Privilege::PerfTool, Privilege::Cc]) {
        return None;
    }
    let folder = temp_dir("import");
    let file = folder.path().join("perf.data");
    let mut target = TargetProcess::start(program, &[]);
    let output = Command::new("perf")
        .args(["record", "-q", "-o"])
        .arg(&file)
        .args(options)
        .args(["-p", &target.pid().to_string(), "--", "sleep", "1"])
        .output()
        .expect("perf runs");
    assert!(output.status.success(), "perf: {}", String::from_utf8_lossy(&output.stderr));
    target.stop();
    let capture = read(&file, &vec!["/".into()].into(), &Limits::default()).expect("perf.data is read");
    let analysis = analyze(&capture);
    Some((capture, analysis))
}

fn share(analysis: &Analysis, name: &str) -> f64 {
    let all = analysis.completeness.sampled.as_secs_f64();
    let row = analysis.functions.iter().find(|row| row.name == name);
    row.map_or(0.0, |row| row.cpu_total.as_secs_f64() / all)
}

#[test]
fn frame_pointers() {
    let Some((capture, analysis)) = record(Program::HotFunction, &["-e", "cpu-clock", "-F", "499", "-g"])
    else {
        return;
    };
    assert!(share(&analysis, "compute_checksum_bit_by_bit") > 0.8, "{:#?}", &analysis.functions[..4]);
    assert_eq!(capture.header.target_name, "hot-function");
}

#[test]
fn copied_stacks_are_unwound_to_the_root() {
    let options = ["-e", "cpu-clock", "-F", "199", "--call-graph", "dwarf,8192"];
    let Some((_, analysis)) = record(Program::HotFunction, &options) else { return };
    assert!(share(&analysis, "deploy_forever") > 0.8, "{:#?}", &analysis.functions[..8]);
    assert!(share(&analysis, "verify_package") > 0.4);
    assert!(share(&analysis, "verify_manifest") > 0.05);
    assert!(
        analysis.completeness.reaching_root.is_some_and(|share| share > 0.95),
        "{:?}",
        analysis.completeness
    );
    let title = &analysis.findings[0].title;
    assert!(
        analysis.findings.iter().all(|finding| finding.id != biopsy_analyze::FindingId::CpuBound)
            || title.contains("compute_checksum_bit_by_bit"),
        "{title}"
    );
}

#[test]
fn a_convoy_is_seen_through_switch_records() {
    let options = [
        "-e",
        "cpu-clock",
        "-e",
        "sched:sched_switch",
        "-e",
        "sched:sched_waking",
        "--call-graph",
        "dwarf,4096",
        "--switch-events",
    ];
    if !require(Privilege::Tracefs) {
        return;
    }
    let Some((_, analysis)) = record(Program::LockConvoy, &options) else { return };
    let first = &analysis.findings[0];
    assert_eq!(first.id, biopsy_analyze::FindingId::LockConvoy, "{:#?}", analysis.findings);
    assert!(first.title.contains("append_under_lock"), "{}", first.title);
}
