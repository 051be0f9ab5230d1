//! Signals to biopsy: what it holds is released in order, what it leaves is named, and the target never stands still with it.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use biopsy_testkit::{
    Privilege, Program, Signal, Survival, TargetProcess, machine_to_myself, require_all, send_signal,
    temp_dir,
};

use crate::support::{analyze, biopsy, said};

const LIVE: &[Privilege] = &[Privilege::Cc, Privilege::Ptrace];
const PATIENCE: Duration = Duration::from_secs(60);

/// Those that end it. Under nohup(1) the end of the terminal is none of them: that is what was asked for.
fn signals() -> impl Iterator<Item = Signal> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
    let ignored = u64::from_str_radix(ignored, 16).unwrap();
    let all = [Signal::INT, Signal::TERM, Signal::HUP];
    all.into_iter().filter(move |signal| ignored & (1 << (signal.as_raw() - 1)) == 0)
}

/// Ends with this value.
struct Run(Child);

impl Drop for Run {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Run {
    /// In a process group of its own, as a shell starts it.
    fn start(arguments: &[&str], folder: &Path) -> Self {
        let mut command = biopsy(arguments);
        command.current_dir(folder).env("TMPDIR", folder).process_group(0);
        Self(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    fn signal(&self, signal: Signal) {
        assert!(send_signal(self.0.id(), signal), "it has ended before");
    }

    /// Its end, without reading what it says.
    #[track_caller]
    fn ended(&mut self) -> ExitStatus {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            assert!(begin.elapsed() < PATIENCE, "it did not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn errors(&mut self) -> String {
        let mut text = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        text
    }
}

/// Children of all threads of a process, ended ones too.
fn children(pid: u32) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| list.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn state(pid: u32) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1[..1].to_owned()
}

#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "{what} did not come true");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Nobody reads its pipe, so that it would hold the copy for ever.
#[test]
fn a_dump_whose_reader_stalls_ends_and_leaves_nothing_in_the_target() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let target = TargetProcess::start(Program::SelfChecking, &["32"]);
    let pid = target.pid().to_string();
    let survival = Survival::before(target.pid());
    for signal in signals() {
        let folder = temp_dir("stalled");
        let mut run = Run::start(&["dump", "-q", "--raw", "-o", "-", &pid], folder.path());
        let mut first = [0];
        run.0.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
        run.signal(signal);
        let status = run.ended();
        let errors = run.errors();
        assert_eq!(status.code(), Some(3), "{signal:?}: {status}: {errors}");
        assert!(errors.contains("stopped by a signal"), "{errors}");
        assert_eq!(children(target.pid()), [""; 0], "{signal:?}");
        assert_eq!(names(folder.path()), [""; 0], "{signal:?}");
        survival.assert_unharmed();
    }
}

#[test]
fn a_dump_into_a_file_is_kept_as_a_part_or_not_at_all() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let target = TargetProcess::start(Program::SelfChecking, &["64"]);
    let pid = target.pid().to_string();
    let survival = Survival::before(target.pid());
    for signal in signals() {
        let folder = temp_dir("part");
        let mut run = Run::start(&["dump", "--level", "19", "-o", "x.core.zst", &pid], folder.path());
        until("the copy is there", || {
            folder.path().join("x.core.zst.partial").metadata().is_ok_and(|meta| meta.len() > 0)
                || folder.path().join("x.core.zst").exists()
        });
        // It may have been faster.
        let _ = send_signal(run.0.id(), signal);
        let status = run.ended();
        let errors = run.errors();
        assert_eq!(children(target.pid()), [""; 0], "{signal:?}");
        survival.assert_unharmed();
        let left = names(folder.path());
        match status.code() {
            Some(0) => assert_eq!(left, ["x.core.zst"]),
            Some(3) => {
                assert!(left.is_empty() || left == ["x.core.zst.partial"], "{left:?}");
                assert!(left.iter().all(|name| errors.contains(name.as_str())), "{left:?}: {errors}");
            }
            _ => panic!("{signal:?}: {status}: {errors}"),
        }
    }
}

#[test]
fn a_dump_into_a_recording_says_that_it_is_a_part() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let target = TargetProcess::start(Program::SelfChecking, &["64"]);
    let pid = target.pid().to_string();
    let survival = Survival::before(target.pid());
    let folder = temp_dir("recording");
    let mut run = Run::start(&["dump", "--level", "19", "--json", "-o", "x", &pid], folder.path());
    until("the copy is there", || {
        let dumps = std::fs::read_dir(folder.path().join("x/dumps")).into_iter().flatten().flatten();
        dumps.into_iter().any(|file| file.metadata().is_ok_and(|meta| meta.len() > 0))
    });
    run.signal(Signal::TERM);
    let status = run.ended();
    let mut out = String::new();
    run.0.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    let errors = run.errors();
    assert!(matches!(status.code(), Some(0 | 3)), "{status}: {errors}");
    assert_eq!(children(target.pid()), [""; 0]);
    survival.assert_unharmed();
    let result: serde_json::Value =
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {errors}"));
    // With code 0 the dump was whole before the signal came.
    assert_eq!(result["dumps"][0]["whole"] == true, status.code() == Some(0), "{result:#}");
    let member = result["dumps"][0]["core"].as_str().unwrap();
    assert_eq!(member.ends_with(".partial"), status.code() == Some(3), "{result:#}");
    assert!(folder.path().join("x").join(member).exists(), "{member}");
}

