//! What CPU time and waiting go to: memory, exceptions, regular expressions, page faults, flushes, questions, children. Both sides of
//! each threshold, and programs that only look like it.

use crate::build::{Build, IDLE, PID, START, Waiting, call};
use crate::{no_alarm, outline};
use biopsy_analyze::Severity::{self, Notice, Warning};
use biopsy_analyze::{Analysis, FindingId, analyze};
use biopsy_model::timeline::{TimelineEvent, WaitState};
use biopsy_model::{MonoNanos, Pid};

const ROOT: [&str; 2] = ["server!main", "server!answer"];
/// Others ask it, so that somebody waits for what it does.
const SERVES: &str = "tcp   127.0.0.1:8080 -> 0.0.0.0:0 listening to send 0 to read 0 descriptor 3\n";
const ANSWERS: &str = "tcp   127.0.0.1:8080 -> 0.0.0.0:0 listening to send 0 to read 0 descriptor 3\n\
                       tcp   127.0.0.1:8080 -> 127.0.0.1:51234 established to send 0 to read 0 descriptor 4\n";
const ASKS: &str = "tcp   127.0.0.1:51234 -> 127.0.0.1:5432 established to send 0 to read 0 descriptor 4\n";

fn severity(analysis: &Analysis, id: FindingId) -> Option<Severity> {
    analysis.findings.iter().find(|finding| finding.id == id).map(|finding| finding.severity)
}

fn first_id(analysis: &Analysis) -> FindingId {
    analysis.findings[0].id
}

/// A server of 10 s on 4 CPUs with these sockets.
fn server(sockets: &str) -> Build {
    let mut build = Build::new("server", 10, 4);
    build.thread(PID, "server").machine(0.3);
    build.capture.context.push((format!("target/{PID}/sockets.txt"), sockets.to_owned()));
    build
}

/// It runs 80 % of the time, `share` of that below `stack`.
fn spends(share: f64, stacks: &[&[&str]], sockets: &str) -> Build {
    let mut build = server(sockets);
    build.cpu(PID, 0.8 * (1.0 - share), &ROOT);
    for stack in stacks {
        build.cpu(PID, 0.8 * share / stacks.len() as f64, &[&ROOT[..], stack].concat());
    }
    build
}

