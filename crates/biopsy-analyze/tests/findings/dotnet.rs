//! Both sides of each threshold of the rules on .NET, and what becomes of two findings that see one thing.

use crate::build::dotnet::{Said, waiting, waits_in_runtime};
use crate::build::{Build, IDLE, PID};
use crate::outline;
use biopsy_analyze::Severity::{self, Critical, Notice, Warning};
use biopsy_analyze::{Analysis, FindingId, analyze};
use biopsy_model::log::LogLevel;
use biopsy_model::runtime_trace::{CollectionReason, ProviderCount, Sampled, SampledKind};
use biopsy_model::timeline::TimelineEvent;
use biopsy_model::{MonoNanos, Pid};

const SECONDS: u64 = 10;

fn severity(analysis: &Analysis, id: FindingId) -> Option<Severity> {
    analysis.findings.iter().find(|finding| finding.id == id).map(|finding| finding.severity)
}

/// A server of .NET on 4 CPUs that does little.
fn server() -> Build {
    let mut build = Build::new("server", SECONDS, 4);
    build.thread(PID, "dotnet").machine(0.2).wait(PID, IDLE);
    build
}

fn analyzed(build: Build, mut said: Said) -> Analysis {
    let mut capture = build.done();
    capture.runtimes.push(said.done());
    analyze(&capture)
}

/// Checks what is said of each value; `say` makes what the runtime says from it.
fn check<V: std::fmt::Debug + Copy>(
    id: FindingId,
    table: &[(V, Option<Severity>)],
    say: impl Fn(&mut Said, V),
) {
    for &(value, expected) in table {
        let mut said = Said::new(SECONDS);
        say(&mut said, value);
        let analysis = analyzed(server(), said);
        assert_eq!(severity(&analysis, id), expected, "{id} at {value:?}:\n{}", outline(&analysis));
    }
}

/// A heap that stays as it is.
fn flat(_: f64) -> u64 {
    40_000_000
}

#[test]
fn exception_storm() {
    let table = [
        (0, None),
        (9, None),
        (10, Some(Notice)),
        (49, Some(Notice)),
        (50, Some(Warning)),
        (299, Some(Warning)),
        (300, Some(Critical)),
    ];
    check(FindingId::ExceptionStorm, &table, |said, rate| {
        said.exceptions(rate, "System.FormatException", &["System.Int32.Parse", "Shop.Parser.Parse"]);
    });
}

#[test]
fn exceptions_of_a_part_of_the_time_are_at_least_so_many() {
    for (missing, least) in [(0, false), (SECONDS / 2, true)] {
        let mut said = Said::new(SECONDS);
        said.exceptions(400, "System.FormatException", &["System.Int32.Parse", "Shop.Parser.Parse"]);
        let mut trace = said.done();
        let from = trace.span.expect("it spoke").0;
        trace.sampled.push(Sampled {
            what: SampledKind::Runtime,
            from,
            to: MonoNanos(from.0 + missing * 1_000_000_000),
            share: 0.0,
            why: String::new(),
        });
        let mut capture = server().done();
        capture.runtimes.push(trace);
        let analysis = analyze(&capture);
        let finding =
            analysis.findings.iter().find(|finding| finding.id == FindingId::ExceptionStorm).unwrap();
        assert_eq!(finding.title.contains("at least"), least, "{}", finding.title);
        assert_eq!(finding.explanation.contains("not all the time"), least, "{}", finding.explanation);
    }
}

