//! Memory grows, and a heap of the same process says of what: the type that holds the most.

use crate::findings::evidence::{at, fact, metric, steps};
use crate::findings::finding::{Finding, FindingId, Severity, Value};
use crate::findings::incident::Incident;
use crate::heap::{HeapSummary, HeapTypeRow};
use crate::metrics::Trend;
use crate::words::{bytes, percent};
use biopsy_model::Pid;
use biopsy_model::heap::HeapSource;
use biopsy_model::order::Order as _;

/// The share of the heap's live bytes from which one type is worth naming: below it, no type is *the* one.
const ONE_TYPE: f64 = 0.25;
/// The share of what grew that the type's bytes must reach: a small heap in a process that grows elsewhere says nothing.
const OF_GROWTH: f64 = 0.5;
/// Types that are listed as evidence.
const LISTED: usize = 3;
/// Fewer snapshots cannot tell what comes to rest.
const SNAPSHOTS: usize = 3;

pub(super) fn find(incident: &Incident<'_>) -> Option<Finding> {
    let (capture, analysis) = incident.recorded?;
    // The last one is the fullest.
    let heap = incident.heaps.last()?;
    let target = capture.header.target.as_ref().map(|key| key.pid);
    let grows = |trend: &&Trend| {
        let pid = trend.key.split(' ').next().and_then(|pid| pid.parse().ok()).map(Pid);
        trend.growing
            && trend.table == "processes"
            && trend.column.starts_with("memory")
            && (pid == Some(heap.facts.pid) || heap.facts.pid == Pid(0) && pid == target)
    };
    let growth = analysis
        .metrics
        .trends
        .iter()
        .filter(grows)
        .max_by(|a, b| (a.last - a.first).total_cmp(&(b.last - b.first)))?;
    // Native memory that a cache has filled does not rise any more; that of a managed heap rises in steps.
    if heap.facts.source == HeapSource::Blocks && growth.rests(capture) {
        return None;
    }
    let grown = growth.last - growth.first;
    let all = held_by_all(heap);
    let mut rows: Vec<&HeapTypeRow> = heap.types.iter().collect();
    rows.order_by_key(|row| std::cmp::Reverse(held(row)));
    let first = rows.first()?;
    let part = held(first) as f64 / all.max(1) as f64;
    if part < ONE_TYPE || (held(first) as f64) < grown * OF_GROWTH || comes_to_rest(incident, first) {
        return None;
    }
    let rise = at(
        metric(&growth.table, &growth.column, &growth.key),
        format!("the memory of the process grew by {} while it was recorded", bytes(grown)),
        Some(Value::Bytes(grown)),
    );
    let evidence = rows.iter().take(LISTED).map(|row| {
        let text = format!(
            "{} of `{}` hold {}, {} of the heap",
            crate::words::number(objects(row) as f64),
            row.name,
            bytes(held(row) as f64),
            percent(held(row) as f64 / all.max(1) as f64)
        );
        fact(text, Some(Value::Bytes(held(row) as f64)))
    });
    Some(Finding {
        id: FindingId::GrowingType,
        severity: Severity::Warning,
        impact: part,
        title: format!("Memory grows, and {} of the heap is `{}`", percent(part), first.name),
        explanation: "While the process was recorded its memory grew; the heap that was read from the same process consists mostly of \
                      objects of one type. That does not say yet who holds them."
            .to_owned(),
        evidence: std::iter::once(rise).chain(evidence).collect(),
        next_steps: steps(&[
            "look for what keeps these objects: a cache without a bound, a list that is only added to, handlers that are never removed",
            "take a second snapshot some minutes later and compare: what grows is the leak, what stays is the program",
        ]),
    })
}

/// Whether three snapshots or more of the process say that this type does not grow any more, or ever less: a cache that fills to its bound.
fn comes_to_rest(incident: &Incident<'_>, of: &HeapTypeRow) -> bool {
    let growth = incident.growth.filter(|growth| growth.is_one_process && growth.moments.len() >= SNAPSHOTS);
    growth.is_some_and(|growth| {
        let row = growth.types.iter().find(|row| row.name == of.name && row.module == of.module);
        row.is_none_or(|row| !row.always)
    })
}

