//! Programs that wait: for locks, disks, peers, each other, or the time.

use crate::build::{Build, IDLE, IN_CONDITION, IN_LOCK, PID, Waiting, call};
use crate::{first, no_alarm, outline};
use biopsy_analyze::{Severity, analyze};
use biopsy_model::timeline::WaitState;

#[test]
fn lock_convoy() {
    let mut build = Build::new("lock-convoy", 10, 4);
    build.thread(PID, "lock-convoy").machine(0.1).wait(PID, Waiting { share: 0.99, ..IDLE });
    for number in 0..8 {
        let tid = 100 + number;
        build.thread(tid, &format!("log-writer-{number}"));
        build.wait(tid, Waiting { waker: Some(100 + (number + 1) % 8), ..IN_LOCK });
        build.wait(
            tid,
            Waiting {
                stack: &[
                    "libc.so.6!start_thread",
                    "server!worker_main",
                    "server!append_under_lock",
                    "server!write_line_slowly",
                    "libc.so.6!clock_nanosleep",
                    "k:do_syscall_64",
                    "k:hrtimer_nanosleep",
                    "k:do_nanosleep",
                    "k:schedule",
                    "k:__schedule",
                ],
                syscall: call::NANOSLEEP,
                share: 0.12,
                each_ms: 1.1,
                waker: Some(0),
                ..IN_LOCK
            },
        );
        build.cpu(tid, 0.01, &["libc.so.6!start_thread", "server!worker_main", "server!append_under_lock"]);
    }
    insta::assert_snapshot!(first(&analyze(&build.done())));
}

/// Workers that share one receiver under a mutex: one of them waits for work and has the lock, the others wait for the lock.
#[test]
fn workers_that_take_turns_at_a_source_are_no_convoy() {
    // Who sends is asked for it or not; the last thread that waits is one of many at a condition or the only one.
    for (asked, at_rest, expected) in
        [(false, 0.9, Severity::Notice), (true, 0.9, Severity::Critical), (false, 1.8, Severity::Critical)]
    {
        let mut build = Build::new("feed", 12, 4);
        build.thread(PID, "feed").machine(0.1).wait(PID, IDLE);
        for number in 0..4 {
            let (tid, next) = (100 + number, 100 + (number + 1) % 4);
            build.thread(tid, &format!("worker-{number}"));
            let taking = [
                "libc.so.6!start_thread",
                "server!follow_feed",
                "libc.so.6!pthread_cond_wait",
                "k:futex_wait",
            ];
            let queuing = [
                "libc.so.6!start_thread",
                "server!follow_feed",
                "libc.so.6!pthread_mutex_lock",
                "k:futex_wait",
            ];
            let (each_ms, share) = (at_rest * 10.0 / 4.0, at_rest / 4.0);
            for waits in [
                Waiting { stack: &taking, share, each_ms, waker: Some(PID), ..IN_CONDITION },
                Waiting { stack: &queuing, share: 0.7, each_ms: 7.0, waker: Some(next), ..IN_LOCK },
            ] {
                let before = build.timeline.waits.len();
                build.wait(tid, waits);
                let stack = build.stack(waits.stack);
                build.timeline.waits[before..].iter_mut().for_each(|wait| wait.stack = stack);
            }
            if asked {
                build.wait(PID, Waiting { share: 0.2, each_ms: 2.0, waker: Some(tid), ..IN_CONDITION });
            }
        }
        let analysis = analyze(&build.done());
        let found = analysis.findings.iter().find(|finding| finding.id.as_str() == "lock-convoy");
        assert_eq!(
            found.map(|found| found.severity),
            Some(expected),
            "{asked} {at_rest}: {}",
            outline(&analysis)
        );
        if expected == Severity::Notice {
            no_alarm(&analysis);
            assert!(
                found.is_some_and(|found| found.title.starts_with("Workers take turns in `follow_feed`"))
            );
        }
    }
}

