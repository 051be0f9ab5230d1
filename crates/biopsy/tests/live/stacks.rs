//! `biopsy stacks` as a user types it: the cause is named, and the target is unharmed.

use std::process::Command;
use std::time::{Duration, Instant};

use biopsy_testkit::{
    DOTNET_RUNTIMES, DotNetServer, Privilege, Program, Survival, TargetProcess, at_once, compile_c,
    dotnet_held, dotnet_odd, require_all, temp_dir,
};
use serde_json::Value;

use crate::support::{biopsy, capture, complaint, said};

const DOTNET: &[Privilege] = &[Privilege::DotNetTargets, Privilege::Ptrace];

#[track_caller]
fn stacks(pid: u32, more: &[&str]) -> String {
    let output = biopsy(["stacks", &pid.to_string(), "--max-pause", "10s"]).args(more).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn report(pid: u32) -> Value {
    let text = stacks(pid, &["--json"]);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[track_caller]
fn assert_says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "`{word}` is missing:\n{text}");
    }
}

#[test]
fn a_tree_is_shown_parents_before_children() {
    if !require_all(&[Privilege::Ptrace]) {
        return;
    }
    let mut command = Command::new("sh");
    // The child ends with its parent, which reads what nobody writes.
    command.args(["-c", "sleep 120 & echo READY $$; read line; kill $!"]);
    let mut target = TargetProcess::spawn(command);
    let survival = Survival::before_when_settled(target.pid());
    let text = stacks(target.pid(), &["--tree"]);
    let (parent, child) = (text.find("sh (pid "), text.find("sleep (pid "));
    assert!(parent.is_some() && parent < child, "{text}");
    let json: Value = serde_json::from_str(&stacks(target.pid(), &["--tree", "--json"])).unwrap();
    assert_eq!(json["dumps"].as_array().map(Vec::len), Some(2), "{json:#}");
    survival.assert_unharmed();
    target.stop();
}

#[test]
fn deadlocks_of_managed_code_are_named_with_threads_objects_and_methods() {
    if !require_all(DOTNET) {
        return;
    }
    at_once(DOTNET_RUNTIMES, |version| {
        let server = DotNetServer::sick(version, "deadlock-monitor");
        server.fall_ill("deadlock-lock");
        let survival = Survival::before(server.pid()).threads_may_change().files_may_change();
        let report = report(server.pid());
        survival.assert_unharmed();
        server.stop();
        let finding = &report["findings"][0];
        assert_eq!(finding["id"], "deadlock", "{version}: {finding:#}");
        let lock = if version == "net8.0" { "System.Object" } else { "System.Threading.Lock" };
        let words = [
            "deploy-worker",
            "release-worker",
            "channel-worker",
            "lifecycle-worker",
            "DeploymentLock",
            "ReleaseLock",
            "LockDeploymentThenRelease",
            "LockReleaseThenDeployment",
            "LockChannelsThenLifecycles",
            "LockLifecyclesThenChannels",
            lock,
        ];
        assert_says(&finding.to_string(), &words);
        assert_eq!(report["dumps"][0]["waits"]["cycles"].as_array().map(Vec::len), Some(2), "{version}");
    });
}

