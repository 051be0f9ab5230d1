//! Recordings and dumps that begin when something happens inside a runtime.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Stdio};
use std::time::Duration;

use biopsy_testkit::{DotNetServer, Privilege, Survival, TempDir, require_all, temp_dir};
use serde_json::Value;

use crate::support::{analyze, biopsy};

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
        let result = folder.path().join(if command == "dump" { "result" } else { "result.zip" });
        let mut child = biopsy(&[command, &pid.to_string(), "--on", trigger, "--output"])
            .arg(result)
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

/// Makes one of the triggers come true.
fn provoke(server: &DotNetServer, trigger: &str) {
    match trigger.split([':', '>']).next().unwrap() {
        "exception" => server.fall_ill("exception-storm"),
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
            let load = server.load("net10.0", "/api/feeds/web", 64, 8);
            drop(load.finish());
        }
        // Counters come by themselves.
        _ => {}
    }
}

/// `capture --on`, and after its reason the recording: on each version, other triggers on each.
#[test]
fn a_recording_begins_when_it_happens() {
    if !require_all(LIVE) {
        return;
    }
    for (runtime, triggers) in [
        ("net8.0", ["exception:FormatException~not", "gc-gen2>100K"]),
        ("net9.0", ["request>1s", "counter:System.Runtime/threadpool-thread-count>0"]),
        ("net10.0", ["request-status>=404", "counter:Targets.Server/server.queue.length>=0"]),
    ] {
        let server = DotNetServer::start(runtime, &["--log", "None"]);
        for trigger in triggers {
            let survival = Survival::before(server.pid()).threads_may_change().files_may_change();
            let waiting = Waiting::start("capture", server.pid(), trigger, &["--for", "1s"]);
            provoke(&server, trigger);
            let (folder, all) = waiting.finish();
            survival.assert_unharmed();
            let report = analyze(&folder.path().join("result.zip"));
            let reason = reason(&report);
            assert!(reason.is_some_and(|reason| reason.contains("recorded because: ")), "`{trigger}`: {all}");
        }
        server.stop();
    }
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
        provoke(&server, trigger);
        let (_folder, all) = waiting.finish();
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
