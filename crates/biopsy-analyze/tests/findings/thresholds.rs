//! Both sides of each threshold: what is said of a value just at it, just below it, and of a program that only looks like it.

use crate::build::{Build, IDLE, IN_CONDITION, IN_LOCK, PID, Waiting, call};
use crate::outline;
use biopsy_analyze::Severity::{self, Critical, Info, Notice, Warning};
use biopsy_analyze::{Analysis, FindingId, analyze};
use biopsy_model::log::LogLevel;
use biopsy_model::loss::{Loss, LossKind};
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
fn cgroup_throttled() {
    let table = [
        (0.009, None),
        (0.0101, Some(Notice)),
        (0.049, Some(Notice)),
        (0.0501, Some(Warning)),
        (0.249, Some(Warning)),
        (0.2501, Some(Critical)),
    ];
    check(FindingId::CgroupThrottled, &table, |share| {
        with("cgroups", &[("cgroup", "/app")], "throttled.ratio", share)
    });
}

#[test]
fn cpu_steal() {
    // Cores of four.
    let table = [
        (0.19, None),
        (0.201, Some(Notice)),
        (0.59, Some(Notice)),
        (0.601, Some(Warning)),
        (4.0, Some(Warning)),
    ];
    check(FindingId::CpuSteal, &table, |cores| with("system", &[], "cpu.steal", cores));
}

#[test]
fn accept_queue() {
    let table = [(0.0, None), (0.09, None), (0.19, None), (0.201, Some(Warning)), (50.0, Some(Warning))];
    check(FindingId::AcceptQueue, &table, |rate| with("system", &[], "tcp.listen.overflows", rate));
}