/// Bytes of what is reachable, or of everything where nobody looked.
fn held(row: &HeapTypeRow) -> u64 {
    row.live.unwrap_or(row.all).bytes
}

fn objects(row: &HeapTypeRow) -> u64 {
    row.live.unwrap_or(row.all).objects
}

fn held_by_all(heap: &HeapSummary) -> u64 {
    heap.types.iter().map(held).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Analysis;
    use biopsy_dotnet::graph::Totals;
    use biopsy_model::capture::Capture;
    use biopsy_model::heap::HeapFacts;

    fn row(name: &str, objects: u64, bytes: u64, live: Option<u64>) -> HeapTypeRow {
        HeapTypeRow {
            name: name.to_owned(),
            module: String::new(),
            all: Totals { objects, bytes },
            live: live.map(|bytes| Totals { objects, bytes }),
            retained: None,
        }
    }

    fn growing(by: f64, growing: bool) -> Analysis {
        let trend = Trend {
            table: "processes".to_owned(),
            column: "memory.anon".to_owned(),
            key: "7 server".to_owned(),
            first: 1e6,
            last: 1e6 + by,
            per_minute: by,
            fit: 0.99,
            steady: true,
            growing,
        };
        let mut analysis = Analysis::default();
        analysis.metrics.trends.push(trend);
        analysis
    }

    fn found(analysis: &Analysis, pid: u32, types: Vec<HeapTypeRow>) -> Option<Finding> {
        let facts = HeapFacts { pid: Pid(pid), ..HeapFacts::default() };
        let heaps = [HeapSummary { facts, types, ..HeapSummary::default() }];
        find(&Incident {
            recorded: Some((&Capture::default(), analysis)),
            heaps: &heaps,
            growth: None,
            footprints: &[],
        })
    }

    #[test]
    fn growth_is_explained_by_the_type_that_holds_the_most_live_bytes() {
        let types = || {
            vec![
                row("System.String", 9_000, 900 << 20, Some(1 << 20)),
                row("App.Session", 500, 80 << 20, Some(80 << 20)),
            ]
        };
        let finding = found(&growing(50e6, true), 7, types()).expect("a finding");
        assert_eq!(finding.severity, Severity::Warning);
        assert!(finding.title.contains("`App.Session`"), "{}", finding.title);
        assert_eq!(finding.evidence.len(), 3);
        assert!(found(&growing(50e6, false), 7, types()).is_none(), "nothing grows");
        assert!(found(&growing(500e6, true), 7, types()).is_none(), "most of the growth is elsewhere");
        assert!(found(&growing(50e6, true), 8, types()).is_none(), "another process");
    }

    #[test]
    fn a_type_that_comes_to_rest_in_three_snapshots_is_not_named() {
        use crate::heap::Growth;
        let check = |megabytes: &[u64], expected: bool| {
            let analysis = growing(50e6, true);
            let heap = |(at, megabytes): (usize, &u64)| HeapSummary {
                facts: HeapFacts {
                    pid: Pid(7),
                    taken_at_unix_seconds: 100.0 + at as f64 * 60.0,
                    live_bytes: Some(megabytes << 20),
                    ..HeapFacts::default()
                },
                types: vec![row("App.Page", megabytes << 10, megabytes << 20, Some(megabytes << 20))],
                ..HeapSummary::default()
            };
            let heaps: Vec<_> = megabytes.iter().enumerate().map(heap).collect();
            let growth = Growth::of(&heaps.iter().collect::<Vec<_>>());
            let finding = find(&Incident {
                recorded: Some((&Capture::default(), &analysis)),
                heaps: &heaps,
                growth: growth.as_ref(),
                footprints: &[],
            });
            assert_eq!(finding.is_some(), expected, "{megabytes:?}");
        };
        check(&[20, 70, 87], false);
        check(&[20, 80, 80], false);
        check(&[20, 50, 80], true);
        // Two say nothing of that.
        check(&[20, 80], true);
    }

    #[test]
    fn a_heap_of_many_types_names_none() {
        let types = (0..20).map(|n| row(&format!("App.T{n}"), 10, 10 << 20, None)).collect();
        assert!(found(&growing(1e6, true), 7, types).is_none());
        assert!(found(&growing(1e6, true), 7, Vec::new()).is_none());
    }
}
