//! Runtimes that cannot be asked: switched off, stopped or suspended.

use std::process::Stdio;
use std::time::{Duration, Instant};

use biopsy_testkit::{
    Privilege, Signal, Survival, TargetProcess, packaged_dotnet_command, packaged_dotnet_target, require_all,
};

use crate::support::{biopsy, capture};

const LIVE: &[Privilege] = &[Privilege::Perf, Privilege::Bpf, Privilege::DotNet31];

/// No events, and everything that needs no help of the runtime.
#[test]
fn without_a_port_there_are_named_stacks_and_a_reason() {
    if !require_all(LIVE) {
        return;
    }
    let Some((mut command, _)) = packaged_dotnet_command("9", &["leak=1", "rest=1"]) else { return };
    command.env("DOTNET_EnableDiagnostics", "0");
    let target = TargetProcess::spawn(command);
    let survival = Survival::before(target.pid());
    let captured = capture(target.pid(), 2, &[]);
    survival.assert_unharmed();
    assert!(captured.warnings().contains("DOTNET_EnableDiagnostics=0"), "{}", captured.warnings());
    assert_eq!(captured.report["runtimes"].as_array().map_or(0, Vec::len), 0);
    assert!(captured.report["functions"].to_string().contains("Sick.Hot.Burn"), "{}", captured.warnings());
    // A trigger that needs the port is refused, with the same reason, and not waited for.
    let output = biopsy(&["capture", &target.pid().to_string(), "--on", "gc-heap>1G"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("DOTNET_EnableDiagnostics=0"), "{text}");
    survival.assert_unharmed();
}

/// Nothing answers, and nothing is waited for for long: it stays stopped, and goes on when it is let go.
#[test]
fn one_that_is_stopped_stays_so_and_is_recorded_as_far_as_that_goes() {
    if !require_all(LIVE) {
        return;
    }
    let Some((target, _)) = packaged_dotnet_target("10", &["leak=1"]) else { return };
    target.signal(Signal::STOP);
    let state = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", target.pid())).unwrap();
        stat[stat.rfind(')').unwrap() + 2..].chars().next()
    };
    while state() != Some('T') {
        std::thread::sleep(Duration::from_millis(5));
    }
    let captured = capture(target.pid(), 1, &[]);
    assert_eq!(state(), Some('T'), "it is as it was");
    assert!(captured.warnings().contains("stopped"), "{}\n{}", captured.warnings(), captured.said);
    target.signal(Signal::CONT);
    // Nothing of what was asked meanwhile is left on.
    let sessions = || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", target.pid())).unwrap();
        let names = tasks.flatten().filter_map(|task| std::fs::read(task.path().join("comm")).ok());
        names.filter(|name| name.starts_with(b".NET EventPipe")).count()
    };
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut quiet_since = Instant::now();
    while quiet_since.elapsed() < Duration::from_millis(1500) {
        assert!(Instant::now() < deadline, "{} sessions are on", sessions());
        if sessions() > 1 {
            quiet_since = Instant::now();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// It waits at its start for a tool that lets it go on. We are not that tool: somebody else asked for the waiting.
#[test]
fn one_that_is_suspended_at_its_start_is_not_let_go() {
    if !require_all(LIVE) {
        return;
    }
    for version in ["9", "10"] {
        let Some((mut command, _)) = packaged_dotnet_command(version, &["leak=1"]) else { continue };
        command.env("DOTNET_DefaultDiagnosticPortSuspend", "1");
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // Its diagnostics server is the first thread it starts.
        let deadline = Instant::now() + Duration::from_secs(20);
        let threads = || std::fs::read_dir(format!("/proc/{}/task", child.id())).map_or(0, Iterator::count);
        while threads() < 2 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        let captured = capture(child.id(), 1, &[]);
        let managed = threads();
        let _ = child.kill();
        let _ = child.wait();
        assert!(managed < 8, "{version}: it still waits, with {managed} threads");
        let all = format!("{}\n{}", captured.warnings(), captured.report["runtimes"]);
        assert!(!all.contains("panicked"), "{all}");
    }
}
