//! Each kind of sick program, and healthy ones: the first finding names the cause, and healthy ones raise no alarm.

mod build;

use biopsy_analyze::{Analysis, Severity, analyze};
use biopsy_model::log::LogLevel;
use biopsy_model::loss::{Loss, LossKind};
use biopsy_model::timeline::{TimelineEvent, WaitState};
use biopsy_model::{MonoNanos, Pid};
use build::{Build, IDLE, IN_CONDITION, IN_LOCK, PID, START, Waiting, call};

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

#[test]
fn hot_function() {
    let mut build = Build::new("hot-function", 10, 4);
    let root = ["libc.so.6!__libc_start_main", "hot!main", "hot!deploy_forever"];
    let stack = |more: &[&'static str]| [&root[..], more].concat();
    build.thread(PID, "hot-function").machine(0.26);
    build.cpu(PID, 0.72, &stack(&["hot!verify_package", "hot!compute_checksum_bit_by_bit"]));
    build.cpu(PID, 0.24, &stack(&["hot!verify_manifest", "hot!compute_checksum_bit_by_bit"]));
    build.cpu(PID, 0.03, &stack(&["hot!verify_package"]));
    insta::assert_snapshot!(first(&analyze(&build.done())));
}

#[test]
fn hot_library_function_is_named_with_its_caller() {
    let mut build = Build::new("copier", 10, 4);
    build.thread(PID, "copier").machine(0.26);
    build.cpu(
        PID,
        0.9,
        &[
            "libc.so.6!__libc_start_main",
            "copier!main",
            "copier!render_page",
            "libc.so.6!__memmove_avx_unaligned",
        ],
    );
    let analysis = analyze(&build.done());
    assert!(
        analysis.findings[0].title.contains("`__memmove_avx_unaligned` called from `render_page`"),
        "{}",
        outline(&analysis)
    );
}

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
    assert_eq!(analysis.findings[0].id, "lock-convoy", "{}", outline(&analysis));
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
        let found = analysis.findings.iter().find(|finding| finding.id == "lock-convoy");
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
    assert_eq!(analysis.findings[0].id, "disk-bound", "{}", outline(&analysis));
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

/// On a machine that others use up, what the program would do with a CPU is still seen.
#[test]
fn cpu_bound_and_starved() {
    let mut build = Build::new("victim", 10, 2);
    build.thread(PID, "victim").ready(PID, 0.7).machine(1.0);
    build.cpu(PID, 0.3, &["server!main", "server!work", "server!hash"]);
    let analysis = analyze(&build.done());
    insta::assert_snapshot!(outline(&analysis));
}

/// A thread that gets the CPU for most of the time it wants it is bound by its own code; that others are busy too comes second.
#[test]
fn cpu_bound_beside_busy_others() {
    let mut build = Build::new("victim", 10, 4);
    build.thread(PID, "victim").ready(PID, 0.4).machine(1.0);
    build.cpu(PID, 0.6, &["server!main", "server!work", "server!hash"]);
    let analysis = analyze(&build.done());
    let ids: Vec<&str> = analysis.findings.iter().map(|finding| finding.id).collect();
    assert_eq!(ids[..2], ["cpu-bound", "cpu-saturated-by-others"], "{}", outline(&analysis));
    assert!(
        analysis.findings[1].explanation.contains("does not explain"),
        "{}",
        analysis.findings[1].explanation
    );
}

/// Files that pile up are no matter of busy neighbours, however little CPU is left.
#[test]
fn a_leak_beside_busy_others() {
    let mut build = Build::new("victim", 30, 4);
    build.thread(PID, "victim").ready(PID, 0.9).machine(1.0);
    build.cpu(PID, 0.05, &["server!main", "server!open_package"]);
    build.metric(
        "processes",
        &[("pid", &PID.to_string())],
        &[("fds", &|second| 50.0 + 20.0 * second), ("cpu.user", &|_| 0.05)],
    );
    let analysis = analyze(&build.done());
    let ids: Vec<&str> = analysis.findings.iter().map(|finding| finding.id).collect();
    assert_eq!(ids[..2], ["descriptor-growth", "cpu-saturated-by-others"], "{}", outline(&analysis));
}

/// A queue for a lock may be what busy neighbours make of a short wait: the larger of the two shares is first, as among all others.
#[test]
fn what_may_be_their_doing_stays_behind_busy_others() {
    let mut build = Build::new("victim", 10, 4);
    build.thread(PID, "victim").ready(PID, 0.9).machine(1.0);
    build.cpu(PID, 0.1, &["server!main", "server!work"]);
    for tid in 1..=4 {
        build.thread(PID + tid, "worker").ready(PID + tid, 0.7);
        build.wait(PID + tid, Waiting { share: 0.3, ..IN_LOCK });
    }
    let analysis = analyze(&build.done());
    assert_eq!(analysis.findings[0].id, "cpu-saturated-by-others", "{}", outline(&analysis));
}

/// Threads that hardly want a CPU are not held back by busy ones.
#[test]
fn busy_neighbours_harm_no_sleeper() {
    for ready in [0.0, 0.02] {
        let mut build = Build::new("sleeper", 10, 2);
        build.thread(PID, "sleeper").ready(PID, ready).machine(1.0).wait(PID, IDLE);
        no_alarm(&analyze(&build.done()));
    }
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
fn runaway_threads() {
    let mut build = Build::new("runaway", 10, 4);
    build.thread(PID, "runaway").machine(0.1);
    build.wait(
        PID,
        Waiting {
            stack: &[
                "server!main",
                "server!spawn_watchdog",
                "libc.so.6!clock_nanosleep",
                "k:hrtimer_nanosleep",
            ],
            syscall: call::NANOSLEEP,
            each_ms: 50.0,
            ..IDLE
        },
    );
    for number in 0..200 {
        let tid = 5_000 + number;
        build.life(tid, "watchdog", Some(f64::from(number) / 200.0), Some(PID));
        build.wait(
            tid,
            Waiting {
                stack: &[
                    "libc.so.6!start_thread",
                    "server!watchdog",
                    "server!watch_task",
                    "libc.so.6!clock_nanosleep",
                    "k:hrtimer_nanosleep",
                ],
                syscall: call::NANOSLEEP,
                share: 0.4,
                each_ms: 500.0,
                ..IDLE
            },
        );
    }
    insta::assert_snapshot!(first(&analyze(&build.done())));
}

/// A trace may miss the end of short-lived threads; the kernel's count does not.
#[test]
fn short_lived_threads_do_not_pile_up() {
    let mut build = Build::new("server", 10, 4);
    build.thread(PID, "server").machine(0.1).wait(PID, IDLE);
    for number in 0..60 {
        build.life(5_000 + number, "request", Some(f64::from(number) / 60.0), Some(PID));
    }
    for life in build.timeline.threads.iter_mut().filter(|life| life.info.tid.0 % 4 != 0) {
        life.exit = life.born.then_some(life.start);
    }
    build.metric(
        "processes",
        &[("pid", "4711"), ("name", "server")],
        &[("threads", &|second| 1.0 + second % 2.0)],
    );
    no_alarm(&analyze(&build.done()));
}

#[test]
fn memory_growth() {
    let mut build = Build::new("memory-growth", 20, 4);
    build.thread(PID, "memory-growth").machine(0.1);
    build.cpu(
        PID,
        0.02,
        &[
            "server!main",
            "server!remember_forever",
            "libc.so.6!__memset_avx2",
            "k:asm_exc_page_fault",
            "k:handle_mm_fault",
            "k:clear_page_erms",
        ],
    );
    build.wait(
        PID,
        Waiting {
            stack: &["server!main", "libc.so.6!clock_nanosleep", "k:hrtimer_nanosleep"],
            syscall: call::NANOSLEEP,
            each_ms: 6.0,
            ..IDLE
        },
    );
    build.metric(
        "processes",
        &[("pid", "4711"), ("name", "memory-growth")],
        &[
            ("memory.rss", &|second| 20e6 + second * 10e6),
            ("memory.anon", &|second| 18e6 + second * 10e6),
            ("threads", &|_| 2.0),
            ("fds", &|_| 5.0),
        ],
    );
    insta::assert_snapshot!(first(&analyze(&build.done())));
}

/// Filling caches at the start and then staying there is not growth.
#[test]
fn warming_up_is_no_growth() {
    let mut build = Build::new("cache", 30, 4);
    build.thread(PID, "cache").machine(0.1).wait(PID, IDLE);
    build.metric(
        "processes",
        &[("pid", "4711"), ("name", "cache")],
        &[
            ("memory.rss", &|second| 20e6 + second.min(8.0) * 40e6),
            ("memory.anon", &|second| 18e6 + second.min(8.0) * 40e6),
        ],
    );
    no_alarm(&analyze(&build.done()));
}

#[test]
fn throttled() {
    let mut build = Build::new("busy-loop", 10, 4);
    build.machine(0.1);
    for tid in [PID, PID + 1] {
        build.thread(tid, "busy-loop").ready(tid, 0.75);
        build.cpu(tid, 0.25, &["libc.so.6!start_thread", "server!count_forever", "server!count_some"]);
    }
    build.metric(
        "cgroups",
        &[("path", "/system.slice/busy.service")],
        &[("throttled.ratio", &|_| 0.98), ("cpu.quota", &|_| 0.5), ("cpu.usage", &|_| 0.5)],
    );
    insta::assert_snapshot!(first(&analyze(&build.done())));
}

#[test]
fn saturated_by_others() {
    let mut build = Build::new("victim", 10, 4);
    build.thread(PID, "victim").ready(PID, 0.5).machine(0.99);
    build.cpu(PID, 0.3, &["server!main", "server!work"]);
    insta::assert_snapshot!(first(&analyze(&build.done())));
}

#[test]
fn memory_pressure() {
    let mut build = Build::new("victim", 10, 4);
    build.thread(PID, "victim").cpu(PID, 0.2, &["server!main", "server!lookup"]);
    build.wait(
        PID,
        Waiting {
            stack: &[
                "server!main",
                "server!lookup",
                "k:asm_exc_page_fault",
                "k:handle_mm_fault",
                "k:do_swap_page",
                "k:folio_wait_bit",
                "k:io_schedule",
                "k:schedule",
            ],
            syscall: call::READ,
            state: WaitState::Disk,
            share: 0.6,
            each_ms: 3.0,
            waker: Some(0),
        },
    );
    build.metric(
        "system",
        &[],
        &[
            ("pressure.memory.some", &|_| 0.5),
            ("swap.in", &|_| 30e6),
            ("swap.out", &|_| 28e6),
            ("cpu.busy", &|_| 0.3),
        ],
    );
    build.metric("processes", &[("pid", "4711"), ("name", "victim")], &[("faults.major", &|_| 700.0)]);
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
    assert_eq!(analysis.findings[0].id, "switch-storm", "{}", outline(&analysis));
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
    assert_eq!(analysis.findings[0].id, "no-bottleneck", "{}", outline(&analysis));
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
    assert_eq!(analysis.findings[0].id, "recording-incomplete", "{}", outline(&analysis));
    assert!(analysis.completeness.partial);
    insta::assert_snapshot!(analysis.completeness.undetermined.join("\n"));
}

#[test]
fn an_empty_recording_is_said_to_be_empty() {
    let mut capture = Build::new("nothing", 0, 0).without_trace();
    capture.header = Default::default();
    let analysis = analyze(&capture);
    assert_eq!(analysis.findings[0].id, "nothing-recorded");
}
