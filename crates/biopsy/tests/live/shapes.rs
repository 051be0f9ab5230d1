//! Programs of unusual shape: how they were compiled, how many threads, how deep, what they become.

use std::process::{Command, Stdio};

use biopsy_testkit::{
    Namespaces, ODD_NAMES, Privilege, Program, Survival, TargetProcess, copy_under_odd_name, in_namespaces,
    machine_to_myself, require_all, temp_dir,
};

use crate::support::{analyze, biopsy, capture, capture_unharmed, said, succeeded};

const LIVE: &[Privilege] = &[Privilege::Cc, Privilege::Perf, Privilege::Bpf];

#[test]
fn no_frame_pointers_are_needed() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let mut target = TargetProcess::start(Program::NoFramePointers, &[]);
    let captured = capture_unharmed(&target, "2s", &[]);
    target.stop();
    captured.assert_burns_cpu_in("compute_checksum_bit_by_bit", &["compute_checksum_bit_by_bit"]);
    assert!(captured.text().contains("deploy_forever"), "the outer callers are there");
    assert!(captured.reaching_root() >= 0.99, "{}", captured.reaching_root());
}

#[test]
fn frames_without_symbols_are_shown_as_module_and_offset() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let mut target = TargetProcess::start(Program::Stripped, &[]);
    let captured = capture_unharmed(&target, "2s", &[]);
    target.stop();
    // Without symbols each address stands for itself, so what is hot is spread over several rows.
    let functions = captured.report["functions"].as_array().unwrap();
    let time = |of: &dyn Fn(&str) -> bool| -> u64 {
        let named = functions.iter().filter(|function| of(function["name"].as_str().unwrap_or_default()));
        named.filter_map(|function| function["cpu_self_ns"].as_u64()).sum()
    };
    let (shown, all) = (time(&|name| name.contains("stripped+0x")), time(&|_| true));
    assert!(shown * 2 > all, "{shown} of {all} ns are shown as module and offset");
}

#[test]
fn rust_names_are_demangled() {
    if !require_all(LIVE) || !require_all(&[Privilege::Rustc]) {
        return;
    }
    let _machine = machine_to_myself();
    let mut target = TargetProcess::start(Program::RustHotFunction, &[]);
    let captured = capture_unharmed(&target, "2s", &[]);
    target.stop();
    captured.assert_burns_cpu_in(
        "PackageVerifier::compute_checksum_bit_by_bit",
        &["compute_checksum_bit_by_bit"],
    );
}

#[test]
fn ten_thousand_threads() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let mut target = TargetProcess::start(Program::ManyThreads, &["10000"]);
    let pid = target.pid().to_string();
    let captured = capture_unharmed(&target, "3s", &[]);
    let threads = captured.report["completeness"]["threads"].as_u64().unwrap_or(0);
    assert!(threads >= 10_000, "{threads} threads: {:#}", captured.report["completeness"]);

    let survival = Survival::before(target.pid());
    let folder = temp_dir("ten-thousand");
    let place = folder.path().join("dump");
    // Each of them needs a processor to stop on, which takes its time beside others.
    let patient = ["--json", "--max-pause", "10s"];
    let looked = biopsy(["stacks", &pid]).args(patient).output().unwrap();
    let dumped = biopsy(["dump", &pid, "--output"]).arg(&place).args(patient).output().unwrap();
    survival.assert_unharmed();
    target.stop();
    for output in [&looked, &dumped] {
        assert!(succeeded(output), "{}", said(output));
    }
    for report in [serde_json::from_slice(&looked.stdout).unwrap(), analyze(&place)] {
        let threads = report["dumps"][0]["threads"].as_array().map_or(0, Vec::len);
        assert!(threads >= 10_000, "{threads} threads");
    }
}

#[test]
fn deep_stacks_show_their_top_and_say_where_they_were_cut() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let mut target = TargetProcess::start(Program::DeepStack, &[]);
    let captured = capture_unharmed(&target, "2s", &[]);
    target.stop();
    captured.assert_burns_cpu_in("burn_at_the_bottom", &["burn_at_the_bottom"]);
    assert!(captured.text().contains("descend"));
}

