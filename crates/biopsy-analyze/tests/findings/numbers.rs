//! The numbers of findings on the machine, its limits and its disks: what is said of which reading, and what the readings do not say.

use crate::ask::{finding, says, severity, texts, there};
use crate::build::{Build, IDLE, IN_LOCK, PID, Waiting, call};
use crate::outline;
use biopsy_analyze::Severity::{self, Critical, Info, Notice, Warning};
use biopsy_analyze::{Analysis, FindingId, Reference, analyze};
use biopsy_model::MonoNanos;
use biopsy_model::capture::EndedBy;
use biopsy_model::log::LogLevel;
use biopsy_model::loss::{Loss, LossKind};
use biopsy_model::timeline::WaitState;

fn server() -> Build {
    let mut build = Build::new("server", 10, 4);
    build.thread(PID, "server");
    build
}

/// Columns of one key.
type Columns<'a> = &'a [(&'a str, f64)];

fn metric(build: &mut Build, table: &str, keys: &[(&str, &str)], columns: Columns<'_>) {
    let functions: Vec<Box<dyn Fn(f64) -> f64>> =
        columns.iter().map(|&(_, value)| Box::new(move |_| value) as Box<dyn Fn(f64) -> f64>).collect();
    let named: Vec<(&str, &dyn Fn(f64) -> f64)> =
        columns.iter().zip(&functions).map(|((name, _), value)| (*name, &**value)).collect();
    build.metric(table, keys, &named);
}

#[test]
fn the_worst_cgroup_is_told_with_its_quota_and_its_use() {
    let columns = |ratio, quota| [("throttled.ratio", ratio), ("cpu.quota", quota), ("cpu.usage", 1.4)];
    for (quota, limit) in [(1.5, " of 1.5 cores"), (1.0, " of 1 core"), (0.0, "")] {
        let mut build = server();
        build.machine(0.3).wait(PID, IDLE);
        metric(&mut build, "cgroups", &[("cgroup", "/app")], &columns(0.2, 8.0));
        metric(&mut build, "cgroups", &[("cgroup", "/app/worker")], &columns(0.4, quota));
        let analysis = analyze(&build.done());
        let found = there(&analysis, FindingId::CgroupThrottled);
        assert_eq!(
            found.title,
            format!("Throttled by its cgroup: the CPU quota{limit} runs out in 40 % of the periods")
        );
        let texts = texts(found);
        assert_eq!(texts[0], "cgroup `/app/worker` was throttled in 40 % of its periods");
        assert_eq!(
            texts.contains(&format!("its quota is{}", limit.trim_start_matches(" of")).as_str()),
            quota > 0.0,
            "{texts:?}"
        );
        assert!(
            texts.contains(&"it used 1.4 cores") && !texts.contains(&"its quota is 8.0 cores"),
            "{texts:?}"
        );
        assert!((found.impact - 0.4).abs() < 1e-9, "{}", found.impact);
        let key = |reference: &Reference| matches!(reference, Reference::Metric { key, .. } if key == "/app/worker");
        assert!(key(&found.evidence[0].reference), "{:?}", found.evidence[0]);
    }
}

#[test]
fn whether_the_machine_has_cpus_is_told_beside_the_quota() {
    for (busy, short) in [(0.3, false), (0.89, false), (0.91, true)] {
        let mut build = server();
        build.machine(busy).wait(PID, IDLE);
        metric(&mut build, "cgroups", &[("cgroup", "/app")], &[("throttled.ratio", 0.4)]);
        let analysis = analyze(&build.done());
        let found = there(&analysis, FindingId::CgroupThrottled);
        let words = "The machine's own CPUs are not what is short";
        assert_eq!(found.explanation.contains(words), !short, "{busy}: {}", found.explanation);
        assert!(says(found, "the CPUs of the machine are"), "{:?}", found.evidence);
    }
}

#[test]
fn how_much_the_hypervisor_takes_is_told_of_all_cpus() {
    for (cpus, stolen, title, line) in [
        (4, 1.0, "The hypervisor takes 25 % of the CPUs away", "1 core stolen on average, of 4 CPUs"),
        (2, 0.3, "The hypervisor takes 15 % of the CPUs away", "0.3 cores stolen on average, of 2 CPUs"),
        (1, 0.5, "The hypervisor takes 50 % of the CPUs away", "0.5 cores stolen on average, of 1 CPU"),
        // No more than there are, whatever was read.
        (2, 7.0, "The hypervisor takes 100 % of the CPUs away", "2.0 cores stolen on average, of 2 CPUs"),
    ] {
        let mut build = Build::new("server", 10, cpus);
        build.thread(PID, "server").wait(PID, IDLE);
        metric(&mut build, "system", &[], &[("cpu.steal", stolen + 1e-9)]);
        let analysis = analyze(&build.done());
        let found = there(&analysis, FindingId::CpuSteal);
        assert_eq!((found.title.as_str(), texts(found)[0]), (title, line));
    }
}

/// Two connections that were turned away are two, however far apart readings are.
#[test]
fn connections_that_were_turned_away_are_counted_by_time() {
    for (seconds, every, rate, expected) in [
        (60, 1, 0.12, Some(Warning)),
        (60, 10, 0.12, Some(Warning)),
        (60, 10, 0.09, None),
        (60, 30, 0.2, Some(Warning)),
        // One by chance.
        (10, 1, 0.15, None),
        (10, 5, 0.15, None),
    ] {
        let mut build = Build::new("server", seconds, 4);
        build.thread(PID, "server").wait(PID, IDLE);
        metric(&mut build, "system", &[], &[("tcp.listen.overflows", rate)]);
        build.capture.metrics[0].rows.retain(|row| (row.time.0 / 1_000_000_000) % every == 0);
        let analysis = analyze(&build.done());
        assert_eq!(severity(&analysis, FindingId::AcceptQueue), expected, "{seconds} {every} {rate}");
    }
}

#[test]
fn each_sign_of_memory_pressure_is_told_with_its_number() {
    let waits = Waiting {
        stack: &["server!main", "k:asm_exc_page_fault", "k:folio_wait_bit_common"],
        syscall: call::READ,
        state: WaitState::Disk,
        share: 0.2,
        each_ms: 5.0,
        waker: Some(0),
    };
    let mut build = server();
    build.wait(PID, waits);
    metric(
        &mut build,
        "system",
        &[],
        &[("pressure.memory.some", 0.1), ("swap.in", 3e6), ("swap.out", 0.1e6)],
    );
    for (pid, faults) in [("4711", 20.0), ("4712", 300.0)] {
        metric(&mut build, "processes", &[("pid", pid)], &[("faults.major", faults)]);
    }
    let columns = [("pressure.memory.some", 0.4), ("memory.events.max", 6.0), ("memory.events.high", 0.4)];
    metric(&mut build, "cgroups", &[("cgroup", "/app")], &columns);
    let analysis = analyze(&build.done());
    let found = there(&analysis, FindingId::MemoryPressure);
    assert_eq!(
        texts(found),
        [
            "some task of the machine was stalled for want of memory 10 % of the time",
            "some task of cgroup `/app` was stalled for want of memory 40 % of the time",
            "3 MB a second are read back from swap",
            "300 major page faults a second in process 4712: pages had to be read from disk",
            "cgroup `/app` hit its memory limit 6 times a second",
            "thread 4711 (`server`) waits 20 % of the time for pages",
        ]
    );
    assert_eq!(found.severity, Critical, "the worst of them");
    assert!((found.impact - 0.4).abs() < 1e-9, "{}", found.impact);
    assert!(found.title.starts_with("Memory is short: `server` waits for pages"), "{}", found.title);
}

/// Others of the machine that want memory, and a process that was hardly seen to wait for it.
#[test]
fn the_machine_may_be_short_of_memory_without_harm_to_this_process() {
    let pressure = |waits: f64, cgroup: f64| {
        let mut build = server();
        build.wait(PID, IDLE);
        if waits > 0.0 {
            let stack = &["server!main", "k:asm_exc_page_fault", "k:folio_wait_bit_common"];
            let state = WaitState::Disk;
            build.wait(
                PID,
                Waiting { stack, syscall: call::READ, state, share: waits, each_ms: 2.0, waker: Some(0) },
            );
        }
        metric(&mut build, "system", &[], &[("pressure.memory.some", 0.5)]);
        metric(&mut build, "cgroups", &[("cgroup", "/app")], &[("pressure.memory.some", cgroup)]);
        analyze(&build.done())
    };
    for (waits, cgroup, expected, impact) in [
        (0.0, 0.0, Notice, 0.1),
        (0.009, 0.0, Notice, 0.1),
        (0.012, 0.0, Critical, 0.5),
        (0.0, 0.04, Critical, 0.5),
    ] {
        let analysis = pressure(waits, cgroup);
        let found = there(&analysis, FindingId::MemoryPressure);
        assert_eq!(found.severity, expected, "{waits} {cgroup}: {}", found.title);
        assert!((found.impact - impact).abs() < 1e-9, "{waits} {cgroup}: {}", found.impact);
        assert_eq!(
            found.title.contains("itself was hardly seen to wait for it"),
            expected == Notice,
            "{}",
            found.title
        );
    }
}

#[test]
fn what_the_busiest_disk_says_of_itself_is_told() {
    let on = |busy: [f64; 2], pressure: f64| {
        let mut build = server();
        let waits = Waiting {
            stack: &[
                "server!main",
                "server!commit",
                "libc.so.6!fsync",
                "k:jbd2_log_wait_commit",
                "k:io_schedule",
            ],
            syscall: call::FSYNC,
            state: WaitState::Disk,
            share: 0.6,
            each_ms: 5.0,
            waker: Some(0),
        };
        build.wait(PID, waits);
        for (disk, busy) in ["vda", "vdb"].into_iter().zip(busy) {
            let columns =
                [("busy", busy), ("write.latency", 1.9), ("flush.latency", 0.0), ("read.latency", 0.25)];
            metric(&mut build, "disks", &[("device", disk)], &columns);
        }
        metric(&mut build, "system", &[], &[("pressure.io.some", pressure)]);
        analyze(&build.done())
    };
    let lines = |analysis: &Analysis| {
        let all = texts(there(analysis, FindingId::DiskBound)).into_iter();
        let of_disks = all.filter(|text| text.contains("`vd") || text.contains("stalled on I/O"));
        of_disks.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        lines(&on([0.3, 0.8], 0.2)),
        [
            "disk `vdb` is busy 80 % of the time",
            "a write of `vdb` takes 1.9 ms on average",
            "a read of `vdb` takes 250 µs on average",
            "20 % of the time some task of the machine was stalled on I/O",
        ]
    );
    // A disk that rests says nothing: then it is the latency of each access.
    assert_eq!(lines(&on([0.049, 0.01], 0.049)), Vec::<String>::new());
    assert_eq!(lines(&on([0.051, 0.01], 0.049)).len(), 3);
}

/// A thread has no row in the readings when it did not run, so the mean is over all readings, of whichever table tells how many there were.
#[test]
fn disk_waits_by_metrics_are_a_mean_over_the_whole_time() {
    // Seconds of ten in which the thread waited all the time; with the machine's readings or another thread's to tell how many there were.
    for (waits, machine, expected) in [
        (2, true, None),
        (4, true, Some(Notice)),
        (6, true, Some(Warning)),
        (9, true, Some(Critical)),
        (2, false, None),
        (4, false, Some(Notice)),
        (9, false, Some(Critical)),
    ] {
        let mut build = Build::new("server", 10, 4);
        if machine {
            build.machine(0.1);
        }
        for (tid, value) in [("4711", 1.0), ("4712", 0.0)] {
            metric(&mut build, "threads", &[("tid", tid)], &[("disk-wait", value)]);
        }
        let table = build.capture.metrics.iter_mut().find(|table| table.name == "threads").expect("made");
        let until = MonoNanos(crate::build::START + waits * 1_000_000_000);
        table.rows.retain(|row| row.keys[0] != "4711" || row.time <= until);
        let analysis = analyze(&build.without_trace());
        let found = severity(&analysis, FindingId::DiskBound);
        assert_eq!(found, expected, "{waits} {machine}:\n{}", outline(&analysis));
    }
}

#[test]
fn the_most_frequent_errors_of_the_logs_are_told() {
    let mut build = server();
    build.machine(0.1).wait(PID, IDLE);
    let mut lines = Vec::new();
    for (count, text) in [
        (1, "alpha broke"),
        (9, "beta broke"),
        (3, "gamma broke"),
        (4, "delta broke"),
        (5, "eps broke"),
        (2, "zeta broke"),
    ] {
        lines.extend((0..count).map(|number| (f64::from(number) / 20.0, LogLevel::Error, text)));
    }
    let long = "x".repeat(500);
    lines.push((0.9, LogLevel::Error, &long));
    lines.push((0.9, LogLevel::Warning, "only a warning"));
    build.log(&lines);
    let analysis = analyze(&build.done());
    let found = there(&analysis, FindingId::LogErrors);
    assert_eq!(found.title, "25 error lines in the logs while recording");
    assert_eq!(found.severity, Warning, "more than one a second");
    assert!((found.impact - 0.25).abs() < 1e-9, "{}", found.impact);
    let texts = texts(found);
    assert_eq!(texts.len(), 5, "{texts:?}");
    assert_eq!(texts[..4], ["9 ×: beta broke", "5 ×: eps broke", "4 ×: delta broke", "3 ×: gamma broke"]);
    let mut one = server();
    one.machine(0.1).wait(PID, IDLE).log(&[(0.5, LogLevel::Error, &long)]);
    let analysis = analyze(&one.done());
    let found = there(&analysis, FindingId::LogErrors);
    assert_eq!((found.severity, found.title.as_str()), (Notice, "1 error line in the logs while recording"));
    assert!(found.evidence[0].text.chars().count() <= 210, "a line is cut");
}

#[test]
fn what_was_left_out_on_purpose_is_no_finding() {
    let mut build = server();
    build
        .machine(0.3)
        .cpu(PID, 0.5, &["server!main", "server!work"])
        .wait(PID, Waiting { share: 0.4, ..IDLE });
    let (from, to) = (build.at(0.1), build.at(0.9));
    build.timeline.losses.push(Loss { kind: LossKind::Switches, count: 0, from, to, pid: None, tid: None });
    let analysis = analyze(&build.done());
    assert!(analysis.findings.iter().all(|finding| finding.id != FindingId::RecordingIncomplete));
}

#[test]
fn of_what_was_lost_each_kind_is_told_in_words() {
    for (kind, words) in [
        (LossKind::Samples, "CPU samples were lost"),
        (LossKind::Waits, "records of waits were lost"),
        (LossKind::SideBand, "records of process and thread changes were lost"),
        (LossKind::StacksSkipped, "stacks of samples were lost"),
        (LossKind::Metrics, "metric readings were lost"),
        (LossKind::Disk, "events that could not be written were lost"),
        (LossKind::Allocations, "sampled allocations were lost"),
    ] {
        for (count, number) in [(0, "an unknown number of "), (1_000_000, "1,000,000 ")] {
            let mut build = server();
            build
                .machine(0.3)
                .cpu(PID, 0.5, &["server!main", "server!work"])
                .wait(PID, Waiting { share: 0.4, ..IDLE });
            let (from, to) = (build.at(0.1), build.at(0.2));
            build.timeline.losses.push(Loss { kind, count, from, to, pid: None, tid: None });
            let analysis = analyze(&build.done());
            let found = there(&analysis, FindingId::RecordingIncomplete);
            assert!(says(found, &format!("{number}{words}")), "{kind:?} {count}: {:?}", found.evidence);
            assert!(found.severity >= Notice, "{kind:?} {count}");
        }
    }
}

#[test]
fn how_a_recording_came_to_its_end_is_told() {
    type Change = fn(&mut biopsy_model::capture::Capture);
    let table: [(&str, Change, Option<Severity>, &str); 4] = [
        ("whole", |_| {}, None, ""),
        ("cut", |capture| capture.header.end = None, Some(Notice), "it was cut short"),
        (
            "full",
            |capture| capture.header.ended_by = EndedBy::DiskFull,
            Some(Notice),
            "because the disk was full",
        ),
        ("asked", |capture| capture.header.ended_by = "signal".into(), None, ""),
    ];
    for (name, change, expected, words) in table {
        let mut build = server();
        build.machine(0.1).wait(PID, IDLE).cpu(PID, 0.05, &["server!main", "server!tick"]);
        let mut capture = build.done();
        change(&mut capture);
        let analysis = analyze(&capture);
        assert_eq!(
            severity(&analysis, FindingId::RecordingIncomplete),
            expected,
            "{name}:\n{}",
            outline(&analysis)
        );
        let found = finding(&analysis, FindingId::RecordingIncomplete);
        assert!(found.is_none_or(|found| says(found, words)), "{name}: {found:?}");
        // It says nothing about what the process does: that is said beside it.
        assert_eq!(severity(&analysis, FindingId::Idle), Some(Info), "{name}");
    }
}

#[test]
fn what_an_idle_process_waits_for_is_told() {
    let mut build = server();
    build.machine(0.02).wait(PID, Waiting { share: 0.6, ..IDLE });
    build.thread(100, "timer").wait(
        100,
        Waiting {
            stack: &[
                "libc.so.6!start_thread",
                "server!tick",
                "libc.so.6!clock_nanosleep",
                "k:hrtimer_nanosleep",
            ],
            syscall: call::NANOSLEEP,
            share: 0.2,
            each_ms: 500.0,
            ..IDLE
        },
    );
    let analysis = analyze(&build.done());
    let found = there(&analysis, FindingId::Idle);
    assert_eq!(
        found.title,
        "Mostly idle: `server` uses less than 0.01 cores, waiting for events (idle, or the network)"
    );
    let texts = texts(found);
    assert!(
        texts.contains(&"75 % of the waiting is for events (idle, or the network), mostly in `epoll_wait`"),
        "{texts:?}"
    );
    assert!(
        texts.contains(&"25 % of the waiting is for time to pass (sleep), mostly in `nanosleep`"),
        "{texts:?}"
    );
    assert!(texts.contains(&"most waiting is in `event_loop`"), "{texts:?}");
}

/// A queue for a lock in the kernel is named so; and what whoever hands it on had waited for.
#[test]
fn a_queue_is_told_with_who_waits_and_how_it_moves_on() {
    let mut build = server();
    build.machine(0.2);
    for number in 0..8 {
        let tid = 100 + number;
        build.thread(tid, &format!("writer-{number}"));
        build.wait(tid, Waiting { share: 0.6, waker: Some(100 + (number + 1) % 8), ..IN_LOCK });
    }
    let analysis = analyze(&build.done());
    let found = there(&analysis, FindingId::LockConvoy);
    assert_eq!(found.severity, Critical);
    let texts = texts(found);
    assert_eq!(texts[0], "8 threads waited there for 48.0 s in all, 4.8 at a time on average");
    assert!(texts.contains(&"the waiting threads are `writer-*`"), "{texts:?}");
    assert!(
        texts.contains(
            &"100 % of the waiting there was ended by a thread that queues there too: the lock is handed on"
        ),
        "{texts:?}"
    );
    assert!(texts.contains(&"meanwhile less than 0.01 cores of 4 CPUs are used"), "{texts:?}");
}
