//! Who allocates most, and how much: several rules on .NET ask.

use crate::findings::dotnet::{Heard, code, in_place, in_table, table};
use crate::findings::evidence::at;
use crate::findings::finding::{Evidence, Reference, Value};
use crate::findings::scene::{Scene, is_worth_naming};
use crate::runtimes::{RuntimePlace, RuntimeSummary, find_counter};
use crate::trace::flame::FlameKind;
use crate::trace::function::FunctionHandle;
use crate::words::{bytes, number, percent};
use biopsy_model::Tid;
use biopsy_model::runtime_trace::CollectionReason;
use rustc_hash::FxHashMap;

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

pub(super) fn by_samples(summary: &RuntimeSummary) -> Option<Top> {
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
        place: in_place(&row.place),
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
pub(super) const COLLECTIONS: u64 = 5;

/// A collection begins when a budget of bytes is used up, by whoever allocates at that moment: the stacks of their starts are a
/// sample of allocation by bytes.
pub(super) fn by_collections(heard: &Heard<'_>) -> Option<Top> {
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
        place: in_place(&place),
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

/// Where starts of collections have no stacks, they have threads at least: what the threads run that set off most of them. Several threads
/// of a pool run one function.
pub(super) fn by_thread(scene: &Scene<'_>, heard: &Heard<'_>) -> Option<Top> {
    let mut threads: FxHashMap<Tid, u64> = FxHashMap::default();
    let items = &heard.trace.collections.items;
    for tid in items.iter().filter_map(|item| item.tid) {
        *threads.entry(tid).or_default() += 1;
    }
    // Of each function: collections, threads, and the one that set off most.
    let mut functions: FxHashMap<FunctionHandle, (u64, u64, Tid, u64)> = FxHashMap::default();
    for (tid, count) in threads {
        let Some(function) = runs(scene, tid) else { continue };
        let sum = functions.entry(function).or_insert((0, 0, tid, 0));
        (sum.0, sum.1) = (sum.0 + count, sum.1 + 1);
        if (count, std::cmp::Reverse(tid)) > (sum.3, std::cmp::Reverse(sum.2)) {
            (sum.2, sum.3) = (tid, count);
        }
    }
    let most = functions.into_iter().max_by_key(|(function, sum)| (sum.0, std::cmp::Reverse(*function)));
    let (function, (count, several, tid, _)) = most.filter(|(_, sum)| sum.0 >= COLLECTIONS)?;
    let share = count as f64 / items.len().max(1) as f64;
    let name = scene.function_name(Some(function))?;
    let who = match several {
        1 => format!("{}, which spends", scene.thread_name(tid)),
        _ => format!("{several} threads ({} most), which spend", scene.thread_name(tid)),
    };
    let own = if several == 1 { "its" } else { "their" };
    Some(Top {
        place: format!(" in {name}"),
        own: true,
        share,
        type_name: None,
        evidence: at(
            Reference::Thread(tid),
            format!(
                "{} of the collections were set off by {who} {own} CPU time in {name} and what it calls",
                percent(share)
            ),
            Some(Value::Share(share)),
        ),
    })
}

/// The deepest function that has half of a thread's CPU time.
fn runs(scene: &Scene<'_>, tid: Tid) -> Option<FunctionHandle> {
    let tree = &scene.analysis.flames.threads.iter().find(|thread| thread.tid == tid)?.flames.cpu;
    let least = tree.total().as_secs_f64() / 2.0;
    // A callee comes after its caller: the last one that holds half of the time is the deepest.
    tree.nodes.iter().rev().find_map(|node| match node.kind {
        FlameKind::Function(function) if node.total.as_secs_f64() >= least => {
            scene.row(function).filter(|row| is_worth_naming(row)).map(|_| function)
        }
        _ => None,
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
