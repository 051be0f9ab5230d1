//! Recordings and dumps that begin when something happens inside a runtime.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStderr, Stdio};
use std::time::Duration;

use biopsy_testkit::{DotNetLoad, DotNetServer, Privilege, Survival, TempDir, require_all, temp_dir};
use serde_json::Value;

use crate::support::{biopsy, report};

const LIVE: &[Privilege] = &[Privilege::Perf, Privilege::Bpf, Privilege::Ptrace, Privilege::DotNetTargets];

/// A command that waits. It is ended with the value.
struct Waiting {
    child: Child,
    folder: TempDir,
    said: BufReader<ChildStderr>,
    heard: String,
}

impl Waiting {
    /// Starts it, and returns when it says that it waits: what happens from then on is seen.
    #[track_caller]
    fn start(command: &str, pid: u32, trigger: &str, more: &[&str]) -> Self {
        let folder = temp_dir("waits");
        let result = folder.path().join("result");
        let kind: &[&str] = if command == "dump" { &[] } else { &["--folder"] };
        let mut child = biopsy(&[command, &pid.to_string(), "--on", trigger, "--output"])
            .arg(result)
            .args(kind)
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        let mut this = Self { child, folder, said, heard: String::new() };
        while !this.heard.contains("waiting for") {
            let read = this.said.read_line(&mut this.heard).unwrap();
            assert!(read > 0, "`{trigger}`: it ended before it waited: {}", this.heard);
        }
        this
    }

    /// Waits for its end, and returns what it said.
    #[track_caller]
    fn finish(mut self) -> (TempDir, String) {
        let mut out = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        let _ = self.said.read_to_string(&mut self.heard);
        let status = self.child.wait().unwrap();
        let all = format!("{status}\n--- stdout\n{out}\n--- stderr\n{}", self.heard);
        assert!(matches!(status.code(), Some(0 | 3)), "{all}");
        let folder = std::mem::replace(&mut self.folder, temp_dir("empty"));
        (folder, all)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes one of the triggers come true, as long as what it returns is kept.
#[must_use]
fn provoke(server: &DotNetServer, trigger: &str) -> Option<DotNetLoad> {
    match trigger.split([':', '>']).next().unwrap() {
        "exception" => server.fall_ill("exception-storm"),
        "log" => {
            let file = trigger.split(':').nth(1).unwrap();
            let mut file = std::fs::OpenOptions::new().append(true).open(file).unwrap();
            file.write_all(b"all is well\nERROR 4711 password=hunter2-Zk9x\n").unwrap();
        }
        "gc-heap" | "gc-gen2" => {
            // What a thread said last may come with what it says next.
            for _ in 0..3 {
                server.request("POST", "/api/collect").unwrap();
                std::thread::sleep(Duration::from_millis(700));
            }
        }
        "request" => {
            server.fall_ill("slow-upstream");
            drop(server.send("GET", "/api/feeds/web"));
        }
        "request-status" => drop(server.get("/no/such/page")),
        "threadpool-queue" => {
            server.fall_ill("sync-over-async");
            return Some(server.load("net10.0", "/api/feeds/web", 64, 30));
        }
        // Counters come by themselves.
        _ => {}
    }
    None
}

/// `capture --on`, and after its reason the recording: on each version, other triggers on each.
#[test]
fn a_recording_begins_when_it_happens_on_net_8() {
    records_on("net8.0", &["exception:FormatException~not", "gc-heap>100K"]);
}

#[test]
fn a_recording_begins_when_it_happens_on_net_9() {
    records_on("net9.0", &["request>1s", "threadpool-queue>5"]);
}

#[test]
fn a_recording_begins_when_it_happens_on_net_10() {
    let logs = temp_dir("log");
    let log = logs.path().join("app.log");
    std::fs::write(&log, "ERROR of yesterday\n").unwrap();
    let line = format!("log:{}:ERROR [0-9]+", log.display());
    records_on("net10.0", &["request-status>=404", "counter:Targets.Server/server.queue.length>=0", &line]);
}

fn records_on(runtime: &str, triggers: &[&str]) {
    if !require_all(LIVE) {
        return;
    }
    let server = DotNetServer::start(runtime, &["--log", "None"]);
    for trigger in triggers {
        let survival = Survival::before(server.pid()).threads_may_change().files_may_change();
        let waiting = Waiting::start("capture", server.pid(), trigger, &["--for", "500ms"]);
        let load = provoke(&server, trigger);
        let (folder, all) = waiting.finish();
        drop(load);
        survival.assert_unharmed();
        let report = report(&folder.path().join("result"));
        let reason = reason(&report);
        assert!(reason.is_some_and(|reason| reason.contains("recorded because: ")), "`{trigger}`: {all}");
        assert!(!all.contains("hunter2") && !report.to_string().contains("hunter2"), "`{trigger}`: a secret");
    }
    // One whose pool starves takes minutes to end by itself.
    drop(server);
}

fn reason(report: &Value) -> Option<&str> {
    let warnings = report["warnings"].as_array()?;
    warnings.iter().find(|one| one["code"] == "recording.trigger")?["message"].as_str()
}

/// `dump --on`, whose result says why.
#[test]
fn a_dump_is_made_when_it_happens() {
    if !require_all(LIVE) {
        return;
    }
    for (runtime, trigger) in [
        ("net8.0", "threadpool-queue>5"),
        ("net9.0", "gc-gen2>100K"),
        ("net10.0", "exception:System.FormatException"),
    ] {
        let server = DotNetServer::start(runtime, &["--log", "None"]);
        let survival = Survival::before(server.pid()).threads_may_change().files_may_change();
        let waiting =
            Waiting::start("dump", server.pid(), trigger, &["--kind", "stacks", "--for", "60s", "--json"]);
        let load = provoke(&server, trigger);
        let (_folder, all) = waiting.finish();
        drop(load);
        survival.assert_unharmed();
        let word = match trigger.split([':', '>']).next().unwrap() {
            "exception" => "System.FormatException",
            "gc-gen2" => "generation 2",
            _ => "thread pool queue",
        };
        assert!(all.contains(word), "`{trigger}`: {all}");
        drop(server);
    }
}
