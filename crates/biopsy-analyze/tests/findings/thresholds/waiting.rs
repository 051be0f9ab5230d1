//! What threads wait for: disks, peers, locks, work.

use super::*;

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
