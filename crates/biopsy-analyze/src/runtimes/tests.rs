//! Tables of what runtimes said, made by hand: each rule of order, merging and cutting by itself.

mod requests;

use super::*;
use crate::limits::RUNTIME_NAME;
use biopsy_model::log::LogLevel;
use biopsy_model::metric::{Column, MetricRow, MetricTable, Unit};
use biopsy_model::process::Runtime;
use biopsy_model::runtime_trace::{
    AllocationGroup, Collection, CollectionReason, Contention, ContentionGroup, ExceptionGroup, LogMessage,
    MessageGroup, ProviderCount, RuntimeStack, ThreadPoolChange, ThreadPoolEvent,
};
use biopsy_model::symbol::Function;
use biopsy_model::{Nanos, Tid};

const MS: u64 = 1_000_000;

fn trace() -> RuntimeTrace {
    let runtime = Runtime { kind: RuntimeKind::DotNet, version: None, entry: None };
    RuntimeTrace::new(Pid(7), runtime, String::new())
}

/// Functions with these names, and a stack of each word: its letters are places in the list, innermost first.
fn with_stacks(names: &[&str], stacks: &[&str]) -> RuntimeTrace {
    let mut trace = trace();
    let function = |name: &&str| Function { name: (*name).to_owned(), file: None, line: None };
    trace.functions = names.iter().map(function).collect();
    trace.stacks =
        stacks.iter().map(|stack| stack.bytes().map(|at| u32::from(at - b'0')).collect()).collect();
    trace
}

fn stack(number: u32) -> Option<RuntimeStack> {
    Some(RuntimeStack(number))
}

fn collection(number: u64, generation: u8, reason: CollectionReason, pause_ms: u64) -> Collection {
    Collection {
        number: number as u32,
        start: MonoNanos(number * 100 * MS),
        end: Some(MonoNanos((number * 100 + 50) * MS)),
        generation,
        reason,
        background: false,
        pause: Nanos(pause_ms * MS),
        longest_pause: Nanos(pause_ms * MS),
        promoted: None,
        sizes_after: None,
        pinned: None,
        tid: None,
        stack: None,
    }
}

#[test]
fn collections_are_summed_by_generation_and_by_reason() {
    let mut trace = trace();
    let mut background = collection(4, 2, CollectionReason::LargeObjects, 3);
    background.background = true;
    background.longest_pause = Nanos(2 * MS);
    background.promoted = Some(10);
    trace.collections.items = vec![
        collection(1, 2, CollectionReason::Induced, 9),
        collection(2, 0, CollectionReason::SmallObjects, 1),
        collection(3, 0, CollectionReason::SmallObjects, 4),
        background,
        collection(5, 0, CollectionReason::Other("of tomorrow".to_owned()), 9),
    ];
    trace.collections.total = 50;
    let summary = CollectionSummary::new(&trace, 0.1);
    assert_eq!((summary.total, summary.kept, summary.induced), (50, 5, 1));
    let rows: Vec<_> = summary
        .generations
        .iter()
        .map(|row| (row.generation, row.background, row.count, row.paused.0 / MS, row.longest.0 / MS))
        .collect();
    assert_eq!(rows, [(0, false, 3, 14, 9), (2, false, 1, 9, 9), (2, true, 1, 3, 2)]);
    assert_eq!(summary.generations.iter().map(|row| row.promoted).sum::<u64>(), 10);
    let reasons: Vec<_> = summary.reasons.iter().map(|(words, count)| (words.as_str(), *count)).collect();
    assert_eq!(
        reasons,
        [
            ("small objects allocated", 2),
            ("asked for by the application", 1),
            ("large objects allocated", 1),
            ("of tomorrow", 1),
        ]
    );
    assert_eq!(summary.paused, Nanos(26 * MS));
    // Of two that are as long the first is told.
    assert_eq!(summary.longest, Some((Nanos(9 * MS), MonoNanos(100 * MS))));
    assert!((summary.pause_share - 0.26).abs() < 1e-12, "{}", summary.pause_share);
    assert_eq!(CollectionSummary::new(&trace, 0.02).pause_share, 1.0, "never more than all of the time");
    assert_eq!(CollectionSummary::new(&trace, 0.0).pause_share, 0.0, "of no time there is no share");
    trace.collections.total = 3;
    assert_eq!(CollectionSummary::new(&trace, 1.0).total, 5, "what is there was there");
}