/// Without stacks of waits a convoy is told from a pool of idle workers by the lock being handed on.
#[test]
fn lock_convoy_without_stacks() {
    let mut build = Build::new("lock-convoy", 10, 4);
    build.thread(PID, "lock-convoy").machine(0.1);
    for number in 0..8 {
        let tid = 100 + number;
        build.thread(tid, &format!("log-writer-{number}"));
        build.wait(tid, Waiting { waker: Some(100 + (number + 1) % 8), ..IN_LOCK });
    }
    build.timeline.wait_samples.clear();
    let analysis = analyze(&build.done());
    assert_eq!(analysis.findings[0].id.as_str(), "lock-convoy", "{}", outline(&analysis));
}

/// Monitors of language runtimes are made of conditions: threads that wake each other all the time tell them from idle
/// workers. A name that says they wait for work settles it the other way.
#[test]
fn a_lock_made_of_conditions() {
    for (place, expected) in [
        ("server!append_line", Some(Severity::Warning)),
        ("server!", Some(Severity::Notice)),
        ("server!Worker::take_task", None),
    ] {
        let mut build = Build::new("managed", 10, 4);
        build.thread(PID, "managed").machine(0.1).wait(PID, IDLE);
        for number in 0..8 {
            let tid = 100 + number;
            build.thread(tid, &format!("log-writer-{number}"));
            let waker = Some(100 + (number + 1) % 8);
            let stack =
                ["libc.so.6!start_thread", "server!", place, "libc.so.6!pthread_cond_wait", "k:futex_wait"];
            build.wait(tid, Waiting { stack: &stack, each_ms: 8.0, waker, ..IN_CONDITION });
        }
        let analysis = analyze(&build.done());
        let found = analysis.findings.iter().find(|finding| finding.id.as_str() == "lock-convoy");
        assert_eq!(found.map(|finding| finding.severity), expected, "{place}: {}", outline(&analysis));
    }
}

#[test]
fn idle_workers_are_no_convoy() {
    for stacks in [true, false] {
        let mut build = Build::new("pool", 10, 4);
        build.thread(PID, "pool").machine(0.1).wait(PID, IDLE).cpu(
            PID,
            0.04,
            &["server!main", "server!dispatch"],
        );
        for tid in 100..116 {
            build
                .thread(tid, &format!("worker-{tid}"))
                .wait(tid, Waiting { waker: Some(PID), ..IN_CONDITION });
            build.cpu(tid, 0.01, &["server!worker_main", "server!handle"]);
        }
        if !stacks {
            build.timeline.wait_samples.clear();
        }
        let analysis = analyze(&build.done());
        no_alarm(&analysis);
        assert!(analysis.waits.convoys.is_empty(), "{:?}", analysis.waits.convoys);
    }
}

#[test]
fn disk_bound() {
    let mut build = Build::new("disk-bound", 10, 4);
    build.thread(PID, "disk-bound").machine(0.1);
    build.cpu(
        PID,
        0.05,
        &["server!main", "server!append_record", "libc.so.6!write", "k:ksys_write", "k:ext4_file_write_iter"],
    );
    build.wait(
        PID,
        Waiting {
            stack: &[
                "server!main",
                "server!append_record",
                "server!flush_journal",
                "libc.so.6!fsync",
                "k:do_syscall_64",
                "k:do_fsync",
                "k:ext4_sync_file",
                "k:jbd2_log_wait_commit",
                "k:io_schedule",
                "k:schedule",
                "k:__schedule",
            ],
            syscall: call::FSYNC,
            state: WaitState::Disk,
            share: 0.93,
            each_ms: 2.3,
            waker: Some(0),
        },
    );
    build.metric(
        "disks",
        &[("device", "vda")],
        &[
            ("busy", &|_| 0.97),
            ("write.latency", &|_| 1.9),
            ("flush.latency", &|_| 0.0),
            ("read.latency", &|_| 0.0),
        ],
    );
    insta::assert_snapshot!(first(&analyze(&build.done())));
}

