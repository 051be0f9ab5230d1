//! What a runtime said reads back as it was written.

use biopsy_model::runtime_trace::Kept;

use super::*;

fn full() -> RuntimeTrace {
    let runtime = Runtime {
        kind: RuntimeKind::DotNet,
        version: Some("10.0.12".to_owned()),
        entry: Some("Server.dll".to_owned()),
    };
    let mut trace = RuntimeTrace::new(Pid(7), runtime, "dotnet/7.nettrace".to_owned());
    trace.span = Some((MonoNanos(1), MonoNanos(9)));
    trace.functions = vec![Function { name: "A.B".to_owned(), file: Some("b.cs".to_owned()), line: Some(3) }];
    trace.stacks = vec![vec![0], vec![]];
    trace.collections.items.push(Collection {
        number: 3,
        start: MonoNanos(2),
        end: None,
        generation: 2,
        reason: CollectionReason::Other("Tuning".to_owned()),
        background: true,
        pause: Nanos(5),
        longest_pause: Nanos(4),
        promoted: Some(8),
        sizes_after: Some([1, 2, 3, 4, 5]),
        pinned: Some(1),
        tid: Some(Tid(9)),
        stack: Some(RuntimeStack(0)),
    });
    trace.collections.total = 17;
    trace.thread_pool = Kept {
        items: vec![
            ThreadPoolEvent {
                time: MonoNanos(3),
                threads: Some(9),
                kind: ThreadPoolChange::Adjusted { reason: "Starvation".to_owned(), throughput: Some(1.5) },
            },
            ThreadPoolEvent { time: MonoNanos(4), threads: None, kind: ThreadPoolChange::Minimum },
        ],
        total: 2,
    };
    let mut durations = [0; 40];
    durations[39] = 4;
    trace.request_groups.push(RequestGroup {
        method: "GET".to_owned(),
        route: "/x/{}".to_owned(),
        count: 4,
        unanswered: 1,
        failed: 2,
        total: Nanos(6),
        longest: Nanos(3),
        durations,
        children: (3, 2),
    });
    trace.messages.items.push(LogMessage {
        time: MonoNanos(5),
        tid: Tid(1),
        level: LogLevel::Warning,
        level_name: "Warning".to_owned(),
        category: "App".to_owned(),
        event: None,
        text: "slow".to_owned(),
        exception: None,
    });
    trace.counters.push(MetricTable {
        name: "counters".to_owned(),
        keys: vec!["pid".to_owned()],
        columns: vec![Column { name: "value".to_owned(), unit: Unit::Ratio }],
        rows: vec![MetricRow {
            time: MonoNanos(5),
            keys: vec!["7".to_owned()],
            values: vec![Some(0.5), None],
        }],
    });
    trace.sampled.push(Sampled {
        what: "requests".to_owned(),
        from: MonoNanos(1),
        to: MonoNanos(2),
        share: 0.25,
        why: "many".to_owned(),
    });
    trace.compiled.tiers.push(("Tier1".to_owned(), 3));
    trace.lost = 4;
    trace.cut = true;
    trace
}

#[test]
fn all_of_it_comes_back() {
    let trace = full();
    let text = serde_json::to_string(&trace.clone().into_json()).unwrap();
    let json: RuntimeTraceJson = serde_json::from_str(&text).unwrap();
    assert_eq!(RuntimeTrace::from_json(json), trace);
}

#[test]
fn every_field_may_be_absent_and_unknown_ones_are_ignored() {
    let json: RuntimeTraceJson =
        serde_json::from_str(r#"{"pid": 3, "later": [1], "collections": {"items": [{"number": 1}]}}"#)
            .unwrap();
    let trace = RuntimeTrace::from_json(json);
    assert_eq!((trace.pid, trace.collections.items.len()), (Pid(3), 1));
    assert_eq!(trace.collections.items[0].reason, CollectionReason::Other(String::new()));
}
