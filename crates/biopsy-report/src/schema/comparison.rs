//! Two recordings held against each other: the document of `biopsy compare --json`. All rates are in seconds per unit.

use serde::{Deserialize, Serialize};

/// Two recordings held against each other.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Comparison {
    /// Always `biopsy-comparison`.
    pub schema: String,
    /// Version of the schema: 1.
    pub version: u32,
    /// The earlier, or the good one.
    pub before: Side,
    /// The later, or the bad one.
    pub after: Side,
    /// What rates are per: `second`, `request`.
    pub unit: String,
    /// Differences that are claimed: those that cost most time first.
    pub differences: Vec<Difference>,
    /// The largest quantities of which no difference is claimed.
    pub unchanged: Vec<Difference>,
    /// How many quantities were compared.
    pub compared: usize,
    /// CPU time by call: node 0 is the root, a child's index is larger than its parent's. In the page and the document.
    pub calls: Vec<Call>,
    /// What a reader should know before believing any of it.
    pub remarks: Vec<String>,
    /// Why nothing is claimed at all; absent: something could be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// One of the two recordings.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Side {
    /// What it was read from, as it was named.
    pub file: String,
    /// Name of its target.
    pub name: String,
    /// When it began, in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// Its length.
    pub seconds: f64,
    /// CPU in use, in cores.
    pub cores: f64,
    /// CPU samples.
    pub samples: u64,
    /// Requests that were answered; absent: they were not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
}

/// One quantity in both recordings.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Difference {
    /// `function` (CPU time of its own code, and of what libraries and the kernel do for it), `wait`, `lock`, `request` (time from start to answer).
    pub kind: String,
    /// The function, or method and route; empty: not known.
    pub name: String,
    /// Module of a function.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub module: String,
    /// What a wait is for, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Seconds per unit before (of requests: seconds per request).
    pub before: f64,
    /// The same after.
    pub after: f64,
    /// Change as a share of what was before; absent: there was nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<f64>,
    /// The smallest difference that would be claimed, in the same unit.
    pub noise: f64,
    /// `slower`, `faster`; absent: no difference is claimed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub became: Option<String>,
}

/// A call path.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Call {
    /// Its caller.
    pub parent: u32,
    /// The function.
    pub name: String,
    /// Its module.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub module: String,
    /// CPU seconds per unit in it and below, before.
    pub before: f64,
    /// The same, after.
    pub after: f64,
}

/// Heaps held against each other.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HeapComparison {
    /// Always `biopsy-heap-comparison`.
    pub schema: String,
    /// Version of this document.
    pub version: u32,
    /// What was read, as it was named.
    pub files: Vec<String>,
    /// What grew.
    #[serde(flatten)]
    pub growth: super::heap::Growth,
}
