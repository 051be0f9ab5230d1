//! Each kind of sick server of .NET, and healthy ones: the first finding names the cause, and healthy ones raise no alarm.

mod build;

use biopsy_analyze::{Analysis, Severity, analyze};
use biopsy_model::capture::Capture;
use biopsy_model::log::LogLevel;
use biopsy_model::runtime_trace::RuntimeTrace;
use build::dotnet::{Said, waiting, waits_in_runtime};
use build::{Build, IDLE, PID, Waiting, call};

fn outline(analysis: &Analysis) -> String {
    let lines = analysis.findings.iter().map(|f| format!("{} {}: {}\n", f.severity.word(), f.id, f.title));
    lines.collect()
}

/// The first finding in full, and the titles of the others.
fn report(analysis: &Analysis) -> String {
    let first = analysis.findings.first().expect("findings are never empty");
    let evidence: String = first.evidence.iter().map(|evidence| format!("  - {}\n", evidence.text)).collect();
    let others = outline(analysis);
    let (title, others) = others.split_once('\n').expect("a line each");
    format!("{title}\n{evidence}{others}")
}

fn heard(mut capture: Capture, said: RuntimeTrace) -> Analysis {
    capture.runtimes.push(said);
    analyze(&capture)
}

/// A server whose pool threads wait for work, whose event loop waits for sockets.
fn server(seconds: u64) -> Build {
    let mut build = Build::new("server", seconds, 2);
    build.thread(PID, "dotnet").machine(0.1);
    build.wait(PID, Waiting { share: 0.98, each_ms: 4_000.0, ..IDLE });
    let idle = waits_in_runtime(&[
        "System.Private.CoreLib.dll!System.Threading.Thread.StartCallback",
        "System.Private.CoreLib.dll!System.Threading.PortableThreadPool.WorkerThread.WorkerThreadStart",
        "System.Private.CoreLib.dll!System.Threading.LowLevelLifoSemaphore.Wait",
    ]);
    for tid in 0..4 {
        build.thread(100 + tid, ".NET TP Worker");
        build.wait(100 + tid, waiting(&idle, 0.9, 40.0));
        build.cpu(
            100 + tid,
            0.02,
            &["jit!Shop.Orders.List", "System.Private.CoreLib.dll!System.String.Concat"],
        );
    }
    build
}

#[test]
fn a_healthy_server_under_load_gives_no_finding_of_its_runtime() {
    let mut said = Said::new(10);
    said.collections(2.0, 3.0, 12, &|share| 40_000_000 + (share * 1e6) as u64);
    said.exceptions(
        1,
        "System.OperationCanceledException",
        &["System.Threading.CancellationToken.ThrowOperationCanceledException"],
    );
    said.allocations(
        60_000_000,
        "System.Byte[]",
        &["System.Buffers.SharedArrayPool.Rent", "Microsoft.AspNetCore.Server.Kestrel.Run"],
    );
    said.allocations(20_000_000, "Shop.Order", &["Shop.Orders.List"]);
    said.pool("ClimbingMove", 6, &|_| 6);
    said.requests("/healthz", 9_000, 2, 3, 0.999).requests("/api/orders", 400, 40, 2, 0.99);
    said.outgoing("feed.test/{}", 400, 30, 1, 0.99);
    said.commands("SELECT * FROM Orders WHERE Id = ?", 400, 2);
    said.message("Information", LogLevel::Info, "Shop", "started", 12);
    let analysis = heard(server(10).done(), said.done());
    assert!(
        analysis.findings.iter().all(|finding| finding.severity < Severity::Notice),
        "{}",
        outline(&analysis)
    );
    assert_eq!(analysis.runtimes[0].requests[0].route, "/healthz");
}

