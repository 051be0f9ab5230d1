//! `biopsy dump --tree --wait-for` beside the agent of the .NET targets, which writes down what it starts: every child that ended is
//! among the dumps, with its ending.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use biopsy_testkit::{Privilege, Survival, dotnet_target, require_all, temp_dir};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const NEEDED: [Privilege; 3] = [Privilege::DotNetTargets, Privilege::Ptrace, Privilege::Root];
/// Children that have to end before it is enough, and how long that may take: they are .NET programs that start beside whatever
/// else the machine does.
const ENOUGH: usize = 5;
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn no_child_of_a_burst_on_net_8_is_missing() {
    none_is_missing("net8.0", &["--mode", "burst", "--burst", "6", "--interval", "5000"]);
}

#[test]
fn no_child_of_a_burst_on_net_10_is_missing() {
    none_is_missing("net10.0", &["--mode", "burst", "--burst", "6", "--interval", "5000"]);
}

#[test]
fn no_child_of_a_crash_loop_on_net_9_is_missing() {
    none_is_missing("net9.0", &["--mode", "crash-loop", "--interval", "300"]);
}

/// A child as the agent wrote it down.
#[derive(Debug)]
struct Written {
    start_ticks: u64,
    exit_code: Option<i64>,
}

fn none_is_missing(runtime: &str, mode: &[&str]) {
    if !require_all(&NEEDED) {
        return;
    }
    let folder = temp_dir("children");
    let (truth, dump) = (folder.path().join("truth"), folder.path().join("dump"));
    let mut arguments = mode.to_vec();
    // What a busy machine makes slow is not to be killed by the agent.
    arguments.extend(["--timeout", "120000", "--truth", truth.to_str().expect("a plain name")]);
    let agent = dotnet_target(runtime, "tentacle", &arguments);
    // With its first child it begins to handle SIGCHLD.
    let begun = Instant::now();
    while read_truth(&truth, 0).is_empty() && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(20));
    }
    let survival = Survival::before(agent.pid()).threads_may_change().files_may_change();
    let mut waiting = Waiting::start(agent.pid(), &dump);
    // What it had started by now is not meant.
    let from = ticks_now();
    let begun = Instant::now();
    let ended = loop {
        let ended: BTreeMap<u32, Written> =
            read_truth(&truth, from).into_iter().filter(|(_, child)| child.exit_code.is_some()).collect();
        if ended.len() >= ENOUGH || begun.elapsed() > PATIENCE {
            break ended;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    // All that the agent has seen end by now was held, and let go again.
    let heard = waiting.finish();
    survival.assert_unharmed();
    assert!(ended.len() >= 3, "only {} children ended: {heard}", ended.len());
    for (pid, child) in &ended {
        let facts = std::fs::read(dump.join(format!("dumps/{pid}.json")));
        let facts = facts.unwrap_or_else(|error| panic!("{pid} {child:?} is missing: {error}\n{heard}"));
        let facts: Value = serde_json::from_slice(&facts).expect("JSON");
        assert_eq!(facts["whole"], true, "{facts}");
        let reason = facts["reason"].as_str().expect("a reason");
        let expected = match child.exit_code {
            Some(134) => "SIGABRT".to_owned(),
            code => format!("exit code {}", code.expect("it has ended")),
        };
        assert!(reason.contains(&expected), "{pid}: {reason}, not {expected}");
        assert!(dump.join(format!("dumps/{pid}.core.zst")).is_file());
    }
    assert!(heard.contains(" 0 missed"), "{heard}");
}

/// Clock ticks since the machine started (proc_uptime(5)), rounded up: what starts later has at least as many.
fn ticks_now() -> u64 {
    let uptime = std::fs::read_to_string("/proc/uptime").expect("Linux");
    // Seconds with two digits: a tick is a hundredth of a second.
    let ticks = uptime.split(' ').next().map(|word| word.replace('.', ""));
    ticks.and_then(|word| word.parse::<u64>().ok()).expect("seconds") + 1
}

/// Children that were started at `from` or later.
fn read_truth(path: &Path, from: u64) -> BTreeMap<u32, Written> {
    let mut children = BTreeMap::new();
    for line in std::fs::read_to_string(path).unwrap_or_default().lines() {
        // The last line may be half written.
        let Ok(fact) = serde_json::from_str::<Value>(line) else { continue };
        let Some(pid) = fact["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()) else { continue };
        match fact["event"].as_str() {
            Some("start") => {
                let Some(start_ticks) = fact["startTicks"].as_u64() else { continue };
                children.insert(pid, Written { start_ticks, exit_code: None });
            }
            Some("exit") => {
                if let Some(child) = children.get_mut(&pid) {
                    child.exit_code = fact["exitCode"].as_i64();
                }
            }
            _ => {}
        }
    }
    children.retain(|_, child| child.start_ticks >= from);
    children
}

/// A dump that waits for children. It is ended with the value.
struct Waiting {
    child: Child,
    said: BufReader<ChildStderr>,
    heard: String,
}

impl Waiting {
    fn start(pid: u32, folder: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_biopsy"))
            .args(["dump", &pid.to_string(), "--tree", "--wait-for", "calamari", "--on", "exit"])
            .args(["--count", "1000", "--output"])
            .arg(folder)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("biopsy starts");
        let mut said = BufReader::new(child.stderr.take().expect("it is piped"));
        let mut heard = String::new();
        while !heard.contains("waiting for") {
            let read = said.read_line(&mut heard).expect("it says something");
            assert!(read > 0, "it ended before it waited: {heard}");
        }
        Self { child, said, heard }
    }

    /// Ctrl-C, and what it has said.
    fn finish(&mut self) -> String {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::INT).expect("it runs");
        let _ = self.said.read_to_string(&mut self.heard);
        let status = self.child.wait().expect("it is our child");
        assert!(matches!(status.code(), Some(0 | 3)), "{status}: {}", self.heard);
        std::mem::take(&mut self.heard)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
