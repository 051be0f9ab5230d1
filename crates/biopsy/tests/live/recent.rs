//! The minutes before: kept in memory by the watcher, for whoever asks, for what rules record, and for when a process ends badly.

use std::path::Path;
use std::time::{Duration, Instant};

use biopsy_model::capture::Capture;
use biopsy_model::timeline::Timeline;
use biopsy_testkit::{
    DotNetServer, Privilege, Program, Signal, Survival, TargetProcess, require_all, send_signal,
};
use serde_json::Value;

use crate::support::{complaint, said};
use crate::watching::{LIVE, User, Watcher};

const HOT: &str = "compute_checksum_bit_by_bit";

fn timeline(capture: &Capture) -> &Timeline {
    capture.timeline.as_ref().expect("a timeline")
}

fn open(path: &Path) -> Capture {
    biopsy_recording::open(path, &biopsy_recording::Limits::default()).unwrap()
}

/// Asks for the minutes before until there are so many seconds of them; the recording.
#[track_caller]
fn recent(user: &User, pid: u32, seconds: u64, more: &[&str]) -> Capture {
    let begin = Instant::now();
    loop {
        let number = std::fs::read_dir(user.folder.path()).unwrap().count();
        let path = user.folder.path().join(format!("recent-{number}.zip"));
        let pid = pid.to_string();
        let mut command = user.biopsy(&["capture", &pid, "--recent=5m", "--quiet", "--output"]);
        let output = command.arg(&path).args(more).output().unwrap();
        // Who keeps them has to begin first.
        if let Some(capture) = path.exists().then(|| open(&path)) {
            let first = timeline(&capture).samples.first().map_or(u64::MAX, |sample| sample.time.0);
            let last = timeline(&capture).samples.last().map_or(0, |sample| sample.time.0);
            if last.saturating_sub(first) >= seconds * 1_000_000_000 {
                return capture;
            }
        }
        assert!(begin.elapsed() < Duration::from_secs(120), "{}", said(&output));
    }
}

/// A user who keeps the last minutes of what is started with the returned argument: other tests start the same program.
fn keeping() -> (User, String) {
    let user = User::new();
    let argument = user.folder.path().display().to_string();
    let settings = format!(
        "{{\"watch\": {{\"rules\": {{\"kept\": {{\"who\": {{\"arguments\": \"{argument}\"}}, \"do\": \"recent 5m --logs {argument}/*.log\"}}}}}}}}"
    );
    std::fs::write(user.settings(), settings).unwrap();
    (user, argument)
}

