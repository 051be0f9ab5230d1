//! `biopsy dump` that waits for something: triggers, and processes that live for a millisecond.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};
use std::time::Duration;

use biopsy_testkit::{
    Privilege, Program, Survival, TargetProcess, TempDir, machine_to_myself, require_all, temp_dir,
};
use serde_json::Value;

use crate::support::biopsy;

const LIVE: &[Privilege] = &[Privilege::Cc, Privilege::Ptrace];
const PATIENCE: Duration = Duration::from_secs(60);

/// A dump that waits. It is ended with the value.
struct Waiting {
    child: Child,
    folder: TempDir,
    said: BufReader<std::process::ChildStderr>,
    heard: String,
}

impl Waiting {
    /// Starts it, and returns when it says that it waits.
    #[track_caller]
    fn start(pid: u32, more: &[&str]) -> Self {
        let folder = temp_dir("waits");
        let mut child = biopsy(["dump", &pid.to_string(), "--json", "--for", "120s", "--output"])
            .arg(folder.path().join("dump"))
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        let mut this = Self { child, folder, said, heard: String::new() };
        while !this.heard.contains("waiting for") {
            let read = this.said.read_line(&mut this.heard).unwrap();
            assert!(read > 0, "it ended before it waited: {}", this.heard);
        }
        this
    }

    /// Its result, when it ends by itself.
    #[track_caller]
    fn finish(mut self) -> (Value, TempDir, String) {
        let mut out = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        let _ = self.said.read_to_string(&mut self.heard);
        let status = self.child.wait().unwrap();
        let all = format!("{status}\n--- stdout\n{out}\n--- stderr\n{}", self.heard);
        assert!(matches!(status.code(), Some(0 | 3)), "{all}");
        let result = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {all}"));
        let folder = std::mem::replace(&mut self.folder, temp_dir("empty"));
        (result, folder, all)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The one dump that a trigger brought, of a process that goes on.
#[track_caller]
fn fired(target: &TargetProcess, trigger: &str, then: impl FnOnce()) -> (Value, String) {
    let survival = Survival::before(target.pid()).threads_may_change().files_may_change();
    let waiting = Waiting::start(target.pid(), &["--on", trigger]);
    then();
    let (result, _folder, all) = waiting.finish();
    survival.assert_unharmed();
    let dumps = result["dumps"].as_array().unwrap();
    assert_eq!(dumps.len(), 1, "{trigger}: {all}");
    assert_eq!(dumps[0]["whole"], true, "{trigger}: {all}");
    (dumps[0].clone(), all)
}

#[test]
fn bounds_of_memory_threads_and_files_fire() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    for (program, trigger, word) in [
        (Program::RunawayThreads, "threads>25", "threads"),
        (Program::MemoryGrowth, "memory>40M", "memory"),
        (Program::Idle, "fds>2", "descriptors"),
    ] {
        let mut target = TargetProcess::start(program, &[]);
        let (dump, all) = fired(&target, trigger, || {});
        let reason = dump["reason"].as_str().unwrap_or_default();
        assert!(reason.contains(word) || reason.contains("file"), "{trigger}: {reason}: {all}");
        assert_eq!(dump["method"], "copy-on-write", "{trigger}: {all}");
        target.stop();
    }
}

#[test]
fn a_line_of_a_log_fires() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let logs = temp_dir("log");
    let log = logs.path().join("app.log");
    std::fs::write(&log, "ERROR of yesterday\n").unwrap();
    let mut target = TargetProcess::start(Program::Idle, &[]);
    let trigger = format!("log:{}:ERROR [0-9]+", log.display());
    let (dump, all) = fired(&target, &trigger, || {
        std::thread::sleep(Duration::from_millis(500));
        let mut text = std::fs::OpenOptions::new().append(true).open(&log).unwrap();
        std::io::Write::write_all(&mut text, b"all is well\nERROR 4711 password=hunter2-Zk9x\n").unwrap();
    });
    let reason = dump["reason"].as_str().unwrap_or_default();
    assert!(!reason.contains("hunter2"), "a secret of the log is in the reason: {reason}");
    assert!(all.contains("4711") || reason.contains("ERROR"), "{all}");
    target.stop();
}

