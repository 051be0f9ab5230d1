//! A heap in the types of the output schema.

use biopsy_analyze::{HeapSummary, HeapTypeRow};

use crate::schema::heap::{Generation, Heap, HeapType};
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
    }
}
