//! What is said of the cause: what kind of work takes the CPU, who opens what is not closed, who asks for collections, and what the thread
//! does that others wait for.

use crate::build::{Build, PID, Waiting, call};
use crate::outline;
use biopsy_analyze::Severity::{self, Notice};
use biopsy_analyze::{Analysis, Finding, FindingId, analyze};
use biopsy_model::timeline::WaitState;

const ROOT: [&str; 2] = ["server!main", "server!answer"];

fn server() -> Build {
    let mut build = Build::new("server", 10, 4);
    build.thread(PID, "server").machine(0.3);
    build.capture.context.push((format!("target/{PID}/sockets.txt"), String::new()));
    build
}

fn finding(analysis: &Analysis, id: FindingId) -> Option<&Finding> {
    analysis.findings.iter().find(|finding| finding.id == id)
}

fn severity(analysis: &Analysis, id: FindingId) -> Option<Severity> {
    finding(analysis, id).map(|finding| finding.severity)
}

fn says(finding: &Finding, words: &str) -> bool {
    finding.evidence.iter().any(|evidence| evidence.text.contains(words))
}

#[test]
fn the_kind_of_work_is_said_in_words() {
    for (frames, words) in [
        (&["libc.so.6!__memmove_avx_unaligned_erms"][..], "copying and moving memory"),
        (&["libc.so.6!__GI_sched_yield", "k:do_syscall_64"], "a busy wait"),
        (&["libc.so.6!qsort", "server!by_name"], "sorting"),
        (&["libcrypto.so.3!BN_mod_exp_mont"], "cryptography"),
    ] {
        let mut build = server();
        build.cpu(PID, 0.8, &[&ROOT[..], frames].concat());
        let analysis = analyze(&build.done());
        let first = &analysis.findings[0];
        assert_eq!(first.id, FindingId::CpuBound, "{}", outline(&analysis));
        assert!(says(first, words) && says(first, "below `answer`"), "{words}: {:?}", first.evidence);
    }
}

#[test]
fn what_the_program_calls_most_is_named_beside_the_inner_part_of_it() {
    let mut build = server();
    for inner in ["parse_group", "write_nodes", "hash_state"] {
        let inner = format!("libc.so.6!{inner}");
        build.cpu(PID, 0.27, &[&ROOT[..], &["libc.so.6!make_pattern", &inner]].concat());
    }
    let analysis = analyze(&build.done());
    let first = &analysis.findings[0];
    assert!(says(first, "100 % of that is in `make_pattern`"), "{:?}", first.evidence);
}

/// Others use the machine up: it gets a tenth of a CPU, and wants nearly all of one.
#[test]
fn who_is_kept_from_the_cpu_is_judged_by_what_it_wants() {
    let collects =
        ["server!main", "server!answer", "server!runtime.mallocgc", "server!runtime.gcAssistAlloc"];
    // Ready, the machine's CPUs in use, periods in which the quota ran out.
    for (ready, busy, throttled, expected) in [
        (0.0, 0.98, 0.0, None),
        (0.8, 0.98, 0.0, Some(Notice)),
        (0.8, 0.81, 0.0, Some(Notice)),
        (0.8, 0.79, 0.0, None),
        (0.8, 0.3, 0.0, None),
        (0.8, 0.3, 0.049, None),
        (0.8, 0.3, 0.051, Some(Notice)),
    ] {
        let mut build = server();
        build.machine(busy).cpu(PID, 0.1, &collects).ready(PID, ready);
        build.metric("cgroups", &[("cgroup", "/app")], &[("throttled.ratio", &|_| throttled)]);
        let analysis = analyze(&build.done());
        assert_eq!(
            severity(&analysis, FindingId::GcPressure),
            expected,
            "{ready} {busy} {throttled}:\n{}",
            outline(&analysis)
        );
    }
}

/// Each time a thread is woken it is ready for a moment. With thousands of those in a second the moments add up, and nobody is in the way.
#[test]
fn moments_of_waking_up_are_no_want_of_cpus() {
    // Times a second that it waits, the machine's CPUs in use.
    for (times, busy, expected) in [
        (8_000, 0.3, None),
        (550, 0.3, None),
        // Bound to a CPU that is full, or stopped: the others that are free do not help it.
        (450, 0.3, Some(Notice)),
        (20, 0.3, Some(Notice)),
        (8_000, 0.9, Some(Notice)),
    ] {
        let mut build = server();
        build.machine(busy).cpu(PID, 0.3, &ROOT).ready(PID, 0.5).switches(PID, times);
        let analysis = analyze(&build.done());
        assert_eq!(
            severity(&analysis, FindingId::CpuBound),
            expected,
            "{times} {busy}:\n{}",
            outline(&analysis)
        );
    }
}

