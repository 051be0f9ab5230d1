//! Much garbage from one place.

use super::{Heard, code, heard, in_table, of_process, table};
use crate::finding::{Evidence, Finding, FindingId, Reference, Severity, Value};
use crate::findings::scene::{Scene, at, is_worth_naming, steps};
use crate::findings::words::{bytes, number, percent};
use crate::flame::FlameKind;
use crate::runtimes::{RuntimePlace, RuntimeSummary, find_counter};
use biopsy_model::Tid;
use biopsy_model::runtime_trace::CollectionReason;
use rustc_hash::FxHashMap;

/// One function of the application that makes this share of all bytes is what a person would name.
const SHARE: f64 = 0.4;
/// Bytes a second that a core can just about allocate and throw away beside real work.
const CRITICAL: f64 = 400e6;
const WARNING: f64 = 100e6;

/// The place that allocates most.
pub(super) struct Top {
    /// ` in ...`.
    pub(super) place: String,
    /// It is the application's own.
    pub(super) own: bool,
    /// Share of all bytes at that place, whatever the type.
    pub(super) share: f64,
    /// Type with most bytes there, where allocations were sampled.
    pub(super) type_name: Option<String>,
    pub(super) evidence: Evidence,
}

/// The place that allocates most, over all types.
pub(super) fn top(heard: &Heard<'_>) -> Option<Top> {
    if heard.summary.allocations.is_empty() { by_collections(heard) } else { by_samples(heard.summary) }
}

/// The same, or else what the thread runs that sets off most collections.
pub(super) fn top_or_thread(scene: &Scene<'_>, heard: &Heard<'_>) -> Option<Top> {
    top(heard).or_else(|| by_thread(scene, heard))
}

fn by_samples(summary: &RuntimeSummary) -> Option<Top> {
    let all = summary.allocated as f64;
    let mut places: FxHashMap<&str, u64> = FxHashMap::default();
    for row in summary.allocations.iter().filter(|row| !row.place.function.is_empty()) {
        let sum = places.entry(&row.place.function).or_default();
        *sum = sum.saturating_add(row.bytes);
    }
    let (function, sum) = places.into_iter().max_by(|a, b| a.1.cmp(&b.1).then(b.0.cmp(a.0)))?;
    let (number, row) =
        summary.allocations.iter().enumerate().find(|(_, row)| row.place.function == function)?;
    let share = sum as f64 / all.max(1.0);
    let via = row.place.via.as_ref().map_or(String::new(), |via| format!(", by {}", code(via)));
    Some(Top {
        place: super::in_place(&row.place),
        own: row.place.own,
        share,
        type_name: Some(row.type_name.clone()),
        evidence: in_table(
            summary,
            "allocations",
            number,
            format!(
                "{} of the {} allocated are made in {}{via}, most of them {}",
                percent(share),
                bytes(all),
                code(function),
                code(&row.type_name)
            ),
            Some(Value::Share(share)),
        ),
    })
}

/// Collections that tell who set them off from which on they are a sample.
const COLLECTIONS: u64 = 5;

/// A collection begins when a budget of bytes is used up, by whoever allocates at that moment: the stacks of their starts are a
/// sample of allocation by bytes.
fn by_collections(heard: &Heard<'_>) -> Option<Top> {
    let mut places: FxHashMap<RuntimePlace, u64> = FxHashMap::default();
    let mut all = 0u64;
    let budget = |reason: &CollectionReason| {
        matches!(reason, CollectionReason::SmallObjects | CollectionReason::LargeObjects)
    };
    for item in
        heard.trace.collections.items.iter().filter(|item| item.stack.is_some() && budget(&item.reason))
    {
        let place = crate::runtimes::place(heard.trace, item.stack);
        if place.function.is_empty() {
            continue;
        }
        all += 1;
        *places.entry(place).or_default() += 1;
    }
    let (place, count) = places.into_iter().max_by(|a, b| a.1.cmp(&b.1).then(b.0.cmp(&a.0)))?;
    if all < COLLECTIONS {
        return None;
    }
    let share = count as f64 / all as f64;
    let via = place.via.as_ref().map_or(String::new(), |via| format!(", by {}", code(via)));
    Some(Top {
        place: super::in_place(&place),
        own: place.own,
        share,
        type_name: None,
        evidence: at(
            table(heard.summary, "collections", None),
            format!(
                "{} of the {} collections whose start tells it were set off by allocating in {}{via}",
                percent(share),
                number(all as f64),
                code(&place.function)
            ),
            Some(Value::Share(share)),
        ),
    })
}

