//! `snapshots/NUMBER/snapshot.json`: how a snapshot was taken and what it holds.

use std::time::SystemTime;

use biopsy_dotnet::graph::{Graph, RootKind, Totals};
use biopsy_model::Pid;
use serde::{Deserialize, Serialize};

use super::{Retries, Taken};

/// Version of the document and of the columns beside it.
pub const FACTS_VERSION: u32 = 1;

/// What is in one generation, free space left out.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct GenerationFacts {
    /// `gen0` to `gen2`, `large`, `pinned`, `frozen`.
    pub name: String,
    /// Objects.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The facts of one snapshot.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct SnapshotFacts {
    /// [`FACTS_VERSION`].
    pub version: u32,
    /// Whose heap.
    pub pid: u32,
    /// Version of the runtime, if it says so.
    pub runtime: String,
    /// `memory`: read from a frozen copy; `runtime`: told by the runtime after a collection.
    pub source: String,
    /// `server` or `workstation`; empty: not told.
    pub collector: String,
    /// When, seconds since 1970 in UTC.
    pub taken_at_unix_seconds: f64,
    /// How long the process stood still for the attempt that succeeded, in milliseconds.
    pub pause_ms: f64,
    /// How long for all attempts together.
    pub all_pauses_ms: f64,
    /// How often it was frozen.
    pub attempts: u32,
    /// Why more than once.
    pub retries: Retries,
    /// How long the frozen copy was needed, in milliseconds.
    pub frozen_ms: f64,
    /// Objects, free space left out.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Reachable objects, by roots of which those on stacks are conservative.
    pub live_objects: Option<u64>,
    /// Their bytes.
    pub live_bytes: Option<u64>,
    /// Gaps between objects.
    pub free_objects: u64,
    /// Their bytes.
    pub free_bytes: u64,
    /// References between objects.
    pub references: u64,
    /// Types.
    pub types: u64,
    /// Objects by generation; empty where it is not told.
    pub generations: Vec<GenerationFacts>,
    /// Roots by kind.
    pub roots: Vec<(String, u64)>,
    /// Bytes of all segments.
    pub segment_bytes: u64,
    /// Nothing is known to be missing.
    pub whole: bool,
    /// Places where the heap could not be read, or lost events.
    pub problems: u64,
    /// Bytes that were not walked because of them.
    pub skipped_bytes: u64,
    /// References of live objects that lead to no object.
    pub dangling: u64,
    /// References of garbage that lead to no object: a background collection has swept what they named. No damage.
    pub stale: u64,
    /// What is worth knowing.
    pub warnings: Vec<String>,
}

impl SnapshotFacts {
    /// The facts of a graph alone.
    #[must_use]
    pub fn of_graph(graph: &Graph) -> Self {
        let (mut all, mut free) = (Totals::default(), Totals::default());
        let mut live = graph.live().map(|_| Totals::default());
        for one in graph.by_type() {
            if graph.type_of(one.of).is_some_and(|of| of.is_free) {
                free.add_all(one.all);
                continue;
            }
            all.add_all(one.all);
            if let (Some(sum), Some(more)) = (&mut live, one.live) {
                sum.add_all(more);
            }
        }
        let generations = graph.by_generation().into_iter().map(|(generation, totals)| GenerationFacts {
            name: generation.name().to_owned(),
            objects: totals.objects,
            bytes: totals.bytes,
        });
        let count = |kind: &RootKind| graph.roots().iter().filter(|root| root.kind == *kind).count() as u64;
        let roots = RootKind::ALL.iter().map(|kind| (kind.name().to_owned(), count(kind)));
        Self {
            version: FACTS_VERSION,
            objects: all.objects,
            bytes: all.bytes,
            live_objects: live.map(|live| live.objects),
            live_bytes: live.map(|live| live.bytes),
            free_objects: free.objects,
            free_bytes: free.bytes,
            references: graph.edge_count(),
            types: graph.types().len() as u64,
            generations: generations.collect(),
            roots: roots.filter(|(_, count)| *count > 0).collect(),
            whole: true,
            ..Self::default()
        }
    }

    /// The facts of a snapshot from memory.
    #[must_use]
    pub fn of(taken: &Taken, pid: Pid) -> Self {
        let since = taken.when.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self {
            pid: pid.0,
            runtime: taken.runtime.clone(),
            source: "memory".to_owned(),
            collector: if taken.is_server { "server" } else { "workstation" }.to_owned(),
            taken_at_unix_seconds: since.as_secs_f64(),
            pause_ms: taken.pause.stopped.as_secs_f64() * 1e3,
            all_pauses_ms: taken.all_pauses.as_secs_f64() * 1e3,
            attempts: taken.attempts,
            retries: taken.retries,
            frozen_ms: taken.frozen_for.as_secs_f64() * 1e3,
            segment_bytes: taken.segment_bytes,
            whole: taken.problems.is_none(),
            problems: taken.problems.count,
            skipped_bytes: taken.problems.skipped_bytes,
            dangling: taken.problems.dangling,
            stale: taken.problems.stale,
            warnings: taken.warnings.clone(),
            ..Self::of_graph(&taken.graph)
        }
    }
}