#[test]
fn sync_over_async() {
    let mut build = server(10);
    let blocked = waits_in_runtime(&[
        "System.Private.CoreLib.dll!System.Threading.PortableThreadPool.WorkerThread.WorkerThreadStart",
        "System.Private.CoreLib.dll!System.Threading.ThreadPoolWorkQueue.Dispatch",
        "jit!Shop.FeedController.Get",
        "jit!Shop.FeedClient.GetPackageBlocking",
        "System.Private.CoreLib.dll!System.Runtime.CompilerServices.TaskAwaiter.HandleNonSuccessAndDebuggerNotification",
        "System.Private.CoreLib.dll!System.Threading.Tasks.Task.InternalWaitCore",
        "System.Private.CoreLib.dll!System.Threading.Tasks.Task.SpinThenBlockingWait",
        "System.Private.CoreLib.dll!System.Threading.ManualResetEventSlim.Wait",
        "System.Private.CoreLib.dll!System.Threading.Monitor.Wait",
    ]);
    for tid in 0..30 {
        build.thread(200 + tid, ".NET TP Worker");
        build.wait(200 + tid, waiting(&blocked, 0.97, 900.0));
    }
    let mut said = Said::new(10);
    said.pool("CooperativeBlocking", 20, &|share| 6 + (share * 28.0) as u32);
    said.requests("/api/feeds/{}", 40, 4_000, 64, 0.5).outgoing("feed.test/{}", 70, 1_500, 20, 0.9);
    insta::assert_snapshot!(report(&heard(build.done(), said.done())));
}

#[test]
fn sync_over_async_by_stacks_alone() {
    let title = |tail_calls: u32| {
        let mut build = server(10);
        let mut blocked = waits_in_runtime(&[
            "System.Private.CoreLib.dll!System.Threading.ThreadPoolWorkQueue.Dispatch",
            "jit!Shop.FeedController.Get",
            "jit!Shop.FeedClient.GetPackageBlocking",
            "System.Private.CoreLib.dll!System.Threading.Tasks.Task.SpinThenBlockingWait",
            "System.Private.CoreLib.dll!System.Threading.Monitor.Wait",
        ]);
        let whole = blocked.clone();
        blocked.retain(|frame| !frame.contains("GetPackageBlocking"));
        for number in 0..20 {
            build.thread(200 + number, ".NET TP Worker");
            let stack = if number < tail_calls { &blocked } else { &whole };
            build.wait(200 + number, waiting(stack, 0.97, 900.0));
        }
        let analysis = analyze(&build.done());
        let first = &analysis.findings[0];
        assert_eq!(first.id.as_str(), "pool-starvation", "{}", outline(&analysis));
        first.title.clone()
    };
    let named = title(0);
    assert!(named.contains("block in `Shop.FeedClient.GetPackageBlocking` until"), "{named}");
    // Compiled with optimization it leaves its frame to the call that waits: most threads do not have it any more.
    let named = title(15);
    let both = "block in `Shop.FeedController.Get`, which calls `Shop.FeedClient.GetPackageBlocking`,";
    assert!(named.contains(both), "{named}");
}

/// `Main` of every server waits for the host's end, and that is fine.
#[test]
fn a_main_thread_that_waits_for_the_host_is_no_starvation() {
    let mut build = server(10);
    let main = waits_in_runtime(&[
        "jit!Program.Main",
        "Microsoft.Extensions.Hosting.dll!Microsoft.Extensions.Hosting.HostingAbstractionsHostExtensions.Run",
        "System.Private.CoreLib.dll!System.Threading.Tasks.Task.SpinThenBlockingWait",
        "System.Private.CoreLib.dll!System.Threading.Monitor.Wait",
    ]);
    build.thread(90, "dotnet").wait(90, waiting(&main, 1.0, 10_000.0));
    let analysis = heard(build.done(), Said::new(10).done());
    assert!(
        analysis.findings.iter().all(|finding| finding.severity < Severity::Notice),
        "{}",
        outline(&analysis)
    );
}

#[test]
fn exception_storm() {
    let mut said = Said::new(10);
    said.exceptions(
        1_800,
        "System.FormatException",
        &[
            "System.Number.ThrowFormatException",
            "System.Int32.Parse",
            "Shop.VersionParser.ParseMajorOrZero",
            "Shop.VersionParser.ParseAll",
        ],
    );
    said.exceptions(2, "System.IO.IOException", &["System.Net.Sockets.NetworkStream.Read"]);
    insta::assert_snapshot!(report(&heard(server(10).done(), said.done())));
}

/// Many kinds, none of which is half of all: their number is said, not that of the most frequent one.
#[test]
fn exceptions_of_many_kinds() {
    let mut said = Said::new(10);
    for number in 0..8 {
        said.exceptions(10, &format!("Shop.Failure{number}"), &["Shop.Feed.Read"]);
    }
    let analysis = heard(server(10).done(), said.done());
    let storm = analysis
        .findings
        .iter()
        .find(|finding| finding.id.as_str() == "exception-storm")
        .expect("80 a second");
    assert!(storm.title.contains("80 a second thrown in different places"), "{}", storm.title);
}