#[test]
fn who_asks_for_collections_is_named() {
    let mut build = server();
    build.thread(5_000, "GC Thread#0");
    build.cpu(5_000, 0.7, &["libc.so.6!start_thread", "libjvm.so!GangWorker::run", "libjvm.so!mark"]);
    let pack = ["server!main", "server!packBlock", "libjvm.so!JVM_GC"];
    build.wait(
        PID,
        Waiting {
            stack: &[&pack[..], &["libc.so.6!pthread_cond_wait", "k:futex_wait"]].concat(),
            syscall: call::FUTEX,
            state: WaitState::Sleep,
            share: 0.8,
            each_ms: 20.0,
            waker: Some(5_000),
        },
    );
    build.cpu(PID, 0.05, &pack[..2]);
    let analysis = analyze(&build.done());
    let found = finding(&analysis, FindingId::GcPressure).unwrap_or_else(|| panic!("{}", outline(&analysis)));
    assert!(found.title.contains("`JVM_GC` below `packBlock`"), "{}", found.title);
}

fn opens(after: &str) -> Analysis {
    let mut build = server();
    build.metric(
        "processes",
        &[("pid", "4711"), ("name", "server")],
        &[("fds", &|second| 20.0 + 10.0 * second)],
    );
    build.cpu(PID, 0.02, &["server!main", "server!take_in", "libc.so.6!accept", "k:__sys_accept4"]);
    build.cpu(PID, 0.06, &["server!main", "server!call_up", "libc.so.6!socket", "k:__sys_socket"]);
    build.capture.context.push((format!("target/{PID}/sockets-end.txt"), after.to_owned()));
    analyze(&build.done())
}

#[test]
fn of_connections_that_were_accepted_who_accepts_is_named() {
    let line = |port: usize, state: &str| {
        format!("tcp   127.0.0.1:80 -> 127.0.0.1:{port} {state} to send 0 to read 0 descriptor 4\n")
    };
    for (state, closed) in [("established", false), ("close-wait", true)] {
        let after: String = (0..90).map(|number| line(40_000 + number, state)).collect();
        let analysis = opens(&after);
        let found = finding(&analysis, FindingId::DescriptorGrowth).expect("descriptors grow");
        assert!(found.title.contains("opened in `take_in`"), "{}", found.title);
        assert_eq!(says(found, "90 of 90 of these are in state CLOSE_WAIT"), closed, "{:?}", found.evidence);
    }
}

/// A gateway that flushes behind each question, and a thread that asks it over a pair of sockets.
#[test]
fn whoever_waits_for_a_thread_of_its_own_has_no_slow_peer() {
    let mut build = server();
    build.thread(5_000, "gateway");
    let asks = Waiting {
        stack: &["server!main", "server!ask", "libc.so.6!recv", "k:__sys_recvfrom", "k:unix_stream_recvmsg"],
        syscall: call::RECVFROM,
        state: WaitState::Sleep,
        share: 0.9,
        each_ms: 10.0,
        waker: Some(5_000),
    };
    let flushes = Waiting {
        stack: &[
            "libc.so.6!start_thread",
            "server!save",
            "libc.so.6!fsync",
            "k:__x64_sys_fsync",
            "k:jbd2_log_wait_commit",
        ],
        syscall: call::FSYNC,
        state: WaitState::Disk,
        share: 0.85,
        each_ms: 9.0,
        waker: Some(0),
    };
    build.wait(PID, asks).wait(5_000, flushes);
    let analysis = analyze(&build.done());
    assert_eq!(analysis.findings[0].id, FindingId::DiskBound, "{}", outline(&analysis));
    let found = finding(&analysis, FindingId::SlowPeer).expect("it waits");
    assert_eq!(found.severity, Notice);
    assert!(
        found.title.contains("thread 5000 (`gateway`)") && found.title.contains("in `save`"),
        "{}",
        found.title
    );
}