#[test]
fn memory_pressure() {
    /// Table, keys, column, and from where on it is a notice, a warning and critical.
    type Sign = (&'static str, &'static [(&'static str, &'static str)], &'static str, [f64; 3]);
    let signs: [Sign; 6] = [
        ("system", &[], "pressure.memory.some", [0.03, 0.08, 0.3]),
        ("cgroups", &[("cgroup", "/app")], "pressure.memory.some", [0.03, 0.08, 0.3]),
        ("system", &[], "swap.in", [0.5e6, 2e6, 50e6]),
        ("system", &[], "swap.out", [0.5e6, 2e6, 50e6]),
        ("processes", &SERVER, "faults.major", [50.0, 200.0, 2_000.0]),
        ("cgroups", &[("cgroup", "/app")], "memory.events.max", [0.5, 5.0, 100.0]),
    ];
    for (table, keys, column, [notice, warning, critical]) in signs {
        let values = [
            (0.0, None),
            (notice * 0.99, None),
            (notice * 1.001, Some(Notice)),
            (warning * 0.99, Some(Notice)),
            (warning * 1.001, Some(Warning)),
            (critical * 0.99, Some(Warning)),
            (critical * 1.001, Some(Critical)),
        ];
        let waits = waiting(
            &["server!main", "k:asm_exc_page_fault", "k:folio_wait_bit_common"],
            call::READ,
            0.02,
            5.0,
        );
        check(FindingId::MemoryPressure, &values, |value| {
            let mut build = with(table, keys, column, value);
            build.wait(PID, waits);
            build
        });
        // What others of the machine wait for, and this process does not, is the weather.
        let of_machine = table == "system";
        let capped = values
            .map(|(value, severity)| (value, severity.map(|one| if of_machine { Notice } else { one })));
        check(FindingId::MemoryPressure, &capped, |value| with(table, keys, column, value));
    }
    let kills = [(0.0, None), (1.0, Some(Critical))];
    check(FindingId::MemoryPressure, &kills, |kills| {
        with("cgroups", &[("cgroup", "/app")], "memory.events.oom-kill", kills)
    });
}

#[test]
fn the_worst_sign_of_memory_pressure_gives_severity_and_impact() {
    let mut build = with("system", &[], "pressure.memory.some", 0.04);
    build.metric("cgroups", &[("cgroup", "/app")], &[("memory.events.oom-kill", &|_| 1.0)]);
    let analysis = analyze(&build.done());
    let finding =
        analysis.findings.iter().find(|finding| finding.id == FindingId::MemoryPressure).expect("said");
    assert_eq!((finding.severity, finding.evidence.len()), (Critical, 2));
    assert!((finding.impact - 0.9).abs() < 1e-9, "{}", finding.impact);
}

#[test]
fn cpu_bound_by_one_thread() {
    let table = [
        (0.38, None),
        (0.41, Some(Notice)),
        (0.68, Some(Notice)),
        (0.71, Some(Warning)),
        (1.0, Some(Warning)),
    ];
    check(FindingId::CpuBound, &table, |share| {
        let mut build = server();
        build.machine(0.3).cpu(PID, share, &["server!main", "server!work"]);
        build
    });
}

#[test]
fn cpu_bound_by_all_cpus_without_one_busy_thread() {
    // Sixteen threads, none of them busy by itself.
    let table = [(0.09, None), (0.11, Some(Notice)), (0.17, Some(Notice)), (0.18, Some(Warning))];
    check(FindingId::CpuBound, &table, |each| {
        let mut build = server();
        build.machine(each * 4.0);
        for tid in 100..116 {
            build.thread(tid, "worker").cpu(tid, each, &["server!main", "server!work"]);
        }
        build
    });
}

#[test]
fn a_thread_that_hardly_wants_a_cpu_is_not_bound_by_it() {
    let table = [(0.02, None), (0.05, Some(Warning))];
    check(FindingId::CpuBound, &table, |running| {
        let mut build = server();
        build.machine(1.0).cpu(PID, running, &["server!main"]).ready(PID, 0.9);
        build
    });
}

#[test]
fn others_saturate_only_where_a_thread_is_kept_waiting() {
    let id = FindingId::CpuSaturatedByOthers;
    let build = |busy: f64, ready: f64| {
        let mut build = server();
        build.machine(busy).cpu(PID, 0.2, &["server!main", "server!work"]).ready(PID, ready);
        build
    };
    let by_ready = [
        (0.01, None),
        (0.09, None),
        (0.11, Some(Notice)),
        (0.19, Some(Notice)),
        (0.21, Some(Warning)),
        (0.49, Some(Warning)),
        (0.51, Some(Critical)),
    ];
    check(id, &by_ready, |ready| build(1.0, ready));
    check(id, &[(0.89, None), (0.91, Some(Critical))], |busy| build(busy, 0.6));
    // Behind its own quota nobody else need be the reason.
    check(id, &[(0.049, Some(Critical)), (0.051, Some(Notice))], |throttled| {
        let mut build = build(1.0, 0.6);
        build.metric("cgroups", &[("cgroup", "/app")], &[("throttled.ratio", &|_| throttled)]);
        build
    });
    // Who uses most of it itself has no others to blame.
    let mut own = server();
    own.machine(1.0);
    for tid in 100..104 {
        own.thread(tid, "worker").cpu(tid, 0.8, &["server!work"]).ready(tid, 0.2);
    }
    assert_eq!(severity(&analyze(&own.done()), id), None);
}

#[test]
fn kernel_time() {
    // Share of the CPU time in the kernel, of half a core.
    let table = [(0.48, None), (0.52, Some(Notice)), (0.95, Some(Notice))];
    check(FindingId::KernelTime, &table, |share| {
        let mut build = server();
        build.machine(0.2);
        build.cpu(
            PID,
            0.5 * share,
            &["server!main", "server!scan", "libc.so.6!read", "k:do_syscall_64", "k:vfs_read"],
        );
        build.cpu(PID, 0.5 * (1.0 - share), &["server!main", "server!scan"]);
        build
    });
    // Of a process that hardly runs it is nobody's question.
    check(FindingId::KernelTime, &[(0.28, None), (0.32, Some(Notice))], |cores| {
        let mut build = server();
        build.machine(0.1).cpu(PID, cores, &["server!main", "k:do_syscall_64", "k:vfs_read"]);
        build
    });
}

#[test]
fn switch_storm() {
    let build = |switches: u64, running: f64| {
        let mut build = server();
        build.machine(0.3).cpu(PID, running, &["server!main", "server!work"]).switches(PID, switches);
        build
    };
    // Twenty thousand for each core in use, half a core at least.
    check(FindingId::SwitchStorm, &[(9_900, None), (10_100, Some(Notice))], |rate| build(rate, 0.4));
    check(FindingId::SwitchStorm, &[(15_900, None), (16_100, Some(Notice))], |rate| build(rate, 0.8));
    check(FindingId::SwitchStorm, &[(0.18, None), (0.22, Some(Notice))], |running| build(50_000, running));
    // By the time in the scheduler, where the rate is small.
    let table = [(0.24, None), (0.26, Some(Notice)), (0.31, Some(Warning))];
    check(FindingId::SwitchStorm, &table, |share| {
        let mut build = build(3_000, 0.5 * (1.0 - share));
        build.cpu(PID, 0.5 * share, &["server!main", "k:do_syscall_64", "k:schedule", "k:__schedule"]);
        build
    });
}

#[test]
fn disk_bound_by_one_thread() {
    const WRITES: &[&str] =
        &["server!main", "server!commit", "libc.so.6!fsync", "k:jbd2_log_wait_commit", "k:io_schedule"];
    let table = [
        (0.28, None),
        (0.32, Some(Notice)),
        (0.48, Some(Notice)),
        (0.52, Some(Warning)),
        (0.73, Some(Warning)),
        (0.77, Some(Critical)),
    ];
    check(FindingId::DiskBound, &table, |share| {
        let mut build = server();
        build.machine(0.1);
        build.wait(PID, Waiting { state: WaitState::Disk, ..waiting(WRITES, call::FSYNC, share, 5.0) });
        build
    });
}

/// A thread that flushes ten times a second for `flushes` of the time, and `waiting` that wait for it meanwhile at a condition. Each of
/// these also waits `others` times in the recording there for somebody who flushes nothing.
fn group_commit(flushes: f64, waiting: u32, others: u32) -> Build {
    const FLUSH: &[&str] =
        &["server!flusher", "server!flush_log", "libc.so.6!fsync", "k:jbd2_log_wait_commit", "k:io_schedule"];
    let mut build = server();
    build.machine(0.1).wait(PID, IDLE).thread(100, "flusher").thread(99, "other");
    let disk = Waiting { state: WaitState::Disk, ..waiting_of(FLUSH, call::FSYNC, flushes) };
    build.wait(100, disk);
    for tid in 101..101 + waiting {
        build.thread(tid, &format!("connection-{tid}"));
        build.wait(tid, Waiting { share: 0.45, each_ms: 45.0, waker: Some(100), ..IN_CONDITION });
        if others > 0 {
            let share = f64::from(others) / 5_000.0;
            build.wait(tid, Waiting { share, each_ms: 2.0, waker: Some(99), ..IN_CONDITION });
        }
    }
    build
}

/// Ten waits a second.
fn waiting_of(stack: &'static [&'static str], syscall: u32, share: f64) -> Waiting<'static> {
    waiting(stack, syscall, share, share * 100.0)
}