#[test]
fn the_heap_is_told_by_collections_that_reported_it() {
    let with_sizes = |sizes: &[Option<u64>]| {
        let mut trace = trace();
        trace.collections.items = (0..)
            .zip(sizes)
            .map(|(number, size)| {
                let mut item = collection(number, 2, CollectionReason::SmallObjects, 1);
                item.sizes_after = size.map(|size| [1, 0, size, 0, 0]);
                if number == 0 {
                    item.end = None;
                }
                item
            })
            .collect();
        CollectionSummary::new(&trace, 1.0)
    };
    assert_eq!(with_sizes(&[]), CollectionSummary::default());
    let one = with_sizes(&[None, Some(70), None]);
    let at = MonoNanos(150 * MS);
    assert_eq!(one.heap, Some([(at, 71), (at, 71)]));
    assert_eq!((one.heap_parts, one.floor), (Some([[1, 0, 70, 0, 0]; 2]), None));
    // One that has not ended is at its start.
    assert_eq!(with_sizes(&[Some(5), Some(6)]).heap, Some([(MonoNanos(0), 6), (at, 7)]));
    let some = |sizes: &[u64]| with_sizes(&sizes.iter().map(|size| Some(*size)).collect::<Vec<_>>()).floor;
    assert_eq!(some(&[9, 8, 7, 6, 5]), None, "a third of five is one: that says nothing");
    assert_eq!(some(&[30, 10, 50, 20, 90, 40]), Some([11, 21, 41]));
    assert_eq!(some(&[3, 1, 9, 2, 8, 7, 5, 6]), Some([2, 3, 6]), "what is over is in the middle");
    assert_eq!(collections::total(&[u64::MAX, 1, 0, 0, 0]), u64::MAX);
}

#[test]
fn pinned_objects_are_those_of_the_middle_collection() {
    for (pinned, middle) in [
        (&[][..], None),
        (&[None, None], None),
        (&[Some(4)], Some(4)),
        (&[Some(9), None, Some(1), Some(5)], Some(5)),
        (&[Some(2), Some(8)], Some(8)),
    ] {
        let mut trace = trace();
        trace.collections.items = (0..)
            .zip(pinned)
            .map(|(number, pinned)| Collection {
                pinned: *pinned,
                ..collection(number, 0, CollectionReason::Induced, 0)
            })
            .collect();
        assert_eq!(CollectionSummary::new(&trace, 1.0).pinned, middle, "{pinned:?}");
    }
}

fn pool(items: &[(u64, Option<u32>, &str)]) -> PoolSummary {
    let mut trace = trace();
    trace.thread_pool.items = items
        .iter()
        .map(|&(ms, threads, reason)| ThreadPoolEvent {
            time: MonoNanos(ms * MS),
            threads,
            kind: match reason {
                "workers" => ThreadPoolChange::Workers,
                "minimum" => ThreadPoolChange::Minimum,
                reason => ThreadPoolChange::Adjusted { reason: reason.to_owned(), throughput: None },
            },
        })
        .collect();
    PoolSummary::new(&trace)
}

#[test]
fn the_pool_starves_by_two_of_its_reasons() {
    let summary = pool(&[
        (10, Some(8), "Warmup"),
        (40, Some(9), "Starvation"),
        (30, Some(7), "cooperativeblocking"),
        (50, None, "STARVATION"),
        (60, Some(12), "workers"),
        (70, Some(3), "minimum"),
        (80, Some(5), "ClimbingMove"),
    ]);
    assert_eq!((summary.total, summary.starved, summary.blocked), (7, 2, 1));
    // Out of order: still the first and the last moment.
    assert_eq!(summary.starving, Some((MonoNanos(30 * MS), MonoNanos(50 * MS))));
    assert_eq!(summary.threads, Some([8, 5, 3, 12]), "first, last, smallest, largest");
    let words: Vec<&str> = summary.reasons.iter().map(|(words, _)| words.as_str()).collect();
    assert_eq!(words, ["ClimbingMove", "STARVATION", "Starvation", "Warmup", "cooperativeblocking"]);
    assert_eq!(pool(&[]), PoolSummary::default());
    assert_eq!(pool(&[(1, None, "workers")]).threads, None);
}