#[test]
fn a_crash_is_dumped_before_it_happens_and_happens_as_it_would_have() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    for (how, name, number) in [("null", "SIGSEGV", 11), ("abort", "SIGABRT", 6)] {
        let mut target = TargetProcess::start(Program::Crashes, &[how]);
        let waiting = Waiting::start(target.pid(), &["--on", "crash"]);
        target.say("now");
        let (result, folder, all) = waiting.finish();
        let status = target.wait_for_exit(PATIENCE).expect("it died");
        assert_eq!(status.signal(), Some(number), "{how}: {all}");
        let dumps = result["dumps"].as_array().unwrap();
        assert_eq!((dumps.len(), &dumps[0]["method"]), (1, &Value::from("held")), "{how}: {all}");
        assert_eq!(dumps[0]["whole"], true, "{how}: {all}");
        let report = std::fs::read_to_string(folder.path().join("dump/report.json")).unwrap();
        assert!(report.contains(name) && report.contains("crash_here"), "{how}: {report}");
    }
}

#[test]
fn children_that_live_for_a_millisecond_are_dumped_at_their_end() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let mut target = TargetProcess::start(Program::Launcher, &[]);
    let survival = Survival::before(target.pid()).threads_may_change().files_may_change();
    let waiting =
        Waiting::start(target.pid(), &["--wait-for", "short-lived", "--on", "exit", "--count", "30"]);
    // All at once: parents that wait for copies, not for dumps.
    target.say(&format!("-30 0 1280 {} 5", Program::ShortLived.path().display()));
    let done = target.line_starting_with("DONE", PATIENCE).expect("all children end");
    assert!(done.starts_with("DONE as-expected 30 of 30"), "{done}");
    let (result, folder, all) = waiting.finish();
    survival.assert_unharmed();
    let dumps = result["dumps"].as_array().unwrap();
    assert_eq!(dumps.len(), 30, "{all}");
    assert!(all.contains("30 followed, 30 caught, 0 missed"), "{all}");
    for dump in dumps {
        assert_eq!((&dump["whole"], &dump["method"]), (&true.into(), &"held".into()), "{all}");
        assert_eq!(dump["reason"], "it ended with exit code 5", "{all}");
    }
    // One report has them all.
    let report = std::fs::read(folder.path().join("dump/report.json")).unwrap();
    let report: Value = serde_json::from_slice(&report).unwrap();
    let reported = report["dumps"].as_array().unwrap();
    let pids = |dumps: &[Value], pid: fn(&Value) -> &Value| -> BTreeSet<u64> {
        dumps.iter().filter_map(|dump| pid(dump).as_u64()).collect()
    };
    assert_eq!(pids(reported, |dump| &dump["identity"]["pid"]), pids(dumps, |dump| &dump["pid"]));
    assert!(folder.path().join("dump/report.html").is_file());
    target.stop();
}

#[test]
fn only_children_that_fail_are_dumped_when_that_is_asked_for() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let mut target = TargetProcess::start(Program::Launcher, &[]);
    let waiting = Waiting::start(target.pid(), &["--wait-for", "short-lived", "--on", "exit!=0"]);
    let program = Program::ShortLived.path();
    target.say(&format!("3 1000 0 {} 0", program.display()));
    assert!(target.line_starting_with("DONE as-expected 3 of 3", PATIENCE).is_some());
    target.say(&format!("1 0 6 {} abort", program.display()));
    let (result, _folder, all) = waiting.finish();
    assert!(target.line_starting_with("DONE as-expected 1 of 1", PATIENCE).is_some());
    let dumps = result["dumps"].as_array().unwrap();
    assert_eq!(dumps.len(), 1, "{all}");
    assert!(dumps[0]["reason"].as_str().is_some_and(|reason| reason.contains("SIGABRT")), "{all}");
    target.stop();
}
