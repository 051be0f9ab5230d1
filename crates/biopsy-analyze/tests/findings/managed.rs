//! Rules on .NET by what its threads wait for over time, by its heap and by its stacks: both sides of each threshold, and look-alikes.

use crate::ask::{finding, says, severity, texts, there};
use crate::build::dotnet::{Said, waiting, waits_in_runtime};
use crate::build::{Build, IDLE, PID};
use crate::outline;
use biopsy_analyze::Severity::{Critical, Notice, Warning};
use biopsy_analyze::{Analysis, FindingId, analyze};
use biopsy_model::runtime_trace::CollectionReason;

fn server(seconds: u64) -> Build {
    let mut build = Build::new("server", seconds, 4);
    build.thread(PID, "dotnet").machine(0.2).wait(PID, IDLE);
    build
}

fn analyzed(build: Build, mut said: Said) -> Analysis {
    let mut capture = build.done();
    capture.runtimes.push(said.done());
    analyze(&capture)
}

const ENTERS: &str = "System.Private.CoreLib.dll!System.Threading.Monitor.Enter_Slowpath";

/// A thread that waits to enter a monitor.
struct Waiter {
    name: &'static str,
    place: &'static str,
    /// Share of the time, and times a second that it is switched to.
    share: f64,
    switches: u64,
    born: bool,
}

const STUCK: Waiter =
    Waiter { name: "worker", place: "jit!Shop.Cache.Get", share: 0.97, switches: 0, born: false };

fn blocked(seconds: u64, waiters: &[Waiter]) -> Analysis {
    let mut build = server(seconds);
    for (tid, waiter) in (300..).zip(waiters) {
        let stack = waits_in_runtime(&[waiter.place, ENTERS]);
        build.life(tid, waiter.name, waiter.born.then_some(0.01), None).switches(tid, waiter.switches);
        build.wait(tid, waiting(&stack, waiter.share, seconds as f64 * 1_000.0));
    }
    analyzed(build, Said::new(seconds))
}

#[test]
fn blocked_on_lock_is_said_of_who_never_gets_in() {
    let id = FindingId::BlockedOnLock;
    for (name, seconds, waiter, expected) in [
        ("from beginning to end", 10, STUCK, Some(Warning)),
        ("nearly so: the first look comes late", 10, Waiter { share: 0.82, ..STUCK }, Some(Warning)),
        ("for a part of it", 10, Waiter { share: 0.78, ..STUCK }, None),
        // A queue that moves on: its threads are switched to again and again.
        ("woken now and then", 10, Waiter { switches: 1, ..STUCK }, Some(Warning)),
        ("handed the lock on", 10, Waiter { switches: 50, ..STUCK }, None),
        // It was not there at the beginning.
        ("started meanwhile", 10, Waiter { born: true, ..STUCK }, None),
        // A long wait is not told from an endless one in a moment.
        ("too short to tell", 1, STUCK, None),
        ("just long enough", 2, STUCK, Some(Warning)),
    ] {
        let analysis = blocked(seconds, &[waiter]);
        assert_eq!(severity(&analysis, id), expected, "{name}:\n{}", outline(&analysis));
    }
}

#[test]
fn two_at_different_places_are_most_likely_a_deadlock() {
    let other = || Waiter { name: "release-worker", place: "jit!Shop.Releases.Lock", ..STUCK };
    let title = |waiters: &[Waiter]| {
        let analysis = blocked(10, waiters);
        let found = there(&analysis, FindingId::BlockedOnLock);
        (found.severity, found.title.clone())
    };
    let (severity, one) = title(&[STUCK]);
    assert_eq!(severity, Warning);
    assert_eq!(
        one,
        "1 thread waited for a lock during the whole recording, in `Shop.Cache.Get`: its owner does not let go"
    );
    let (severity, same) = title(&[STUCK, STUCK]);
    assert_eq!(severity, Critical);
    assert_eq!(
        same,
        "2 threads waited for a lock during the whole recording, in `Shop.Cache.Get`: its owner does not let go"
    );
    let (severity, two) = title(&[STUCK, other()]);
    assert_eq!(severity, Critical);
    assert!(two.ends_with(": most likely a deadlock"), "{two}");
    assert!(two.contains("`Shop.Cache.Get`") && two.contains("`Shop.Releases.Lock`"), "{two}");
    // Requests pile up behind it in threads of the pool: those that made it are named first.
    let pile = || Waiter { name: ".NET TP Worker", place: "jit!Shop.Api.Handle", ..STUCK };
    let (_, behind) = title(&[pile(), pile(), pile(), STUCK, other()]);
    assert!(behind.contains(" and 1 more: most likely a deadlock"), "{behind}");
    assert!(!behind.contains("Shop.Api.Handle"), "{behind}");
}