#[test]
fn stacks_that_are_broken_off_leave_nothing_in_the_target() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let target = TargetProcess::start(Program::LockConvoy, &[]);
    let pid = target.pid().to_string();
    let survival = Survival::before(target.pid());
    let folder = temp_dir("stacks");
    let mut signals = signals().collect::<Vec<_>>().into_iter().cycle();
    for number in 0..15_u64 {
        let mut run = Run::start(&["stacks", &pid], folder.path());
        std::thread::sleep(Duration::from_millis(number * 8));
        let _ = send_signal(run.0.id(), signals.next().unwrap());
        let status = run.ended();
        // Before it listens, a signal ends it as any program; then nothing was touched.
        assert!(matches!(status.code(), None | Some(0 | 3)), "{status}: {}", run.errors());
        assert_eq!(children(target.pid()), [""; 0], "after {} ms", number * 8);
    }
    survival.assert_unharmed();
}

#[test]
fn what_a_capture_leaves_is_named_and_opens() {
    if !require_all(&[Privilege::Cc, Privilege::Perf, Privilege::Bpf]) {
        return;
    }
    let _machine = machine_to_myself();
    let target = TargetProcess::start(Program::LockConvoy, &[]);
    let pid = target.pid().to_string();
    let survival = Survival::before(target.pid());
    for (after, again) in [(0, None), (300, None), (300, Some(0)), (900, Some(30)), (900, Some(300))] {
        let folder = temp_dir("left");
        let mut run = Run::start(&["capture", "--for", "60s", "-o", "out.zip", &pid], folder.path());
        std::thread::sleep(Duration::from_millis(after));
        run.signal(Signal::TERM);
        if let Some(again) = again {
            std::thread::sleep(Duration::from_millis(again));
            let _ = send_signal(run.0.id(), Signal::INT);
        }
        let status = run.ended();
        let mut text = String::new();
        run.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        text += &run.errors();
        let left = names(folder.path());
        assert!(left.len() <= 1, "{after} {again:?}: {left:?}: {text}");
        for name in &left {
            assert!(text.contains(name.as_str()), "{after} {again:?}: {name} is not named: {text}");
            analyze(&folder.path().join(name));
        }
        assert!(!left.is_empty() || status.code() != Some(0), "{after} {again:?}: {status}: {text}");
        survival.assert_unharmed();
    }
}

#[test]
fn ctrl_z_waits_until_the_copy_is_released() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let target = TargetProcess::start(Program::SelfChecking, &["32"]);
    let survival = Survival::before(target.pid());
    let folder = temp_dir("ctrl-z");
    let pid = target.pid().to_string();
    let mut run = Run::start(&["dump", "-q", "--raw", "-o", "-", &pid], folder.path());
    let mut out = run.0.stdout.take().unwrap();
    out.read_exact(&mut [0]).unwrap();
    run.signal(Signal::TSTP);
    // It still writes, and when nothing is held any more it is suspended.
    let mut rest = Vec::new();
    let reader = std::thread::spawn(move || out.read_to_end(&mut rest).map(|_| rest.len()));
    until("it is suspended", || state(run.0.id()) == "T");
    assert_eq!(children(target.pid()), [""; 0]);
    survival.assert_unharmed();
    run.signal(Signal::CONT);
    assert_eq!(run.ended().code(), Some(0), "{}", run.errors());
    assert!(reader.join().unwrap().unwrap() > 32 << 20);
}

#[test]
fn ctrl_z_does_not_suspend_whoever_follows_a_process() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let mut target = TargetProcess::start(Program::SignalStorm, &[]);
    let survival = Survival::before(target.pid());
    let folder = temp_dir("ctrl-z-wait");
    let pid = target.pid().to_string();
    let mut run = Run::start(&["dump", "--on", "crash", "-o", "x", &pid], folder.path());
    let mut errors = BufReader::new(run.0.stderr.take().unwrap());
    let mut line = String::new();
    let mut hear = |wanted: &str| {
        while !line.contains(wanted) {
            line.clear();
            assert!(errors.read_line(&mut line).unwrap() > 0, "it has ended");
        }
    };
    hear("waiting for");
    run.signal(Signal::TSTP);
    hear("is not suspended while it follows a process");
    // Each of its signals stops it until biopsy passes it on.
    for _ in 0..3 {
        assert!(target.ask("", "DID", PATIENCE).is_some(), "it stands still");
    }
    run.signal(Signal::INT);
    assert_eq!(run.ended().code(), Some(3));
    assert_eq!(names(folder.path()), [""; 0]);
    survival.assert_unharmed();
}

/// nohup(1) asks for going on.
#[test]
fn a_hangup_that_is_ignored_stays_so() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let target = TargetProcess::start(Program::SelfChecking, &["32"]);
    let folder = temp_dir("nohup");
    let mut command = std::process::Command::new("sh");
    let script = "trap '' HUP; exec \"$0\" dump -q --raw -o - \"$1\"";
    command.args(["-c", script, env!("CARGO_BIN_EXE_biopsy"), &target.pid().to_string()]);
    command.current_dir(folder.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut run = Run(command.spawn().unwrap());
    run.0.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    run.signal(Signal::HUP);
    let mut child = std::mem::replace(&mut run.0, std::process::Command::new("true").spawn().unwrap());
    let mut rest = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut rest).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && rest.len() > 32 << 20, "{}", said(&output));
}