#[test]
fn disk_bound_through_others() {
    let id = FindingId::DiskBound;
    // One waits itself, so many behind it: at 0.26 of the time each.
    let table = [(1, None), (2, Some(Notice)), (3, Some(Warning)), (14, Some(Warning)), (15, Some(Critical))];
    check(id, &table, |waiting| group_commit(0.26, waiting, 0));
    // Too little of it is the disk's own, or is waited for by others.
    check(id, &[(0.19, None), (0.21, Some(Notice)), (0.25, Some(Warning))], |flushes| {
        group_commit(flushes, 3, 0)
    });
    check(id, &[(0.29, None), (0.31, Some(Notice))], |flushes| group_commit(flushes, 1, 0));
    // A fifth of the waits at that place.
    check(id, &[(380, Some(Warning)), (420, None)], |others| group_commit(0.26, 3, others));
}

/// Three threads that flush in turn, with a lock held, are each at a third of the time.
#[test]
fn who_flushes_in_turn_is_as_bound_by_the_disk_as_one_alone() {
    check(FindingId::DiskBound, &[(3, Some(Warning))], |waiting| group_commit(0.32, waiting, 0));
}

#[test]
fn disk_bound_by_the_kernels_account_without_a_trace() {
    for (share, expected) in [
        (0.29, None),
        (0.301, Some(Notice)),
        (0.501, Some(Warning)),
        (0.79, Some(Warning)),
        (0.801, Some(Critical)),
    ] {
        let mut build = Build::new("server", 10, 4);
        build.machine(0.1);
        build.metric("threads", &[("tid", "4711")], &[("disk-wait", &|_| share)]);
        let analysis = analyze(&build.without_trace());
        assert_eq!(severity(&analysis, FindingId::DiskBound), expected, "{share}:\n{}", outline(&analysis));
    }
}

