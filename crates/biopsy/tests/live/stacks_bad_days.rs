//! `biopsy stacks` of .NET programs that begin, end, collect garbage, or have no diagnostics port.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use biopsy_testkit::{
    DOTNET_RUNTIMES, Privilege, Survival, TargetProcess, at_once, dotnet_command, dotnet_target, require_all,
};

use crate::support::{biopsy, said};

const DOTNET: &[Privilege] = &[Privilege::DotNetTargets, Privilege::Ptrace];

/// Ends with this value.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Looked at before it has said that it is ready, and until after its end: stacks, or words that say why there are none.
#[test]
fn one_that_begins_and_ends_is_shown_or_said_to_be_gone() {
    if !require_all(DOTNET) {
        return;
    }
    at_once(DOTNET_RUNTIMES, |version| {
        let mut command = dotnet_command(version, "holder", &["--objects", "1000"]).expect("it is there");
        command.env("DOTNET_EnableDiagnostics", "0").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = Ends(command.spawn().expect("it starts"));
        let pid = child.0.id().to_string();
        for _ in 0..2 {
            let output = biopsy(["stacks", &pid, "--max-pause", "10s"]).output().unwrap();
            assert!(output.status.success() && !output.stdout.is_empty(), "{version}: {}", said(&output));
        }
        let mut line = String::new();
        BufReader::new(child.0.stdout.take().expect("a pipe")).read_line(&mut line).unwrap();
        assert!(line.starts_with("READY"), "{version}: it started as ever: {line}");
        // No port, and no need of one.
        let output = biopsy(["stacks", &pid, "--max-pause", "10s"]).output().unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).contains("Main"), "{version}: {}", said(&output));
        let killed = std::process::Command::new("kill").arg(&pid).status().unwrap();
        assert!(killed.success());
        loop {
            let output = biopsy(["stacks", &pid, "--max-pause", "10s"]).output().unwrap();
            if !output.status.success() {
                // The main thread may be the first to go.
                let words = said(&output);
                let ends = ["has ended", "has lost its main thread"].iter().any(|end| words.contains(end));
                assert!(ends, "{version}: {words}");
                break;
            }
        }
        assert_eq!(child.0.wait().unwrap().code(), Some(0), "{version}: it ended as ever");
    });
}

/// In the middle of a collection: it is frozen again, a few times at most.
#[test]
fn one_that_collects_without_pause_is_shown() {
    if !require_all(DOTNET) {
        return;
    }
    let target: TargetProcess = dotnet_target("net9.0", "holder", &["--objects", "20000", "--mutate"]);
    let survival = Survival::before(target.pid()).threads_may_change().files_may_change();
    for _ in 0..3 {
        let pid = target.pid().to_string();
        let output = biopsy(["stacks", &pid, "--max-pause", "10s"]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("Main"), "{}", said(&output));
    }
    survival.assert_unharmed();
}
