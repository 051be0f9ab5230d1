//! Who is waited for: who answers a slow peer's waits by the wake-ups, and who asks for collections, or waits for them.

use crate::ask::{finding, says, severity, texts, there};
use crate::build::{Build, PID, Waiting, call};
use crate::outline;
use biopsy_analyze::Severity::{self, Notice, Warning};
use biopsy_analyze::{Analysis, FindingId, analyze};
use biopsy_model::timeline::WaitState;

const ASKS: &[&str] =
    &["server!main", "server!query_database", "libc.so.6!recv", "k:tcp_recvmsg", "k:sk_wait_data"];
const GATEWAY: u32 = 5_000;

fn server() -> Build {
    let mut build = Build::new("server", 10, 4);
    build.thread(PID, "server").machine(0.3);
    build
}

/// The thread waits for answers for `share` of the time, and `waker` ends its waits.
fn asks(build: &mut Build, tid: u32, stack: &[&str], share: f64, waker: u32) {
    let waits = Waiting {
        stack,
        syscall: call::RECVFROM,
        state: WaitState::Sleep,
        share,
        each_ms: 10.0,
        waker: Some(waker),
    };
    build.wait(tid, waits);
}

#[test]
fn who_ends_most_of_the_waits_is_who_answers() {
    /// Who ends the waits, and for which share of the time they last.
    type Ends = &'static [(u32, f64)];
    let table: [(&str, Ends, Option<u32>); 9] = [
        ("one thread", &[(GATEWAY, 0.9)], Some(GATEWAY)),
        ("an interrupt: whatever comes over the network", &[(0, 0.9)], None),
        ("a thread of another process", &[(9_999, 0.9)], None),
        ("it itself, which was interrupted", &[(PID, 0.9)], None),
        ("one thread, for most of it", &[(GATEWAY, 0.5), (0, 0.4)], Some(GATEWAY)),
        ("one thread, for less than half of it", &[(GATEWAY, 0.4), (0, 0.5)], None),
        ("two threads, one of them for most of it", &[(GATEWAY, 0.3), (GATEWAY + 1, 0.6)], Some(GATEWAY + 1)),
        ("three threads", &[(GATEWAY, 0.3), (GATEWAY + 1, 0.3), (GATEWAY + 2, 0.3)], None),
        ("one thread, and another process", &[(GATEWAY, 0.3), (9_999, 0.6)], None),
    ];
    for (name, ends, answers) in table {
        let mut build = server();
        for tid in GATEWAY..GATEWAY + 3 {
            build.thread(tid, "gateway");
        }
        build.cpu(GATEWAY, 0.2, &["server!work"]);
        for (waker, share) in ends {
            asks(&mut build, PID, ASKS, *share, *waker);
        }
        let analysis = analyze(&build.done());
        let found = there(&analysis, FindingId::SlowPeer);
        let expected = if answers.is_some() { Notice } else { Warning };
        assert_eq!(found.severity, expected, "{name}: {}", found.title);
        match answers {
            Some(tid) => {
                let words =
                    format!("in `query_database` for thread {tid} (`gateway`), which is recorded too");
                assert!(found.title.contains(&words), "{name}: {}", found.title);
                assert!(says(found, "of the recorded processes ends most of these waits"), "{name}");
                // What the answering thread does is the cause, and comes before.
                assert!(found.impact <= 0.4, "{name}: {}", found.impact);
            }
            None => {
                let words = "Waiting for a slow peer in `query_database`: 90 % of the time";
                assert!(found.title.starts_with(words), "{name}: {}", found.title);
                assert!((found.impact - 0.9).abs() < 0.01, "{name}: {}", found.impact);
            }
        }
    }
}

#[test]
fn what_the_answering_thread_does_is_told() {
    let title = |does: &dyn Fn(&mut Build)| {
        let mut build = server();
        build.thread(GATEWAY, "gateway");
        asks(&mut build, PID, ASKS, 0.9, GATEWAY);
        does(&mut build);
        there(&analyze(&build.done()), FindingId::SlowPeer).title.clone()
    };
    let runs = title(&|build| {
        build.cpu(GATEWAY, 0.8, &["server!gateway_main", "server!compute"]);
    });
    assert!(runs.ends_with("; it runs 80 % of the time"), "{runs}");
    let sleeps = title(&|build| {
        let stack = &["server!pause", "libc.so.6!clock_nanosleep", "k:hrtimer_nanosleep"];
        let waits = Waiting {
            stack,
            syscall: call::NANOSLEEP,
            state: WaitState::Sleep,
            share: 0.7,
            each_ms: 100.0,
            waker: Some(0),
        };
        build.cpu(GATEWAY, 0.2, &["server!compute"]).wait(GATEWAY, waits);
    });
    assert!(
        sleeps.ends_with("; it waits 70 % of the time in `pause`, most for time to pass (sleep)"),
        "{sleeps}"
    );
    let nothing = title(&|_| {});
    assert!(nothing.ends_with("; it runs 0 % of the time"), "{nothing}");
}

