//! Places: the function that a person wrote, where another one is nearer.

use crate::ask::{says, there};
use crate::build::{Build, IDLE, PID, Waiting, call};
use crate::process;
use biopsy_analyze::{FindingId, Severity, analyze};
use biopsy_model::process::RuntimeKind;

const FAULT: [&str; 3] = ["k:asm_exc_page_fault", "k:handle_mm_fault", "k:clear_page_erms"];

fn growing(name: &str) -> Build {
    let mut build = Build::new(name, 20, 4);
    build.thread(PID, name).machine(0.1).wait(PID, IDLE);
    build.metric(
        "processes",
        &[("pid", "4711"), ("name", name)],
        &[("memory.anon", &|second| 60e6 + second * 10e6)],
    );
    build
}

#[test]
fn a_constructor_is_told_with_who_calls_it() {
    for (stack, place) in [
        (
            ["server!main", "server!last_reading", "server!Series::Series"],
            "`Series::Series` called from `last_reading`",
        ),
        (
            ["server!main", "server!Store::Store", "server!Series::Series"],
            "`Series::Series` called from `main`",
        ),
        (["server!main", "server!last_reading", "server!Series::fill"], "`Series::fill`"),
    ] {
        let mut build = growing("greenhouse");
        build.cpu(PID, 0.02, &[&stack[..], &FAULT].concat());
        let title = there(&analyze(&build.done()), FindingId::MemoryGrowth).title.clone();
        assert!(title.ends_with(&format!("most of it is first touched below {place}")), "{title}");
    }
}

/// What the virtual machine says outlives its collections is more than what its pages say.
#[test]
fn a_heap_that_only_takes_its_room_is_behind_everything() {
    let counters = |collections: u32, old: f64| {
        format!(
            "sun.gc.collector.0.invocations {collections}\nsun.gc.generation.0.space.0.used 90000000\nsun.gc.generation.1.space.0.used {old}\n"
        )
    };
    let found = |last: String| {
        let mut build = growing("Almanac");
        for (when, text) in [("", counters(2, 5e6)), ("-end", last)] {
            build.capture.context.push((format!("target/{PID}/jvm{when}.txt"), text));
        }
        let mut capture = build.done();
        capture.processes.push(process("java", RuntimeKind::Jvm));
        there(&analyze(&capture), FindingId::MemoryGrowth).clone()
    };
    let room = found(counters(6, 6e6));
    assert!(room.severity == Severity::Notice && room.impact < 0.05, "{room:?}");
    assert!(says(
        &room,
        "collected 4 times meanwhile, and what outlives collections went from 5 MB to 6 MB: the heap"
    ));
    let kept = found(counters(6, 150e6));
    assert!(kept.severity > Severity::Notice && kept.impact > 0.5, "{kept:?}");
    let unknown = found(counters(2, 5e6));
    assert!(
        unknown.severity == Severity::Notice && unknown.impact > 0.5,
        "nothing was collected: {unknown:?}"
    );
}

#[test]
fn who_asks_by_a_client_has_its_connections() {
    let mut build = Build::new("ratings", 10, 4);
    build.thread(PID, "ratings").machine(0.3);
    build.metric(
        "processes",
        &[("pid", "4711"), ("name", "ratings")],
        &[("fds", &|second| 20.0 + 10.0 * second)],
    );
    let list = |count: usize| {
        (0..count).map(|number| format!("{number:6}  socket      socket:[{number}]\n")).collect()
    };
    let lists: [String; 2] = [list(5), list(95)];
    for (when, text) in ["", "-end"].iter().zip(lists) {
        build.capture.context.push((format!("target/{PID}/descriptors{when}.txt"), text));
    }
    build.cpu(PID, 0.1, &["server!main", "server!play_service", "libc.so.6!accept4", "k:__sys_accept4"]);
    build.cpu(PID, 0.05, &["jit!gather_rating", "jit!System.Net.Http.HttpClient.Send", "libc.so.6!memcpy"]);
    let analysis = analyze(&build.done());
    let found = there(&analysis, FindingId::DescriptorGrowth);
    assert!(found.title.ends_with("; opened in `gather_rating`"), "{}", found.title);
}

/// A disk that is faster than what is noticed as a wait.
#[test]
fn flushes_that_are_not_waited_for_are_told_by_their_cost() {
    let first = |share: f64, a_second: u64| {
        let mut build = Build::new("tolls", 10, 4);
        build.thread(PID, "tolls").machine(0.3).switches(PID, a_second);
        build.cpu(PID, 0.5 * share, &["server!main", "server!book", "libc.so.6!fsync", "k:__x64_sys_fsync"]);
        build.cpu(
            PID,
            0.5 * (1.0 - share),
            &["server!main", "server!book", "k:__x64_sys_write", "k:vfs_write"],
        );
        let analysis = analyze(&build.done());
        let found = analysis.findings.iter().find(|one| one.id == FindingId::DiskBound);
        found.map(|one| (one.severity, one.title.contains("Disk-bound in `book`: ")))
    };
    assert_eq!(first(0.3, 500), Some((Severity::Notice, true)));
    assert_eq!(first(0.1, 500), None, "writing is not flushing");
    assert_eq!(first(0.3, 5), None, "a file is flushed now and then");
}

/// Two recorded threads that talk with each other: one asks when it likes.
#[test]
fn threads_that_wait_for_each_other_are_no_slow_peers() {
    let receives = |waker: u32, share: f64, each_ms: f64, function: &'static str| {
        let stack: &'static [&'static str] = match function {
            "take" => &["server!main", "server!take", "libc.so.6!recv", "k:tcp_recvmsg", "k:sk_wait_data"],
            _ => &["server!main", "server!give", "libc.so.6!recv", "k:tcp_recvmsg", "k:sk_wait_data"],
        };
        Waiting { stack, syscall: call::RECVFROM, share, each_ms, waker: Some(waker), ..IDLE }
    };
    let slow = |back: f64, each_ms: f64| {
        let mut build = Build::new("talk", 10, 4);
        build.thread(PID, "taker").thread(PID + 1, "giver").machine(0.1);
        build.wait(PID, receives(PID + 1, 0.9, each_ms, "take"));
        if back > 0.0 {
            build.wait(PID + 1, receives(PID, back, each_ms, "give"));
        } else {
            build.cpu(PID + 1, 0.4, &["server!main", "server!give"]);
        }
        let found = analyze(&build.done()).findings.into_iter().find(|one| one.id == FindingId::SlowPeer);
        found.map(|one| one.title.contains("small writes that wait for a delayed acknowledgement"))
    };
    assert_eq!(slow(0.9, 70.0), None, "both wait for the other");
    assert_eq!(slow(0.0, 70.0), Some(false), "the other one works");
    assert_eq!(slow(0.9, 42.0), Some(true), "neither asks so seldom by chance");
}