/// The same of every finding whose numbers are made from such events.
#[test]
fn what_was_heard_in_part_says_so() {
    type Says = fn(&mut Said);
    let table: [(FindingId, SampledKind, Says); 3] = [
        (FindingId::AllocationStorm, SampledKind::Allocations, |said| {
            said.allocations(900_000_000, "System.String", &["System.String.Concat", "Shop.Log.Format"]);
        }),
        (FindingId::LockConvoy, SampledKind::Runtime, |said| {
            said.contention(8, 100, &["System.Threading.Monitor.Enter", "Shop.Stock.Take"]);
        }),
        (FindingId::SlowRequests, SampledKind::Requests, |said| {
            said.requests("/api/report", 20, 3_000, 0, 1.0);
        }),
    ];
    for (id, what, says) in table {
        for (missing, in_part) in [(0, false), (SECONDS / 2, true)] {
            let mut said = Said::new(SECONDS);
            says(&mut said);
            let mut trace = said.done();
            let from = trace.span.expect("it spoke").0;
            let to = MonoNanos(from.0 + missing * 1_000_000_000);
            trace.sampled.push(Sampled { what: what.clone(), from, to, share: 0.0, why: String::new() });
            let mut capture = server().done();
            capture.runtimes.push(trace);
            let analysis = analyze(&capture);
            let finding = analysis.findings.iter().find(|finding| finding.id == id);
            let finding = finding.unwrap_or_else(|| panic!("no {id}: {:?}", analysis.findings));
            assert_eq!(
                finding.explanation.contains("at least what is said"),
                in_part,
                "{}",
                finding.explanation
            );
        }
    }
}

#[test]
fn allocation_storm() {
    let id = FindingId::AllocationStorm;
    let rates = [
        (99_000_000, None),
        (100_000_000, Some(Warning)),
        (399_000_000, Some(Warning)),
        (400_000_000, Some(Critical)),
    ];
    check(id, &rates, |said, rate| {
        said.allocations(rate, "System.String", &["System.String.Concat", "Shop.Log.Format"]);
    });
    // One place must make two fifths of it.
    check(id, &[(39, None), (41, Some(Warning))], |said, percent| {
        said.allocations(2_000_000 * percent, "System.String", &["Shop.Log.Format"]);
        for (rest, place) in [(30, "Shop.A.Run"), (100 - 30 - percent, "Shop.B.Run")] {
            said.allocations(2_000_000 * rest, "System.Byte[]", &[place]);
        }
    });
    // What the class library makes by itself is nobody's place.
    check(id, &[(900_000_000, None)], |said, rate| {
        said.allocations(rate, "System.Byte[]", &["System.Net.Sockets.Socket.Receive"]);
    });
}

#[test]
fn gc_pinned() {
    let id = FindingId::GcPinned;
    let pinned = [(999, None), (1_000, Some(Warning)), (1_999, Some(Warning)), (2_000, Some(Critical))];
    check(id, &pinned, |said, pinned| {
        said.collections(2.0, 1.0, pinned, &flat);
    });
    // With little garbage pinning harms nobody.
    check(
        id,
        &[(0.4, None), (0.5, Some(Warning)), (0.9, Some(Warning)), (1.0, Some(Critical))],
        |said, rate| {
            said.collections(rate, 1.0, 5_000, &flat);
        },
    );
}

#[test]
fn gc_pauses() {
    let id = FindingId::GcPauses;
    // Ten collections a second: so many per cent of the time.
    let shares = [
        (4.9, None),
        (5.1, Some(Notice)),
        (9.9, Some(Notice)),
        (10.1, Some(Warning)),
        (24.9, Some(Warning)),
        (25.1, Some(Critical)),
    ];
    check(id, &shares, |said, ms| {
        said.collections(10.0, ms, 0, &flat);
    });
    // One long pause in ten seconds.
    let lengths = [(480.0, None), (501.0, Some(Notice)), (999.0, Some(Notice)), (1_001.0, Some(Warning))];
    check(id, &lengths, |said, ms| {
        said.collections(0.1, ms, 0, &flat);
    });
}

#[test]
fn gc_induced() {
    check(
        FindingId::GcInduced,
        &[(0, None), (2, None), (3, Some(Notice)), (4, Some(Notice)), (5, Some(Warning))],
        |said, induced| {
            said.collections(2.0, 1.0, 0, &flat);
            for item in said.trace.collections.items.iter_mut().take(induced) {
                (item.reason, item.generation) = (CollectionReason::Induced, 2);
            }
        },
    );
    // Young ones cost little, however often they are asked for.
    check(FindingId::GcInduced, &[(1, Some(Notice)), (2, Some(Warning))], |said, generation| {
        said.collections(2.0, 1.0, 0, &flat);
        for item in &mut said.trace.collections.items {
            (item.reason, item.generation) = (CollectionReason::Induced, generation);
        }
    });
}