fn functions(capture: &Capture) -> String {
    let symbols = timeline(capture).symbols.iter().flatten();
    symbols
        .flat_map(|symbols| &symbols.functions)
        .map(|function| function.name.as_str())
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn what_was_slow_just_now_is_recorded_although_nobody_had_asked() {
    if !require_all(LIVE) {
        return;
    }
    let (user, argument) = keeping();
    let mut target = TargetProcess::start(Program::HotFunction, &[&argument]);
    let survival = Survival::before(target.pid());
    let text = complaint(&mut user.biopsy(&["capture", &target.pid().to_string(), "--recent"]));
    assert!(
        text.contains("nobody keeps the last minutes") && text.contains("biopsy watch --recent"),
        "{text}"
    );

    let mut watcher = Watcher::start(&user);
    let begun = watcher.until("begun", "kept");
    assert_eq!(begun["pid"], target.pid(), "{begun}");
    assert_eq!(user.leases(), 2, "the watcher, and who keeps the minutes");
    let capture = recent(&user, target.pid(), 4, &[]);
    assert!(functions(&capture).contains(HOT), "{}", functions(&capture));
    assert_eq!(timeline(&capture).settings.frequency_hz, 49);
    assert!(!capture.metrics.is_empty());
    let start = capture.header.start.mono;
    assert!(timeline(&capture).samples.iter().all(|sample| sample.time >= start));
    let said: Vec<&str> = capture.warnings.iter().map(|warning| warning.code.as_str()).collect();
    assert!(said.contains(&"recording.before"), "{said:?}");

    // Before and after in one recording, one rate and then the other.
    let both = recent(&user, target.pid(), 5, &["--for", "2s"]);
    let (at, label) = timeline(&both).marks.first().expect("the change of rate is marked");
    assert!(label.contains("in full from here"), "{label}");
    let before: Vec<u64> = timeline(&both)
        .samples
        .iter()
        .filter(|sample| sample.time <= *at)
        .map(|sample| sample.weight.0)
        .collect();
    let after: Vec<u64> = timeline(&both)
        .samples
        .iter()
        .filter(|sample| sample.time > *at)
        .map(|sample| sample.weight.0)
        .collect();
    assert!(before.iter().filter(|weight| **weight > 20_000_000).count() * 2 > before.len(), "{before:?}");
    assert!(after.iter().filter(|weight| **weight < 10_000_000).count() * 2 > after.len(), "{after:?}");
    // No moment is there twice: neither in samples, nor in the times of a thread.
    let full = |weight: u64| weight < 10_000_000;
    let first = timeline(&both).samples.iter().find(|sample| full(sample.weight.0)).unwrap().time;
    let late = timeline(&both).samples.iter().filter(|sample| !full(sample.weight.0) && sample.time >= first);
    assert_eq!(late.count(), 0);
    let mut ends = std::collections::HashMap::new();
    for slice in &timeline(&both).states {
        let end = ends.entry(slice.tid).or_insert(slice.from);
        assert!(slice.from >= *end, "{slice:?} overlaps what ended at {end:?}");
        *end = slice.to;
    }
    survival.assert_unharmed();

    // Another process knows nothing of it.
    let mut other = TargetProcess::start(Program::Idle, &[]);
    let text = complaint(&mut user.biopsy(&["capture", &other.pid().to_string(), "--recent"]));
    assert!(text.contains("nobody keeps"), "{text}");
    other.stop();
    watcher.end();
    assert_eq!(user.leases(), 0);
    let left = std::fs::read_dir(user.folder.path().join("state/biopsy/recent")).unwrap().count();
    assert_eq!(left, 0, "neither socket nor draft");
    target.stop();
}

#[test]
fn a_process_that_ends_badly_leaves_its_last_minutes() {
    if !require_all(LIVE) {
        return;
    }
    let (user, argument) = keeping();
    // What is typed beside the settings changes nothing for those of which it is kept already.
    let mut watcher = Watcher::start_with(&user, &["--recent", "10m"]);
    let target = TargetProcess::start(Program::HotFunction, &[&argument]);
    watcher.until("begun", "kept");
    recent(&user, target.pid(), 3, &[]);
    let now = jiff::Zoned::now().strftime("%Y-%m-%dT%H:%M:%S.%3f%:z").to_string();
    let log = format!("2001-01-01T00:00:00.000+00:00 ERROR of another time\n{now} ERROR the last words\n");
    std::fs::write(user.folder.path().join("own.log"), log).unwrap();
    assert!(send_signal(target.pid(), Signal::KILL));
    drop(target);
    let made = watcher.until("made", "kept");
    let capture = open(Path::new(made["path"].as_str().unwrap()));
    assert!(functions(&capture).contains(HOT), "{made}");
    let said: Vec<String> = capture.warnings.iter().map(|warning| warning.message.clone()).collect();
    assert!(said.iter().any(|message| message.contains("its last minutes")), "{said:?}");
    assert!(!capture.processes.is_empty());
    let lines = capture.logs.iter().flat_map(|file| &file.lines);
    let lines: Vec<&str> = lines.map(|line| line.text.as_str()).collect();
    assert!(lines.len() == 1 && lines[0].contains("the last words"), "{lines:?}");

    // One that ends by itself leaves nothing.
    let mut target = TargetProcess::start(Program::HotFunction, &[&argument]);
    watcher.until("begun", "kept");
    recent(&user, target.pid(), 1, &[]);
    target.stop();
    let over = watcher.until("over", "kept");
    assert!(over["text"].as_str().unwrap().contains("good order") || before_linux_6_15(), "{over}");
    watcher.end();
}

/// Where the kernel does not tell how a process ended that is not ours.
fn before_linux_6_15() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let numbers: Vec<u32> = release.split(['.', '-']).map_while(|word| word.parse().ok()).take(2).collect();
    numbers < vec![6, 15]
}