/// Two processes that each write to the other, and read nothing: live, and from a dump of both.
#[test]
fn processes_that_wait_for_each_other_are_named_live_and_in_dumps() {
    if !require_all(&[Privilege::Cc, Privilege::Ptrace]) {
        return;
    }
    let source = include_str!("../../../biopsy-testkit/programs/across.c");
    let folder = temp_dir("across");
    let mut command = Command::new(compile_c("across", source, &["-O2"]));
    command.args(["child", "unused"]);
    let mut target = TargetProcess::spawn(command);
    let child = target.ready_line().split_ascii_whitespace().nth(2).unwrap().to_owned();
    let finding = |report: &Value| -> Value {
        let all = report["findings"].as_array().unwrap();
        let across = |one: &&Value| matches!(one["id"].as_str(), Some("deadlock" | "waits-for-process"));
        all.iter().find(across).unwrap_or_else(|| panic!("{report:#}")).clone()
    };
    // The child blocks a moment after the parent is ready.
    let until = Instant::now() + Duration::from_secs(20);
    let live = loop {
        let report = report(target.pid());
        if report["dumps"][0]["across"]["circles"][0]["steps"].is_array() || Instant::now() > until {
            break report;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let found = finding(&live);
    assert_eq!((&found["id"], &found["severity"]), (&"deadlock".into(), &"critical".into()), "{found:#}");
    assert_says(&found.to_string(), &[&child, "the end of child process", "data in the pipe"]);
    let file = folder.path().join("both.zip");
    let output = biopsy(["dump", "--tree", &target.pid().to_string(), "-o"]).arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let analyzed = biopsy(["analyze", "--json", "--symbols", "/"]).arg(&file).output().unwrap();
    let report: Value = serde_json::from_slice(&analyzed.stdout).unwrap();
    assert_eq!(finding(&report)["id"], "deadlock", "{}", finding(&report));
    target.signal(biopsy_testkit::Signal::TERM);
    target.wait_for_exit(Duration::from_secs(10));
}

#[test]
fn threads_that_stand_still_are_shown_with_what_they_hold_and_wait_for() {
    if !require_all(DOTNET) {
        return;
    }
    // A process that is stopped by a signal does not answer its diagnostics port; its stacks are read all the same.
    let mut target = dotnet_held("net10.0", &["threads=40"]);
    target.signal(biopsy_testkit::Signal::STOP);
    let text = stacks(target.pid(), &["--frames", "100"]);
    let native = stacks(target.pid(), &["--native", "--no-heap", "--frames", "100"]);
    target.signal(biopsy_testkit::Signal::CONT);
    target.stop();
    assert_says(
        &text,
        &[
            "holds the monitor of Held.OnceLock",
            "holds the monitor of Held.ThriceLock",
            "waits for the monitor of Held.WantedLock",
            "held by hold-wanted",
            "waits for a pulse of the monitor of Held.PulseLock",
            "40 ×  blocked-* ×40",
            "Held.Program.Pause",
            "Held.Program.CalledBack",
            "last exception: System.FormatException",
        ],
    );
    assert!(!text.contains("[InlinedCallFrame]"), "{text}");
    assert_says(
        &native,
        &["[FaultingExceptionFrame]", "[InlinedCallFrame]", "holds the monitor of Held.OnceLock"],
    );
}

#[test]
fn native_programs_have_stacks_too() {
    if !require_all(&[Privilege::Cc, Privilege::Ptrace]) {
        return;
    }
    let mut target = TargetProcess::start(Program::LockConvoy, &[]);
    let survival = Survival::before(target.pid());
    let text = stacks(target.pid(), &["--all"]);
    survival.assert_unharmed();
    target.stop();
    assert_says(&text, &["append_under_lock"]);
}

/// Of a deadlock nobody runs; in a queue that moves on everybody does, though all wait at each look.
#[test]
fn several_looks_tell_who_is_stuck_from_who_waits_anew() {
    if !require_all(&[Privilege::Cc, Privilege::Ptrace]) {
        return;
    }
    let several = &["--looks", "3", "--every", "300ms", "--json"];
    for (program, id, moving) in
        [(Program::Deadlock, Some("deadlock"), false), (Program::LockConvoy, None, true)]
    {
        let mut target = TargetProcess::start(program, &[]);
        let survival = Survival::before(target.pid());
        let text = stacks(target.pid(), several);
        survival.assert_unharmed();
        target.stop();
        let report: Value = serde_json::from_str(&text).unwrap();
        let dump = &report["dumps"][0];
        assert_eq!(dump["looks"]["count"], 3, "{program:?}");
        assert_eq!(dump["looks"]["pauses_ns"].as_array().map(Vec::len), Some(3), "{program:?}");
        let workers: Vec<&str> = dump["threads"].as_array().unwrap()[1..]
            .iter()
            .filter_map(|thread| thread["movement"].as_str())
            .collect();
        assert!(
            workers.len() >= 2 && workers.iter().all(|one| (*one != "stuck") == moving),
            "{program:?}: {workers:?}"
        );
        let found = report["findings"][0]["id"].as_str();
        assert!(id.is_none_or(|id| found == Some(id)), "{program:?}: {found:?}");
        if moving {
            let hangs = report["findings"].as_array().unwrap().iter();
            let worst = hangs.filter(|one| one["severity"] == "warning" || one["severity"] == "critical");
            assert_eq!(worst.count(), 0, "{program:?}: {report:#}");
        }
    }
}

/// A stop ends such a wait, and the kernel takes it up again under another name: every look after the first sees that.
#[test]
fn waits_with_a_limit_are_known_at_every_look() {
    if !require_all(&[Privilege::Cc, Privilege::Ptrace]) {
        return;
    }
    let program = compile_c("timed", include_str!("timed.c"), &["-O1"]);
    let mut target = TargetProcess::spawn(Command::new(program));
    let survival = Survival::before(target.pid());
    let expected = [
        ("timed", "waits for descriptor 0"),
        ("condition", "condition variable"),
        ("semaphore", "semaphore"),
        ("pipe", "waits for descriptor"),
        ("asleep", "sleeps"),
    ];
    for look in 1..=3 {
        let report = report(target.pid());
        for (name, words) in expected {
            let all = report["dumps"][0]["threads"].as_array().unwrap();
            let thread = all.iter().find(|thread| thread["name"] == name).expect("is there");
            assert!(thread.to_string().contains(words), "look {look}: `{words}` is missing: {thread:#}");
            assert!(!thread.to_string().contains("interrupted"), "look {look}: {thread:#}");
        }
    }
    survival.assert_unharmed();
    target.stop();
}

#[test]
fn a_process_that_is_not_there_is_said_to_be_missing() {
    let text = complaint(&mut biopsy(["stacks", "no-such-process-anywhere"]));
    assert!(text.contains("no-such-process-anywhere"), "{text}");
}

/// Of a type, of a type that can be unloaded, of no type.
#[test]
fn methods_that_were_made_at_run_time_are_named() {
    if !require_all(DOTNET) {
        return;
    }
    at_once(DOTNET_RUNTIMES, |version| {
        let command = dotnet_odd(version, &["asleep=1"]).expect("the targets are there");
        let target = TargetProcess::spawn(command);
        let survival = Survival::before(target.pid()).threads_may_change();
        let text = stacks(target.pid(), &[]);
        survival.assert_unharmed();
        assert_says(
            &text,
            &["Made.AsleepRun0.Sleep", "Made.AsleepRunAndCollect0.Sleep", "SleepOfNoType0 (dynamic)"],
        );
    });
}

/// Names and codes of what a capture warned of.
fn warnings(report: &Value) -> String {
    report["warnings"].as_array().into_iter().flatten().map(|one| format!("{one}\n")).collect()
}

#[test]
fn a_capture_of_what_does_not_move_looks_at_its_memory_once_and_harms_nothing() {
    if !require_all(&[Privilege::Cc, Privilege::Perf, Privilege::Bpf, Privilege::Ptrace]) {
        return;
    }
    let mut target = TargetProcess::start(Program::Deadlock, &[]);
    let survival = Survival::before_when_settled(target.pid());
    let captured = capture(target.pid(), "3s", &[]);
    survival.assert_unharmed();
    let warned = warnings(&captured.report);
    if warned.contains("stacks.not-taken") {
        // On a machine that is too slow for 5 ms it is said, and what would look at it.
        assert!(warned.contains("though it did not move") && warned.contains("--stacks"), "{warned}");
    } else {
        assert_eq!(captured.report["findings"][0]["id"], "deadlock", "{:#}", captured.report["findings"]);
        assert!(warned.contains("frozen once at the end"), "{warned}");
        assert!(captured.said.contains("stood still once at the end"), "{}", captured.said);
        assert_eq!(warned.matches("stacks.unasked").count(), 1, "{warned}");
    }
    // Forbidden, it is left alone.
    let captured = capture(target.pid(), "3s", &["--never-stop"]);
    survival.assert_unharmed();
    let warned = warnings(&captured.report);
    assert!(!warned.contains("stacks."), "{warned}");
    assert!(!captured.said.contains("stood still"), "{}", captured.said);
    assert_ne!(captured.report["findings"][0]["id"], "deadlock", "{:#}", captured.report["findings"]);
    target.stop();
}

#[test]
fn a_capture_of_what_is_busy_stops_nothing() {
    if !require_all(&[Privilege::Cc, Privilege::Perf, Privilege::Bpf, Privilege::Ptrace]) {
        return;
    }
    let mut target = TargetProcess::start(Program::HotFunction, &[]);
    let survival = Survival::before_when_settled(target.pid());
    let captured = capture(target.pid(), "3s", &[]);
    survival.assert_unharmed();
    assert!(!warnings(&captured.report).contains("stacks."), "{}", warnings(&captured.report));
    assert!(!captured.said.contains("stood still"), "{}", captured.said);
    target.stop();
}

#[test]
fn the_end_of_a_capture_is_said_beforehand() {
    if !require_all(&[Privilege::Cc, Privilege::Ptrace]) {
        return;
    }
    let mut target = TargetProcess::start(Program::Deadlock, &[]);
    let said = |more: &[&str]| {
        let pid = target.pid().to_string();
        let output = biopsy(["capture", &pid, "--dry-run"]).args(more).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let unasked = said(&[]);
    assert!(unasked.contains("if nothing moved") || unasked.contains("would not be frozen"), "{unasked}");
    assert!(said(&["--never-stop"]).contains("no process is stopped"));
    assert!(!said(&["--stacks"]).contains("if nothing moved"));
    let json: Value = serde_json::from_str(&said(&["--json"])).unwrap();
    assert_eq!(json["stacks"]["wish"], "where-nothing-moves", "{json:#}");
    target.stop();
}