#[test]
fn a_target_that_ends_leaves_a_recording_that_says_so() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let mut target = TargetProcess::start(Program::ExitsMidway, &["1500"]);
    let began = std::time::Instant::now();
    let captured = capture(target.pid(), "5m", &[]);
    // Not a limit on speed: it shows that the end of the target, not of the five minutes, ended the recording.
    assert!(began.elapsed().as_secs() < 120);
    assert!(target.wait_for_exit(std::time::Duration::from_secs(10)).is_some_and(|status| status.success()));
    assert!(captured.finding_ids().contains(&"target-ended"), "{:#}", captured.report["findings"]);
    assert!(captured.text().contains("last_work"));
}

#[test]
fn a_target_that_execs_is_followed_into_its_second_life() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let mut target = TargetProcess::start(Program::ExecsMidway, &["1500"]);
    let captured = capture(target.pid(), "5s", &[]);
    assert!(target.is_running());
    target.stop();
    let text = captured.text();
    assert!(text.contains("work_before_exec"), "{:#}", captured.report["functions"]);
    assert!(text.contains("work_after_exec"), "{:#}", captured.report["functions"]);
}

#[test]
fn children_are_recorded_with_their_parent() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let mut target = TargetProcess::start(Program::ForkChildren, &[]);
    let captured = capture(target.pid(), "3s", &[]);
    assert!(target.is_running());
    target.stop();
    assert!(captured.text().contains("child_work"), "{:#}", captured.report["functions"]);
}

#[test]
fn odd_names_are_recorded_and_shown() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let folder = temp_dir("odd");
    for name in ODD_NAMES {
        let program = copy_under_odd_name(&Program::HotFunction.path(), folder.path(), name);
        let mut target = TargetProcess::spawn(Command::new(program));
        let captured = capture_unharmed(&target, "1s", &[]);
        target.stop();
        assert!(captured.text().contains("compute_checksum_bit_by_bit"), "{}", String::from_utf8_lossy(name));
    }
}

#[test]
fn a_deleted_executable_still_has_its_names() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let folder = temp_dir("deleted");
    let program = copy_under_odd_name(&Program::HotFunction.path(), folder.path(), b"deleted");
    let mut target = TargetProcess::spawn(Command::new(&program));
    std::fs::remove_file(program).unwrap();
    let captured = capture_unharmed(&target, "2s", &[]);
    target.stop();
    captured.assert_burns_cpu_in("compute_checksum_bit_by_bit", &["compute_checksum_bit_by_bit"]);
}

#[test]
fn another_pid_and_mount_namespace_is_looked_into() {
    if !require_all(LIVE) || !require_all(&[Privilege::Namespaces]) {
        return;
    }
    let _machine = machine_to_myself();
    // The program is only visible inside: a tmpfs of its own mount namespace covers the folder it was copied to.
    let folder = temp_dir("namespace");
    let script = "mount -t tmpfs tmpfs \"$1\" && cp \"$2\" \"$1/inside\" && exec \"$1/inside\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "sh"]).arg(folder.path()).arg(Program::HotFunction.path());
    let mut target = TargetProcess::spawn(in_namespaces(Namespaces::PidAndMount, &shell));
    assert_eq!(target.ready_line(), "READY 1");
    assert!(!folder.path().join("inside").exists(), "it is not visible from here");
    let captured = capture_unharmed(&target, "2s", &[]);
    captured.assert_burns_cpu_in("compute_checksum_bit_by_bit", &["compute_checksum_bit_by_bit"]);
    target.stop();
}

#[test]
fn a_launched_program_is_recorded_from_its_start() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let folder = temp_dir("launch");
    let file = folder.path().join("trace.zip");
    let mut child = crate::support::biopsy(["trace", "--output"])
        .arg(&file)
        .arg("--")
        .arg(Program::ExitsMidway.path())
        .arg("700")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The program ends when its stdin does, so that is kept.
    let stdin = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    assert!(crate::support::succeeded(&output), "{}", crate::support::said(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("READY"), "its output is its own");
    assert!(crate::support::analyze(&file).to_string().contains("last_work"));
}

#[test]
fn a_target_may_be_named_by_its_process_name() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let folder = temp_dir("by-name");
    let program = copy_under_odd_name(&Program::HotFunction.path(), folder.path(), b"only-one-so");
    let mut target = TargetProcess::spawn(Command::new(program));
    let survival = Survival::before(target.pid());
    let file = folder.path().join("recording.zip");
    let output = crate::support::biopsy(["capture", "only-one-so", "--for", "1s", "--output"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", crate::support::said(&output));
    survival.assert_unharmed();
    target.stop();
}
