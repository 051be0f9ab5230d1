//! Each kind of sick program, and healthy ones: the first finding names the cause, and healthy ones raise no alarm.

mod ask;
mod asking;
#[path = "../build/mod.rs"]
mod build;
mod busy;
mod causes;
mod combined;
mod descriptors;
mod dotnet;
mod ends;
mod facts;
mod growth;
mod looks;
mod managed;
mod memory;
mod missing;
mod numbers;
mod own_places;
mod piles;
mod spent;
mod strands;
mod thresholds;
mod waiting;
mod work;

use biopsy_analyze::{Analysis, Severity, analyze};
use biopsy_model::log::LogLevel;
use biopsy_model::loss::{Loss, LossKind};
use biopsy_model::process::{ProcessInfo, Runtime, RuntimeKind};
use biopsy_model::timeline::TimelineEvent;
use biopsy_model::{BootId, MonoNanos, Pid, ProcessKey};
use build::{Build, IDLE, IN_CONDITION, IN_LOCK, PID, START, Waiting};

/// What a person reads first.
fn outline(analysis: &Analysis) -> String {
    analysis
        .findings
        .iter()
        .map(|finding| format!("{} {}: {}\n", finding.severity.word(), finding.id, finding.title))
        .collect()
}

/// A finding in full.
fn first(analysis: &Analysis) -> String {
    let finding = analysis.findings.first().expect("findings are never empty");
    let evidence: String =
        finding.evidence.iter().map(|evidence| format!("\n  - {}", evidence.text)).collect();
    format!("{} {} ({:.2}): {}{evidence}", finding.severity.word(), finding.id, finding.impact, finding.title)
}

fn no_alarm(analysis: &Analysis) {
    assert!(
        analysis.findings.iter().all(|finding| finding.severity < Severity::Warning),
        "{}",
        outline(analysis)
    );
}

/// The process of the recording, of this runtime.
fn process(name: &str, kind: RuntimeKind) -> ProcessInfo {
    ProcessInfo {
        key: ProcessKey { boot_id: BootId::default(), pid: Pid(PID), start_ticks: 1 },
        parent: Pid(1),
        name: name.to_owned(),
        exe: String::new(),
        exe_deleted: false,
        command_line: Vec::new(),
        uid: 0,
        runtime: Runtime { kind, version: None, entry: None },
        ns_pid: None,
        cgroup: String::new(),
        container_id: None,
        unit: None,
    }
}

#[test]
fn idle() {
    let mut build = Build::new("server", 10, 4);
    build.thread(PID, "server").machine(0.02).wait(PID, IDLE).cpu(
        PID,
        0.005,
        &["server!main", "server!tick"],
    );
    let analysis = analyze(&build.done());
    no_alarm(&analysis);
    insta::assert_snapshot!(first(&analysis));
}

#[test]
fn a_healthy_server_under_moderate_load() {
    let mut build = Build::new("server", 30, 4);
    build.thread(PID, "server").machine(0.3).wait(PID, IDLE);
    for tid in 100..108 {
        build.thread(tid, &format!("worker-{tid}"));
        build.cpu(tid, 0.06, &["server!worker_main", "server!handle", "server!parse"]);
        build.cpu(
            tid,
            0.04,
            &["server!worker_main", "server!handle", "server!reply", "libc.so.6!send", "k:tcp_sendmsg"],
        );
        build.wait(tid, Waiting { waker: Some(PID), share: 0.8, ..IN_CONDITION });
        build.wait(tid, Waiting { share: 0.03, each_ms: 1.2, waker: Some(101), ..IN_LOCK });
    }
    build.metric(
        "processes",
        &[("pid", "4711"), ("name", "server")],
        &[
            ("memory.rss", &|second| 400e6 + (second * 7.0).sin() * 5e6),
            ("threads", &|_| 9.0),
            ("fds", &|second| 40.0 + (second * 3.0).cos() * 10.0),
        ],
    );
    build.metric(
        "cgroups",
        &[("path", "/system.slice/server.service")],
        &[("throttled.ratio", &|_| 0.0), ("memory.current", &|_| 500e6)],
    );
    build.metric("disks", &[("device", "vda")], &[("busy", &|_| 0.05)]);
    let analysis = analyze(&build.done());
    no_alarm(&analysis);
    assert_eq!(analysis.findings[0].id.as_str(), "no-bottleneck", "{}", outline(&analysis));
}

#[test]
fn target_crashed() {
    let mut build = Build::new("server", 10, 4);
    build.thread(PID, "server").machine(0.1).wait(PID, IDLE);
    build.log(&[(0.39, LogLevel::Error, "fatal: out of cheese"), (0.1, LogLevel::Info, "started")]);
    build
        .timeline
        .process_events
        .push(TimelineEvent::ProcessExit { time: MonoNanos(START + 4_000_000_000), pid: Pid(PID) });
    insta::assert_snapshot!(first(&analyze(&build.done())));
}

#[test]
fn a_lossy_partial_recording_says_so() {
    let mut build = Build::new("server", 10, 4);
    build.thread(PID, "server").machine(0.1).wait(PID, IDLE).cpu(PID, 0.3, &["server!main", "server!tick"]);
    build.capture.header.end = None;
    build.timeline.losses.push(Loss {
        kind: LossKind::Samples,
        from: MonoNanos(START),
        to: MonoNanos(START + 1_000_000_000),
        count: 2_000,
        pid: None,
        tid: None,
    });
    let analysis = analyze(&build.done());
    assert_eq!(analysis.findings[0].id.as_str(), "recording-incomplete", "{}", outline(&analysis));
    assert!(analysis.completeness.partial);
    insta::assert_snapshot!(analysis.completeness.undetermined.join("\n"));
}

#[test]
fn an_empty_recording_is_said_to_be_empty() {
    let mut capture = Build::new("nothing", 0, 0).without_trace();
    capture.header = Default::default();
    let analysis = analyze(&capture);
    assert_eq!(analysis.findings[0].id.as_str(), "nothing-recorded");
}
