//! `biopsy dump` as a user types it: what it makes opens elsewhere, and the target is unharmed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use biopsy_testkit::{
    Privilege, Program, Survival, TargetProcess, TempDir, machine_to_myself, require_all, temp_dir,
};
use serde_json::Value;

use crate::support::{biopsy, complaint, said, succeeded};

const LIVE: &[Privilege] = &[Privilege::Cc, Privilege::Ptrace];

/// A finished dump.
struct Dumped {
    _folder: TempDir,
    path: PathBuf,
    result: Value,
    said: String,
}

impl Dumped {
    fn facts(&self, at: usize) -> &Value {
        &self.result["dumps"][at]
    }

    fn core(&self, at: usize) -> PathBuf {
        self.path.join(self.facts(at)["core"].as_str().unwrap())
    }
}

#[track_caller]
fn dump(pid: u32, more: &[&str]) -> Dumped {
    let folder = temp_dir("dump");
    let path = folder.path().join("dump");
    let output =
        biopsy(["dump", &pid.to_string(), "--json", "--output"]).arg(&path).args(more).output().unwrap();
    assert!(succeeded(&output), "{}", said(&output));
    let result =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", said(&output)));
    Dumped { _folder: folder, path, result, said: said(&output) }
}

#[track_caller]
fn dump_unharmed(target: &TargetProcess, more: &[&str]) -> Dumped {
    let survival = Survival::before(target.pid());
    let dumped = dump(target.pid(), more);
    survival.assert_unharmed();
    dumped
}

/// The report of `biopsy analyze` on a core or a recording.
#[track_caller]
fn analyze(file: &Path) -> String {
    let output = biopsy(["analyze"]).arg(file).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Looks before it are dumps of stacks, and both reports, the one beside the dumps and one that is made later, say what did not move.
#[test]
fn a_dump_after_looks_says_what_did_not_move() {
    if !require_all(LIVE) {
        return;
    }
    let mut target = TargetProcess::start(Program::Deadlock, &[]);
    let dumped = dump_unharmed(&target, &["--looks", "3", "--every", "300ms"]);
    target.stop();
    let kinds: Vec<&str> = (0..3).filter_map(|at| dumped.facts(at)["kind"].as_str()).collect();
    assert_eq!(kinds, ["stacks", "stacks", "heap"], "{:#}", dumped.result);
    let later = biopsy(["analyze", "--json", "--symbols", "/"]).arg(&dumped.path).output().unwrap();
    assert!(later.status.success(), "{}", said(&later));
    for report in [std::fs::read(dumped.path.join("report.json")).unwrap(), later.stdout] {
        let report: Value = serde_json::from_slice(&report).unwrap();
        let one = &report["dumps"];
        assert_eq!(one.as_array().map(Vec::len), Some(1), "{one:#}");
        assert_eq!(one[0]["looks"]["count"], 3);
        assert_eq!(report["findings"][0]["id"], "deadlock");
        let workers = one[0]["threads"].as_array().unwrap().iter().skip(1);
        let still = |thread: &Value| matches!(thread["movement"].as_str(), Some("stuck" | "same-place"));
        assert!(workers.clone().count() >= 2 && workers.clone().all(still), "{:#}", one[0]["threads"]);
    }
}

#[test]
fn a_count_without_something_to_wait_for_is_refused() {
    let text = complaint(&mut biopsy(["dump", "1", "--count", "3"]));
    assert!(text.contains("--looks 3"), "{text}");
}

#[test]
fn a_dump_is_a_recording_with_core_context_and_report() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let mut target = TargetProcess::start(Program::LockConvoy, &[]);
    let dumped = dump_unharmed(&target, &[]);
    let facts = dumped.facts(0);
    assert_eq!(facts["whole"], true, "{facts:#}");
    assert_eq!(facts["method"], "copy-on-write", "{facts:#}");
    assert_eq!(facts["threads"], facts["threads_with_registers"], "{facts:#}");
    assert!(facts["pause_ms"].as_f64().unwrap() > 0.0);
    for member in ["biopsy.json", "manifest.json", "report.html", "report.json", "report.md"] {
        assert!(dumped.path.join(member).is_file(), "{member} is missing: {}", dumped.said);
    }
    let context = dumped.path.join(format!("target/{}", target.pid()));
    assert!(context.join("threads.txt").is_file() && context.join("smaps.txt").is_file(), "{}", dumped.said);
    let manifest = std::fs::read_to_string(dumped.path.join("manifest.json")).unwrap();
    assert!(manifest.contains("\"memory\""), "{manifest}");
    for text in [analyze(&dumped.core(0)), analyze(&dumped.path)] {
        assert!(text.contains("lock-convoy"), "{text}");
    }
    target.stop();
}

#[test]
fn gdb_sees_every_thread_with_its_functions() {
    if !require_all(LIVE) {
        return;
    }
    if !require_all(&[Privilege::Gdb, Privilege::Zstd]) {
        return;
    }
    let _machine = machine_to_myself();
    let mut target = TargetProcess::start(Program::LockConvoy, &[]);
    let threads = std::fs::read_dir(format!("/proc/{}/task", target.pid())).unwrap().count();
    for kind in ["full", "heap", "stacks"] {
        let dumped = dump_unharmed(&target, &["--kind", kind]);
        let plain = dumped.path.join("plain.core");
        let unpacked =
            Command::new("zstd").args(["-q", "-d"]).arg(dumped.core(0)).arg("-o").arg(&plain).status();
        assert!(unpacked.unwrap().success());
        let exe = std::fs::read_link(format!("/proc/{}/exe", target.pid())).unwrap();
        let output = Command::new("gdb")
            .args(["-q", "-batch", "-nx", "-ex", "info threads", "-ex", "thread apply all bt"])
            .arg(&exe)
            .arg(&plain)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(text.matches("\nThread ").count(), threads, "{kind}: {text}");
        assert!(text.contains("main ("), "{kind}: {text}");
    }
    target.stop();
}