/// It died of what it threw last, most likely; what it throws all the time says nothing.
#[test]
fn the_last_exception_before_the_end() {
    let mut said = Said::new(10);
    said.exceptions(5, "System.IO.IOException", &["Shop.Feed.Read"]);
    said.thrown(0.985, "System.FormatException", &["Shop.Settings.Read", "Shop.Worker.Run"]);
    said.thrown(0.986, "System.InvalidOperationException", &["Shop.Worker.Run"]);
    said.thrown(
        0.987,
        "System.InvalidOperationException",
        &["System.Runtime.ExceptionServices.ExceptionDispatchInfo.Throw"],
    );
    let mut capture = server(10).done();
    capture.header.ended_by = "target-exited".into();
    insta::assert_snapshot!(report(&heard(capture.clone(), said.done())));

    let mut said = Said::new(10);
    said.exceptions(5, "System.IO.IOException", &["Shop.Feed.Read"]);
    said.thrown(0.985, "System.IO.IOException", &["Shop.Feed.Read"]);
    let analysis = heard(capture, said.done());
    let ended =
        analysis.findings.iter().find(|finding| finding.id.as_str() == "target-ended").expect("it has ended");
    assert!(!ended.title.contains("IOException"), "{}", ended.title);
}

#[test]
fn allocation_storm() {
    let mut build = server(10);
    build.thread(300, "log-formatter");
    build.cpu(
        300,
        0.5,
        &[
            "jit!Shop.LogFormatter.FormatLine",
            "System.Private.CoreLib.dll!System.String.Concat",
            "libc.so.6!memmove",
        ],
    );
    build.cpu(300, 0.4, &["jit!Shop.LogFormatter.FormatLine", "libclrgc.so!gc_heap::mark"]);
    let mut said = Said::new(10);
    said.collections(40.0, 1.5, 3, &|_| 20_000_000);
    said.allocations(
        900_000_000,
        "System.String",
        &["System.String.Concat", "Shop.LogFormatter.FormatLine", "Shop.LogFormatter.Run"],
    );
    said.allocations(20_000_000, "System.Byte[]", &["Shop.Orders.List"]);
    insta::assert_snapshot!(report(&heard(build.done(), said.done())));
}

#[test]
fn pinned_buffers() {
    let mut said = Said::new(10);
    said.collections(12.0, 4.0, 5_000, &|_| 20_000_000);
    said.allocations(700_000_000, "System.Byte[]", &["Shop.PinnedBuffers.PinBuffers"]);
    insta::assert_snapshot!(report(&heard(server(10).done(), said.done())));
}

#[test]
fn many_commands_in_one_request() {
    let mut said = Said::new(10);
    said.requests("/api/releases", 70, 280, 2, 0.98);
    said.commands("SELECT * FROM Releases WHERE Id = ?", 70, 201);
    insta::assert_snapshot!(report(&heard(server(10).done(), said.done())));
}

#[test]
fn slow_upstream() {
    let mut said = Said::new(10);
    said.requests("/api/feeds/{}", 36, 2_004, 8, 0.9).outgoing("127.0.0.1:5001/feed/{}", 36, 2_001, 8, 0.9);
    insta::assert_snapshot!(report(&heard(server(10).done(), said.done())));
}

#[test]
fn an_upstream_slower_than_the_recording() {
    let mut said = Said::new(4);
    said.requests("/api/feeds/{}", 0, 0, 8, 0.1).outgoing("127.0.0.1:5001/feed/{}", 0, 0, 8, 0.1);
    let analysis = heard(server(4).done(), said.done());
    assert_eq!(analysis.findings[0].id.as_str(), "slow-dependency", "{}", outline(&analysis));
}

#[test]
fn lock_convoy() {
    let mut build = server(10);
    let queue = waits_in_runtime(&["jit!Shop.Repeat", "jit!Shop.LogWriter.AppendUnderLock"]);
    for tid in 0..12 {
        build.thread(300 + tid, &format!("log-writer-{tid}"));
        build.wait(300 + tid, Waiting { waker: Some(300 + (tid + 1) % 12), ..waiting(&queue, 0.9, 12.0) });
    }
    let mut said = Said::new(10);
    said.contention(12, 12, &["Shop.LogWriter.AppendUnderLock", "Shop.Repeat"]);
    insta::assert_snapshot!(report(&heard(build.done(), said.done())));
}