#[test]
fn a_finalizer_that_waits_is_told_by_its_own_function() {
    for (name, place, share, expected) in [
        (".NET Finalizer", "jit!Shop.Session.Finalize", 0.52, Some(Critical)),
        (".NET Finalizer", "jit!Shop.Session.Finalize", 0.48, None),
        // Another thread in the same function; and a finalizer with nothing to do, in the runtime.
        ("cleaner", "jit!Shop.Session.Finalize", 0.97, None),
        (".NET Finalizer", "libcoreclr.so!FinalizerThread::FinalizerThreadWorker", 0.97, None),
    ] {
        let mut build = server(10);
        let stack = waits_in_runtime(&[place]);
        build.thread(300, name).switches(300, 0).wait(300, waiting(&stack, share, 10_000.0));
        let analysis = analyzed(build, Said::new(10));
        assert_eq!(
            severity(&analysis, FindingId::FinalizerBlocked),
            expected,
            "{name} {place} {share}:\n{}",
            outline(&analysis)
        );
    }
}

/// A heap with so many MB committed, of which so much is free, and so many MB of large objects among so many.
fn fragmented(free: f64, committed: f64, large: u64, all: u64) -> Analysis {
    let mut said = Said::new(10);
    said.collections(1.0, 2.0, 3, &|_| 20_000_000);
    for item in &mut said.trace.collections.items {
        item.sizes_after = Some([0, 0, (all - large) << 20, large << 20, 0]);
    }
    said.counter("System.Runtime", "gc-fragmentation", &|_| free);
    said.counter("System.Runtime", "gc-committed", &|_| committed);
    analyzed(server(10), said)
}

#[test]
fn heap_fragmentation() {
    let id = FindingId::HeapFragmentation;
    for (free, committed, large, all, expected) in [
        (41.0, 275.0, 260, 270, Some(Warning)),
        // Share of the heap that is free.
        (29.0, 1_000.0, 260, 270, None),
        (31.0, 1_000.0, 260, 270, Some(Warning)),
        // Bytes of it.
        (50.0, 126.0, 100, 110, None),
        (50.0, 130.0, 100, 110, Some(Warning)),
        // Most is of large objects: room of young ones is free after each collection, and no loss.
        (60.0, 1_000.0, 49, 100, None),
        (60.0, 1_000.0, 51, 100, Some(Warning)),
        (60.0, 1_000.0, 0, 100, None),
    ] {
        let analysis = fragmented(free, committed, large, all);
        let which = format!("{free} % of {committed}, {large} of {all}:\n{}", outline(&analysis));
        assert_eq!(severity(&analysis, id), expected, "{which}");
    }
    let analysis = fragmented(40.0, 1_000.0, 300, 400);
    let found = there(&analysis, id);
    assert!(
        found.title.starts_with("The large object heap is full of holes: 400 MB of 1.0 GB are free room"),
        "{}",
        found.title
    );
    assert_eq!(texts(found)[0], "40 % of the heap of 1.0 GB is free room between objects");
    assert!(
        says(found, "the large object heap has 315 MB of 419 MB after the last collection"),
        "{:?}",
        found.evidence
    );
    // Who says nothing of its holes has none that are known.
    let mut said = Said::new(10);
    said.collections(1.0, 2.0, 3, &|_| 20_000_000).counter("System.Runtime", "gc-committed", &|_| 1_000.0);
    assert_eq!(severity(&analyzed(server(10), said), id), None);
}