#[test]
fn what_a_rule_records_has_the_minutes_before() {
    if !require_all(LIVE) {
        return;
    }
    let user = User::with(
        "{\"watch\": {\"rules\": {\"old\": {\"who\": {\"executable\": \"hot-function\"}, \"when\": \"alive>8s\", \"do\": \"trace --for 1s\", \"recent\": \"5m\"}}}}",
    );
    let mut watcher = Watcher::start(&user);
    let mut target = TargetProcess::start(Program::HotFunction, &[]);
    watcher.until("begun", "old-recent");
    let made: Value = watcher.until("made", "old");
    let capture = open(Path::new(made["path"].as_str().unwrap()));
    let (at, _) = timeline(&capture).marks.first().expect("the change of rate is marked");
    let before = timeline(&capture).samples.iter().filter(|sample| sample.time <= *at).count();
    assert!(before > 20, "{before} of {}", timeline(&capture).samples.len());
    watcher.end();
    target.stop();
}

/// Exceptions of the type that the sick server throws, and collections.
fn runtime_events(capture: &Capture) -> (u64, u64) {
    let traces = capture.runtimes.iter();
    traces.fold((0, 0), |(exceptions, collections), trace| {
        let thrown: u64 = trace.exception_groups.iter().map(|group| group.count).sum();
        (exceptions + thrown, collections + trace.collections.total)
    })
}

#[test]
fn what_a_runtime_said_before_anybody_asked_is_there() {
    if !require_all(&[LIVE, &[Privilege::DotNetTargets]].concat()) {
        return;
    }
    let user = User::with(
        "{\"watch\": {\"rules\": {\"kept\": {\"who\": {\"arguments\": \"exception-storm\"}, \"do\": \"recent 5m\"}}}}",
    );
    let mut watcher = Watcher::start(&user);
    let server = DotNetServer::sick("net10.0", "exception-storm");
    let survival = Survival::before(server.pid()).threads_may_change().files_may_change();
    watcher.until("begun", "kept");
    std::thread::sleep(Duration::from_secs(4));
    server.recover("exception-storm");
    // The storm is over when somebody asks.
    let before = recent(&user, server.pid(), 4, &[]);
    let (exceptions, _) = runtime_events(&before);
    assert!(exceptions > 100, "{exceptions}");
    let named = before.runtimes[0].exception_groups.iter().any(|group| group.stack.is_some());
    assert!(named && !before.runtimes[0].functions.is_empty(), "{:?}", before.runtimes[0].exception_groups);
    // Both in one: what was before is in front of what is recorded in full.
    let both = recent(&user, server.pid(), 4, &["--for", "2s"]);
    assert!(runtime_events(&both).0 >= exceptions, "{:?}, {exceptions} before", runtime_events(&both));
    assert_eq!(both.runtimes.len(), 1, "one for each process");
    // Meanwhile nobody else listened, and the gap is told to who asks later.
    let since = Instant::now();
    loop {
        let later = recent(&user, server.pid(), 4, &[]);
        let gaps = &later.runtimes[0].sampled;
        if gaps.iter().any(|gap| gap.why.contains("another recording")) {
            break;
        }
        assert!(since.elapsed() < Duration::from_secs(30), "{gaps:?}");
        std::thread::sleep(Duration::from_millis(500));
    }
    survival.assert_unharmed();
    watcher.end();
    server.stop();
}