#[test]
fn disk_bound_by_metrics_alone() {
    let mut build = Build::new("disk-bound", 10, 4);
    build.machine(0.1);
    build.metric(
        "threads",
        &[("pid", "4711"), ("tid", "4711"), ("name", "disk-bound")],
        &[("disk-wait", &|_| 0.9)],
    );
    build.metric(
        "processes",
        &[("pid", "4711"), ("name", "disk-bound")],
        &[("cpu.user", &|_| 0.02), ("cpu.system", &|_| 0.05)],
    );
    let analysis = analyze(&build.without_trace());
    assert_eq!(analysis.findings[0].id.as_str(), "disk-bound", "{}", outline(&analysis));
}

/// A group commit: one thread writes for all, the others wait for it.
#[test]
fn disk_bound_through_others() {
    let mut build = Build::new("database", 10, 4);
    build.thread(PID, "database").machine(0.1).wait(PID, IDLE);
    for number in 0..8 {
        let tid = 100 + number;
        build.thread(tid, "database").cpu(tid, 0.02, &["server!handle_connection", "server!execute"]);
        build.wait(
            tid,
            Waiting {
                stack: &[
                    "server!handle_connection",
                    "server!commit",
                    "server!",
                    "libc.so.6!fdatasync",
                    "k:do_fsync",
                    "k:ext4_sync_file",
                    "k:io_schedule",
                    "k:schedule",
                ],
                syscall: 75,
                state: WaitState::Disk,
                share: 0.08,
                each_ms: 8.0,
                waker: Some(0),
            },
        );
        build.wait(
            tid,
            Waiting {
                stack: &[
                    "server!handle_connection",
                    "server!wait_for_commit",
                    "libc.so.6!pthread_cond_wait",
                    "k:futex_wait",
                    "k:schedule",
                ],
                share: 0.6,
                each_ms: 60.0,
                waker: Some(100 + (number + 1) % 8),
                ..IN_CONDITION
            },
        );
    }
    let analysis = analyze(&build.done());
    insta::assert_snapshot!(first(&analysis));
    let row = &analysis.waits.behind[0];
    let name = |function| analysis.function(function).map(|row| row.name.as_str());
    assert_eq!(row.function.and_then(name), Some("wait_for_commit"));
    // The caller of `fdatasync` has no name; the nearest one that has stands for it.
    assert_eq!(row.cause_function.and_then(name), Some("commit"));
}

#[test]
fn slow_peer() {
    let mut build = Build::new("slow-peer", 10, 4);
    build.thread(PID, "slow-peer").machine(0.1).cpu(PID, 0.001, &["server!main", "server!fetch_from_peer"]);
    build.wait(
        PID,
        Waiting {
            stack: &[
                "libc.so.6!__libc_start_main",
                "server!main",
                "server!fetch_from_peer",
                "libc.so.6!recv",
                "k:do_syscall_64",
                "k:tcp_recvmsg",
                "k:tcp_recvmsg_locked",
                "k:sk_wait_data",
                "k:wait_woken",
                "k:schedule_timeout",
                "k:schedule",
            ],
            syscall: call::RECVFROM,
            share: 0.99,
            each_ms: 200.0,
            ..IDLE
        },
    );
    insta::assert_snapshot!(first(&analyze(&build.done())));
}

#[test]
fn sleeping_in_a_loop() {
    let mut build = Build::new("poller", 10, 4);
    build.thread(PID, "poller").machine(0.1).cpu(PID, 0.01, &["server!main", "server!poll_queue"]);
    build.wait(
        PID,
        Waiting {
            stack: &[
                "server!main",
                "server!poll_queue",
                "libc.so.6!usleep",
                "libc.so.6!clock_nanosleep",
                "k:hrtimer_nanosleep",
                "k:do_nanosleep",
            ],
            syscall: call::NANOSLEEP,
            share: 0.97,
            each_ms: 10.0,
            ..IDLE
        },
    );
    insta::assert_snapshot!(first(&analyze(&build.done())));
}