#[test]
fn sleep_loop() {
    const SLEEPS: &[&str] =
        &["server!main", "server!poll_for_work", "libc.so.6!clock_nanosleep", "k:hrtimer_nanosleep"];
    let build = |share: f64, each_ms: f64| {
        let mut build = server();
        build.machine(0.1).wait(PID, waiting(SLEEPS, call::NANOSLEEP, share, each_ms));
        build
    };
    check(FindingId::SleepLoop, &[(0.48, None), (0.52, Some(Notice)), (0.99, Some(Notice))], |share| {
        build(share, 10.0)
    });
    // Twenty times a second and more.
    check(FindingId::SleepLoop, &[(40.0, Some(Notice)), (50.0, None), (1_000.0, None)], |each| {
        build(0.9, each)
    });
}

#[test]
fn a_timer_of_its_own_is_no_sleep_loop() {
    for function in ["server!watchdog_main", "server!runtime.sysmon", "server!TimerThread"] {
        let mut build = server();
        let stack = ["libc.so.6!start_thread", function, "libc.so.6!clock_nanosleep", "k:hrtimer_nanosleep"];
        let sleeps = Waiting {
            stack: &stack,
            syscall: call::NANOSLEEP,
            state: WaitState::Sleep,
            share: 0.9,
            each_ms: 10.0,
            waker: Some(0),
        };
        build.machine(0.1).wait(PID, sleeps);
        assert_eq!(severity(&analyze(&build.done()), FindingId::SleepLoop), None, "{function}");
    }
}

#[test]
fn slow_peer() {
    const ASKS: &[&str] =
        &["server!main", "server!query_database", "libc.so.6!recv", "k:tcp_recvmsg", "k:sk_wait_data"];
    let build = |share: f64, each_ms: f64| {
        let mut build = server();
        build.machine(0.1).wait(PID, waiting(ASKS, call::RECVFROM, share, each_ms));
        build
    };
    check(FindingId::SlowPeer, &[(0.48, None), (0.52, Some(Warning))], |share| build(share, 20.0));
    // Four long waits are a connection on which nothing happens.
    check(FindingId::SlowPeer, &[(2_250.0, None), (1_800.0, Some(Warning))], |each| build(0.9, each));
}

#[test]
fn who_waits_for_requests_has_no_slow_peer() {
    for function in
        ["do_command", "accept_loop", "Server::serve", "read_request", "pq_getbyte", "handle_connection"]
    {
        let mut build = server();
        let function = format!("server!{function}");
        let stack = ["server!main", &function, "libc.so.6!recv", "k:tcp_recvmsg", "k:sk_wait_data"];
        let waits = Waiting {
            stack: &stack,
            syscall: call::RECVFROM,
            state: WaitState::Sleep,
            share: 0.9,
            each_ms: 20.0,
            waker: Some(0),
        };
        build.machine(0.1).wait(PID, waits);
        let analysis = analyze(&build.done());
        assert_eq!(severity(&analysis, FindingId::SlowPeer), None, "{function}:\n{}", outline(&analysis));
    }
}

/// `threads` threads that wait for one lock for `share` of the time.
fn queue(threads: u32, share: f64) -> Build {
    let mut build = server();
    build.machine(0.2);
    for tid in 100..100 + threads {
        build.thread(tid, &format!("worker-{tid}"));
        build.wait(tid, Waiting { share, waker: Some(100 + (tid + 1) % threads), ..IN_LOCK });
    }
    build
}

#[test]
fn lock_convoy() {
    let id = FindingId::LockConvoy;
    // Ten threads: at a tenth of their time one waits on average, which is no queue.
    check(
        id,
        &[
            (0.14, None),
            (0.16, Some(Notice)),
            (0.19, Some(Notice)),
            (0.21, Some(Warning)),
            (0.49, Some(Warning)),
            (0.51, Some(Critical)),
        ],
        |share| queue(10, share),
    );
    // Two threads are no queue, however long they wait.
    check(id, &[(1, None), (2, None), (3, Some(Critical))], |threads| queue(threads, 0.8));
}

