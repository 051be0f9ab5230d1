//! What the machine gives and takes: processors, memory, limits of a cgroup.

use super::*;

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
