//! What piles up: threads, memory.

use crate::build::{Build, IDLE, PID, Waiting, call};
use crate::{first, no_alarm, process};
use biopsy_analyze::{FindingId, Severity, analyze};
use biopsy_model::process::RuntimeKind;
use biopsy_model::timeline::WaitState;

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

/// A program that starts maps its libraries page by page.
#[test]
fn pages_of_files_are_no_growth_of_memory() {
    let of = |anonymous: f64| {
        let mut build = Build::new("server", 60, 4);
        build.thread(PID, "server").machine(0.1).wait(PID, IDLE);
        build.metric(
            "processes",
            &[("pid", "4711"), ("name", "server")],
            &[
                ("memory.rss", &|second| 80e6 + second * 5e6),
                // Not in a line, so that it is no trend itself.
                ("memory.anon", &|second| 40e6 + anonymous * second + 30e6 * (second % 2.0)),
            ],
        );
        let analysis = analyze(&build.done());
        let found = analysis.findings.iter().find(|finding| finding.id == FindingId::MemoryGrowth);
        found.map(|finding| finding.severity)
    };
    assert_eq!(of(0.0), Some(Severity::Notice));
    assert_eq!(
        of(4.5e6),
        Some(Severity::Critical),
        "the rest of this machine's memory is full within the hour"
    );
}

/// Threads of a virtual machine touch its pages: what the program works at is the next best.
#[test]
fn memory_growth_of_a_virtual_machine_names_what_works_meanwhile() {
    let title_of = |runtime, visits: f64| {
        let mut build = Build::new("rooms.js", 60, 4);
        build.thread(PID, "node").machine(0.1).wait(PID, IDLE);
        build.cpu(PID, visits, &["jit!visit", "jit!Visitor"]).cpu(PID, visits / 2.0, &["jit!log"]);
        build.cpu(PID, 0.09 - visits * 1.5, &["node!v8::internal::Heap::CollectGarbage"]);
        build.metric(
            "processes",
            &[("pid", "4711"), ("name", "node")],
            &[("memory.anon", &|second| 60e6 + second * 5e6)],
        );
        let mut capture = build.done();
        capture.processes.push(process("node", runtime));
        analyze(&capture).findings.first().unwrap().title.clone()
    };
    let title = |runtime| title_of(runtime, 0.059);
    let named = title(RuntimeKind::Node);
    assert!(named.contains("; most work meanwhile is in `Visitor`"), "{named}");
    // The rest is the runtime's: less of it is enough; and of few samples its thread tells.
    for visits in [0.02, 0.005] {
        let named = title_of(RuntimeKind::Node, visits);
        assert!(named.contains("; of its own functions `Visitor` works most meanwhile"), "{visits}: {named}");
    }
    assert!(
        !title(RuntimeKind::Unknown).contains("most work"),
        "memory of others is touched by who allocates it"
    );
}

/// Until its collector runs, the heap of a virtual machine only fills.
#[test]
fn memory_growth_of_java_before_a_collection_is_a_notice() {
    let severity = |collector: &str, runs: bool| {
        let mut build = Build::new("Almanac", 60, 4);
        build.thread(PID, "java").machine(0.1).wait(PID, IDLE);
        build.thread(PID + 1, collector);
        if !runs {
            build.switches(PID + 1, 0);
        }
        build.metric(
            "processes",
            &[("pid", "4711"), ("name", "java")],
            &[("memory.anon", &|second| 60e6 + second * 5e6)],
        );
        let mut capture = build.done();
        capture.processes.push(process("java", RuntimeKind::Jvm));
        let findings = analyze(&capture).findings;
        findings.iter().find(|finding| finding.id == FindingId::MemoryGrowth).map(|finding| finding.severity)
    };
    assert_eq!(severity("GC Thread#0", false), Some(Severity::Notice));
    assert!(
        severity("GC Thread#0", true) > Some(Severity::Notice),
        "it was collected, and grows all the same"
    );
    assert!(severity("worker", false) > Some(Severity::Notice), "it is not known whether it was collected");
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
