//! Whatever happens to biopsy, the target goes on, and what was recorded can be read.

use std::process::{Child, Stdio};
use std::time::Duration;

use biopsy_testkit::{
    Privilege, Program, Signal, Survival, TargetProcess, TempDir, machine_to_myself, require_all,
    send_signal, temp_dir,
};

use crate::support::{analyze, biopsy};

const LIVE: &[Privilege] = &[Privilege::Cc, Privilege::Perf, Privilege::Bpf];

/// A capture of ten minutes that a test interrupts.
fn start_capture(target: &TargetProcess, folder: &TempDir) -> Child {
    let mut command = biopsy(["capture", &target.pid().to_string(), "--for", "10m", "--output"]);
    command.arg(folder.path().join("recording.zip"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Waits until the recorder has written something of the trace.
fn wait_for_data(folder: &TempDir) {
    for _ in 0..6000 {
        if bytes_below(folder.path(), "timeline") > 4096 {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("nothing was recorded within a minute");
}

fn bytes_below(folder: &std::path::Path, name: &str) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries
        .flatten()
        .map(|entry| {
            let path = entry.path();
            match path.is_dir() {
                true => bytes_below(&path, name),
                false if entry.file_name().to_string_lossy().contains(name) => {
                    entry.metadata().map_or(0, |data| data.len())
                }
                false => 0,
            }
        })
        .sum()
}

fn wait(child: &mut Child) -> std::process::ExitStatus {
    for _ in 0..12_000 {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    panic!("biopsy did not end within two minutes");
}

#[test]
fn kill_9_leaves_the_target_and_a_partial_recording() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let folder = temp_dir("kill-9");
    let mut target = TargetProcess::start(Program::HotFunction, &[]);
    let survival = Survival::before(target.pid());
    let mut biopsy = start_capture(&target, &folder);
    wait_for_data(&folder);
    send_signal(biopsy.id(), Signal::KILL);
    wait(&mut biopsy);
    survival.assert_unharmed();
    target.stop();
    let left = recording_left(&folder);
    let report = analyze(&left);
    assert_eq!(report["completeness"]["partial"], true, "{:#}", report["completeness"]);
    assert!(report.to_string().contains("compute_checksum_bit_by_bit"), "{:#}", report["completeness"]);
}

/// The only thing that is not hidden, or the only thing at all: an unfinished recording is a folder.
fn recording_left(folder: &TempDir) -> std::path::PathBuf {
    let mut found: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

#[test]
fn kill_9_at_any_moment_of_the_start_leaves_the_target_alone() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let mut target = TargetProcess::start(Program::LockConvoy, &[]);
    let survival = Survival::before(target.pid());
    for milliseconds in [1, 3, 10, 20, 40, 80, 160, 320, 640] {
        let folder = temp_dir("kill-early");
        let mut biopsy = start_capture(&target, &folder);
        std::thread::sleep(Duration::from_millis(milliseconds));
        send_signal(biopsy.id(), Signal::KILL);
        wait(&mut biopsy);
        survival.assert_unharmed();
    }
    target.stop();
}

#[test]
fn ctrl_c_stops_and_keeps() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let folder = temp_dir("ctrl-c");
    let mut target = TargetProcess::start(Program::HotFunction, &[]);
    let survival = Survival::before(target.pid());
    let mut biopsy = start_capture(&target, &folder);
    wait_for_data(&folder);
    send_signal(biopsy.id(), Signal::INT);
    wait(&mut biopsy);
    survival.assert_unharmed();
    target.stop();
    let report = analyze(&folder.path().join("recording.zip"));
    assert_ne!(report["completeness"]["partial"], true, "{:#}", report["completeness"]);
    assert!(report.to_string().contains("compute_checksum_bit_by_bit"));
}

#[test]
fn a_second_ctrl_c_stops_at_once_and_harms_nobody() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let folder = temp_dir("ctrl-c-twice");
    let mut target = TargetProcess::start(Program::HotFunction, &[]);
    let survival = Survival::before(target.pid());
    let mut biopsy = start_capture(&target, &folder);
    wait_for_data(&folder);
    send_signal(biopsy.id(), Signal::INT);
    send_signal(biopsy.id(), Signal::INT);
    wait(&mut biopsy);
    survival.assert_unharmed();
    target.stop();
}

#[test]
fn what_is_lost_while_the_recorder_is_held_up_is_counted() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let folder = temp_dir("held-up");
    let mut target = TargetProcess::start(Program::DeepStack, &[]);
    let survival = Survival::before(target.pid());
    let mut biopsy = start_capture(&target, &folder);
    wait_for_data(&folder);
    // Each sample of this target holds as much stack as is ever copied, a thousand times a second: long enough for any
    // buffer of less than a hundred megabytes.
    send_signal(biopsy.id(), Signal::STOP);
    std::thread::sleep(Duration::from_secs(8));
    send_signal(biopsy.id(), Signal::CONT);
    std::thread::sleep(Duration::from_secs(1));
    send_signal(biopsy.id(), Signal::INT);
    wait(&mut biopsy);
    survival.assert_unharmed();
    target.stop();
    let report = analyze(&folder.path().join("recording.zip"));
    let losses = report["completeness"]["losses"].as_array().map_or(0, Vec::len);
    assert!(losses > 0, "{:#}", report["completeness"]);
}

#[test]
fn recordings_are_private() {
    use std::os::unix::fs::PermissionsExt;
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let folder = temp_dir("private");
    let mut target = TargetProcess::start(Program::Idle, &[]);
    let captured = crate::support::capture(target.pid(), "1s", &[]);
    target.stop();
    let mode = std::fs::metadata(&captured.file).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600, "{mode:o}");
    drop(folder);
}