/// A `lock` statement waits in the runtime itself, which tells it from all other waits.
#[test]
fn a_convoy_is_told_without_events() {
    let mut build = server(10);
    let queue = waits_in_runtime(&["jit!Shop.Repeat", "jit!Shop.LogWriter.AppendUnderLock"]);
    for tid in 0..12 {
        build.thread(300 + tid, &format!("log-writer-{tid}")).switches(300 + tid, 80);
        build.wait(300 + tid, waiting(&queue, 0.9, 12.0));
    }
    let analysis = analyze(&build.done());
    assert_eq!(analysis.findings[0].id.as_str(), "lock-convoy", "{}", outline(&analysis));
    assert!(analysis.findings[0].title.contains("for a lock"), "{}", analysis.findings[0].title);
}

#[test]
fn deadlock_of_two_monitors() {
    let mut build = server(10);
    let left = waits_in_runtime(&[
        "jit!Shop.Deployments.LockDeploymentThenRelease",
        "jit!Shop.Deployments.LockDeploymentThenRelease lambda",
    ]);
    let right = waits_in_runtime(&[
        "jit!Shop.Deployments.LockReleaseThenDeployment",
        "System.Private.CoreLib.dll!System.Threading.Monitor.Enter_Slowpath",
    ]);
    for (tid, name, stack) in [(300, "deploy-worker", &left), (301, "release-worker", &right)] {
        build.thread(tid, name).switches(tid, 0).wait(tid, waiting(stack, 1.0, 10_000.0));
    }
    insta::assert_snapshot!(report(&heard(build.done(), Said::new(10).done())));
}

#[test]
fn a_blocked_finalizer() {
    let mut build = server(10);
    let stack = waits_in_runtime(&["jit!Shop.NativeSession.Finalize"]);
    build.thread(300, ".NET Finalizer").switches(300, 0).wait(300, waiting(&stack, 1.0, 10_000.0));
    let analysis = heard(build.done(), Said::new(10).done());
    assert_eq!(analysis.findings[0].id.as_str(), "finalizer-blocked", "{}", outline(&analysis));
    assert!(analysis.findings[0].title.contains("`Shop.NativeSession.Finalize`"));
}

#[test]
fn a_regular_expression() {
    let mut build = server(10);
    build.thread(300, "version-range-parser");
    build.cpu(
        300,
        0.95,
        &[
            "jit!Shop.VersionRange.IsRange",
            "System.Text.RegularExpressions.dll!System.Text.RegularExpressions.Regex.RunSingleMatch",
            "System.Text.RegularExpressions.dll!System.Text.RegularExpressions.RegexInterpreter.TryMatchAtCurrentPosition",
        ],
    );
    insta::assert_snapshot!(report(&heard(build.done(), Said::new(10).done())));
}

#[test]
fn a_leak() {
    let mut build = server(20);
    build.metric(
        "processes",
        &[("pid", "4711"), ("name", "dotnet")],
        &[("memory.anon", &|s| 80e6 + s * 10e6), ("memory.rss", &|s| 130e6 + s * 10e6)],
    );
    let mut said = Said::new(20);
    said.collections(1.0, 6.0, 3, &|share| 20_000_000 + (share * 200e6) as u64);
    said.allocations(12_000_000, "Shop.AuditEntry", &["Shop.AuditTrail.Append"]);
    said.counter("System.Runtime", "active-timer-count", &|share| 20.0 + share * 900.0);
    insta::assert_snapshot!(report(&heard(build.done(), said.done())));
}

#[test]
fn a_heap_that_breathes_is_no_leak() {
    let mut said = Said::new(20);
    said.collections(2.0, 3.0, 3, &|share| 20_000_000 + ((share * 40.0).fract() * 60e6) as u64);
    let analysis = heard(server(20).done(), said.done());
    assert!(
        analysis.findings.iter().all(|finding| finding.id.as_str() != "managed-heap-growth"),
        "{}",
        outline(&analysis)
    );
}

