//! The agent of the .NET targets, which writes down what it starts: no child of it is lost.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use biopsy_image::Image;
use biopsy_target::catch::{CatchOn, CatchOptions, Catcher, Way};
use biopsy_testkit::{Privilege, Survival, TargetProcess, dotnet_run, require_all};

use super::key;

const NEEDED: [Privilege; 3] = [Privilege::Root, Privilege::Ptrace, Privilege::DotNetTargets];
/// How long the agent works.
const WORK: Duration = Duration::from_secs(12);

/// Children that the truth file names: pid, and whether its end is written down, with the exit code.
fn truth(path: &std::path::Path) -> BTreeMap<u32, Option<i64>> {
    let mut children = BTreeMap::new();
    for line in std::fs::read_to_string(path).unwrap_or_default().lines() {
        let number = |name: &str| -> Option<i64> {
            let (_, rest) = line.split_once(&format!("\"{name}\":"))?;
            let rest = rest.trim_start();
            rest.split([',', '}']).next()?.trim().parse().ok()
        };
        let Some(pid) = number("pid").and_then(|pid| u32::try_from(pid).ok()) else { continue };
        if line.contains("\"start\"") {
            children.entry(pid).or_insert(None);
        } else if line.contains("\"exit\"") {
            children.insert(pid, number("exitCode").or_else(|| number("code")));
        }
    }
    children
}

fn no_child_is_lost(mode: &str, way: Way) {
    if !require_all(&NEEDED) {
        return;
    }
    let folder = biopsy_testkit::temp_dir("agent");
    let truth_file = folder.path().join("truth");
    let mut command = Command::new(dotnet_run().unwrap());
    command.args(["net10.0", "tentacle", "--mode", mode, "--interval", "500", "--burst", "6", "--truth"]);
    command.arg(&truth_file).env("TMPDIR", folder.path());
    // It ends on SIGTERM; its first child starts half a second later at the earliest, so that none is before us.
    let agent = TargetProcess::spawn(command);
    let mut options = CatchOptions::new("calamari", CatchOn::EXIT).below(key(agent.pid()));
    (options.way, options.max_held, options.max_waiting) = (way, 8, 64);
    let mut catcher = Catcher::new(&options).unwrap();
    // What it had started by then is not meant.
    std::thread::sleep(Duration::from_millis(200));
    // Its first child makes it handle SIGCHLD.
    let survival = Survival::before(agent.pid()).threads_may_change().files_may_change();
    let before = truth(&truth_file);
    let begun = Instant::now();
    let mut caught = BTreeMap::new();
    while begun.elapsed() < WORK {
        let Some(child) = catcher.next(Duration::from_millis(200)).unwrap() else { continue };
        assert!(
            child.modules().iter().any(|module| module.path.ends_with(b"libcoreclr.so"))
                || child.mappings().len() < 100
        );
        caught.insert(child.key().pid.0, (child.exit_code(), child.signal()));
    }
    // Before it is closed: who is held then is let go, and ends without having been handed out.
    let after = truth(&truth_file);
    let statistics = catcher.statistics();
    catcher.finish();
    survival.assert_unharmed();
    drop(agent);
    let ended: BTreeMap<u32, Option<i64>> =
        after.into_iter().filter(|(pid, code)| code.is_some() && !before.contains_key(pid)).collect();
    assert!(ended.len() >= 4, "the agent starts several in that time: {}", ended.len());
    for (pid, code) in &ended {
        let Some((exit, signal)) = caught.get(pid) else {
            panic!("child {pid} (exit {code:?}) of {} was not caught: {statistics:?}", ended.len())
        };
        let expected = exit.map(i64::from).or_else(|| signal.map(|signal| 128 + i64::from(signal)));
        assert_eq!(expected, *code, "child {pid}");
    }
    assert_eq!(statistics.missed, 0, "{statistics:?}");
}

#[test]
fn no_child_of_a_burst_is_lost() {
    no_child_is_lost("burst", Way::Gate);
}

#[test]
fn no_child_of_a_crash_loop_is_lost() {
    no_child_is_lost("crash-loop", Way::Gate);
}

#[test]
fn no_child_of_a_burst_is_lost_when_the_parent_is_traced() {
    no_child_is_lost("burst", Way::Parent);
}
