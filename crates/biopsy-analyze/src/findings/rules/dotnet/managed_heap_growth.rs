//! A managed heap that grows through all collections.

use crate::findings::allocating;
use crate::findings::dotnet::{heard, of_process, table, timers};
use crate::findings::evidence::{at, fact};
use crate::findings::finding::{Finding, FindingId, Severity, Value};
use crate::findings::scene::{Scene, touched_by};
use crate::runtimes::CollectionSummary;
use crate::words::{bytes, number, seconds};

/// Growth that is worth a word, in bytes, and as share of the first.
const LEAST: u64 = 16_000_000;
const LEAST_SHARE: f64 = 0.3;
/// A process that is younger warms up: it loads, compiles and fills what it will work with.
const WARM_UP: f64 = 30.0;
/// One place that makes this share of all bytes is named.
const ONE_PLACE: f64 = 0.4;

pub(crate) fn find(scene: &Scene<'_>) -> Option<Finding> {
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
    let warms_up = span < WARM_UP && scene.has_start_of(summary.pid);
    if warms_up {
        evidence.push(fact("it was started during the recording: a warm-up looks like this", None));
    }
    evidence.extend(timers(heard.trace).map(|[first, last]| {
        fact(
            format!("active timers rose from {} to {}", number(first), number(last)),
            Some(Value::Count(last - first)),
        )
    }));
    let touched = touched_by(scene.analysis);
    let toucher = touched.as_ref().and_then(|(_, name)| name.clone());
    evidence.extend(touched.map(|(evidence, _)| evidence));
    let top = allocating::top(&heard);
    evidence.extend(top.iter().map(|top| top.evidence.clone()));
    // Where most of what is allocated stays, who allocates is who fills the heap.
    let stays = allocating::rate(&heard) * summary.seconds <= 4.0 * (last - first) as f64;
    let place = top
        .filter(|top| stays && top.own && top.share >= ONE_PLACE)
        .map(|top| format!("; most is allocated{}", top.place))
        .or_else(|| toucher.map(|name| format!("; most new memory is first touched below {name}")))
        .unwrap_or_default();
    Some(Finding {
        id: FindingId::ManagedHeapGrowth,
        severity: if warms_up { Severity::Notice } else { Severity::Warning },
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