#[test]
fn a_tree_is_frozen_together() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let mut target = TargetProcess::start(Program::SlowPeer, &[]);
    let dumped = dump_unharmed(&target, &["--tree"]);
    let dumps = dumped.result["dumps"].as_array().unwrap();
    assert_eq!(dumps.len(), 2, "{:#}", dumped.result);
    assert_eq!(dumps[0]["pid"], target.pid(), "the target is first: {:#}", dumped.result);
    assert!((0..dumps.len()).all(|at| dumped.core(at).is_file()));
    target.stop();
}

#[test]
fn children_that_end_meanwhile_do_not_keep_the_rest_from_being_dumped() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    // A child every 20 ms that lives for 50 ms.
    let mut target = TargetProcess::start(Program::ForkChildren, &["20"]);
    for _ in 0..8 {
        let dumped = dump_unharmed(&target, &["--tree"]);
        assert_eq!(dumped.facts(0)["pid"], target.pid(), "{:#}", dumped.result);
        assert_eq!(dumped.facts(0)["whole"], true, "{:#}", dumped.result);
    }
    target.stop();
}

#[test]
fn a_dry_run_tells_and_does_nothing() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let mut target = TargetProcess::start(Program::Idle, &[]);
    let folder = temp_dir("dry");
    let survival = Survival::before(target.pid());
    let pid = target.pid().to_string();
    let output = biopsy(["dump", &pid, "--dry-run", "--json"]).current_dir(folder.path()).output().unwrap();
    survival.assert_unharmed();
    assert!(output.status.success(), "{}", said(&output));
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(plan["processes"][0]["method"], "copy-on-write", "{plan:#}");
    assert!(plan["predicted_pause_ms"].as_f64().unwrap() > 0.0, "{plan:#}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    target.stop();
}

#[test]
fn a_pause_above_the_budget_is_refused_with_alternatives() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let mut target = TargetProcess::start(Program::Idle, &[]);
    let survival = Survival::before(target.pid());
    let pid = target.pid().to_string();
    let folder = temp_dir("budget");
    let text = complaint(biopsy(["dump", &pid, "--max-pause", "1us"]).current_dir(folder.path()));
    survival.assert_unharmed();
    assert!(text.contains("hint: ") && text.contains("--max-pause"), "{text}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{text}");
    target.stop();
}

#[test]
fn one_core_goes_into_a_file_or_a_pipe() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let mut target = TargetProcess::start(Program::LockConvoy, &[]);
    let survival = Survival::before(target.pid());
    let pid = target.pid().to_string();
    let folder = temp_dir("alone");
    let raw = folder.path().join("raw.core");
    let output = biopsy(["dump", &pid, "--raw", "--output"]).arg(&raw).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let piped = biopsy(["dump", &pid, "--quiet", "--output", "-"]).output().unwrap();
    assert!(piped.status.success(), "{}", said(&piped));
    let streamed = folder.path().join("streamed.core.zst");
    std::fs::write(&streamed, &piped.stdout).unwrap();
    survival.assert_unharmed();
    for core in [&raw, &streamed] {
        assert!(analyze(core).contains("lock-convoy"));
    }
    // It is there now, and stays as it is.
    let before = std::fs::read(&raw).unwrap();
    let text = complaint(biopsy(["dump", &pid, "--raw", "--output"]).arg(&raw));
    assert!(text.contains("exists already"), "{text}");
    assert_eq!(std::fs::read(&raw).unwrap(), before);
    target.stop();
}

#[test]
fn a_reader_that_goes_away_harms_nobody() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let mut target = TargetProcess::start(Program::MemoryGrowth, &[]);
    let survival = Survival::before(target.pid());
    let mut child = biopsy(["dump", &target.pid().to_string(), "--quiet", "--output", "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success(), "{}", said(&output));
    assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"), "{}", said(&output));
    survival.assert_unharmed();
    target.stop();
}

#[test]
fn a_process_in_the_hands_of_a_debugger_is_left_to_it() {
    if !require_all(LIVE) {
        return;
    }
    if !require_all(&[Privilege::Gdb]) {
        return;
    }
    let _machine = machine_to_myself();
    let mut target = TargetProcess::start(Program::Idle, &[]);
    let pid = target.pid().to_string();
    let mut gdb = Command::new("gdb")
        .args(["-q", "-nx", "-p", &pid, "-ex", "shell sleep 600", "-batch"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let traced = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        status.lines().any(|line| line.strip_prefix("TracerPid:").is_some_and(|by| by.trim() != "0"))
    };
    for _ in 0..3000 {
        if traced() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(traced(), "gdb did not attach within half a minute");
    let folder = temp_dir("debugged");
    let text = complaint(biopsy(["dump", &pid]).current_dir(folder.path()));
    assert!(text.contains("traced by"), "{text}");
    assert!(traced());
    // The shell below gdb sleeps; both end with gdb's own end.
    let below = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", gdb.id())).unwrap_or_default();
    let _ = gdb.kill();
    let _ = gdb.wait();
    for child in below.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()) {
        biopsy_testkit::send_signal(child, biopsy_testkit::Signal::KILL);
    }
    target.stop();
}

#[test]
fn several_dumps_do_not_go_into_one_file() {
    let text =
        complaint(&mut biopsy(["dump", &std::process::id().to_string(), "--tree", "--output", "x.core"]));
    assert!(text.contains("do not fit one file"), "{text}");
}
