//! A managed heap that grows through all collections, or is full of holes; timers that pile up.

use super::{heard, of_process, table};
use crate::finding::{Finding, FindingId, Reference, Severity, Value};
use crate::findings::growth::touched_by;
use crate::findings::scene::{Scene, at, fact};
use crate::findings::words::{bytes, number, percent, seconds};
use crate::runtimes::{CollectionSummary, find_counter};

/// Growth that is worth a word, in bytes, and as share of the first.
const LEAST: u64 = 16_000_000;
const LEAST_SHARE: f64 = 0.3;

/// What is left after collections grows and grows.
pub(super) fn heap(scene: &Scene<'_>) -> Option<Finding> {
    let heard = heard(scene)
        .max_by_key(|heard| grown(&heard.summary.collections).map(|(first, last)| last - first))?;
    let summary = heard.summary;
    let collections = &summary.collections;
    let (first, last) = grown(collections)?;
    // Few collections say little by themselves: the process must grow too.
    let process_grows = scene.analysis.metrics.trends.iter().any(|trend| {
        trend.growing
            && trend.column.starts_with("memory")
            && trend.key.split(' ').next() == Some(&summary.pid.to_string())
    });
    if collections.floor.is_none() && !process_grows {
        return None;
    }
    let [(from, _), (to, _)] = collections.heap?;
    let span = to.since(from).as_secs_f64().max(1e-3);
    let per_minute = (last - first) as f64 / span * 60.0;
    let mut evidence = vec![at(
        table(summary, "collections", None),
        format!(
            "what is left after a collection rose from {} to {} in {}, over {} collections",
            bytes(first as f64),
            bytes(last as f64),
            seconds(span),
            number(collections.total as f64)
        ),
        Some(Value::Bytes((last - first) as f64)),
    )];
    let part = part(collections);
    if let Some((name, grown)) = &part {
        let text = format!(
            "most of the growth is in {name}: {} from the first collection to the last",
            bytes(*grown as f64)
        );
        evidence.push(fact(text, Some(Value::Bytes(*grown as f64))));
    }
    if process_grows {
        evidence.push(fact("the memory of the process grows with it", None));
    }
    evidence.extend(timers(heard.trace).map(|[first, last]| {
        fact(
            format!("active timers rose from {} to {}", number(first), number(last)),
            Some(Value::Count(last - first)),
        )
    }));
    let touched = touched_by(scene);
    let toucher = touched.as_ref().and_then(|(_, name)| name.clone());
    evidence.extend(touched.map(|(evidence, _)| evidence));
    let top = super::allocation::top(&heard);
    evidence.extend(top.iter().map(|top| top.evidence.clone()));
    // Where most of what is allocated stays, who allocates is who fills the heap.
    let stays = super::allocation::rate(&heard) * summary.seconds <= 4.0 * (last - first) as f64;
    let place = top
        .filter(|top| stays && top.own && top.share >= 0.4)
        .map(|top| format!("; most is allocated{}", top.place))
        .or_else(|| toucher.map(|name| format!("; most new memory is first touched below {name}")))
        .unwrap_or_default();
    Some(Finding {
        id: FindingId::ManagedHeapGrowth,
        severity: Severity::Warning,
        impact: ((last - first) as f64 / last.max(1) as f64).clamp(0.05, 1.0),
        title: format!(
            "The managed heap grows: {} → {} in {} ({} a minute){place}{}",
            bytes(first as f64),
            bytes(last as f64),
            seconds(span),
            bytes(per_minute),
            of_process(scene, summary)
        ),
        explanation: "Collections do not take it back, so something keeps these objects: a static list or cache, an event, a timer, \
                      a registration that is not disposed. A warm-up or a cache that fills looks the same for a while. What is \
                      allocated most need not be what is kept; the heap itself tells."
            .to_owned(),
        evidence,
        next_steps: vec![
            format!("`biopsy snapshot {}` twice, some time apart: the types that grow, and what keeps them", summary.pid),
            "Record again under the same load: does it still grow?".to_owned(),
        ],
    })
}

/// The heap has holes from this share of it on, and this many bytes of them.
const HOLES_SHARE: f64 = 0.3;
const HOLES: f64 = 64e6;

