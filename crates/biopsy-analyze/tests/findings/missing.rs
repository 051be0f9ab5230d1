//! Evidence with parts missing, and with values that cannot be: what is said stays possible, and healthy programs stay healthy.

use crate::build::{Build, IDLE, IN_CONDITION, IN_LOCK, PID, START, Waiting, call};
use crate::outline;
use biopsy_analyze::{Analysis, FindingId, Severity, Value, analyze};
use biopsy_model::capture::Capture;
use biopsy_model::log::LogLevel;
use biopsy_model::loss::{Loss, LossKind};
use biopsy_model::timeline::{Timeline, WaitState};
use biopsy_model::{MonoNanos, Nanos, Tid};

const SERVER: [(&str, &str); 2] = [("pid", "4711"), ("name", "server")];

fn server() -> Build {
    let mut build = Build::new("server", 10, 4);
    build.thread(PID, "server").machine(0.2).wait(PID, IDLE);
    build.metric(
        "processes",
        &SERVER,
        &[("cpu.user", &|_| 0.1), ("memory.anon", &|_| 1e8), ("threads", &|_| 9.0)],
    );
    build
}

fn waiting(stack: &'static [&'static str], syscall: u32, state: WaitState) -> Waiting<'static> {
    Waiting { stack, syscall, state, share: 0.8, each_ms: 10.0, waker: Some(0) }
}

/// Programs with something wrong, by name.
fn sick() -> Vec<(&'static str, Capture)> {
    let mut convoy = server();
    for tid in 100..110 {
        convoy.thread(tid, &format!("worker-{tid}"));
        convoy.wait(tid, Waiting { share: 0.8, waker: Some(100 + (tid + 1) % 10), ..IN_LOCK });
    }
    let mut busy = server();
    busy.thread(50, "dispatcher").cpu(50, 0.95, &["server!main", "server!dispatch"]).ready(50, 0.04);
    for tid in 100..104 {
        busy.thread(tid, &format!("worker-{tid}")).wait(tid, Waiting { waker: Some(50), ..IN_CONDITION });
    }
    let mut disk = server();
    let writes =
        &["server!main", "server!commit", "libc.so.6!fsync", "k:jbd2_log_wait_commit", "k:io_schedule"];
    disk.thread(60, "writer").wait(60, waiting(writes, call::FSYNC, WaitState::Disk));
    disk.log(&[(0.5, LogLevel::Error, "it broke")]);
    let mut asks = server();
    let recv = &["server!main", "server!query", "libc.so.6!recv", "k:tcp_recvmsg", "k:sk_wait_data"];
    asks.thread(61, "client").wait(61, waiting(recv, call::RECVFROM, WaitState::Sleep));
    let sleeps = &["server!main", "server!poll_for_work", "libc.so.6!clock_nanosleep", "k:hrtimer_nanosleep"];
    asks.thread(62, "poller").wait(62, waiting(sleeps, call::NANOSLEEP, WaitState::Sleep));
    let mut grows = server();
    for number in 0..40 {
        grows.life(1_000 + number, "handler", Some(f64::from(number) / 40.0), Some(PID));
    }
    grows.metric(
        "cgroups",
        &[("cgroup", "/app")],
        &[
            ("throttled.ratio", &|_| 0.3),
            ("memory.limit", &|_| 1e9),
            ("memory.current", &|second| 5e8 + second * 1e7),
        ],
    );
    vec![
        ("convoy", convoy.done()),
        ("busy", busy.done()),
        ("disk", disk.done()),
        ("asks", asks.done()),
        ("grows", grows.done()),
    ]
}

fn healthy() -> Capture {
    let mut build = server();
    for tid in 100..108 {
        build.thread(tid, &format!("worker-{tid}"));
        build.cpu(tid, 0.06, &["server!worker_main", "server!handle", "server!parse"]);
        build.wait(tid, Waiting { waker: Some(PID), share: 0.8, ..IN_CONDITION });
    }
    build.done()
}

fn trace(capture: &mut Capture) -> &mut Timeline {
    capture.timeline.as_mut().expect("a trace")
}

type Change = fn(&mut Capture);