/// Who waits for a thread of its own process waits with it; who waits for somebody outside is who has a slow peer.
#[test]
fn who_waits_for_somebody_outside_comes_first() {
    let outside: &[&str] = &["server!fetch", "libc.so.6!recv", "k:tcp_recvmsg", "k:sk_wait_data"];
    let mut build = server();
    build.thread(GATEWAY, "gateway").thread(100, "fetcher");
    asks(&mut build, PID, ASKS, 0.95, GATEWAY);
    asks(&mut build, 100, outside, 0.6, 0);
    let analysis = analyze(&build.done());
    let found = there(&analysis, FindingId::SlowPeer);
    assert_eq!(found.severity, Warning);
    assert!(found.title.starts_with("Waiting for a slow peer in `fetch`: 60 %"), "{}", found.title);
}

/// Threads that wait for questions, and for nothing else, wait the longest each: those that are many are meant.
#[test]
fn where_most_is_waited_in_all_comes_first() {
    let other = ["server!bus", "libc.so.6!recv", "k:tcp_recvmsg", "k:sk_wait_data"];
    for (threads, first, more) in [
        (1, "bus", None),
        (2, "query_database", Some("1 more thread does the same")),
        (5, "query_database", Some("4 more threads do the same")),
    ] {
        let mut build = server();
        asks(&mut build, PID, &other, 0.99, 0);
        for tid in 100..100 + threads {
            build.thread(tid, "worker");
            asks(&mut build, tid, ASKS, 0.6, 0);
        }
        let analysis = analyze(&build.done());
        let found = there(&analysis, FindingId::SlowPeer);
        assert!(found.title.contains(&format!("in `{first}`")), "{threads}: {}", found.title);
        let told = texts(found).into_iter().find(|text| text.contains(" more thread"));
        assert_eq!(told, more, "{threads}");
    }
}

#[test]
fn a_network_that_loses_packets_is_told_beside_it() {
    for (rate, told) in [(0.0, false), (0.99, false), (1.01, true), (250.0, true)] {
        let mut build = server();
        asks(&mut build, PID, ASKS, 0.9, 0);
        build.capture.metrics.clear();
        build.metric("system", &[], &[("cpu.busy", &|_| 0.3), ("tcp.retransmits", &|_| rate)]);
        let analysis = analyze(&build.done());
        let found = there(&analysis, FindingId::SlowPeer);
        assert_eq!(says(found, "TCP segments a second are sent again"), told, "{rate}: {:?}", found.evidence);
    }
}

#[test]
fn a_peer_is_named_where_there_are_few() {
    let socket = |host: usize| {
        format!(
            "tcp   127.0.0.1:{} -> 10.0.0.{host}:5432 established to send 0 to read 0 descriptor {host}\n",
            50_000 + host
        )
    };
    for (peers, named) in [(1, true), (3, true), (4, false)] {
        let mut build = server();
        asks(&mut build, PID, ASKS, 0.9, 0);
        let sockets: String = (1..=peers).map(socket).collect();
        build.capture.context.push((format!("target/{PID}/sockets.txt"), sockets));
        let analysis = analyze(&build.done());
        let found = there(&analysis, FindingId::SlowPeer);
        assert_eq!(found.severity, Warning, "it asks, and answers nobody");
        assert_eq!(found.title.contains(", connected to 10.0.0.1:5432"), named, "{peers}: {}", found.title);
    }
}

/// A process whose collector runs most of the time, and one thread of the program with this stack, waiting or running.
fn collected(stack: &[&str], waits: bool) -> Analysis {
    let mut build = server();
    build.thread(GATEWAY, "GC Thread#0");
    build.cpu(GATEWAY, 0.7, &["libc.so.6!start_thread", "libjvm.so!GangWorker::run", "libjvm.so!mark"]);
    if waits {
        let waiting = Waiting {
            stack: &[stack, &["libc.so.6!pthread_cond_wait", "k:futex_wait"]].concat(),
            syscall: call::FUTEX,
            state: WaitState::Sleep,
            share: 0.8,
            each_ms: 20.0,
            waker: Some(GATEWAY),
        };
        build.wait(PID, waiting).cpu(PID, 0.02, &["server!main", "server!pack_block"]);
    } else {
        build.cpu(PID, 0.05, stack);
    }
    analyze(&build.done())
}