#[test]
fn what_cpu_time_goes_to_is_said_before_that_it_is_used() {
    type Row = (FindingId, &'static [&'static [&'static str]], Option<f64>, f64);
    let rows: [Row; 6] = [
        (
            FindingId::AllocatorChurn,
            &[&["libc.so.6!malloc", "libc.so.6!_int_malloc"], &["libc.so.6!free"]],
            None,
            0.3,
        ),
        (
            FindingId::GcPressure,
            &[&["server!runtime.mallocgc"], &["server!runtime.mallocgc", "server!runtime.gcAssistAlloc"]],
            None,
            0.3,
        ),
        (
            FindingId::PageFaults,
            &[
                &["k:asm_exc_page_fault", "k:clear_page_erms"],
                &["libc.so.6!madvise", "k:do_syscall_64", "k:__x64_sys_madvise"],
            ],
            None,
            0.3,
        ),
        (
            FindingId::ExceptionStorm,
            &[&["libstdc++.so.6!__cxa_throw", "libgcc_s.so.1!_Unwind_RaiseException"]],
            Some(0.1),
            0.25,
        ),
        (
            FindingId::RegexBacktracking,
            &[&["libpcre2-8.so.0!pcre2_match_8", "libpcre2-8.so.0!match"]],
            Some(0.3),
            0.6,
        ),
        (FindingId::RegexBacktracking, &[&["server!std::__detail::_Executor::_M_dfs"]], Some(0.3), 0.6),
    ];
    for (id, stacks, notice, warning) in rows {
        let below = notice.map(|_| Notice);
        let mut table = vec![(warning - 0.02, below), (warning + 0.02, Some(Warning))];
        table.extend(notice.into_iter().flat_map(|from| [(from - 0.02, None), (from + 0.02, Some(Notice))]));
        for (share, expected) in table {
            let analysis = analyze(&spends(share, stacks, SERVES).done());
            assert_eq!(severity(&analysis, id), expected, "{id} at {share}:\n{}", outline(&analysis));
        }
        let analysis = analyze(&spends(0.75, stacks, SERVES).done());
        let first = &analysis.findings[0];
        assert_eq!(first.id, id, "{}", outline(&analysis));
        assert!(first.title.contains("`answer`"), "{}", first.title);
    }
}

/// Where it is less than the finding asks for, the CPU's finding says it.
#[test]
fn a_smaller_cost_is_evidence() {
    let analysis = analyze(&spends(0.25, &[&["libc.so.6!malloc"]], SERVES).done());
    let first = &analysis.findings[0];
    assert_eq!(first.id, FindingId::CpuBound);
    let texts: Vec<&str> = first.evidence.iter().map(|evidence| evidence.text.as_str()).collect();
    let told = "25 % of the CPU time is allocation of memory (`malloc`), most of it below `answer`";
    assert!(texts.contains(&told), "{texts:?}");
}

/// Garbage that comes with work which takes longer is not what a person would name; where it is more than the work, it is.
#[test]
fn work_that_takes_longer_than_its_garbage_is_told_first() {
    let first = |work: f64, garbage: f64| {
        let parses = [&ROOT[..], &["server!encoding/json.Unmarshal"]].concat();
        let makes = [&parses[..], &["server!runtime.mallocgc", "server!runtime.gcAssistAlloc"]].concat();
        let mut build = server(SERVES);
        build.cpu(PID, 0.8 * (1.0 - work - garbage), &ROOT);
        build.cpu(PID, 0.8 * work, &parses);
        build.cpu(PID, 0.8 * garbage, &makes);
        let analysis = analyze(&build.done());
        (first_id(&analysis), severity(&analysis, FindingId::GcPressure).is_some())
    };
    assert_eq!(first(0.5, 0.4), (FindingId::CpuBound, false));
    assert_eq!(first(0.3, 0.4), (FindingId::GcPressure, true));
    assert_eq!(first(0.2, 0.7), (FindingId::GcPressure, true));
}

/// Of a batch nobody waits for, the same is worth a word and no alarm.
#[test]
fn a_job_that_computes_raises_no_alarm() {
    let churn: &[&[&str]] = &[&["libc.so.6!malloc"]];
    let analysis = analyze(&spends(0.6, churn, "").done());
    no_alarm(&analysis);
    assert_eq!(first_id(&analysis), FindingId::AllocatorChurn);
    for (sockets, expected) in [("", Notice), (ASKS, Notice), (SERVES, Warning), (ANSWERS, Warning)] {
        let mut build = server(sockets);
        build.cpu(PID, 0.95, &["server!main", "server!work", "server!hash"]);
        let analysis = analyze(&build.done());
        assert_eq!(
            severity(&analysis, FindingId::CpuBound),
            Some(expected),
            "{sockets}:\n{}",
            outline(&analysis)
        );
    }
}

/// A program that grows touches new pages too; that is growth.
#[test]
fn pages_that_are_kept_are_growth() {
    let faults: &[&[&str]] = &[&["k:asm_exc_page_fault"], &["libc.so.6!mmap", "k:__x64_sys_mmap"]];
    let mut build = spends(0.6, faults, SERVES);
    build.metric(
        "processes",
        &[("pid", "4711"), ("name", "server")],
        &[("memory.anon", &|second| 50e6 + 20e6 * second), ("memory.rss", &|second| 60e6 + 20e6 * second)],
    );
    let analysis = analyze(&build.done());
    assert_eq!(severity(&analysis, FindingId::PageFaults), None);
    assert_eq!(first_id(&analysis), FindingId::MemoryGrowth, "{}", outline(&analysis));
}

const RECEIVES: &[&str] =
    &["server!main", "server!exchange", "libc.so.6!recv", "k:tcp_recvmsg", "k:sk_wait_data"];

fn receives(sockets: &str, each_ms: f64) -> Build {
    let mut build = server(sockets);
    let waits = Waiting {
        stack: RECEIVES,
        syscall: call::RECVFROM,
        state: WaitState::Sleep,
        share: 0.9,
        each_ms,
        waker: Some(0),
    };
    build.wait(PID, waits).switches(PID, (900.0 / each_ms) as u64);
    build
}

#[test]
fn only_who_asks_has_a_slow_peer() {
    let unclear = "unix   connected descriptor 4\n";
    for (sockets, expected) in
        [(ASKS, Some(Warning)), (ANSWERS, None), (unclear, Some(Notice)), ("", Some(Notice))]
    {
        let analysis = analyze(&receives(sockets, 30.0).done());
        assert_eq!(severity(&analysis, FindingId::SlowPeer), expected, "{sockets}:\n{}", outline(&analysis));
    }
    let analysis = analyze(&receives(ASKS, 30.0).done());
    assert!(analysis.findings[0].title.contains("127.0.0.1:5432"), "{}", outline(&analysis));
}

#[test]
fn many_short_answers_are_round_trips() {
    for (sockets, each_ms, expected) in
        [(ASKS, 0.5, Some(Notice)), (ASKS, 4.0, Some(Notice)), (ASKS, 8.0, None), (ANSWERS, 0.5, None)]
    {
        let analysis = analyze(&receives(sockets, each_ms).done());
        assert_eq!(
            severity(&analysis, FindingId::RoundTrips),
            expected,
            "{each_ms}:\n{}",
            outline(&analysis)
        );
        if expected.is_some() {
            assert_eq!(severity(&analysis, FindingId::SlowPeer), None, "{each_ms}");
        }
    }
}

/// Go waits for all connections in one place: what is left is who sends and receives.
#[test]
fn round_trips_of_a_runtime_that_waits_in_one_place() {
    let sends: &[&str] =
        &["server!main", "server!load_lines", "server!syscall.write", "k:ksys_write", "k:sock_write_iter"];
    for (sockets, switches, expected) in
        [(ASKS, 4_000, Some(Notice)), (ASKS, 500, None), (ANSWERS, 4_000, None), ("", 4_000, None)]
    {
        let mut build = server(sockets);
        build.wait(PID, IDLE).switches(PID, switches).cpu(PID, 0.05, sends).cpu(PID, 0.03, &ROOT);
        let analysis = analyze(&build.done());
        let found = severity(&analysis, FindingId::RoundTrips);
        assert_eq!(found, expected, "{sockets} {switches}:\n{}", outline(&analysis));
        if expected.is_some() {
            assert!(analysis.findings[0].title.contains("`load_lines`"), "{}", outline(&analysis));
        }
    }
}

/// A flush behind each record is partly waiting, partly the kernel's work: neither alone tells how much it is.
#[test]
fn a_flush_behind_each_record() {
    let sync: &[&str] = &["server!main", "server!append", "libc.so.6!fdatasync", "k:__x64_sys_fdatasync"];
    for (waiting, running, switches, expected) in [
        (0.40, 0.30, 400, Some(Warning)),
        (0.20, 0.20, 400, Some(Notice)),
        (0.10, 0.05, 400, None),
        // Half a second of waiting without work of the kernel's is told as any disk access.
        (0.60, 0.00, 4, Some(Warning)),
    ] {
        let mut build = server("");
        let waits = Waiting {
            stack: &[sync, &["k:io_schedule"]].concat(),
            syscall: call::FSYNC,
            state: WaitState::Disk,
            share: waiting,
            each_ms: 2.0,
            waker: Some(0),
        };
        build.wait(PID, waits).switches(PID, switches);
        if running > 0.0 {
            build.cpu(PID, running, &[sync, &["k:ext4_writepages", "k:iowrite16"]].concat());
        }
        let analysis = analyze(&build.done());
        assert_eq!(severity(&analysis, FindingId::DiskBound), expected, "{waiting}:\n{}", outline(&analysis));
        if expected.is_some() {
            assert_eq!(first_id(&analysis), FindingId::DiskBound, "{}", outline(&analysis));
            assert!(analysis.findings[0].title.contains("`append`"), "{}", outline(&analysis));
        }
    }
}

#[test]
fn processes_that_end_at_once() {
    let build = |count: u32, life_ms: u64| {
        let mut build = server("");
        let waits = Waiting {
            stack: &["server!main", "server!run_hook", "libc.so.6!waitpid", "k:do_wait"],
            syscall: 61,
            state: WaitState::Sleep,
            share: 0.8,
            each_ms: 8.0,
            waker: Some(0),
        };
        build.wait(PID, waits);
        for number in 0..count {
            let time = MonoNanos(START + u64::from(number) * (10_000_000_000 / u64::from(count)));
            let pid = Pid(10_000 + number);
            let events = &mut build.timeline.process_events;
            events.push(TimelineEvent::ProcessStart { time, pid, parent: Pid(PID) });
            events.push(TimelineEvent::Exec { time, pid, name: "sh".to_owned() });
            let time = MonoNanos(time.0 + life_ms * 1_000_000);
            events.push(TimelineEvent::ProcessExit { time, pid });
        }
        build
    };
    for (count, life_ms, expected) in
        [(60, 5, None), (100, 5, Some(Notice)), (300, 5, Some(Warning)), (300, 400, None)]
    {
        let analysis = analyze(&build(count, life_ms).done());
        let found = severity(&analysis, FindingId::ShortLivedProcesses);
        assert_eq!(found, expected, "{count} of {life_ms} ms:\n{}", outline(&analysis));
    }
    let analysis = analyze(&build(300, 5).done());
    assert_eq!(
        analysis.findings[0].title,
        "Short-lived processes: `server` starts 30 a second (`sh`) in `run_hook`, each ends after some 5.0 ms"
    );
}