/// A server that starts: pages of its collector's room and of compiled code, while what it keeps stays the same.
#[test]
fn a_server_that_warms_up_is_no_leak() {
    let severity = |per_second: f64, kept: f64| {
        let mut build = server(10);
        build.metric(
            "processes",
            &[("pid", "4711"), ("name", "dotnet")],
            &[("memory.anon", &|s| 14e6 + s * per_second), ("memory.rss", &|s| 90e6 + s * per_second)],
        );
        let mut said = Said::new(10);
        said.collections(1.0, 6.0, 3, &|share| 3_200_000 + (share * kept) as u64);
        let analysis = heard(build.done(), said.done());
        let found = analysis.findings.iter().filter(|finding| finding.id.as_str().ends_with("growth"));
        found.map(|finding| finding.severity).max()
    };
    assert_eq!(severity(4e6, 0.1e6), Some(Severity::Notice));
    assert!(severity(4e6, 36e6) > Some(Severity::Notice), "the heap keeps it");
    assert!(severity(24e6, 0.1e6) > Some(Severity::Notice), "more than the collector's room");
}

#[test]
fn requests_without_an_answer() {
    let mut said = Said::new(10);
    said.requests("/api/deployments", 0, 0, 4, 0.05);
    insta::assert_snapshot!(report(&heard(server(10).done(), said.done())));
}

#[test]
fn requests_that_began_before_the_recording_are_seen_by_counters() {
    let mut said = Said::new(10);
    said.counter("Microsoft.AspNetCore.Hosting", "current-requests", &|_| 4.0);
    said.counter("Microsoft.AspNetCore.Hosting", "total-requests", &|_| 104.0);
    let analysis = heard(server(10).done(), said.done());
    assert_eq!(analysis.findings[0].id.as_str(), "requests-unanswered", "{}", outline(&analysis));
}

#[test]
fn induced_and_long_collections() {
    let mut said = Said::new(10);
    said.collections(2.0, 80.0, 3, &|_| 20_000_000);
    for item in &mut said.trace.collections.items {
        item.reason = biopsy_model::runtime_trace::CollectionReason::Induced;
        item.generation = 2;
    }
    let analysis = heard(server(10).done(), said.done());
    let ids: Vec<&str> = analysis.findings.iter().map(|finding| finding.id.as_str()).collect();
    assert!(ids.contains(&"gc-pauses") && ids.contains(&"gc-induced"), "{}", outline(&analysis));
}

#[test]
fn failures_errors_and_losses() {
    let mut said = Said::new(10);
    said.requests("/api/orders", 100, 20, 0, 0.0);
    said.trace.request_groups[0].failed = 30;
    said.exceptions(3, "Shop.OrderException", &["Shop.Orders.Load"]);
    said.message("Error", LogLevel::Error, "Shop.Orders", "order 7 is gone", 30);
    said.trace.lost = 50_000;
    let analysis = heard(server(10).done(), said.done());
    let ids: Vec<&str> = analysis.findings.iter().map(|finding| finding.id.as_str()).collect();
    for id in ["failed-requests", "logged-errors", "runtime-events-incomplete"] {
        assert!(ids.contains(&id), "{id}: {}", outline(&analysis));
    }
}

#[test]
fn slow_requests_and_what_went_on_meanwhile() {
    let mut said = Said::new(10);
    said.requests("/api/orders", 20, 1_500, 0, 0.0);
    said.collections(4.0, 100.0, 3, &|_| 20_000_000);
    let analysis = heard(server(10).done(), said.done());
    let slow =
        analysis.findings.iter().find(|finding| finding.id.as_str() == "slow-requests").expect("it is slow");
    assert!(slow.evidence.iter().any(|evidence| evidence.text.contains("garbage collection")), "{slow:#?}");
    let row = &analysis.runtimes[0].coincidences[0];
    assert!(row.share > 0.2 && row.usual > 0.2 && row.requests == 20, "{row:?}");
}

/// Allocations are sampled on request only; the stacks of collections tell the place without.
#[test]
fn an_allocation_storm_is_told_by_the_starts_of_collections() {
    let mut said = Said::new(10);
    said.collections(30.0, 1.0, 3, &|_| 20_000_000);
    let stack = said.stack(&["System.String.Concat", "Shop.LogFormatter.FormatLine"]);
    for item in said.trace.collections.items.iter_mut().skip(20) {
        item.stack = stack;
    }
    said.counter("System.Runtime", "alloc-rate", &|_| 1.2e9);
    let analysis = heard(server(10).done(), said.done());
    let first = &analysis.findings[0];
    assert_eq!(first.id.as_str(), "allocation-storm", "{}", outline(&analysis));
    assert!(first.title.contains("`Shop.LogFormatter.FormatLine`: 1.2 GB a second"), "{}", first.title);
}