#[test]
fn managed_heap_growth() {
    let id = FindingId::ManagedHeapGrowth;
    // Bytes over the recording, from 40 MB: 16 MB and three tenths.
    check(id, &[(8.0, None), (14.0, None), (30.0, Some(Warning)), (400.0, Some(Warning))], |said, grown| {
        said.collections(3.0, 1.0, 0, &|share| 40_000_000 + (grown * 1e6 * share) as u64);
    });
    // From a large heap by a share of it.
    check(id, &[(200.0, None), (600.0, Some(Warning))], |said, grown| {
        said.collections(3.0, 1.0, 0, &|share| 1_000_000_000 + (grown * 1e6 * share) as u64);
    });
    // A start that levels out, a saw and what is given back at the end are no growth.
    type Course = fn(f64) -> u64;
    let courses: [(&str, Course); 3] = [
        ("levels out", |share| 40_000_000 + (200e6 * (share * 4.0).min(1.0)) as u64),
        ("saw", |share| 40_000_000 + (100e6 * ((share * 7.0) % 1.0)) as u64),
        ("given back", |share| if share < 0.6 { 40_000_000 + (200e6 * share) as u64 } else { 40_000_000 }),
    ];
    for (name, course) in courses {
        let mut said = Said::new(SECONDS);
        said.collections(3.0, 1.0, 0, &course);
        let analysis = analyzed(server(), said);
        assert_eq!(severity(&analysis, id), None, "{name}:\n{}", outline(&analysis));
    }
}

#[test]
fn what_was_started_meanwhile_warms_up() {
    for (seconds, expected) in [(SECONDS, Notice), (60, Warning)] {
        let mut build = Build::new("server", seconds, 4);
        build.thread(PID, "dotnet").machine(0.2).wait(PID, IDLE);
        let executed = TimelineEvent::Exec { time: MonoNanos(1), pid: Pid(PID), name: "dotnet".to_owned() };
        build.timeline.process_events.push(executed);
        let mut said = Said::new(seconds);
        said.collections(3.0, 1.0, 0, &|share| 40_000_000 + (400e6 * share) as u64);
        let analysis = analyzed(build, said);
        assert_eq!(
            severity(&analysis, FindingId::ManagedHeapGrowth),
            Some(expected),
            "{}",
            outline(&analysis)
        );
    }
}

#[test]
fn timer_growth() {
    let id = FindingId::TimerGrowth;
    check(
        id,
        &[(300.0, None), (540.0, None), (600.0, Some(Warning)), (9_000.0, Some(Warning))],
        |said, grown| {
            said.counter("System.Runtime", "active-timer-count", &|share| 10.0 + grown * share);
        },
    );
    // One reading that falls, and it is work that comes and goes.
    check(id, &[(0.0, Some(Warning)), (1.0, None)], |said, dip| {
        said.counter("System.Runtime", "active-timer-count", &|share| {
            10.0 + 5_000.0 * share - if (0.45..0.55).contains(&share) { dip * 4_000.0 } else { 0.0 }
        });
    });
}

#[test]
fn n_plus_one() {
    let table = [(1, None), (14, None), (15, Some(Warning)), (99, Some(Warning)), (100, Some(Critical))];
    check(FindingId::NPlusOne, &table, |said, in_one| {
        said.requests("/api/orders", 100, 40, 0, 1.0).commands(
            "SELECT * FROM Orders WHERE Id = ?",
            100,
            in_one,
        );
    });
}