#[test]
fn whoever_asks_for_collections_is_named_in_all_languages() {
    for (frame, by) in [
        ("jit!java.lang.System.gc", "java.lang.System.gc"),
        ("jit!java.lang.Runtime.gc", "java.lang.Runtime.gc"),
        ("libjvm.so!JVM_GC", "JVM_GC"),
        ("server!runtime.GC", "runtime.GC"),
        ("server!runtime/debug.FreeOSMemory", "runtime/debug.FreeOSMemory"),
        ("jit!System.GC.Collect", "System.GC.Collect"),
        ("jit!System.GC.Collect(int32)", "System.GC.Collect"),
        ("libpython3.so!gc_collect_impl", "gc_collect_impl"),
        ("libnode.so!v8::internal::GCExtension::GC", "v8::internal::GCExtension"),
        (
            "libnode.so!v8::internal::Heap::CollectAllAvailableGarbage",
            "v8::internal::Heap::CollectAllAvailableGarbage",
        ),
    ] {
        for waits in [true, false] {
            let analysis = collected(&["server!main", "server!pack_block", frame], waits);
            let found = there(&analysis, FindingId::GcPressure);
            let words = format!("for `{by}` below `pack_block`");
            assert!(found.title.ends_with(&words), "{frame} {waits}: {}", found.title);
            assert!(
                found.evidence[0].text.starts_with("collections of the whole heap are asked for"),
                "{frame}"
            );
            assert!(found.explanation.contains("asks for it"), "{}", found.explanation);
        }
    }
}

/// What counts collections, and functions of the program that are called alike, ask for none.
#[test]
fn whoever_looks_at_collections_asks_for_none() {
    for frame in [
        "jit!System.GC.CollectionCount",
        "jit!System.GC.GetTotalMemory",
        "server!runtime.GCStats",
        "server!JVM_GC_counter",
        "server!gc_collect_implicitly",
        "jit!Shop.System.GC.Collect",
    ] {
        let analysis = collected(&["server!main", "server!pack_block", frame], false);
        let found = there(&analysis, FindingId::GcPressure);
        assert!(!found.title.contains(" for `"), "{frame}: {}", found.title);
        assert!(found.explanation.contains("short-lived objects"), "{}", found.explanation);
    }
}

#[test]
fn whoever_waits_for_the_collector_is_told_where_nobody_asks() {
    for (frame, named) in [
        ("libjvm.so!CollectedHeap::obj_allocate", true),
        ("libjvm.so!MemAllocator::allocate", true),
        ("libjvm.so!VMThread::execute", true),
        ("libjvm.so!SafepointMechanism::process_if_requested", true),
        ("server!runtime.gcParkAssist", true),
        ("libnode.so!v8::internal::Heap::AllocateRawWithRetryOrFail", true),
        ("libjvm.so!ObjectMonitor::wait", false),
        ("libjvm.so!Unsafe_Park", false),
    ] {
        let analysis = collected(&["server!main", "server!pack_block", frame], true);
        let found = there(&analysis, FindingId::GcPressure);
        let words =
            if named { ", most while `pack_block` waits for memory" } else { ", most in no one place" };
        assert!(found.title.ends_with(words), "{frame}: {}", found.title);
        assert_eq!(
            says(found, "most of those who wait for memory until the collector is done"),
            named,
            "{frame}"
        );
    }
}

/// CPU time in making garbage, in collecting it and in pages that go with it: which of the findings has it.
#[test]
fn pages_belong_to_the_garbage_where_enough_is_made() {
    /// What the CPU time goes to: allocation, collection, mappings.
    type Case = ([f64; 3], Option<Severity>, Option<Severity>);
    let table: [Case; 7] = [
        ([0.05, 0.06, 0.40], Some(Warning), None),
        ([0.03, 0.06, 0.40], None, Some(Warning)),
        ([0.20, 0.11, 0.00], Some(Warning), None),
        ([0.18, 0.11, 0.00], None, None),
        // Without a collector it is the allocator's, or the kernel's.
        ([0.20, 0.03, 0.40], None, Some(Warning)),
        ([0.31, 0.05, 0.00], Some(Warning), None),
        ([0.00, 0.29, 0.00], None, None),
    ];
    for ([allocation, collection, mappings], pressure, faults) in table {
        let mut build = server();
        let root = ["server!main", "server!answer"];
        let of = |more: &[&'static str]| [&root[..], more].concat();
        let rest = 1.0 - allocation - collection - mappings;
        build.cpu(PID, 0.8 * rest, &root);
        build.cpu(PID, 0.8 * allocation, &of(&["libc.so.6!malloc"]));
        build.cpu(PID, 0.8 * collection, &of(&["libjvm.so!PSScavenge::invoke"]));
        build.cpu(PID, 0.8 * mappings, &of(&["libc.so.6!madvise", "k:do_syscall_64", "k:__x64_sys_madvise"]));
        let analysis = analyze(&build.done());
        let which = format!("{allocation} {collection} {mappings}:\n{}", outline(&analysis));
        assert_eq!(severity(&analysis, FindingId::GcPressure), pressure, "{which}");
        assert_eq!(severity(&analysis, FindingId::PageFaults), faults, "{which}");
        if pressure.is_some() {
            assert_eq!(finding(&analysis, FindingId::CpuBound), None, "it says more: {which}");
        }
    }
}
