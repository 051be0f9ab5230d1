//! Our cores of .NET beside createdump's full core of the same process: `dotnet-dump analyze` and ClrMD say the same of both.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use biopsy_testkit::{Privilege, Survival, dotnet_peer, dotnet_target, require_all, temp_dir};
use serde_json::Value;

const NEEDED: [Privilege; 2] = [Privilege::DotNetTargets, Privilege::Ptrace];
const COMMANDS: [&str; 5] = ["clrthreads", "clrstack -all", "dumpheap -stat", "syncblk", "verifyheap"];
/// How often everything is dumped again because a thread came or went between the dumps.
const TRIES: usize = 5;

#[test]
fn debuggers_say_the_same_of_our_cores_of_net_8() {
    the_same_is_said("net8.0");
}

#[test]
fn debuggers_say_the_same_of_our_cores_of_net_9() {
    the_same_is_said("net9.0");
}

#[test]
fn debuggers_say_the_same_of_our_cores_of_net_10() {
    the_same_is_said("net10.0");
}

fn the_same_is_said(runtime: &str) {
    if !require_all(&NEEDED) {
        return;
    }
    let folder = temp_dir("dotnet-dump");
    let at = |name: &str| folder.path().join(name);
    let truth = at("truth.json");
    let target = dotnet_target(runtime, "holder", &["--objects", "5000", "--truth", text(&truth)]);
    let pid = target.pid();
    let createdump = createdump_of(pid);
    // It says that it is ready, and then goes to wait.
    let mut before = Vec::new();
    while before != switches(pid) {
        before = switches(pid);
        std::thread::sleep(Duration::from_millis(500));
    }
    let survival = Survival::before(pid).threads_may_change();
    let mut tries = 0;
    loop {
        let before = threads(pid);
        succeeded(
            &Command::new(&createdump)
                .args(["--full", "--name", text(&at("theirs")), &pid.to_string()])
                .output()
                .expect("createdump starts"),
        );
        for kind in ["heap", "full"] {
            let core = at(&format!("{kind}.core"));
            let _ = std::fs::remove_file(&core);
            let command =
                ["dump", &pid.to_string(), "--kind", kind, "--raw", "-q", "--max-pause", "5s", "-o"];
            let biopsy = Command::new(env!("CARGO_BIN_EXE_biopsy")).args(command).arg(&core).output();
            succeeded(&biopsy.expect("biopsy starts"));
        }
        tries += 1;
        if threads(pid) == before {
            break;
        }
        assert!(tries < TRIES, "threads come and go");
    }
    survival.assert_unharmed();
    drop(target);

    let expected = analyzed(&at("theirs"));
    for wanted in ["Main", "ThreadCount:", "Targets.Holder.Model", "No heap corruption detected"] {
        assert!(expected.contains(wanted), "no `{wanted}` in:\n{expected}");
    }
    for kind in ["heap", "full"] {
        same_lines(&expected, &analyzed(&at(&format!("{kind}.core"))), kind);
    }
    let (theirs, ours) = (clrmd(&at("theirs")), clrmd(&at("heap.core")));
    assert!(theirs["heap"].is_object() && theirs["threads"].is_array(), "{theirs}");
    let pretty = |value: &Value| serde_json::to_string_pretty(value).expect("it was JSON");
    same_lines(&pretty(&theirs), &pretty(&ours), "ClrMD, heap");
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain name")
}

fn succeeded(output: &Output) {
    let said = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(output.status.success(), "{}: {said:?}", output.status);
}

/// The program beside the runtime that the process has loaded.
fn createdump_of(pid: u32) -> PathBuf {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("it runs");
    let runtime = maps
        .lines()
        .filter_map(|line| line.find('/').map(|at| Path::new(&line[at..])))
        .find(|path| path.ends_with("libcoreclr.so"))
        .expect("it has loaded the runtime");
    runtime.with_file_name("createdump")
}

fn threads(pid: u32) -> Vec<std::ffi::OsString> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    let mut tasks: Vec<_> = tasks.filter_map(|task| Some(task.ok()?.file_name())).collect();
    tasks.sort();
    tasks
}

/// How often its main thread has been switched (proc_pid_status(5)).
fn switches(pid: u32) -> Vec<String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/status")).expect("it runs");
    status.lines().filter(|line| line.contains("ctxt_switches")).map(str::to_owned).collect()
}

/// What `dotnet-dump analyze` says, without the name of the core.
fn analyzed(core: &Path) -> String {
    let mut arguments = vec!["analyze", text(core)];
    for command in COMMANDS.iter().chain(&["exit"]) {
        arguments.extend(["-c", command]);
    }
    let output = dotnet_peer("dotnet-dump", &arguments).expect("the reference tools are there");
    succeeded(&output);
    String::from_utf8_lossy(&output.stdout).replace(text(core), "CORE")
}

/// What ClrMD finds, without what differs from file to file.
fn clrmd(core: &Path) -> Value {
    let output =
        dotnet_peer("clrmd-truth", &[text(core), "--top", "0"]).expect("the reference tools are there");
    succeeded(&output);
    let mut all: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    strip(&mut all, &["file", "fileBytes", "elapsedMs", "heapWalkMs", "mappedFiles", "readsFromFiles"]);
    all
}

fn strip(value: &mut Value, names: &[&str]) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !names.contains(&name.as_str()));
            fields.values_mut().for_each(|field| strip(field, names));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| strip(item, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[track_caller]
fn same_lines(expected: &str, found: &str, what: &str) {
    let differing = expected.lines().zip(found.lines()).find(|(theirs, ours)| theirs != ours);
    assert!(differing.is_none(), "{what}: {differing:#?}");
    assert_eq!(expected.lines().count(), found.lines().count(), "{what}");
}