#[test]
fn slow_dependency() {
    let id = FindingId::SlowDependency;
    let table = [(150, None), (210, Some(Warning)), (990, Some(Warning)), (1_001, Some(Critical))];
    check(id, &table, |said, each| {
        said.requests("/api/orders", 100, each + 5, 0, 1.0).outgoing("feed.test/{}", 100, each, 0, 1.0);
    });
    // Half of what is served is not time of others.
    check(id, &[(2_500, None), (900, Some(Warning))], |said, served| {
        said.requests("/api/orders", 100, served, 0, 1.0).outgoing("feed.test/{}", 100, 500, 0, 1.0);
    });
    // What nobody here waits for may be slow on purpose; single calls are no habit.
    check(id, &[(3, None), (10, Some(Notice))], |said, calls| {
        said.outgoing("feed.test/{}", calls, 2_000, 0, 1.0);
    });
    // Two servers that take the same: neither is the slow one, unless one takes most.
    check(id, &[(490, None), (2_000, Some(Critical))], |said, each| {
        said.requests("/api/orders", 100, 3_000, 0, 1.0).outgoing("feed.test/{}", 100, each, 0, 1.0);
        for host in ["a.test/{}", "b.test/{}"] {
            said.outgoing(host, 100, 500, 0, 1.0);
        }
    });
}

#[test]
fn requests_unanswered() {
    let id = FindingId::RequestsUnanswered;
    // Open since so long before the end of ten seconds.
    check(id, &[(0.75, None), (0.69, Some(Warning)), (0.1, Some(Warning))], |said, since| {
        said.requests("/api/orders", 2, 20, 5, since);
    });
    // One or two may be web sockets.
    check(id, &[(0, None), (1, Some(Notice)), (2, Some(Notice)), (3, Some(Warning))], |said, open| {
        said.requests("/api/orders", 2, 20, open, 0.1);
    });
    // Of a route that takes its time, they are under way.
    check(id, &[(20, Some(Warning)), (2_000, None)], |said, usual| {
        said.requests("/api/report", 4, usual, 5, 0.5);
    });
}

#[test]
fn slow_requests() {
    check(FindingId::SlowRequests, &[(400, None), (2_500, Some(Notice))], |said, each| {
        said.requests("/api/report", 20, each, 0, 1.0);
    });
    check(FindingId::SlowRequests, &[(2, None), (3, Some(Notice))], |said, count| {
        said.requests("/api/report", count, 2_500, 0, 1.0);
    });
}

#[test]
fn failed_requests() {
    let table = [
        (4, None),
        (5, Some(Notice)),
        (24, Some(Notice)),
        (25, Some(Warning)),
        (249, Some(Warning)),
        (250, Some(Critical)),
        (500, Some(Critical)),
    ];
    check(FindingId::FailedRequests, &table, |said, failed| {
        said.requests("/api/orders", 500, 20, 0, 1.0);
        said.trace.request_groups[0].failed = failed;
    });
    // Five of very many are every day's.
    check(FindingId::FailedRequests, &[(400, Some(Notice)), (600, None)], |said, count| {
        said.requests("/api/orders", count, 20, 0, 1.0);
        said.trace.request_groups[0].failed = 5;
    });
}

#[test]
fn logged_errors() {
    check(
        FindingId::LoggedErrors,
        &[(0, None), (1, Some(Notice)), (49, Some(Notice)), (50, Some(Warning))],
        |said, count| {
            if count > 0 {
                said.message("Error", LogLevel::Error, "Shop", "it broke", count);
            }
            said.message("Warning", LogLevel::Warning, "Shop", "beware", 5_000);
        },
    );
    check(
        FindingId::LoggedErrors,
        &[("Information", None), ("Warning", None), ("Error", Some(Notice)), ("Critical", Some(Notice))],
        |said, level| {
            said.message(level, LogLevel::Error, "Shop", "said", 3);
        },
    );
}