#[test]
fn single_thread_bottleneck() {
    let mut build = Build::new("funnel", 10, 8);
    build.thread(PID, "coordinator").machine(0.15);
    build.cpu(PID, 0.97, &["server!main", "server!coordinate", "server!merge_results"]);
    for tid in 100..108 {
        build.thread(tid, &format!("worker-{tid}")).cpu(tid, 0.08, &["server!worker_main", "server!compute"]);
        build.wait(tid, Waiting { waker: Some(PID), ..IN_CONDITION });
    }
    insta::assert_snapshot!(first(&analyze(&build.done())));
}

#[test]
fn switch_storm() {
    let mut build = Build::new("ping-pong", 10, 4);
    build.machine(0.5);
    for tid in [PID, PID + 1] {
        build.thread(tid, "ping-pong").switches(tid, 50_000);
        build.cpu(
            tid,
            0.3,
            &[
                "server!main",
                "server!throw",
                "libc.so.6!write",
                "k:pipe_write",
                "k:try_to_wake_up",
                "k:_raw_spin_unlock_irqrestore",
            ],
        );
        build.cpu(
            tid,
            0.2,
            &[
                "server!main",
                "server!catch",
                "libc.so.6!read",
                "k:pipe_read",
                "k:schedule",
                "k:__schedule",
                "k:finish_task_switch.isra.0",
            ],
        );
        build.cpu(tid, 0.1, &["server!main", "server!catch"]);
    }
    let analysis = analyze(&build.done());
    assert_eq!(analysis.findings[0].id.as_str(), "switch-storm", "{}", outline(&analysis));
    insta::assert_snapshot!(first(&analysis));
    let heading =
        analysis.functions.iter().find(|row| row.name == "kernel: scheduling").expect("the heading");
    assert_eq!(heading.cpu_self.0, 10_000_000_000);
    assert!(
        analysis
            .functions
            .iter()
            .all(|row| row.name != "_raw_spin_unlock_irqrestore" || row.cpu_total.0 == 0)
    );
}

#[test]
fn who_looks_for_changed_files_has_no_slow_peer() {
    for (name, function) in
        [(".NET File Watch", "Interop.Sys.Read"), ("reader", "FileSystemWatcher.TryReadEvent")]
    {
        let mut build = Build::new("server", 10, 4);
        build.thread(PID, "server").machine(0.1).wait(PID, IDLE);
        let function = format!("server!{function}");
        let stack = ["libc.so.6!start_thread", &function, "libc.so.6!read", "k:ksys_read", "k:schedule"];
        build
            .thread(100, name)
            .wait(100, Waiting { stack: &stack, syscall: call::READ, each_ms: 150.0, ..IDLE });
        let analysis = analyze(&build.done());
        assert!(
            analysis.findings.iter().all(|finding| finding.id.as_str() != "slow-peer"),
            "{}",
            outline(&analysis)
        );
    }
}

#[test]
fn a_server_waiting_for_clients_has_no_slow_peer() {
    let mut build = Build::new("mariadbd", 10, 4);
    build.thread(PID, "mariadbd").machine(0.1).wait(PID, IDLE);
    for tid in 100..104 {
        build.thread(tid, "mariadbd").wait(
            tid,
            Waiting {
                stack: &[
                    "libc.so.6!start_thread",
                    "mariadbd!handle_one_connection",
                    "mariadbd!do_command",
                    "mariadbd!my_net_read_packet",
                    "libc.so.6!recv",
                    "k:tcp_recvmsg",
                    "k:sk_wait_data",
                    "k:schedule",
                ],
                syscall: call::RECVFROM,
                each_ms: 40.0,
                ..IDLE
            },
        );
    }
    no_alarm(&analyze(&build.done()));
}
