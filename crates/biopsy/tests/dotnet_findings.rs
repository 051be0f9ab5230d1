//! The targets' server falls ill, is captured, and the first finding says what is wrong with it; a healthy one under load
//! raises no alarm about its runtime.

use std::process::Command;

use biopsy_testkit::{
    DotNetServer, MachineLoad, Privilege, Survival, machine_to_myself, require_all, temp_dir,
};
use serde_json::Value;

const LIVE: &[Privilege] = &[Privilege::Perf, Privilege::Bpf, Privilege::DotNetTargets];

/// Findings on the recording or on what the machine has of memory: they are not the patient's sickness.
const ELSEWHERE: &[&str] =
    &["recording-incomplete", "runtime-events-incomplete", "target-ended", "memory-pressure"];
/// Findings on other programs. Whether these take the CPUs is measured beside the recording: where they do not, it is wrong.
const ON_OTHERS: &[&str] = &["cpu-saturated-by-others", "cpu-steal"];

/// A report, and whether programs that the test did not start took the CPUs meanwhile.
struct Captured {
    report: Value,
    others_were_in_the_way: bool,
}

/// Captures a server for some seconds; it lives on.
fn capture(server: &DotNetServer, seconds: u32, more: &[&str]) -> Captured {
    let folder = temp_dir("findings");
    let result = folder.path().join("recording");
    let survival = Survival::before(server.pid()).threads_may_change().files_may_change();
    let load = MachineLoad::begin();
    let output = Command::new(env!("CARGO_BIN_EXE_biopsy"))
        .args(["capture", &server.pid().to_string(), "--folder", "--for", &format!("{seconds}s"), "--output"])
        .arg(&result)
        .args(more)
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
    survival.assert_unharmed();
    let report = std::fs::read(result.join("report.json")).unwrap();
    Captured {
        report: serde_json::from_slice(&report).expect("the report is JSON"),
        others_were_in_the_way: load.others_were_in_the_way(),
    }
}

fn findings(report: &Value) -> &[Value] {
    report["findings"].as_array().map_or(&[], Vec::as_slice)
}

fn on_the_patient(captured: &Captured) -> impl Iterator<Item = &Value> {
    findings(&captured.report).iter().filter(|finding| {
        let is_one_of = |ids: &[&str]| finding["id"].as_str().is_some_and(|id| ids.contains(&id));
        !(is_one_of(ELSEWHERE) || captured.others_were_in_the_way && is_one_of(ON_OTHERS))
    })
}

/// The first finding on the patient is `id`, and names all of `words`. Where other programs took the CPUs away for part of the
/// recording, it is recorded again: what the patient waits for then is the CPU.
#[track_caller]
fn diagnosed(server: &DotNetServer, seconds: u32, id: &str, words: &[&str]) {
    diagnosed_with(&[], server, seconds, id, words);
}

/// The same, with more arguments for `capture`.
#[track_caller]
fn diagnosed_with(more: &[&str], server: &DotNetServer, seconds: u32, id: &str, words: &[&str]) {
    let mut captured = capture(server, seconds, more);
    let is_other = |first: Option<&Value>| first.is_none_or(|first| first["id"] != id);
    if captured.others_were_in_the_way && is_other(on_the_patient(&captured).next()) {
        captured = capture(server, seconds, more);
    }
    let all = &captured.report["findings"];
    let first = on_the_patient(&captured).next().unwrap_or_else(|| panic!("no finding: {all:#}"));
    assert_eq!(first["id"], id, "{all:#}");
    let text = first.to_string();
    for word in words {
        assert!(text.contains(word), "`{word}` is not named: {first:#}");
    }
}

#[test]
fn a_starving_pool_is_named_with_the_method_that_blocks() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    for runtime in biopsy_testkit::DOTNET_RUNTIMES {
        let server = DotNetServer::sick(runtime, "sync-over-async");
        diagnosed(&server, 4, "pool-starvation", &["FeedClient.GetPackageBlocking"]);
        // It would take long to end by itself: that takes threads of the pool.
        drop(server);
    }
}

#[test]
fn a_deadlock_of_monitors_is_named_with_both_methods() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    for runtime in biopsy_testkit::DOTNET_RUNTIMES {
        let server = DotNetServer::sick(runtime, "deadlock-monitor");
        let methods =
            ["LockDeploymentThenRelease", "LockReleaseThenDeployment", "deploy-worker", "release-worker"];
        diagnosed(&server, 3, "blocked-on-lock", &methods);
        server.stop();
    }
}

#[test]
fn an_exception_storm_is_named_with_type_and_place() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let server = DotNetServer::sick("net9.0", "exception-storm");
    diagnosed(&server, 3, "exception-storm", &["System.FormatException", "VersionParser.ParseMajorOrZero"]);
    server.stop();
}

#[test]
fn an_allocation_storm_is_named_with_its_place() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let server = DotNetServer::sick("net10.0", "alloc-storm");
    diagnosed(&server, 4, "allocation-storm", &["LogFormatter.FormatLine"]);
    server.stop();
}