#[test]
fn lock_convoy_by_the_runtimes_own_count() {
    let id = FindingId::LockConvoy;
    // Threads that wait one after the other, all the time.
    check(id, &[(1, None), (2, None), (3, Some(Critical)), (12, Some(Critical))], |said, threads| {
        said.contention(threads, 50, &["System.Threading.Monitor.Enter", "Shop.Cache.Get"]);
    });
    // Share of their time, of ten threads.
    let table = [
        (10, None),
        (16, Some(Notice)),
        (19, Some(Notice)),
        (21, Some(Warning)),
        (49, Some(Warning)),
        (51, Some(Critical)),
    ];
    check(id, &table, |said, percent: u64| {
        said.contention(10, 50, &["System.Threading.Monitor.Enter", "Shop.Cache.Get"]);
        let group = &mut said.trace.contention_groups[0];
        group.total.0 = group.total.0 / 100 * percent;
    });
}

#[test]
fn runtime_events_incomplete() {
    let table = [(0, None), (90, None), (120, Some(Notice)), (2_000, Some(Notice)), (3_000, Some(Warning))];
    check(FindingId::RuntimeEventsIncomplete, &table, |said, lost| {
        said.trace.lost = lost;
        said.trace.providers.push(ProviderCount {
            provider: "Microsoft-Windows-DotNETRuntime".to_owned(),
            count: 10_000,
            event: "GCStart_V2 (1)".to_owned(),
        });
    });
}

const BLOCKS: [&str; 5] = [
    "System.Private.CoreLib.dll!System.Threading.ThreadPoolWorkQueue.Dispatch",
    "jit!Shop.Feed.GetBlocking",
    "System.Private.CoreLib.dll!System.Threading.Tasks.Task.SpinThenBlockingWait",
    "System.Private.CoreLib.dll!System.Threading.ManualResetEventSlim.Wait",
    "System.Private.CoreLib.dll!System.Threading.Monitor.Wait",
];

/// `threads` of the pool, `blocked` of them blocking for `share` of the time.
fn pool(threads: u32, blocked: u32, share: f64) -> Build {
    let mut build = server();
    let stack = waits_in_runtime(&BLOCKS);
    for tid in 200..200 + threads {
        build.thread(tid, ".NET TP Worker");
        if tid < 200 + blocked {
            build.wait(tid, waiting(&stack, share, 500.0));
        } else {
            build.wait(tid, IDLE);
        }
    }
    build
}

#[test]
fn pool_starvation() {
    let id = FindingId::PoolStarvation;
    let said = |threads, blocked, share| severity(&analyze(&pool(threads, blocked, share).done()), id);
    // Two at a time leave no room; as many as CPUs, half of the time, and nothing gets on.
    assert_eq!(said(6, 1, 0.97), None);
    assert_eq!(said(6, 2, 0.9), None);
    assert_eq!(said(6, 3, 0.9), Some(Warning));
    assert_eq!(said(6, 5, 0.9), Some(Critical));
    // The same five in a pool that has others for the work.
    assert_eq!(said(12, 5, 0.9), Some(Warning));
    assert_eq!(said(40, 5, 0.9), None);
    // By events alone: four adjustments for want of threads.
    check(id, &[(3, None), (4, Some(Warning)), (30, Some(Warning))], |said, times| {
        said.pool("Starvation", times, &|_| 6);
    });
    check(id, &[(3, None), (4, Some(Notice))], |said, times| {
        said.pool("CooperativeBlocking", times, &|_| 6);
    });
    check(id, &[("ClimbingMove", None), ("Warmup", None), ("starvation", Some(Warning))], |said, reason| {
        said.pool(reason, 20, &|_| 6);
    });
}

