//! A heap in the types of the output schema.

use biopsy_analyze::heap::{Step, text_of};
use biopsy_analyze::{HeapSummary, HeapTypeRow};
use biopsy_model::order::Order as _;

use crate::schema::heap::{
    Generation, Growth, Heap, HeapMoment, HeapType, Held, HeldType, Holder, HolderGrowth, Inspection,
    InspectionRow, Suspect, TypeGrowth,
};
use crate::units::to_f64;
use crate::when;

/// A heap with its first `types`; 0: all.
pub(crate) fn heap(summary: &HeapSummary, types: usize) -> Heap {
    let facts = &summary.facts;
    let types = if types == 0 { summary.types.len() } else { types };
    Heap {
        name: summary.name.clone(),
        pid: facts.pid.0,
        runtime: facts.runtime.clone(),
        source: facts.source.as_str().to_owned(),
        collector: facts.collector.as_str().to_owned(),
        taken_at: when::utc(facts.taken_at_unix_seconds),
        taken_at_unix_seconds: facts.taken_at_unix_seconds,
        pause_ms: facts.pause_ms,
        all_pauses_ms: facts.all_pauses_ms,
        attempts: facts.attempts,
        retries: facts.retries.text(),
        objects: facts.objects,
        bytes: facts.bytes,
        live_objects: facts.live_objects,
        live_bytes: facts.live_bytes,
        free_bytes: facts.free_bytes,
        references: facts.references,
        type_count: summary.types.len() as u64,
        generations: facts
            .generations
            .iter()
            .map(|one| Generation { name: one.name.clone(), objects: one.objects, bytes: one.bytes })
            .collect(),
        roots: facts.roots.clone(),
        whole: facts.whole,
        problems: facts.problems,
        skipped_bytes: facts.skipped_bytes,
        dangling: facts.dangling,
        stale: facts.stale,
        warnings: facts.warnings.clone(),
        types: summary.types.iter().take(types).map(heap_type).collect(),
        held: summary.held.as_ref().map(held),
    }
}

/// The share of what is alive from which holders are told.
const HOLDS: f64 = 0.01;
/// Most holders.
const HOLDERS: usize = 400;

fn held(held: &biopsy_analyze::heap::Held) -> Held {
    let share = |retained: u64| to_f64(retained) / to_f64(held.bytes.max(1));
    let suspects = held.suspects.iter().map(|one| Suspect {
        way: with_one_way(text_of(&one.way), &one.one_way),
        holders: one.holders,
        retained: one.retained,
        share: share(one.retained),
        held: one.held.as_ref().map(|held| HeldType {
            of: held.step.of.clone(),
            objects: held.objects,
            retained: held.retained,
        }),
    });
    let nodes = &held.tree.nodes;
    let mut below = vec![Vec::new(); nodes.len()];
    for (number, node) in nodes.iter().enumerate().skip(1) {
        if share(node.retained) >= HOLDS {
            below[node.parent as usize].push(number);
        }
    }
    for branches in &mut below {
        branches.order_by_key(|number| nodes[*number].retained);
    }
    let mut holders = Vec::new();
    let mut open: Vec<(usize, usize)> =
        below.first().into_iter().flatten().map(|number| (*number, 0)).collect();
    while let Some((number, depth)) = open.pop()
        && holders.len() < HOLDERS
    {
        let node = &nodes[number];
        holders.push(Holder {
            depth,
            via: node.via.clone(),
            of: node.of.clone(),
            objects: node.objects,
            bytes: node.bytes,
            retained: node.retained,
        });
        open.extend(below[number].iter().map(|below| (*below, depth + 1)));
    }
    let inspections = held.inspections.iter().map(inspection).collect();
    Held { bytes: held.bytes, suspects: suspects.collect(), holders, inspections }
}

fn inspection(one: &biopsy_analyze::heap::Inspection) -> Inspection {
    let rows = one.rows.iter().map(|row| InspectionRow {
        what: row.what.clone(),
        objects: row.objects,
        bytes: row.bytes,
    });
    Inspection {
        id: one.kind.id().to_owned(),
        title: one.kind.title().to_owned(),
        objects: one.objects,
        bytes: one.bytes,
        measure: one.kind.measure().word().to_owned(),
        rows: rows.collect(),
    }
}

/// A way, and where several hold what is at its top, one way to that.
pub(crate) fn with_one_way(way: String, one_way: &[Step]) -> String {
    if one_way.is_empty() { way } else { format!("{way} (one way there: {})", text_of(one_way)) }
}

/// Snapshots held against each other.
pub(crate) fn growth(growth: &biopsy_analyze::heap::Growth) -> Growth {
    Growth {
        is_one_process: growth.is_one_process,
        moments: growth
            .moments
            .iter()
            .map(|one| HeapMoment {
                taken_at: when::utc(one.taken_at_unix_seconds),
                objects: one.objects,
                bytes: one.bytes,
            })
            .collect(),
        holders: growth
            .holders
            .iter()
            .map(|one| HolderGrowth {
                way: with_one_way(
                    if one.way.is_empty() { one.held.via.clone() } else { text_of(&one.way) },
                    &one.one_way,
                ),
                of: one.held.of.clone(),
                keeps: one.keeps.clone(),
                objects: one.objects.clone(),
                retained: one.retained.clone(),
                always: one.always,
            })
            .collect(),
        types: growth
            .types
            .iter()
            .map(|one| TypeGrowth {
                name: one.name.clone(),
                module: one.module.clone(),
                objects: one.objects.clone(),
                bytes: one.bytes.clone(),
                always: one.always,
            })
            .collect(),
    }
}

fn heap_type(row: &HeapTypeRow) -> HeapType {
    HeapType {
        name: row.name.clone(),
        module: row.module.clone(),
        objects: row.all.objects,
        bytes: row.all.bytes,
        live_objects: row.live.map(|live| live.objects),
        live_bytes: row.live.map(|live| live.bytes),
        retained_bytes: row.retained,
    }
}