#[test]
fn workers_that_wait_for_work_are_no_queue() {
    for (name, seen) in
        [("Queue::take", false), ("ThreadPool::idle", false), ("commit_order", false), ("append_entry", true)]
    {
        let mut build = server();
        build.machine(0.2);
        let function = format!("server!{name}");
        let stack = [
            "libc.so.6!start_thread",
            "server!a",
            "server!b",
            "server!c",
            "server!d",
            &function,
            "libc.so.6!pthread_cond_wait",
            "k:do_futex",
            "k:futex_wait",
        ];
        for tid in 100..106 {
            build.thread(tid, &format!("thread-{tid}"));
            build.wait(tid, Waiting { stack: &stack, waker: Some(100 + (tid + 1) % 6), ..IN_CONDITION });
        }
        let analysis = analyze(&build.done());
        assert_eq!(
            severity(&analysis, FindingId::LockConvoy).is_some(),
            seen,
            "{name}:\n{}",
            outline(&analysis)
        );
    }
}

#[test]
fn lock_contention_in_no_one_place() {
    /// Each of six threads at a lock of its own.
    fn spread(share: f64) -> Build {
        const PLACES: [&str; 6] =
            ["server!one", "server!two", "server!three", "server!four", "server!five", "server!six"];
        let mut build = server();
        build.machine(0.2);
        for (tid, place) in (100..).zip(PLACES) {
            build.thread(tid, &format!("worker-{tid}"));
            let stack = [
                "libc.so.6!start_thread",
                place,
                "libc.so.6!pthread_mutex_lock",
                "k:do_futex",
                "k:futex_wait",
            ];
            build.wait(tid, Waiting { stack: &stack, share, ..IN_LOCK });
        }
        build
    }
    // One thread at a time on average, and a fifth of their time.
    let table = [(0.15, None), (0.18, Some(Notice)), (0.22, Some(Warning)), (0.9, Some(Warning))];
    check(FindingId::LockContention, &table, spread);
    assert_eq!(
        severity(&analyze(&queue(10, 0.8).done()), FindingId::LockContention),
        None,
        "one place is a convoy"
    );
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

/// A server at 90 % of one CPU: `functions` share what is not sending and receiving.
fn serving(functions: usize, talking: f64, running: f64) -> Build {
    let mut build = Build::new("server", 10, 2);
    let listening =
        "1 sockets\n\ntcp   127.0.0.1:8080 -> 0.0.0.0:0 listening to send 0 to read 0 descriptor 3\n";
    build.capture.context.push((format!("target/{PID}/sockets.txt"), listening.to_owned()));
    build.thread(PID, "server").machine(1.0);
    let names: Vec<String> = (0..functions).map(|number| format!("server!step_{number}")).collect();
    for name in &names {
        build.cpu(PID, running * (1.0 - talking) / functions as f64, &["server!main", "server!answer", name]);
    }
    for call in ["k:tcp_sendmsg", "k:tcp_ack", "k:ip_output", "k:loopback_xmit", "k:copy_from_iter"] {
        let stack = ["server!main", "server!answer", "libc.so.6!write", "k:sock_write_iter", call];
        build.cpu(PID, running * talking / 5.0, &stack);
    }
    build
}

/// What a server does at full load is a notice; what is said else is a warning.
#[test]
fn answering() {
    let id = FindingId::CpuBound;
    // Functions that have half of the time: 11 of 18, 12 of 19.
    let spread = [(4, Some(Warning)), (18, Some(Warning)), (19, Some(Notice)), (60, Some(Notice))];
    check(id, &spread, |functions| serving(functions, 0.15, 0.9));
    let talking = [(0.0, Some(Warning)), (0.095, Some(Warning)), (0.105, Some(Notice)), (0.3, Some(Notice))];
    check(id, &talking, |talking| serving(40, talking, 0.9));
    // Of a server that hardly gets a CPU, 0.02 CPUs' worth of it.
    check(id, &[(0.18, Some(Warning)), (0.22, Some(Notice))], |talking| {
        let mut build = serving(40, talking, 0.1);
        build.ready(PID, 0.8);
        build
    });
}