#[test]
fn words_that_a_hostile_file_makes_up_are_not_kept_without_end() {
    let made_up: Vec<String> = (0..100).map(|number| format!("reason {number:03}")).collect();
    let items: Vec<_> = made_up.iter().map(|reason| (1, None, reason.as_str())).collect();
    let all = pool(&[items.as_slice(), &[(2, None, "reason 003")]].concat());
    assert_eq!((all.reasons.len(), all.total), (20, 101));
    assert_eq!(all.reasons[0], ("reason 003".to_owned(), 2), "what is known is counted on");
    assert_eq!(cut(&"é".repeat(RUNTIME_NAME)).chars().count(), RUNTIME_NAME);
    let longer = cut(&"é".repeat(RUNTIME_NAME + 1));
    assert!(longer.ends_with("é…") && longer.chars().count() == RUNTIME_NAME + 1, "{longer}");
}

/// Second, keys, values.
type Row<'a> = (u64, &'a [&'a str], &'a [Option<f64>]);

fn table(rows: &[Row<'_>]) -> MetricTable {
    MetricTable {
        name: "counters".to_owned(),
        keys: ["pid", "provider", "counter"].map(str::to_owned).to_vec(),
        columns: ["value", "rate"].map(|name| Column { name: name.to_owned(), unit: Unit::Count }).to_vec(),
        rows: rows
            .iter()
            .map(|(second, keys, values)| MetricRow {
                time: MonoNanos(second * 1000 * MS),
                keys: keys.iter().map(|key| (*key).to_owned()).collect(),
                values: values.to_vec(),
            })
            .collect(),
    }
}

#[test]
fn counters_have_a_row_for_each_column_that_was_read() {
    let mut trace = trace();
    trace.counters.push(table(&[
        (1, &["7", "System.Runtime", "cpu"], &[Some(4.0), None]),
        (2, &["7", "System.Runtime", "cpu"], &[Some(-2.0), None]),
        (3, &["7", "System.Runtime", "cpu"], &[Some(7.0), Some(1.0)]),
        (3, &["7", "Meter", "open{host=a}"], &[None, Some(f64::NAN)]),
        (4, &["7", "Meter", "open{host=b}"], &[Some(f64::INFINITY), Some(5.0)]),
        (5, &["7", "", "bare"], &[Some(0.0), None, Some(9.0)]),
    ]));
    let rows: Vec<_> = counters::rows(&trace)
        .into_iter()
        .map(|row| (row.name, row.column, row.readings, [row.first, row.last, row.min, row.max, row.mean]))
        .collect();
    let row =
        |name: &str, column: &str, readings, values| (name.to_owned(), column.to_owned(), readings, values);
    assert_eq!(
        rows,
        [
            row("Meter open{host=b}", "rate", 1, [5.0; 5]),
            row("System.Runtime cpu", "rate", 1, [1.0; 5]),
            row("System.Runtime cpu", "value", 3, [4.0, 7.0, -2.0, 7.0, 3.0]),
            row("bare", "value", 1, [0.0; 5]),
        ]
    );
    let found =
        |provider: &str, counter: &str| find_counter(&trace, provider, counter).map(|found| found.name);
    assert_eq!(found("Meter", "open").as_deref(), Some("Meter open{host=b}"));
    assert_eq!(found("System.Runtime", "cpu").as_deref(), Some("System.Runtime cpu"));
    assert_eq!(found("System.Runtime", "cp"), None, "not by the beginning of its name");
    assert_eq!(found("Runtime", "cpu"), None);
}

#[test]
fn providers_are_counted_with_their_events() {
    let mut trace = trace();
    let count = |provider: &str, event: &str, count| ProviderCount {
        provider: provider.to_owned(),
        event: event.to_owned(),
        count,
    };
    trace.providers = vec![
        count("Runtime", "GCStart_V2 (1)", 5),
        count("Http", "Start (1)", 7),
        count("Runtime", "Ready (9)", 5),
        count("Runtime", "GCStart_V2 (1)", 3),
        count("Shop", "Sold (1)", 13),
    ];
    let rows: Vec<_> = providers::rows(&trace).into_iter().map(|row| (row.provider, row.count)).collect();
    let expected = [("Runtime", 13), ("Shop", 13), ("Http", 7)];
    assert_eq!(rows, expected.map(|(name, count)| (name.to_owned(), count)));
    let runtime = providers::rows(&trace).swap_remove(0).events;
    assert_eq!(runtime, [("GCStart_V2 (1)".to_owned(), 8), ("Ready (9)".to_owned(), 5)]);
    trace.providers.push(count("Runtime", "Ready (9)", u64::MAX));
    assert_eq!(providers::rows(&trace)[0].count, u64::MAX);
    let summary = RuntimeSummary::new(0, &trace);
    assert_eq!(summary.events_total, u64::MAX, "a sum has an end");
}

const NAMES: &[&str] =
    &["Shop.Orders.Load", "System.Int32.Parse", "System.ThrowHelper.ThrowFormat", "Shop.Run", "0x7f001234"];

#[test]
fn places_are_the_applications_own_with_what_it_called() {
    let trace = with_stacks(NAMES, &["2103", "21", "", "9", "403", "2", "4"]);
    let told = |number: u32| {
        let place = place(&trace, stack(number));
        (place.function, place.via, place.own)
    };
    let owned = |function: &str, via: Option<&str>, own| (function.to_owned(), via.map(str::to_owned), own);
    assert_eq!(told(0), owned("Shop.Orders.Load", Some("System.Int32.Parse"), true));
    assert_eq!(told(1), owned("System.Int32.Parse", None, false));
    assert_eq!(told(2), owned("", None, false));
    assert_eq!(told(3), owned("", None, false), "a function that is not there");
    assert_eq!(told(4), owned("Shop.Orders.Load", Some("0x7f001234"), true));
    assert_eq!(told(5), owned("System.ThrowHelper.ThrowFormat", None, false), "there is nothing else");
    assert_eq!(told(99), owned("", None, false), "a stack that is not there");
    assert_eq!(place(&trace, None), RuntimePlace::default());
}

#[test]
fn exceptions_of_one_place_are_one_row_with_the_words_of_the_first() {
    let mut trace = with_stacks(NAMES, &["03", "10", "2103"]);
    let group = |name: &str, message: &str, at: u32, count, (first, last): (u64, u64)| ExceptionGroup {
        type_name: name.to_owned(),
        message: message.to_owned(),
        stack: stack(at),
        count,
        first: MonoNanos(first),
        last: MonoNanos(last),
    };
    trace.exception_groups = vec![
        group("Format", "of 9", 1, 5, (30, 40)),
        group("Format", "of 7", 1, 2, (10, 20)),
        group("Format", "elsewhere", 0, 7, (1, 2)),
        group("Argument", "of 8", 1, u64::MAX, (1, 90)),
        group("Format", "deeper, and the same place", 2, 1, (50, 60)),
    ];
    let told: Vec<_> = rows::exceptions(&trace)
        .into_iter()
        .map(|row| (row.type_name, row.message, row.count, row.first.0, row.last.0))
        .collect();
    let row = |name: &str, message: &str, count, first, last| {
        (name.to_owned(), message.to_owned(), count, first, last)
    };
    assert_eq!(
        told,
        [
            row("Argument", "of 8", u64::MAX, 1, 90),
            row("Format", "of 7", 8, 10, 60),
            row("Format", "elsewhere", 7, 1, 2),
        ]
    );
}

#[test]
fn contention_is_summed_by_place_and_told_of_what_was_kept() {
    let mut trace = with_stacks(NAMES, &["03", "3", "10"]);
    let group = |at: u32, count, total, longest| ContentionGroup {
        stack: stack(at),
        count,
        total: Nanos(total),
        longest: Nanos(longest),
    };
    trace.contention_groups = vec![group(1, 2, 50, 30), group(0, 3, 40, 15), group(2, 1, 60, 60)];
    let wait = |at: u32, tid, lock, owner: Option<u32>| Contention {
        start: MonoNanos(0),
        duration: Nanos(1),
        tid: Tid(tid),
        lock,
        owner: owner.map(Tid),
        stack: stack(at),
    };
    trace.contentions.items = vec![
        wait(0, 1, Some(8), Some(5)),
        wait(2, 2, Some(8), Some(4)),
        wait(0, 2, None, Some(0)),
        wait(0, 1, Some(9), Some(4)),
        wait(0, 3, Some(9), Some(5)),
    ];
    let told: Vec<_> = rows::contention(&trace)
        .into_iter()
        .map(|row| {
            (row.place.function, row.count, row.total.0, row.longest.0, row.threads, row.locks, row.owner)
        })
        .collect();
    let run = ("Shop.Run".to_owned(), 2, 50, 30, 0, 0, None);
    // With and without what it called are two places.
    let load = ("Shop.Orders.Load".to_owned(), 3, 40, 15, 3, 2, Some((Tid(5), 2)));
    let parse = ("Shop.Orders.Load".to_owned(), 1, 60, 60, 1, 1, Some((Tid(4), 1)));
    assert_eq!(told, [parse, run, load]);
}

#[test]
fn messages_are_the_gravest_first_and_allocations_the_largest() {
    let mut trace = with_stacks(NAMES, &["03", "3"]);
    let group = |category: &str, level: &str, count| MessageGroup {
        category: category.to_owned(),
        level_name: level.to_owned(),
        count,
    };
    trace.message_groups = vec![
        group("Shop", "Trace", 900),
        group("Shop", "Information", 80),
        group("Shop", "Warning", 5),
        group("Shop", "Error", 2),
        group("Bank", "Critical", 2),
        group("Bank", "Error", 3),
    ];
    trace.messages.items = ["first", "second"]
        .map(|text| LogMessage {
            time: MonoNanos(0),
            tid: Tid(1),
            level: LogLevel::Error,
            level_name: "Error".to_owned(),
            category: "Shop".to_owned(),
            event: None,
            text: text.to_owned(),
            exception: None,
        })
        .to_vec();
    let rows = rows::messages(&trace);
    let told: Vec<_> =
        rows.iter().map(|row| (row.category.as_str(), row.level.as_str(), row.count)).collect();
    assert_eq!(
        told,
        [
            ("Bank", "Error", 3),
            ("Bank", "Critical", 2),
            ("Shop", "Error", 2),
            ("Shop", "Warning", 5),
            ("Shop", "Information", 80),
            ("Shop", "Trace", 900),
        ]
    );
    let examples: Vec<_> = rows.iter().filter_map(|row| row.example.as_deref()).collect();
    assert_eq!(examples, ["first"], "of its own category and level");
    let allocation = |at: u32, bytes, large| AllocationGroup {
        type_name: "System.Byte[]".to_owned(),
        stack: stack(at),
        bytes,
        samples: 1,
        large,
    };
    trace.allocation_groups =
        vec![allocation(1, 50, false), allocation(0, 30, true), allocation(0, 40, false)];
    let told: Vec<_> = rows::allocations(&trace)
        .into_iter()
        .map(|row| (row.place.function, row.bytes, row.samples, row.large))
        .collect();
    assert_eq!(told, [("Shop.Orders.Load".to_owned(), 70, 2, 30), ("Shop.Run".to_owned(), 50, 1, 0)]);
}

#[test]
fn a_runtime_is_named_with_its_version() {
    let label = |kind, version: Option<&str>| {
        let runtime = Runtime { kind, version: version.map(str::to_owned), entry: None };
        label(&RuntimeTrace::new(Pid(1), runtime, String::new()))
    };
    assert_eq!(label(RuntimeKind::DotNet, Some("10.0.12")), ".NET 10.0.12");
    assert_eq!(label(RuntimeKind::Jvm, None), "JVM");
    assert_eq!(label(RuntimeKind::Unknown, Some("3")), "runtime 3");
    let summary = RuntimeSummary { seconds: 4.0, ..RuntimeSummary::default() };
    assert_eq!(summary.rate(10), 2.5);
    assert_eq!(RuntimeSummary::default().rate(10), 0.0, "of no time there is no rate");
    let trace = RuntimeTrace { span: Some((MonoNanos(5), MonoNanos(2))), ..trace() };
    let capture = Capture { runtimes: vec![trace; RUNTIMES + 3], ..Capture::default() };
    let all = RuntimeSummary::all(&capture);
    assert_eq!((all.len(), all[3].trace, all[3].seconds), (RUNTIMES, 3, 0.0));
}