/// What recordings may lack.
const LACKS: &[(&str, Change)] = &[
    ("names", |capture| trace(capture).symbols.iter_mut().for_each(|symbols| *symbols = None)),
    ("stacks", |capture| {
        trace(capture).samples.iter_mut().for_each(|sample| sample.stack = None);
        trace(capture).wait_samples.iter_mut().for_each(|look| look.stack = None);
    }),
    ("wakers", |capture| {
        trace(capture).settings.has_wakeups = false;
        trace(capture).waits.iter_mut().for_each(|wait| (wait.waker, wait.ready) = (None, None));
    }),
    ("states", |capture| {
        trace(capture).settings.has_states = false;
        trace(capture).states.clear();
    }),
    ("system calls", |capture| {
        trace(capture).waits.iter_mut().for_each(|wait| wait.syscall = None);
        trace(capture).wait_samples.iter_mut().for_each(|look| look.syscall = None);
    }),
    ("samples", |capture| trace(capture).samples.clear()),
    ("waits", |capture| trace(capture).waits.clear()),
    ("off-CPU samples", |capture| trace(capture).wait_samples.clear()),
    ("threads", |capture| trace(capture).threads.clear()),
    ("all but one thread", |capture| trace(capture).threads.truncate(1)),
    ("a trace", |capture| capture.timeline = None),
    ("metrics", |capture| capture.metrics.clear()),
    ("readings", |capture| {
        let rows = capture.metrics.iter_mut().flat_map(|table| &mut table.rows);
        rows.flat_map(|row| &mut row.values).for_each(|value| *value = None);
    }),
    ("the number of CPUs", |capture| capture.header.host.cpus = 0),
    ("a target", |capture| (capture.header.target, capture.header.target_name) = (None, String::new())),
    ("an end", |capture| capture.header.end = None),
    ("a span", |capture| trace(capture).span = None),
    ("a length", |capture| {
        capture.header.end = Some(capture.header.start.clone());
        trace(capture).span = Some((MonoNanos(START), MonoNanos(START)));
    }),
];

/// What recordings cannot hold, and may all the same.
const LIES: &[(&str, Change)] = &[
    ("the end comes before the start", |capture| {
        capture.header.end.as_mut().expect("an end").mono = MonoNanos(START - 1_000_000_000);
        trace(capture).span = Some((MonoNanos(START), MonoNanos(START - 5)));
    }),
    ("the wall clock is set back", |capture| {
        capture.header.end.as_mut().expect("an end").wall_unix_nanos -= 7_200_000_000_000;
    }),
    ("everything was lost", |capture| {
        for kind in [LossKind::Samples, LossKind::Waits, LossKind::Metrics, LossKind::Disk] {
            let (from, to) = (MonoNanos(0), MonoNanos(u64::MAX));
            trace(capture).losses.push(Loss { kind, from, to, count: u64::MAX, pid: None, tid: None });
        }
    }),
    ("samples stand for all time", |capture| {
        trace(capture).samples.iter_mut().for_each(|sample| sample.weight = Nanos(u64::MAX));
        trace(capture).wait_samples.iter_mut().for_each(|look| look.weight = Nanos(u64::MAX));
    }),
    ("threads run all time", |capture| {
        trace(capture).states.iter_mut().for_each(|slice| slice.running = Nanos(u64::MAX));
    }),
    ("threads switch all the time", |capture| {
        trace(capture)
            .states
            .iter_mut()
            .for_each(|slice| (slice.voluntary, slice.wakeups) = (u32::MAX, u32::MAX));
    }),
    ("waits have no end", |capture| {
        trace(capture).waits.iter_mut().for_each(|wait| wait.end = MonoNanos(u64::MAX));
    }),
    ("waits end before they start", |capture| {
        trace(capture).waits.iter_mut().for_each(|wait| (wait.start, wait.end) = (wait.end, wait.start));
    }),
    ("all threads are one", |capture| {
        trace(capture).samples.iter_mut().for_each(|sample| sample.tid = Tid(0));
        trace(capture).wait_samples.iter_mut().for_each(|look| look.tid = Tid(0));
        trace(capture).states.iter_mut().for_each(|slice| slice.tid = Tid(0));
        trace(capture).threads.iter_mut().for_each(|life| life.info.tid = Tid(0));
    }),
    ("readings are no numbers", |capture| set_readings(capture, f64::NAN)),
    ("readings have no end", |capture| set_readings(capture, f64::INFINITY)),
    ("readings are huge", |capture| set_readings(capture, f64::MAX)),
    ("readings are negative", |capture| set_readings(capture, -1e9)),
    ("there are as many CPUs as can be", |capture| capture.header.host.cpus = u32::MAX),
    ("nothing has a name", |capture| {
        capture.header.target_name.clear();
        trace(capture).threads.iter_mut().for_each(|life| life.info.name.clear());
        trace(capture).modules.iter_mut().for_each(|module| module.path.clear());
        let symbols = trace(capture).symbols.iter_mut().flatten();
        symbols.flat_map(|symbols| &mut symbols.functions).for_each(|function| function.name.clear());
    }),
];