#[test]
fn too_many_commands_in_a_request_are_named() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let server = DotNetServer::sick("net8.0", "n-plus-one");
    diagnosed_with(&["--requests"], &server, 4, "n-plus-one", &["/api/releases", "SELECT"]);
    server.stop();
}

#[test]
fn a_slow_dependency_is_named() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let server = DotNetServer::sick("net10.0", "slow-upstream");
    diagnosed_with(&["--requests"], &server, 5, "slow-dependency", &["/api/feeds/"]);
    server.stop();
}

#[test]
fn a_lock_convoy_is_named_with_its_place() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let server = DotNetServer::sick("net9.0", "lock-convoy");
    diagnosed(&server, 4, "lock-convoy", &["LogWriterConvoy.AppendUnderLock"]);
    server.stop();
}

#[test]
fn what_takes_the_cpu_or_the_collector_is_named() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let cases = [
        ("net8.0", "hot-function", "cpu-bound", "PackageVerifier.ComputeChecksumBitByBit"),
        ("net9.0", "regex-backtracking", "regex-backtracking", "VersionRangeParser.IsRange"),
        ("net10.0", "gc-pressure-pinned", "gc-pinned", "PinnedBuffers.PinBuffers"),
    ];
    for (runtime, mode, id, method) in cases {
        let server = DotNetServer::sick(runtime, mode);
        diagnosed(&server, 4, id, &[method]);
        server.stop();
    }
}

#[test]
fn what_piles_up_is_named() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let cases = [
        ("net9.0", "finalizer-blocked", 4, "finalizer-blocked", "NativeSession.Finalize"),
        ("net8.0", "handle-leak", 6, "descriptor-growth", ".nupkg"),
        ("net10.0", "leak-timer", 6, "timer-growth", "active timers rose"),
    ];
    for (runtime, mode, seconds, id, word) in cases {
        let server = DotNetServer::sick(runtime, mode);
        diagnosed(&server, seconds, id, &[word]);
        server.stop();
    }
}

#[test]
fn with_stacks_memory_names_what_time_cannot() {
    if !require_all(LIVE) || !require_all(&[Privilege::Ptrace]) {
        return;
    }
    let _machine = machine_to_myself();
    for runtime in biopsy_testkit::DOTNET_RUNTIMES {
        let server = DotNetServer::sick(runtime, "async-deadlock");
        // They pile up: some dozen have to be there before it stands out.
        std::thread::sleep(std::time::Duration::from_secs(2));
        let words = ["DeployAsync", "SemaphoreSlim", "stood still for"];
        diagnosed_with(&["--stacks"], &server, 3, "waiting-operations", &words);
        server.stop();
        let server = DotNetServer::sick(runtime, "deadlock-monitor");
        let words = ["LockDeploymentThenRelease", "LockReleaseThenDeployment", "during the recording"];
        diagnosed_with(&["--stacks"], &server, 3, "deadlock", &words);
        server.stop();
    }
    let server = DotNetServer::sick("net10.0", "channel-full");
    // Its own clients fill the queue; before that, others are answered.
    std::thread::sleep(std::time::Duration::from_secs(3));
    let asking = ask_in_vain(&server, 30);
    let report = capture(&server, 3, &["--stacks"]).report;
    let found = findings(&report).iter().find(|finding| finding["id"] == "full-channel");
    let found = found.unwrap_or_else(|| panic!("{:#}", report["findings"]));
    assert!(found.to_string().contains("TaskQueue.EnqueueAsync"), "{found:#}");
    assert_eq!(found["severity"], "warning", "{found:#}");
    drop(server);
    drop(asking);
}

/// So many requests that a server with a full queue never answers.
fn ask_in_vain(server: &DotNetServer, count: usize) -> Vec<std::net::TcpStream> {
    use std::io::Write as _;
    let ask = |_| {
        let mut socket = std::net::TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        let body = r#"{"releaseId":1,"environment":"production"}"#;
        let head = "POST /api/deployments HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json";
        let request = format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        socket.write_all(request.as_bytes()).unwrap();
        socket
    };
    (0..count).map(ask).collect()
}

#[test]
fn a_healthy_server_under_load_raises_no_alarm_about_its_runtime() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let server = DotNetServer::start("net10.0", &[]);
    let load = server.load("net10.0", "/api/releases/1", 4, 7);
    let captured = capture(&server, 4, &[]);
    let report = &captured.report;
    let _ = load.finish();
    server.stop();
    // Being busy under load is no alarm of these.
    let machine = ["cpu-bound", "kernel-time", "switch-storm", "no-bottleneck", "idle", "log-errors"];
    for finding in on_the_patient(&captured) {
        let id = finding["id"].as_str().unwrap_or_default();
        let alarm = matches!(finding["severity"].as_str(), Some("critical" | "warning"));
        assert!(!alarm || machine.contains(&id), "{finding:#}");
    }
    let served = &report["runtimes"][0]["requests"];
    assert!(served.as_array().is_some_and(|rows| !rows.is_empty()), "no requests: {:#}", report["runtimes"]);
}
