//! What .NET runtimes say, recorded from real ones.

#![allow(clippy::disallowed_methods, reason = "tests open what they wrote, and files of proc")]

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use biopsy_model::capture::{Capture, CaptureHeader};
use biopsy_model::runtime_trace::SampledKind;
use biopsy_model::{ClockPair, Pid};
use biopsy_record::dotnet::{AppLogLevel, Budget, DotNetOptions, DotNetRecorder, DotNetSummary, Tree};
use biopsy_record::masking::Masking;
use biopsy_recording::{Limits, RecordingFolder};
use biopsy_redact::{Options, RedactionLog, Redactor};
use biopsy_testkit::{
    DOTNET_RUNTIMES, DotNetServer, Privilege, Signal, Survival, TempDir, dotnet_target, require, send_signal,
    temp_dir,
};

/// The pid that a copy of this program is to record, see [`records_for_others`].
const CHILD: &str = "BIOPSY_TEST_RECORDS";

/// A recording in progress.
struct Running {
    recorder: DotNetRecorder,
    folder: Arc<RecordingFolder>,
    _place: TempDir,
}

fn start(pid: u32, options: DotNetOptions) -> Running {
    let place = temp_dir("dotnet");
    let folder = Arc::new(RecordingFolder::create(place.path().join("recording")).unwrap());
    let redactor = Arc::new(Redactor::new(Options::default()).unwrap());
    let masking = Masking::new(redactor, Arc::new(RedactionLog::new()));
    let tree: Tree = Arc::new(move || vec![Pid(pid)]);
    let recorder = DotNetRecorder::start(tree, options, None, Arc::clone(&folder), masking).unwrap();
    Running { recorder, folder, _place: place }
}

impl Running {
    fn ready(self) -> Self {
        assert!(self.recorder.wait_until_ready(Duration::from_secs(30)), "its sessions are open");
        self
    }

    fn finish(self) -> (Capture, DotNetSummary) {
        let summary = self.recorder.stop();
        let header = CaptureHeader { end: Some(ClockPair::default()), ..CaptureHeader::default() };
        self.folder.header(&header).unwrap();
        self.folder.redactions(&[]).unwrap();
        let capture = biopsy_recording::open(self.folder.path(), &Limits::default()).unwrap();
        (capture, summary)
    }
}

fn event_threads(pid: u32) -> usize {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return 0 };
    let names = tasks.flatten().filter_map(|task| std::fs::read(task.path().join("comm")).ok());
    names.filter(|name| name.starts_with(b".NET EventPipe")).count()
}

fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(25);
    while !check() {
        assert!(Instant::now() < deadline, "{what} did not come true");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until as many events have come.
fn wait_for_events(running: &Running, more: u64) {
    let before = running.recorder.progress().events;
    eventually("more events", || running.recorder.progress().events >= before + more);
}

#[test]
fn a_server_tells_what_it_does_on_each_version() {
    if !require(Privilege::DotNetTargets) {
        return;
    }
    for runtime in DOTNET_RUNTIMES {
        let server = DotNetServer::start(runtime, &["--log", "None"]);
        // The first session of a process makes threads and files that stay.
        let (_, summary) = start(server.pid(), DotNetOptions::default()).ready().finish();
        assert_eq!(summary.warnings, [] as [&str; 0], "{runtime}");
        let survival = Survival::before(server.pid()).threads_may_change().files_may_change();
        let threads = event_threads(server.pid());

        let options = DotNetOptions { log_level: AppLogLevel::Information, ..DotNetOptions::default() };
        let running = start(server.pid(), options).ready();
        for _ in 0..5 {
            server.get("/api/releases/1").unwrap();
        }
        server.request("POST", "/api/collect").unwrap();
        server.get("/api/feeds/web").unwrap();
        // The first names are read.
        std::thread::sleep(Duration::from_millis(1500));
        server.fall_ill("exception-storm");
        std::thread::sleep(Duration::from_millis(1200));
        server.recover("exception-storm");
        // Two rounds of counters.
        std::thread::sleep(Duration::from_millis(2500));
        wait_for_events(&running, 1);
        let (capture, summary) = running.finish();

        assert_eq!(summary.processes, [Pid(server.pid())], "{runtime}");
        assert_eq!(summary.warnings, [] as [&str; 0], "{runtime}");
        let [trace] = &capture.runtimes[..] else { panic!("{runtime}: {} runtimes", capture.runtimes.len()) };
        let version = runtime.trim_start_matches("net").split('.').next().unwrap();
        assert!(trace.runtime.version.as_deref().unwrap().starts_with(version), "{:?}", trace.runtime);
        assert_eq!((trace.lost, trace.cut), (0, false), "{runtime}");
        assert!(trace.collections.total >= 1, "{runtime}: {:?}", trace.collections);
        let thrown = trace.exception_groups.iter().find(|group| group.type_name == "System.FormatException");
        assert!(thrown.is_some_and(|group| group.count > 10), "{runtime}: {:?}", trace.exception_groups);
        // Compiled ahead, and first called long after the first names were read.
        let parse =
            trace.functions.iter().position(|one| one.name == "System.Int32.Parse").map(|at| at as u32);
        let mut stacks = trace.exception_groups.iter().filter_map(|group| group.stack);
        let named =
            stacks.any(|stack| trace.stacks[stack.0 as usize].iter().any(|frame| Some(*frame) == parse));
        assert!(named, "{runtime}: {:?}", trace.functions);
        let served: u64 = trace.request_groups.iter().map(|group| group.count).sum();
        assert!(served >= 8, "{runtime}: {:?}", trace.request_groups);
        assert!(!trace.command_groups.is_empty(), "{runtime}: commands");
        assert!(!trace.outgoing_groups.is_empty(), "{runtime}: requests to others");
        assert!(trace.messages.total > 0, "{runtime}: messages");
        let rows = || trace.counters.iter().flat_map(|table| &table.rows);
        assert!(
            rows().any(|row| row.keys.iter().any(|key| key.contains("threadpool-queue-length"))),
            "{runtime}"
        );
        eventually("the end of its sessions", || event_threads(server.pid()) == threads);
        survival.assert_unharmed();
        server.stop();
    }
}

/// Not a test of its own: what [`a_kill_at_any_moment_leaves_nothing_on`] starts and kills.
#[test]
fn records_for_others() {
    let Some(pid) = std::env::var(CHILD).ok().and_then(|pid| pid.parse().ok()) else { return };
    let options = DotNetOptions { log_level: AppLogLevel::Debug, ..DotNetOptions::default() };
    let running = start(pid, options);
    std::thread::sleep(Duration::from_secs(60));
    drop(running);
}

#[test]
fn a_kill_at_any_moment_leaves_nothing_on() {
    if !require(Privilege::DotNetTargets) {
        return;
    }
    for runtime in DOTNET_RUNTIMES {
        let target = dotnet_target(runtime, "holder", &["--objects", "300"]);
        // What the first session leaves behind is there before.
        drop(start(target.pid(), DotNetOptions::default()).ready());
        let survival = Survival::before(target.pid());
        let threads = event_threads(target.pid());
        for after in [0, 20, 100, 800] {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "records_for_others"])
                .env(CHILD, target.pid().to_string())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            // From the moment that something begins: starting takes a while on a machine that is busy.
            let begun = Instant::now();
            while event_threads(target.pid()) == threads && begun.elapsed() < Duration::from_secs(5) {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_millis(after));
            child.kill().unwrap();
            child.wait().unwrap();
            eventually("the end of all sessions", || event_threads(target.pid()) == threads);
        }
        survival.assert_unharmed();
    }
}

