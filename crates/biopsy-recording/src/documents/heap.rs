//! `snapshots/NUMBER/snapshot.json`, and a line of `snapshots/NUMBER/types.jsonl.zst`.

use biopsy_model::heap;
use biopsy_model::{Avma, Pid};
use serde::{Deserialize, Serialize};

use super::List;

/// Version of the document and of the columns beside it.
const VERSION: u32 = 1;

/// The facts of a heap as they are written: in a recording, and for programs.
#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
pub struct SnapshotDocument {
    version: u32,
    pid: u32,
    runtime: String,
    source: String,
    collector: String,
    taken_at_unix_seconds: f64,
    pause_ms: f64,
    all_pauses_ms: f64,
    attempts: u32,
    retries: Retries,
    frozen_ms: f64,
    objects: u64,
    bytes: u64,
    live_objects: Option<u64>,
    live_bytes: Option<u64>,
    free_objects: u64,
    free_bytes: u64,
    references: u64,
    types: u64,
    generations: List<Generation>,
    roots: List<(String, u64)>,
    segment_bytes: u64,
    whole: bool,
    problems: u64,
    skipped_bytes: u64,
    dangling: u64,
    stale: u64,
    warnings: List<String>,
}

impl From<&heap::HeapFacts> for SnapshotDocument {
    fn from(facts: &heap::HeapFacts) -> Self {
        Self {
            version: VERSION,
            pid: facts.pid.0,
            runtime: facts.runtime.clone(),
            source: facts.source.as_str().to_owned(),
            collector: facts.collector.as_str().to_owned(),
            taken_at_unix_seconds: facts.taken_at_unix_seconds,
            pause_ms: facts.pause_ms,
            all_pauses_ms: facts.all_pauses_ms,
            attempts: facts.attempts,
            retries: facts.retries.into(),
            frozen_ms: facts.frozen_ms,
            objects: facts.objects,
            bytes: facts.bytes,
            live_objects: facts.live_objects,
            live_bytes: facts.live_bytes,
            free_objects: facts.free_objects,
            free_bytes: facts.free_bytes,
            references: facts.references,
            types: facts.types,
            generations: facts.generations.clone().into(),
            roots: facts.roots.clone().into(),
            segment_bytes: facts.segment_bytes,
            whole: facts.whole,
            problems: facts.problems,
            skipped_bytes: facts.skipped_bytes,
            dangling: facts.dangling,
            stale: facts.stale,
            warnings: facts.warnings.clone().into(),
        }
    }
}

impl From<SnapshotDocument> for heap::HeapFacts {
    fn from(document: SnapshotDocument) -> Self {
        Self {
            pid: Pid(document.pid),
            runtime: document.runtime,
            source: document.source.as_str().into(),
            collector: document.collector.as_str().into(),
            taken_at_unix_seconds: document.taken_at_unix_seconds,
            pause_ms: document.pause_ms,
            all_pauses_ms: document.all_pauses_ms,
            attempts: document.attempts,
            retries: document.retries.into(),
            frozen_ms: document.frozen_ms,
            objects: document.objects,
            bytes: document.bytes,
            live_objects: document.live_objects,
            live_bytes: document.live_bytes,
            free_objects: document.free_objects,
            free_bytes: document.free_bytes,
            references: document.references,
            types: document.types,
            generations: document.generations.into(),
            roots: document.roots.into(),
            segment_bytes: document.segment_bytes,
            whole: document.whole,
            problems: document.problems,
            skipped_bytes: document.skipped_bytes,
            dangling: document.dangling,
            stale: document.stale,
            warnings: document.warnings.into(),
        }
    }
}

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
struct Retries {
    collecting: u32,
    threads: u32,
    torn: u32,
}

impl From<heap::Retries> for Retries {
    fn from(retries: heap::Retries) -> Self {
        Self { collecting: retries.collecting, threads: retries.threads, torn: retries.torn }
    }
}

impl From<Retries> for heap::Retries {
    fn from(retries: Retries) -> Self {
        Self { collecting: retries.collecting, threads: retries.threads, torn: retries.torn }
    }
}

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
struct Generation {
    name: String,
    objects: u64,
    bytes: u64,
}

impl From<heap::GenerationFacts> for Generation {
    fn from(one: heap::GenerationFacts) -> Self {
        Self { name: one.name, objects: one.objects, bytes: one.bytes }
    }
}

impl From<Generation> for heap::GenerationFacts {
    fn from(one: Generation) -> Self {
        Self { name: one.name, objects: one.objects, bytes: one.bytes }
    }
}

#[derive(Serialize, Deserialize)]
pub(crate) struct TypeLine {
    name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    module: String,
    #[serde(default, skip_serializing_if = "is_zero")]
    method_table: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    free: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    fields: Vec<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    repeats: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    statics: Vec<(String, u64)>,
    #[serde(default, skip_serializing_if = "is_none")]
    element_bytes: u32,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    family: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    noted: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_none(number: &u32) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl From<&heap::HeapType> for TypeLine {
    fn from(of: &heap::HeapType) -> Self {
        Self {
            name: of.name.clone(),
            module: of.module.clone(),
            method_table: of.method_table.0,
            free: of.is_free,
            fields: of.fields.clone(),
            repeats: of.repeats,
            statics: of.statics.iter().map(|(name, at)| (name.clone(), at.0)).collect(),
            element_bytes: of.element_bytes,
            family: of.family.as_str().to_owned(),
            noted: of.noted.clone(),
        }
    }
}

impl From<TypeLine> for heap::HeapType {
    fn from(line: TypeLine) -> Self {
        let statics = line.statics.into_iter().map(|(name, at)| (name, Avma(at))).collect();
        Self {
            name: line.name,
            module: line.module,
            method_table: Avma(line.method_table),
            is_free: line.free,
            fields: line.fields,
            repeats: line.repeats,
            statics,
            element_bytes: line.element_bytes,
            family: line.family.as_str().into(),
            noted: line.noted,
        }
    }
}