/// A process of 4711 whose memory grows by `per_second`, heard with `said`.
fn growing(seconds: u64, first: f64, per_second: f64, said: RuntimeTrace) -> Analysis {
    let mut build = server(seconds);
    build.metric(
        "processes",
        &[("pid", "4711"), ("name", "dotnet")],
        &[("memory.anon", &|s| first + s * per_second), ("memory.rss", &|s| 2.0 * first + s * per_second)],
    );
    heard(build.done(), said)
}

#[test]
fn timers_that_pile_up() {
    let mut said = Said::new(10);
    said.counter("System.Runtime", "active-timer-count", &|share| 3_000.0 + share * 9_000.0);
    let analysis = heard(server(10).done(), said.done());
    assert_eq!(analysis.findings[0].id.as_str(), "timer-growth", "{}", outline(&analysis));
    assert!(analysis.findings[0].title.contains("12,000"), "{}", outline(&analysis));

    // More requests are under way now and then: their timers go.
    let mut said = Said::new(10);
    said.counter("System.Runtime", "active-timer-count", &|share| {
        if share == 0.5 { 4_000.0 } else { 1_000.0 + 600.0 * share }
    });
    let analysis = heard(server(10).done(), said.done());
    assert!(
        analysis.findings.iter().all(|finding| finding.id.as_str() != "timer-growth"),
        "{}",
        outline(&analysis)
    );
}

#[test]
fn a_large_object_heap_full_of_holes() {
    let mut said = Said::new(10);
    said.collections(1.0, 2.0, 3, &|share| 20_000_000 + (share * 1e6) as u64);
    for item in &mut said.trace.collections.items {
        item.sizes_after = Some([1 << 20, 2 << 20, 6 << 20, 260 << 20, 0]);
    }
    said.counter("System.Runtime", "gc-fragmentation", &|_| 41.0);
    said.counter("System.Runtime", "gc-committed", &|_| 275.0);
    let analysis = heard(server(10).done(), said.done());
    assert_eq!(analysis.findings[0].id.as_str(), "heap-fragmentation", "{}", outline(&analysis));
    assert!(analysis.findings[0].title.contains("113 MB of 275 MB"), "{}", outline(&analysis));
}

#[test]
fn a_young_heap_that_fills_its_room_is_no_alarm() {
    let analysis = growing(10, 17e6, 2e6, Said::new(10).done());
    assert!(analysis.findings.iter().all(|f| f.severity < Severity::Notice), "{}", outline(&analysis));
}

#[test]
fn much_growth_without_a_collection_says_what_to_try_next() {
    let analysis = growing(10, 30e6, 10e6, Said::new(10).done());
    let first = &analysis.findings[0];
    assert_eq!(
        (first.id.as_str(), first.severity),
        ("memory-growth", Severity::Notice),
        "{}",
        outline(&analysis)
    );
    assert!(first.next_steps.iter().any(|step| step.contains("`biopsy snapshot 4711`")), "{first:#?}");
}

#[test]
fn growth_outside_of_the_managed_heap_is_told_apart() {
    let mut said = Said::new(10);
    said.collections(1.0, 2.0, 3, &|_| 20_000_000);
    said.counter("System.Runtime", "gc-heap-size", &|share| 20.0 + share);
    let analysis = growing(10, 30e6, 20e6, said.done());
    let first = &analysis.findings[0];
    assert_eq!(first.id.as_str(), "memory-growth", "{}", outline(&analysis));
    assert!(first.severity >= Severity::Warning, "{}", outline(&analysis));
    assert!(first.title.contains("outside of the managed heap"), "{}", outline(&analysis));
}

