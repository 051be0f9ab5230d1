//! Any troubles of one process at once: what each has in common with being alone.

use crate::build::{Build, IDLE, IN_LOCK, PID, Waiting, call};
use crate::outline;
use biopsy_analyze::{Analysis, FindingId, Severity, analyze};
use biopsy_model::log::LogLevel;
use biopsy_model::timeline::WaitState;
use std::sync::LazyLock;

use proptest::prelude::{ProptestConfig, any, prop_assert, prop_assert_eq, proptest};

type Trouble = fn(&mut Build);

/// Troubles that have threads or tables of their own, so that each is the same beside any other.
const TROUBLES: [(FindingId, Trouble); 9] = [
    (FindingId::CgroupThrottled, |build| {
        build.metric("cgroups", &[("cgroup", "/app")], &[("throttled.ratio", &|_| 0.3)]);
    }),
    (FindingId::CpuBound, |build| {
        build.thread(50, "worker").cpu(50, 0.8, &["server!main", "server!work", "server!hash"]);
    }),
    (FindingId::LockConvoy, |build| {
        for tid in 100..108 {
            build.thread(tid, "locker").wait(tid, Waiting { waker: Some(100 + (tid + 1) % 8), ..IN_LOCK });
        }
    }),
    (FindingId::DiskBound, |build| {
        let stack =
            ["server!main", "server!commit", "libc.so.6!fsync", "k:jbd2_log_wait_commit", "k:io_schedule"];
        let waits = Waiting {
            stack: &stack,
            syscall: call::FSYNC,
            state: WaitState::Disk,
            share: 0.8,
            each_ms: 5.0,
            waker: Some(0),
        };
        build.thread(60, "writer").wait(60, waits);
    }),
    (FindingId::SlowPeer, |build| {
        let stack =
            ["server!main", "server!query_database", "libc.so.6!recv", "k:tcp_recvmsg", "k:sk_wait_data"];
        let waits = Waiting {
            stack: &stack,
            syscall: call::RECVFROM,
            state: WaitState::Sleep,
            share: 0.8,
            each_ms: 20.0,
            waker: Some(0),
        };
        build.thread(61, "asker").wait(61, waits);
    }),
    (FindingId::SleepLoop, |build| {
        let stack =
            ["server!main", "server!poll_for_work", "libc.so.6!clock_nanosleep", "k:hrtimer_nanosleep"];
        let waits = Waiting {
            stack: &stack,
            syscall: call::NANOSLEEP,
            state: WaitState::Sleep,
            share: 0.9,
            each_ms: 10.0,
            waker: Some(0),
        };
        build.thread(62, "poller").wait(62, waits);
    }),
    (FindingId::RunawayThreads, |build| {
        for number in 0..40 {
            build.life(1_000 + number, "handler", Some((f64::from(number) + 0.5) / 40.0), Some(PID));
        }
    }),
    (FindingId::DescriptorGrowth, |build| {
        build.metric(
            "processes",
            &[("pid", "4711"), ("name", "server")],
            &[("fds", &|second| 20.0 + 10.0 * second)],
        );
    }),
    (FindingId::LogErrors, |build| {
        build.log(&[(0.2, LogLevel::Error, "it broke"), (0.6, LogLevel::Error, "it broke again")]);
    }),
];

fn together(there: &[bool]) -> Analysis {
    let mut build = Build::new("server", 10, 8);
    build.thread(PID, "server").machine(0.2).wait(PID, IDLE);
    for ((_, make), _) in TROUBLES.iter().zip(there).filter(|(_, there)| **there) {
        make(&mut build);
    }
    analyze(&build.done())
}

fn severity(analysis: &Analysis, id: FindingId) -> Option<Severity> {
    analysis.findings.iter().find(|finding| finding.id == id).map(|finding| finding.severity)
}

#[test]
fn each_trouble_alone_comes_first() {
    for (at, (id, _)) in TROUBLES.iter().enumerate() {
        let mut there = [false; 9];
        there[at] = true;
        let analysis = together(&there);
        assert_eq!(analysis.findings[0].id, *id, "{}", outline(&analysis));
    }
}

/// How serious each trouble is where there is no other.
fn alone(at: usize) -> Option<Severity> {
    static ALONE: LazyLock<[Option<Severity>; 9]> = LazyLock::new(|| {
        std::array::from_fn(|at| {
            let there: [bool; 9] = std::array::from_fn(|other| other == at);
            severity(&together(&there), TROUBLES[at].0)
        })
    });
    ALONE[at]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Each is said once, as serious as alone, and none that is not there; idle is nobody who is in trouble.
    #[test]
    fn troubles_do_not_hide_or_make_each_other(there in any::<[bool; 9]>()) {
        let analysis = together(&there);
        for (at, (id, _)) in TROUBLES.iter().enumerate() {
            let times = analysis.findings.iter().filter(|finding| finding.id == *id).count();
            prop_assert_eq!(times, usize::from(there[at]), "{} in\n{}", id, outline(&analysis));
            prop_assert_eq!(severity(&analysis, *id), there[at].then(|| alone(at)).flatten(), "{} in\n{}", id, outline(&analysis));
        }
        let serious = analysis.findings.iter().any(|finding| finding.severity >= Severity::Warning);
        prop_assert!(!serious || severity(&analysis, FindingId::Idle).is_none(), "{}", outline(&analysis));
        for pair in analysis.findings.windows(2) {
            prop_assert!((pair[0].severity, pair[0].impact) >= (pair[1].severity, pair[1].impact), "{}", outline(&analysis));
        }
        // The same recording gives the same analysis.
        prop_assert_eq!(together(&there), analysis);
    }
}