#[test]
fn secrets_on_the_command_line_and_in_the_environment_stay_out() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let mut command = Program::Idle.command();
    command
        .arg("--password=correct-horse-battery")
        .env("DB_PASSWORD", "tr0ub4dor-and-3")
        .env("PATH", "/usr/bin");
    let mut target = TargetProcess::spawn(command);
    let captured = crate::support::capture_unharmed(&target, "1s", &[]);
    target.stop();
    let unzipped = std::process::Command::new("unzip").arg("-p").arg(&captured.file).output().unwrap();
    let text = String::from_utf8_lossy(&unzipped.stdout).into_owned();
    assert!(text.contains("DB_PASSWORD"), "names of variables are kept");
    assert!(!text.contains("correct-horse-battery"), "a secret of the command line is in the recording");
    assert!(!text.contains("tr0ub4dor-and-3"), "a secret of the environment is in the recording");
}

#[test]
fn snapshots_and_marks_while_it_goes_on() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let folder = temp_dir("snapshot");
    let mut target = TargetProcess::start(Program::HotFunction, &[]);
    let survival = Survival::before(target.pid());
    let mut biopsy = start_capture(&target, &folder);
    wait_for_data(&folder);
    send_signal(biopsy.id(), Signal::USR2);
    std::thread::sleep(Duration::from_millis(500));
    send_signal(biopsy.id(), Signal::USR1);
    let snapshot = folder.path().join("recording.snapshot-1.biopsy.zip");
    let appeared = (0..6000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        snapshot.exists()
    });
    assert!(
        appeared,
        "no snapshot within a minute: {:?}",
        std::fs::read_dir(folder.path()).unwrap().collect::<Vec<_>>()
    );
    let early = analyze(&snapshot);
    assert!(early.to_string().contains("compute_checksum_bit_by_bit"), "{:#}", early["completeness"]);
    std::thread::sleep(Duration::from_secs(1));
    send_signal(biopsy.id(), Signal::INT);
    wait(&mut biopsy);
    survival.assert_unharmed();
    target.stop();
    let report = analyze(&folder.path().join("recording.zip"));
    assert_eq!(report["marks"].as_array().map(Vec::len), Some(1), "{:#}", report["marks"]);
    let seconds = |report: &serde_json::Value| report["recording"]["seconds"].as_f64().unwrap_or(0.0);
    assert!(seconds(&report) > seconds(&early), "the recording went on after the snapshot");
}