fn set_readings(capture: &mut Capture, to: f64) {
    let rows = capture.metrics.iter_mut().flat_map(|table| &mut table.rows);
    rows.flat_map(|row| &mut row.values).for_each(|value| *value = Some(to));
}

/// Percentages in a sentence.
fn percentages(text: &str) -> Vec<f64> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices('%') {
        let front = text[..at].trim_end();
        let begin = front.rfind(|char: char| !char.is_ascii_digit() && char != '.').map_or(0, |at| at + 1);
        found.extend(front.get(begin..).and_then(|number| number.parse::<f64>().ok()));
    }
    found
}

/// What is said could be so.
fn is_possible(analysis: &Analysis) -> Result<(), String> {
    for finding in &analysis.findings {
        if !(0.0..=1.0).contains(&finding.impact) {
            return Err(format!("an impact of {}: {}", finding.impact, finding.title));
        }
        let texts = [&finding.title, &finding.explanation].into_iter();
        for text in texts.chain(&finding.next_steps).chain(finding.evidence.iter().map(|one| &one.text)) {
            let is_number = !["NaN", "inf ", "inf%", "-0 "].iter().any(|part| text.contains(part));
            if text.trim().is_empty() || !is_number || percentages(text).iter().any(|share| *share > 100.0) {
                return Err(format!("{}: {text:?}", finding.id));
            }
        }
        for value in finding.evidence.iter().filter_map(|one| one.value) {
            let possible = match value {
                Value::Share(share) => (0.0..=1.000_001).contains(&share),
                Value::Cores(cores) => (0.0..1e10).contains(&cores),
                Value::Count(number) | Value::Bytes(number) | Value::PerSecond(number) => number.is_finite(),
                Value::Time(_) => true,
            };
            if !possible {
                return Err(format!("{}: {value:?} in {:?}", finding.id, finding.evidence));
            }
        }
    }
    let sorted = analysis.findings.is_sorted_by(|a, b| (a.severity, a.impact) >= (b.severity, b.impact));
    if !sorted || analysis.findings.is_empty() {
        return Err("not in order, or nothing at all".to_owned());
    }
    Ok(())
}

#[test]
fn what_is_missing_leaves_what_is_said_possible() {
    let mut wrong = Vec::new();
    for (name, capture) in sick() {
        for (lack, change) in LACKS.iter().chain(LIES) {
            let mut capture = capture.clone();
            change(&mut capture);
            let analysis = analyze(&capture);
            wrong.extend(is_possible(&analysis).err().map(|why| format!("{name} without {lack}: {why}\n")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.concat());
}

#[test]
fn a_healthy_program_stays_healthy_whatever_is_missing() {
    let mut wrong = Vec::new();
    for (lack, change) in LACKS {
        let mut capture = healthy();
        change(&mut capture);
        let analysis = analyze(&capture);
        let alarms = analysis.findings.iter().filter(|one| one.severity >= Severity::Warning);
        // That something is missing may be one.
        if alarms.filter(|one| one.id != FindingId::RecordingIncomplete).count() > 0 {
            wrong.push(format!("without {lack}:\n{}", outline(&analysis)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.concat());
}

#[test]
fn the_order_of_tables_logs_and_processes_does_not_matter() {
    for (name, capture) in sick() {
        let mut turned = capture.clone();
        turned.metrics.reverse();
        turned.logs.reverse();
        for table in &mut turned.metrics {
            // Rows of one moment may come in any order.
            table.rows.sort_by(|a, b| a.time.cmp(&b.time).then(b.keys.cmp(&a.keys)));
        }
        assert_eq!(outline(&analyze(&capture)), outline(&analyze(&turned)), "{name}");
    }
}

#[test]
fn twice_the_same_recording_says_twice_the_same() {
    for (name, capture) in sick() {
        let (one, other) = (analyze(&capture), analyze(&capture));
        assert_eq!(one.findings, other.findings, "{name}");
    }
}
