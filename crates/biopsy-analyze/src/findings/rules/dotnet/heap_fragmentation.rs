//! Much of the heap is free room between objects that live.

use crate::findings::allocating;
use crate::findings::dotnet::{heard, of_process, table};
use crate::findings::evidence::{at, fact};
use crate::findings::finding::{Finding, FindingId, Severity, Value};
use crate::findings::scene::{Scene, touched_by};
use crate::runtimes::find_counter;
use crate::words::{bytes, number, percent};

/// The heap has holes from this share of it on, and this many bytes of them.
const HOLES_SHARE: f64 = 0.3;
const HOLES: f64 = 64e6;

pub(crate) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let (heard, share, size) = heard(scene)
        .filter_map(|heard| {
            let last = |name: &str| {
                find_counter(heard.trace, "System.Runtime", name)?.points.last().map(|point| point.1)
            };
            let (share, size) = (last("gc-fragmentation")? / 100.0, last("gc-committed")? * 1e6);
            Some((heard, share, size))
        })
        .max_by(|a, b| (a.1 * a.2).total_cmp(&(b.1 * b.2)))?;
    let summary = heard.summary;
    let collections = &summary.collections;
    // Right after a collection of the young ones their room is free: that is no loss. Large objects are not moved together.
    let [_, after] = collections.heap_parts?;
    let large = after.get(3).copied().unwrap_or(0) as f64;
    let all: f64 = after.iter().map(|part| *part as f64).sum();
    if share < HOLES_SHARE || share * size < HOLES || large < all * 0.5 {
        return None;
    }
    let mut evidence = vec![
        at(
            table(summary, "counters", None),
            format!("{} of the heap of {} is free room between objects", percent(share), bytes(size)),
            Some(Value::Share(share)),
        ),
        at(
            table(summary, "collections", None),
            format!("the large object heap has {} of {} after the last collection", bytes(large), bytes(all)),
            Some(Value::Bytes(large)),
        ),
    ];
    if let Some((reason, count)) = collections.reasons.first() {
        let text = format!("most collections began because: {reason} ({} times)", number(*count as f64));
        evidence.push(fact(text, Some(Value::Count(*count as f64))));
    }
    let top = allocating::top(&heard).filter(|top| top.own);
    evidence.extend(top.iter().map(|top| top.evidence.clone()));
    let touched = touched_by(scene.analysis);
    let place = top
        .map(|top| format!("; most is allocated{}", top.place))
        .or_else(|| {
            touched.as_ref()?.1.clone().map(|name| format!("; most new memory is first touched below {name}"))
        })
        .unwrap_or_default();
    evidence.extend(touched.map(|(evidence, _)| evidence));
    Some(Finding {
        id: FindingId::HeapFragmentation,
        severity: Severity::Warning,
        // It says more than that the heap grows.
        impact: 1.0,
        title: format!(
            "The large object heap is full of holes: {} of {} are free room that is not given back{place}{}",
            bytes(share * size),
            bytes(size),
            of_process(scene, summary)
        ),
        explanation: "Objects of 85,000 bytes and more are not moved together by an ordinary collection. Where some of them live long and \
                      others of other sizes die between them, holes stay that nothing fits into, and the process grows more than its \
                      live data."
            .to_owned(),
        evidence,
        next_steps: vec![
            "Take large buffers from `ArrayPool<T>`, in few sizes, or read in pieces of less than 85,000 bytes".to_owned(),
            format!("`biopsy snapshot {}` shows which large objects live", summary.pid),
            "`GCSettings.LargeObjectHeapCompactionMode` closes the holes once, at the price of a long pause".to_owned(),
        ],
    })
}