#[test]
fn a_cause_is_said_first_and_what_it_explains_is_a_notice() {
    // Cause, what it explains, and what the runtime says of both.
    type Say = fn(&mut Said);
    let table: [(FindingId, FindingId, Say); 4] = [
        (FindingId::GcPinned, FindingId::AllocationStorm, |said| {
            said.collections(3.0, 20.0, 5_000, &flat).allocations(
                900_000_000,
                "System.Byte[]",
                &["Shop.Net.Read"],
            );
        }),
        (FindingId::AllocationStorm, FindingId::GcPauses, |said| {
            said.collections(10.0, 30.0, 0, &flat).allocations(
                900_000_000,
                "System.Byte[]",
                &["Shop.Net.Read"],
            );
        }),
        (FindingId::NPlusOne, FindingId::SlowRequests, |said| {
            said.requests("/api/orders", 20, 2_500, 0, 1.0).commands("SELECT 1", 20, 200);
        }),
        (FindingId::SlowDependency, FindingId::SlowRequests, |said| {
            said.requests("/api/orders", 20, 2_500, 0, 1.0).outgoing("feed.test/{}", 20, 2_400, 0, 1.0);
        }),
    ];
    for (cause, explained, say) in table {
        let mut said = Said::new(SECONDS);
        say(&mut said);
        let analysis = analyzed(server(), said);
        assert_eq!(analysis.findings[0].id, cause, "{}", outline(&analysis));
        assert_eq!(
            severity(&analysis, explained),
            Some(Notice),
            "{cause} and {explained}:\n{}",
            outline(&analysis)
        );
    }
}

mod any_troubles {
    use super::*;
    use proptest::prelude::{ProptestConfig, any, prop_assert, prop_assert_eq, proptest};

    type Trouble = fn(&mut Said);
    const TROUBLES: [(FindingId, Trouble); 10] = [
        (FindingId::ExceptionStorm, |said| {
            said.exceptions(500, "System.FormatException", &["Shop.Parser.Parse"]);
        }),
        (FindingId::AllocationStorm, |said| {
            said.allocations(900_000_000, "System.Byte[]", &["Shop.Net.Read"]);
        }),
        (FindingId::GcPauses, |said| {
            said.collections(10.0, 30.0, 0, &flat);
        }),
        (FindingId::TimerGrowth, |said| {
            said.counter("System.Runtime", "active-timer-count", &|share| 9_000.0 * share);
        }),
        (FindingId::NPlusOne, |said| {
            said.requests("/api/orders", 100, 40, 0, 1.0).commands("SELECT 1", 100, 60);
        }),
        (FindingId::SlowRequests, |said| {
            said.requests("/api/report", 20, 2_500, 0, 1.0);
        }),
        (FindingId::RequestsUnanswered, |said| {
            said.requests("/api/stuck", 1, 20, 9, 0.1);
        }),
        (FindingId::LoggedErrors, |said| {
            said.message("Error", LogLevel::Error, "Shop", "it broke", 200);
        }),
        (FindingId::LockConvoy, |said| {
            said.contention(10, 50, &["Shop.Cache.Get"]);
        }),
        (FindingId::PoolStarvation, |said| {
            said.pool("Starvation", 20, &|_| 6);
        }),
    ];

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        /// Whatever comes together: each trouble that is there is said once, none that is not, and in order.
        #[test]
        fn are_all_said_and_no_others(there in any::<[bool; 10]>()) {
            let mut said = Said::new(SECONDS);
            for ((_, say), _) in TROUBLES.iter().zip(there).filter(|(_, there)| *there) {
                say(&mut said);
            }
            let analysis = analyzed(server(), said);
            for ((id, _), there) in TROUBLES.iter().zip(there) {
                let times = analysis.findings.iter().filter(|finding| finding.id == *id).count();
                prop_assert_eq!(times, usize::from(there), "{} in\n{}", id, outline(&analysis));
            }
            for pair in analysis.findings.windows(2) {
                prop_assert!((pair[0].severity, pair[0].impact) >= (pair[1].severity, pair[1].impact), "{}", outline(&analysis));
            }
            for finding in &analysis.findings {
                prop_assert!((0.0..=1.0).contains(&finding.impact) && !finding.title.is_empty() && !finding.title.ends_with('.'));
            }
            let quiet = there.iter().all(|there| !there);
            prop_assert_eq!(severity(&analysis, FindingId::Idle).is_some(), quiet, "{}", outline(&analysis));
        }
    }
}