#[test]
fn a_process_that_ends_is_kept_as_far_as_it_came() {
    if !require(Privilege::DotNetTargets) {
        return;
    }
    let server = DotNetServer::start("net9.0", &["--log", "None"]);
    let pid = server.pid();
    let running = start(pid, DotNetOptions::default()).ready();
    server.get("/api/releases/1").unwrap();
    wait_for_events(&running, 10);
    send_signal(pid, Signal::KILL);
    eventually("the end of its sessions", || running.recorder.progress().processes == 0);
    let (capture, summary) = running.finish();
    assert_eq!(summary.processes, [Pid(pid)]);
    assert_eq!(capture.runtimes.len(), 1);
    assert!(capture.runtimes[0].providers.iter().map(|one| one.count).sum::<u64>() >= 10);
}

#[test]
fn too_many_requests_are_taken_in_turns_and_that_is_said() {
    if !require(Privilege::DotNetTargets) {
        return;
    }
    let server = DotNetServer::start("net10.0", &["--log", "None"]);
    let load = server.load("net10.0", "/healthz", 4, 9);
    let turn = Duration::from_secs(3);
    let budget = Budget { events_per_second: 200, counted_per_second: 100, turn, ..Budget::default() };
    let running = start(server.pid(), DotNetOptions { budget, ..DotNetOptions::default() }).ready();
    std::thread::sleep(Duration::from_secs(8));
    let (capture, _) = running.finish();
    let _ = load.finish();
    let [trace] = &capture.runtimes[..] else { panic!("{} runtimes", capture.runtimes.len()) };
    let sampled =
        trace.sampled.iter().find(|one| one.what == SampledKind::Requests).expect("requests were sampled");
    assert!(sampled.share < 0.9 && sampled.to > sampled.from, "{sampled:?}");
    assert!(sampled.why.contains("budget"), "{sampled:?}");
    let counted = trace.request_groups.iter().map(|group| group.count).sum::<u64>();
    assert!(counted > 100, "{counted} requests were seen in the open part");
    // The counters go on; those that each request pays for come once in a turn.
    assert!(trace.counters.iter().any(|table| !table.rows.is_empty()));
    let counters = trace.sampled.iter().find(|one| one.what == SampledKind::RequestCounters);
    let counters = counters.expect("counters of requests were taken in turns");
    assert!(counters.share < 0.9 && counters.why.contains("requests a second"), "{counters:?}");
    let readings = |name: &str| {
        let rows = trace.counters.iter().flat_map(|table| &table.rows);
        rows.filter(|row| row.keys.iter().any(|key| key == name)).count()
    };
    let (rates, other) = (readings("requests-per-second"), readings("working-set"));
    assert!((2..=4).contains(&rates), "{rates} readings of a counter of requests, {other} of another one");
    assert!(other >= 5, "{other}");
    server.stop();
}
