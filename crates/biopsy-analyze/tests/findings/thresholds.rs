//! Both sides of each threshold: what is said of a value just at it, just below it, and of a program that only looks like it.

mod machine;
mod waiting;

use crate::build::{Build, IDLE, IN_CONDITION, IN_LOCK, PID, Waiting, call};
use crate::outline;
use biopsy_analyze::Severity::{self, Critical, Info, Notice, Warning};
use biopsy_analyze::{Analysis, FindingId, analyze};
use biopsy_model::log::LogLevel;
use biopsy_model::loss::{Loss, LossKind};
use biopsy_model::stack::StackEnd;
use biopsy_model::timeline::WaitState;
use biopsy_model::{Nanos, Tid};

const SERVER: [(&str, &str); 2] = [("pid", "4711"), ("name", "server")];

/// How serious the finding is; `None`: it is not there.
fn severity(analysis: &Analysis, id: FindingId) -> Option<Severity> {
    analysis.findings.iter().find(|finding| finding.id == id).map(|finding| finding.severity)
}

/// Checks what is said of each value; `build` makes the recording from it.
fn check<V: std::fmt::Debug + Copy>(
    id: FindingId,
    table: &[(V, Option<Severity>)],
    build: impl Fn(V) -> Build,
) {
    for &(value, expected) in table {
        let analysis = analyze(&build(value).done());
        assert_eq!(severity(&analysis, id), expected, "{id} at {value:?}:\n{}", outline(&analysis));
    }
}

/// A server of 10 s on 4 CPUs that does little.
fn server() -> Build {
    let mut build = Build::new("server", 10, 4);
    build.thread(PID, "server");
    build
}

/// An idle server of whose metrics this one column is known. (Sums of readings are rounded: tables stay a little off the threshold.)
fn with(table: &str, keys: &[(&str, &str)], column: &str, value: f64) -> Build {
    let mut build = server();
    build.wait(PID, IDLE).metric(table, keys, &[(column, &|_| value)]);
    build
}

fn waiting(stack: &'static [&'static str], syscall: u32, share: f64, each_ms: f64) -> Waiting<'static> {
    Waiting { stack, syscall, state: WaitState::Sleep, share, each_ms, waker: Some(0) }
}

#[test]
fn single_thread_bottleneck() {
    let build = |running: f64, waiters: u32, ended_by: u32| {
        let mut build = server();
        build.machine(0.3).thread(50, "dispatcher").cpu(50, running, &["server!main", "server!dispatch"]);
        for tid in 100..100 + waiters {
            build.thread(tid, &format!("worker-{tid}"));
            build.wait(tid, Waiting { waker: Some(ended_by), ..IN_CONDITION });
        }
        build
    };
    let id = FindingId::SingleThreadBottleneck;
    check(id, &[(0.83, None), (0.87, Some(Critical))], |running| build(running, 4, 50));
    check(id, &[(0, None), (1, Some(Notice)), (2, Some(Warning)), (4, Some(Critical))], |waiters| {
        build(0.95, waiters, 50)
    });
    // Woken by somebody else, they do not wait for the busy one.
    check(id, &[(50, Some(Critical)), (PID, None), (0, None)], |waker| build(0.95, 4, waker));
    // Two full threads are no bottleneck of one.
    let mut two = build(0.95, 4, 50);
    two.thread(51, "other").cpu(51, 0.95, &["server!other"]);
    assert_eq!(severity(&analyze(&two.done()), id), None);
}

#[test]
fn runaway_threads() {
    // Threads that are born one after the other, over the whole time or in its first half only.
    let build = |born: u32, until: f64, before: u32| {
        let mut build = server();
        build.machine(0.1).wait(PID, IDLE);
        for tid in 100..100 + before {
            build.thread(tid, "old");
        }
        for number in 0..born {
            build.life(
                1_000 + number,
                "handler",
                Some((f64::from(number) + 0.5) / f64::from(born) * until),
                Some(PID),
            );
        }
        build
    };
    let id = FindingId::RunawayThreads;
    check(id, &[(7, None), (8, Some(Warning)), (90, Some(Warning)), (120, Some(Critical))], |born| {
        build(born, 1.0, 2)
    });
    // A third more than there were.
    check(id, &[(29, None), (31, Some(Warning))], |born| build(born, 1.0, 90));
    // A pool that has filled up starts no more.
    check(id, &[(0.5, None), (1.0, Some(Warning))], |until| build(30, until, 2));
}

#[test]
fn descriptors_and_memory_that_grow() {
    let straight = |column: &'static str, first: f64, grown: f64| {
        let mut build = Build::new("server", 30, 4);
        build.thread(PID, "server").machine(0.1).wait(PID, IDLE);
        build.metric("processes", &SERVER, &[(column, &|second| first + grown * second / 30.0)]);
        build
    };
    check(
        FindingId::DescriptorGrowth,
        &[(12.0, None), (18.0, Some(Warning)), (500.0, Some(Warning))],
        |grown| straight("fds", 20.0, grown),
    );
    // A fifth more than there were.
    check(FindingId::DescriptorGrowth, &[(150.0, None), (250.0, Some(Warning))], |grown| {
        straight("fds", 1_000.0, grown)
    });
    check(FindingId::MemoryGrowth, &[(6e6, None), (10e6, Some(Warning))], |grown| {
        straight("memory.anon", 20e6, grown)
    });
    check(FindingId::MemoryGrowth, &[(10e6, None), (40e6, Some(Warning))], |grown| {
        straight("memory.anon", 300e6, grown)
    });
}