/// Whether threads that come evenly, of each name as many, are said to pile up; the kernel counts `first` before them.
fn piles_up(first: u32, born: &[(&str, u32)]) -> bool {
    let mut build = server(10);
    let names: Vec<&str> =
        born.iter().flat_map(|&(name, count)| std::iter::repeat_n(name, count as usize)).collect();
    let more = names.len() as f64;
    for (tid, name) in (500..).zip(&names) {
        build.life(tid, name, Some(0.05 + 0.9 * f64::from(tid - 500) / more), Some(100));
    }
    let threads = move |second: f64| f64::from(first) + (more * second / 10.0).floor();
    build.metric("processes", &[("pid", "100"), ("name", "dotnet")], &[("threads", &threads)]);
    let analysis = heard(build.done(), Said::new(10).done());
    analysis.findings.iter().any(|finding| finding.id.as_str() == "runaway-threads")
}

#[test]
fn a_pool_that_fills_is_no_growth_of_threads() {
    let of_pool = ".NET TP Worker";
    for (first, born, expected) in [
        (19, &[(of_pool, 4), (".NET EventPipe", 4)][..], false),
        (19, &[(of_pool, 16)], false),
        (3, &[(of_pool, 4), ("worker", 4)], false),
        (3, &[(of_pool, 4), ("worker", 12)], true),
        (19, &[("worker", 16)], true),
        (19, &[("worker", 5)], false),
        // No healthy server needs that many.
        (19, &[(of_pool, 150)], true),
    ] {
        assert_eq!(piles_up(first, born), expected, "{born:?} beside {first}");
    }
}

#[test]
fn what_the_runtime_starts_for_our_events_is_no_growth_of_threads_and_no_loop() {
    let mut build = server(10);
    for number in 0..9 {
        build.life(500 + number, ".NET EventPipe", Some(0.05 + 0.1 * f64::from(number)), Some(100));
        let stack = [
            "libc.so.6!start_thread",
            "libcoreclr.so!",
            "libc.so.6!clock_nanosleep",
            "k:do_nanosleep",
            "k:schedule",
        ];
        build.wait(
            500 + number,
            Waiting { stack: &stack, syscall: call::NANOSLEEP, share: 0.9, each_ms: 100.0, ..IDLE },
        );
    }
    let analysis = heard(build.done(), Said::new(10).done());
    let ids: Vec<&str> = analysis.findings.iter().map(|finding| finding.id.as_str()).collect();
    assert!(!ids.contains(&"runaway-threads") && !ids.contains(&"sleep-loop"), "{}", outline(&analysis));
}

#[test]
fn requests_that_began_before_the_recording_are_seen_beside_others() {
    let mut said = Said::new(10);
    said.requests("/healthz", 200, 4, 0, 0.0);
    said.counter("Microsoft.AspNetCore.Hosting", "current-requests", &|_| 6.0);
    said.counter("Microsoft.AspNetCore.Hosting", "total-requests", &|share| 104.0 + 200.0 * share);
    let analysis = heard(server(10).done(), said.done());
    assert_eq!(analysis.findings[0].id.as_str(), "requests-unanswered", "{}", outline(&analysis));
}

#[test]
fn the_slow_server_is_named_not_the_one_asked_most() {
    let mut said = Said::new(10);
    said.requests("/api/feeds/{}", 36, 2_004, 8, 0.9).requests("/feed/{}", 36, 2_001, 8, 0.9);
    said.outgoing("127.0.0.1:5000/api/feeds/{}", 36, 2_005, 8, 0.9);
    said.outgoing("127.0.0.1:5001/feed/a", 20, 2_001, 8, 0.9).outgoing(
        "127.0.0.1:5001/feed/b",
        36,
        2_001,
        8,
        0.9,
    );
    let analysis = heard(server(10).done(), said.done());
    assert_eq!(analysis.findings[0].id.as_str(), "slow-dependency", "{}", outline(&analysis));
    assert!(analysis.findings[0].title.contains("127.0.0.1:5001/feed/b"), "{}", outline(&analysis));
}

#[test]
fn the_tier_of_a_method_is_beside_its_module_and_not_in_its_name() {
    let mut build = server(10);
    build.thread(300, "worker");
    build.cpu(300, 0.6, &["jit!Shop.Run [tier-1]"]).cpu(300, 0.2, &["jit!Shop.Run [tier-0]"]);
    let analysis = heard(build.done(), Said::new(10).done());
    let rows: Vec<_> = analysis.functions.iter().filter(|row| row.name.starts_with("Shop.Run")).collect();
    assert_eq!(rows.len(), 1, "{rows:#?}");
    assert_eq!(rows[0].name, "Shop.Run");
    assert_eq!(rows[0].module, "jit [tier-1 75 %, tier-0 25 %]");
}
