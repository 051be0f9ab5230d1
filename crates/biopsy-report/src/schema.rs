//! The stable output schema of `report.json`, described field by field in `docs/formats/report-schema.md`.
//!
//! Rules: a field that is not known is absent, never a made-up zero; readers accept every field as absent and
//! ignore fields they do not know; `version` goes up when the meaning of a field changes or one goes away, not
//! when one is added. Moments are seconds since the start of the window (`at`, `from`, `to`), lengths of time end
//! in `_ns` or `_seconds`, shares are 0 to 1.

mod allocations;
pub mod comparison;
pub mod dump;
mod explanations;
mod findings;
pub mod footprint;
pub mod heap;
pub mod managed;
mod recording;
pub mod runtimes;
pub mod strands;
mod tables;

pub use allocations::{AllocationSite, Allocations, LiveBytes};
pub use dump::Dump;
pub use explanations::{Explanation, Explanations, Said};
pub use findings::{Evidence, Finding, Number, Reference, Source};
pub use footprint::Footprint;
pub use heap::Heap;
pub use recording::{
    Completeness, Context, Host, Loss, Mark, Moment, NotSearched, Process, Recording, Redaction, Warning,
};
pub use runtimes::Runtime;
pub use tables::{
    Activation, Behind, Convoy, Function, LogTopic, Logs, LongWait, Metric, Metrics, Notable, Thread,
    ThreadGroup, Threads, Trend, WaitFunction, WaitReason, Waits,
};

use serde::{Deserialize, Serialize};

/// Version of the schema that this crate writes.
pub const VERSION: u32 = 2;

/// A report on all evidence of one incident.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// Always `biopsy-report`.
    pub schema: String,
    /// Version of the schema: [`VERSION`].
    pub version: u32,
    /// Findings over all evidence, the most important first.
    pub findings: Vec<Finding>,
    /// What was recorded over time: its fields stand beside these. Absent: only moments are there.
    #[serde(flatten)]
    pub recorded: Option<Recorded>,
    /// Memory at one moment, the target's first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dumps: Vec<Dump>,
    /// Managed heaps at one moment, the oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub heaps: Vec<Heap>,
    /// Where the memory of processes went, the oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub footprints: Vec<Footprint>,
    /// What grew between them; absent: there is one, or none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub growth: Option<heap::Growth>,
    /// What is known to be missing beside what the parts say themselves.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub undetermined: Vec<String>,
    /// What was not gone over for secrets, or only in part, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_searched: Vec<NotSearched>,
}

/// What was recorded over time.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Recorded {
    /// What was recorded, when, and where.
    pub recording: Recording,
    /// How whole it is, and what could not be determined.
    pub completeness: Completeness,
    /// Functions by CPU time, then by waiting time; cut to the first [`FUNCTIONS`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<Function>,
    /// How many functions there were before the cut.
    pub functions_seen: usize,
    /// Threads.
    pub threads: Threads,
    /// What waits for what.
    pub waits: Waits,
    /// Metrics in brief.
    pub metrics: Metrics,
    /// Logs in brief.
    pub logs: Logs,
    /// What managed runtimes said of themselves, one entry a process.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub runtimes: Vec<Runtime>,
    /// Who allocates native memory, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocations: Option<Allocations>,
    /// The processes of the tree, the target first.
    pub processes: Vec<Process>,
    /// The user's marks.
    pub marks: Vec<Mark>,
    /// What was lost, interval by interval; cut to the first 1,000.
    pub losses: Vec<Loss>,
    /// What the recorders and the reader want said.
    pub warnings: Vec<Warning>,
    /// What was redacted. Values never.
    pub redactions: Vec<Redaction>,
}

/// Functions in a report at most. A recording of a large program has tens of thousands, most with one sample.
pub const FUNCTIONS: usize = 2_000;
/// Threads in a report at most, the busiest first.
pub const THREADS: usize = 5_000;