#[test]
fn memory_that_reaches_its_limit_soon_is_critical() {
    // 300 MB in 30 s: ten a second. The limit is so many seconds away.
    for (seconds, away, expected) in
        [(30, 3_500.0, Critical), (30, 3_700.0, Warning), (20, 550.0, Critical), (20, 650.0, Warning)]
    {
        let mut build = Build::new("server", seconds, 4);
        build.thread(PID, "server").wait(PID, IDLE);
        build.metric("processes", &SERVER, &[("memory.anon", &|second| 50e6 + 10e6 * second)]);
        build.metric(
            "cgroups",
            &[("cgroup", "/app")],
            &[("memory.limit", &|_| 1e9 + 10e6 * away), ("memory.current", &|_| 1e9)],
        );
        let analysis = analyze(&build.done());
        assert_eq!(
            severity(&analysis, FindingId::MemoryGrowth),
            Some(expected),
            "{away} s in {seconds}:\n{}",
            outline(&analysis)
        );
    }
}

#[test]
fn log_errors() {
    let table = [(0, None), (1, Some(Notice)), (9, Some(Notice)), (10, Some(Warning)), (500, Some(Warning))];
    check(FindingId::LogErrors, &table, |errors| {
        let mut build = server();
        let lines: Vec<(f64, LogLevel, &str)> =
            (0..errors).map(|n| (f64::from(n) / 500.0, LogLevel::Error, "it broke")).collect();
        build
            .machine(0.1)
            .wait(PID, IDLE)
            .log(&lines)
            .log(&[(0.5, LogLevel::Warning, "beware"), (0.6, LogLevel::Info, "fine")]);
        build
    });
}

#[test]
fn idle_is_said_below_a_tenth_of_a_core() {
    check(FindingId::Idle, &[(0.02, Some(Info)), (0.09, Some(Info)), (0.11, None)], |running| {
        let mut build = server();
        build.machine(0.1).wait(PID, IDLE).cpu(PID, running, &["server!main", "server!tick"]);
        build
    });
    check(
        FindingId::NoBottleneck,
        &[(0.02, None), (0.11, Some(Info)), (0.35, Some(Info)), (0.8, None)],
        |running| {
            let mut build = server();
            build.machine(0.1).wait(PID, IDLE).cpu(PID, running, &["server!main", "server!tick"]);
            build
        },
    );
}

#[test]
fn what_threads_wait_for_must_be_known_to_call_them_idle() {
    let mut known = server();
    known.machine(0.1).wait(PID, IDLE);
    assert_eq!(severity(&analyze(&known.done()), FindingId::Idle), Some(Info));
    let mut unknown = server();
    unknown.machine(0.1);
    let analysis = analyze(&unknown.done());
    assert_eq!(severity(&analysis, FindingId::Idle), None);
    assert_eq!(severity(&analysis, FindingId::LittleCpu), Some(Info));
}

#[test]
fn recording_incomplete_by_what_was_lost() {
    // Of ten thousand samples, more or less.
    for (lost, expected) in
        [(0, None), (100, None), (250, Some(Notice)), (1_500, Some(Notice)), (4_000, Some(Warning))]
    {
        let mut build = server();
        build.machine(0.3).cpu(PID, 1.0, &["server!main", "server!work"]);
        if lost > 0 {
            let (from, to) = (build.at(0.4), build.at(0.5));
            build.timeline.losses.push(Loss {
                kind: LossKind::Samples,
                count: lost,
                from,
                to,
                pid: None,
                tid: None,
            });
        }
        let analysis = analyze(&build.done());
        assert_eq!(
            severity(&analysis, FindingId::RecordingIncomplete),
            expected,
            "{lost}:\n{}",
            outline(&analysis)
        );
    }
}

#[test]
fn few_stacks_that_break_off_are_chance() {
    // Share of a processor; of ten stacks, those that reach the first function.
    for (share, whole, expected) in [(1.0, 7, Some(Info)), (1.0, 9, None), (0.002, 7, None)] {
        let mut build = server();
        build.machine(0.3).cpu(PID, share, &["server!main", "server!work"]);
        for (number, sample) in build.timeline.samples.iter_mut().enumerate() {
            sample.end = if number % 10 < whole { StackEnd::Root } else { StackEnd::Truncated };
        }
        let analysis = analyze(&build.done());
        assert_eq!(
            severity(&analysis, FindingId::RecordingIncomplete),
            expected,
            "{share} {whole}:\n{}",
            outline(&analysis)
        );
    }
}

/// A wait that somebody interrupts is not longer than the recording, and one that is not ended by it is still seen.
#[test]
fn one_wait_over_the_whole_time_is_seen() {
    let mut build = server();
    build.machine(0.1).wait(PID, waiting(IDLE.stack, call::EPOLL_WAIT, 1.0, 10_000.0));
    let wait = build.timeline.waits.last_mut().expect("one wait");
    (wait.ready, wait.waker) = (None, Some(Tid(0)));
    let analysis = analyze(&build.done());
    assert_eq!(analysis.waits.total, Nanos(10_000_000_000));
    assert_eq!(severity(&analysis, FindingId::Idle), Some(Info), "{}", outline(&analysis));
}