#[test]
fn a_regular_expression_is_told_by_half_of_the_time_of_a_busy_process() {
    const RUNS: &str =
        "System.Text.RegularExpressions.dll!System.Text.RegularExpressions.Regex.RunSingleMatch";
    // Share of a core in it, and in other work.
    for (matching, other, expected) in [
        (0.28, 0.0, None),
        (0.32, 0.0, Some(Warning)),
        (0.58, 0.0, Some(Warning)),
        (0.62, 0.0, Some(Critical)),
        (0.40, 0.42, None),
        (0.42, 0.40, Some(Warning)),
        (0.0, 0.8, None),
    ] {
        let mut build = server(10);
        build.thread(300, "parser");
        build.cpu(300, matching, &["jit!Shop.Main", "jit!Shop.Version.IsRange", RUNS]);
        build.cpu(300, other, &["jit!Shop.Main", "jit!Shop.Hash.Compute"]);
        let analysis = analyzed(build, Said::new(10));
        let found = finding(&analysis, FindingId::RegexBacktracking);
        let which = format!("{matching} {other}:\n{}", outline(&analysis));
        // By the functions of an engine alone less is said, from three tenths on.
        let found = found.filter(|found| found.title.starts_with("A regular expression"));
        assert_eq!(found.map(|found| found.severity), expected, "{which}");
        assert!(
            found.is_none_or(|found| found.title.contains("called from `Shop.Version.IsRange`")),
            "{which}"
        );
    }
}

#[test]
fn whoever_asks_for_collections_is_named_by_samples_where_events_have_no_stacks() {
    let induced = |pause_ms: f64, run: &dyn Fn(&mut Build)| {
        let mut said = Said::new(10);
        said.collections(2.0, pause_ms, 0, &|_| 40_000_000);
        for item in &mut said.trace.collections.items {
            (item.reason, item.generation) = (CollectionReason::Induced, 2);
        }
        let mut build = server(10);
        run(&mut build);
        let analysis = analyzed(build, said);
        let found = there(&analysis, FindingId::GcInduced);
        assert_eq!(found.severity, Warning);
        found.title.rsplit_once("every 500.0 ms").map(|(_, place)| place.to_owned())
    };
    let asks = |build: &mut Build, by: &str| {
        build.cpu(PID, 0.1, &["jit!Shop.Main", "jit!Shop.Import.Run", by]);
    };
    assert_eq!(
        induced(2.0, &|build| asks(build, "System.Private.CoreLib.dll!System.GC.Collect")).as_deref(),
        Some(", in `Shop.Import.Run`")
    );
    // What only looks at collections asks for none.
    assert_eq!(
        induced(2.0, &|build| asks(build, "System.Private.CoreLib.dll!System.GC.CollectionCount")).as_deref(),
        Some("")
    );
    // Compiled into its caller: whoever asks for pauses does what is done in them.
    let inlined = |build: &mut Build| {
        build.cpu(PID, 0.6, &["jit!Shop.Main", "jit!Shop.Import.Run", "libcoreclr.so!gc_heap::mark"]);
    };
    assert_eq!(induced(200.0, &inlined).as_deref(), Some(", most likely in `Shop.Import.Run`"));
    assert_eq!(
        induced(100.0, &inlined).as_deref(),
        Some(""),
        "pauses of a fifth of the time are not what it does"
    );
}

/// By the runtime's own events and by functions that run: it is one finding, of which the events speak.
#[test]
fn exceptions_that_are_seen_twice_are_said_once() {
    let mut said = Said::new(10);
    said.exceptions(60, "System.FormatException", &["System.Int32.Parse", "Shop.Parser.Parse"]);
    let mut build = server(10);
    build.cpu(
        PID,
        0.5,
        &["jit!Shop.Main", "libstdc++.so.6!__cxa_throw", "libgcc_s.so.1!_Unwind_RaiseException"],
    );
    let analysis = analyzed(build, said);
    let all: Vec<_> = analysis.findings.iter().filter(|one| one.id == FindingId::ExceptionStorm).collect();
    assert_eq!(all.len(), 1, "{}", outline(&analysis));
    assert!(all[0].title.contains("System.FormatException"), "{}", all[0].title);
    assert!(
        severity(&analysis, FindingId::CpuBound) <= Some(Notice),
        "it is explained:\n{}",
        outline(&analysis)
    );
}