/// Much of the heap is free room between objects that live.
pub(super) fn holes(scene: &Scene<'_>) -> Option<Finding> {
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
    let top = super::allocation::top(&heard).filter(|top| top.own);
    evidence.extend(top.iter().map(|top| top.evidence.clone()));
    let touched = touched_by(scene);
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

/// More timers than this, and twice as many as at first, are not those of a server with more to do.
const TIMERS: f64 = 500.0;

/// Timers are started and never disposed.
pub(super) fn timers_pile_up(scene: &Scene<'_>) -> Option<Finding> {
    let (heard, [first, last]) = heard(scene)
        .filter_map(|heard| {
            let counts = timers(heard.trace)?;
            Some((heard, counts))
        })
        .max_by(|a, b| (a.1[1] - a.1[0]).total_cmp(&(b.1[1] - b.1[0])))?;
    let readings = find_counter(heard.trace, "System.Runtime", "active-timer-count")?;
    let rises = readings.points.windows(2).all(|pair| pair[0].1 <= pair[1].1) && readings.points.len() >= 4;
    if last - first < TIMERS || !rises {
        return None;
    }
    let summary = heard.summary;
    let mut evidence = vec![fact(
        format!(
            "active timers rose at each of {} readings, from {} to {}",
            number(readings.points.len() as f64),
            number(first),
            number(last)
        ),
        Some(Value::Count(last - first)),
    )];
    let makes = |name: &str| {
        [
            "System.Threading.Timer.TimerSetup",
            "System.Threading.Timer (constructor)",
            "System.Threading.TimerQueueTimer",
            "System.Threading.TimerHolder",
        ]
        .iter()
        .any(|part| name.starts_with(part))
    };
    let maker = scene.caller_of(&scene.analysis.flames.all.cpu, |_, row| makes(&row.name));
    let mut by = String::new();
    if let Some((function, share)) = maker
        && let Some(name) = scene.function_name(Some(function))
    {
        let text = format!("{} of the CPU time in making timers is below {name}", percent(share));
        evidence.push(at(Reference::Function(function), text, Some(Value::Share(share))));
        by = format!("; made in {name}");
    } else if let Some((touched, Some(name))) = touched_by(scene) {
        evidence.push(touched);
        by = format!("; most new memory is first touched below {name}");
    }
    Some(Finding {
        id: FindingId::TimerGrowth,
        severity: Severity::Warning,
        impact: 1.0,
        title: format!(
            "Timers pile up: {} → {} in {}{by}{}",
            number(first),
            number(last),
            seconds(summary.seconds),
            of_process(scene, summary)
        ),
        explanation: "The runtime keeps each timer that is running, and all that its callback refers to: most likely timers, or tokens that \
                      cancel after a time, are made again and again and never disposed."
            .to_owned(),
        evidence,
        next_steps: vec![
            "Dispose timers and `CancellationTokenSource`s with the object they belong to".to_owned(),
            format!("`biopsy snapshot {}` shows what the timers keep", summary.pid),
        ],
    })
}

/// First and last, where it grew noticeably.
fn grown(collections: &CollectionSummary) -> Option<(u64, u64)> {
    let (first, last) = match (collections.floor, collections.heap) {
        // Each third above the one before: a start that levels out is no growth.
        (Some([first, middle, last]), _) => (first <= middle && middle < last).then_some((first, last))?,
        (None, Some([(_, first), (_, last)])) => (first, last),
        (None, None) => return None,
    };
    let grown = last.checked_sub(first)?;
    (grown >= LEAST && grown as f64 >= first as f64 * LEAST_SHARE).then_some((first, last))
}

/// The part of the heap that grew most.
fn part(collections: &CollectionSummary) -> Option<(&'static str, u64)> {
    const NAMES: [&str; 5] =
        ["generation 0", "generation 1", "generation 2", "the large object heap", "the pinned object heap"];
    let [first, last] = collections.heap_parts?;
    let grown = NAMES
        .into_iter()
        .zip(first.iter().zip(&last))
        .map(|(name, (first, last))| (name, last.saturating_sub(*first)));
    grown.max_by_key(|(_, grown)| *grown).filter(|(_, grown)| *grown >= LEAST / 4)
}

/// Timers that are started and never disposed keep what they call: their number at first and at last, if it grew.
fn timers(trace: &biopsy_model::runtime_trace::RuntimeTrace) -> Option<[f64; 2]> {
    let readings = find_counter(trace, "System.Runtime", "active-timer-count")?;
    let (first, last) = (readings.points.first()?.1, readings.points.last()?.1);
    (last - first >= 50.0 && last >= 1.5 * first).then_some([first, last])
}