/// Where starts of collections have no stacks, they have threads at least: what the thread that sets off most of them runs.
fn by_thread(scene: &Scene<'_>, heard: &Heard<'_>) -> Option<Top> {
    let mut threads: FxHashMap<Tid, u64> = FxHashMap::default();
    let items = &heard.trace.collections.items;
    for tid in items.iter().filter_map(|item| item.tid) {
        *threads.entry(tid).or_default() += 1;
    }
    let (tid, count) = threads.into_iter().max_by_key(|(tid, count)| (*count, std::cmp::Reverse(*tid)))?;
    if count < COLLECTIONS {
        return None;
    }
    let tree = &scene.analysis.flames.threads.iter().find(|thread| thread.tid == tid)?.flames.cpu;
    let least = tree.total().as_secs_f64() / 2.0;
    // A callee comes after its caller: the last one that holds half of the time is the deepest.
    let function = tree.nodes.iter().rev().find_map(|node| match node.kind {
        FlameKind::Function(function) if node.total.as_secs_f64() >= least => {
            scene.row(function).filter(|row| is_worth_naming(row)).map(|_| function)
        }
        _ => None,
    })?;
    let share = count as f64 / items.len().max(1) as f64;
    let name = scene.function_name(Some(function))?;
    Some(Top {
        place: format!(" in {name}"),
        own: true,
        share,
        type_name: None,
        evidence: at(
            Reference::Thread(tid),
            format!(
                "{} of the collections were set off by {}, which spends its CPU time in {name} and what it calls",
                percent(share),
                scene.thread_name(tid)
            ),
            Some(Value::Share(share)),
        ),
    })
}

/// Bytes a second: by samples, or else by the runtime's own counter.
pub(super) fn rate(heard: &Heard<'_>) -> f64 {
    if heard.summary.allocated > 0 {
        return heard.summary.allocated as f64 / heard.summary.seconds.max(1e-9);
    }
    let readings = find_counter(heard.trace, "System.Runtime", "alloc-rate");
    readings.map_or(0.0, |readings| {
        readings.points.iter().map(|point| point.1).sum::<f64>() / readings.points.len().max(1) as f64
    })
}

/// One place allocates so much that collecting it is a large part of the work.
pub(super) fn storm(scene: &Scene<'_>) -> Option<Finding> {
    let heard = heard(scene).max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
    let summary = heard.summary;
    let per_second = rate(&heard);
    let top = top_or_thread(scene, &heard).filter(|top| top.own && top.share >= SHARE)?;
    if per_second < WARNING {
        return None;
    }
    let collections = summary.rate(summary.collections.total);
    let severity = if per_second >= CRITICAL { Severity::Critical } else { Severity::Warning };
    let how = if summary.allocated > 0 { "as the runtime samples it" } else { "as the runtime counts it" };
    let mut evidence = vec![
        top.evidence,
        at(
            table(summary, "allocations", None),
            format!("{} a second are allocated, {how}", bytes(per_second)),
            Some(Value::Bytes(per_second)),
        ),
    ];
    if summary.collections.total > 0 {
        evidence.push(super::collections::pace(summary));
    }
    let most = top.type_name.as_ref().map_or(String::new(), |name| format!(", most of it {}", code(name)));
    Some(Finding {
        id: FindingId::AllocationStorm,
        severity,
        impact: (per_second / (4.0 * CRITICAL)).clamp(summary.collections.pause_share, 1.0),
        title: format!(
            "Allocation storm{}: {} a second{most}, {} collections a second{}",
            top.place,
            bytes(per_second),
            if collections < 9.95 { format!("{collections:.1}") } else { number(collections) },
            of_process(scene, summary)
        ),
        explanation: "Each byte has to be cleared, written, and its neighbours collected: most likely much of the CPU time at that \
                      place, and the collections, come from making short-lived objects. Adding strings in a loop is the usual \
                      cause; arrays and lists that grow step by step, boxing and LINQ on hot paths are others."
            .to_owned(),
        evidence,
        next_steps: steps(&[
            "`StringBuilder`, `string.Create`, spans, or pooled buffers in place of new objects at that place",
            "`biopsy capture --allocations` tells the types, and by which call they are made",
        ]),
    })
}
