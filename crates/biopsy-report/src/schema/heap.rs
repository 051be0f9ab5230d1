//! A managed heap at one moment.

use serde::{Deserialize, Serialize};

/// A heap.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Heap {
    /// Of the process or of the file.
    pub name: String,
    /// Its pid; 0: not known.
    pub pid: u32,
    /// Version of the runtime.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub runtime: String,
    /// `memory`: read from memory, garbage is there; `runtime`: what a collection left.
    pub source: String,
    /// `server`, `workstation`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub collector: String,
    /// When, in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken_at: Option<String>,
    /// The same in seconds since 1970; 0: not known.
    pub taken_at_unix_seconds: f64,
    /// How long the process stood still for the attempt that succeeded.
    pub pause_ms: f64,
    /// How long for all attempts.
    pub all_pauses_ms: f64,
    /// How often it was frozen.
    pub attempts: u32,
    /// Why more than once, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<String>,
    /// Objects, free space left out.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Reachable objects; absent: nobody looked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live_objects: Option<u64>,
    /// Their bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live_bytes: Option<u64>,
    /// Free space between objects.
    pub free_bytes: u64,
    /// References between objects.
    pub references: u64,
    /// Types, each name and module once.
    pub type_count: u64,
    /// By generation; empty: not told.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub generations: Vec<Generation>,
    /// Kind and number of the roots.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub roots: Vec<(String, u64)>,
    /// Nothing is known to be missing.
    pub whole: bool,
    /// Places that could not be read.
    pub problems: u64,
    /// Bytes that were skipped because of them.
    pub skipped_bytes: u64,
    /// References of live objects that lead to no object.
    pub dangling: u64,
    /// References of garbage that lead to no object any more: no damage.
    pub stale: u64,
    /// What is worth knowing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// By bytes.
    pub types: Vec<HeapType>,
    /// Who holds what; absent: nobody looked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<Held>,
}

/// Who holds what.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Held {
    /// Bytes of all that roots lead to.
    pub bytes: u64,
    /// What holds a tenth of them or more, and where it piles up.
    pub suspects: Vec<Suspect>,
    /// Holders by type and field: those that hold a hundredth or more, each behind the one above it.
    pub holders: Vec<Holder>,
    /// Known ways in which memory is wasted or kept, the most bytes first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inspections: Vec<Inspection>,
}

/// A known way in which memory is wasted or kept for too long.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Inspection {
    /// `duplicate-strings`, `empty-collections`, `oversized-collections`, `sparse-arrays`, `boxed-values`, `event-handlers`, `timers`,
    /// `token-callbacks`, `waiting-methods`, `lost-methods`, `stuck-contexts`, `finalizer-queue`, `pinned-objects`, `statics`, `closures`,
    /// `free-space`.
    pub id: String,
    /// What its objects are, in words.
    pub title: String,
    /// How many there are.
    pub objects: u64,
    /// Bytes.
    pub bytes: u64,
    /// What the bytes are: `wasted` (not needed), `retained` (they live because of these objects), `own`.
    pub measure: String,
    /// Where, the most bytes first; at most ten.
    pub rows: Vec<InspectionRow>,
}

/// Where something was found.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct InspectionRow {
    /// A field, a type, a method.
    pub what: String,
    /// How many.
    pub objects: u64,
    /// Bytes.
    pub bytes: u64,
}

/// What holds much.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Suspect {
    /// From the root to what holds, in one line.
    pub way: String,
    /// Objects that hold.
    pub holders: u64,
    /// Bytes that live because of them.
    pub retained: u64,
    /// Of all that is alive.
    pub share: f64,
    /// What they hold the most; absent: nothing piles up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<HeldType>,
}

/// What is held.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HeldType {
    /// Its type.
    #[serde(rename = "type")]
    pub of: String,
    /// How many.
    pub objects: u64,
    /// Bytes that live because of them.
    pub retained: u64,
}

/// Objects of one type that are held in one way.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Holder {
    /// How far from the roots; 0: a root holds them.
    pub depth: usize,
    /// The field that holds them, or the root; empty: not directly, or not known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub via: String,
    /// Their type.
    #[serde(rename = "type")]
    pub of: String,
    /// How many.
    pub objects: u64,
    /// Their own bytes.
    pub bytes: u64,
    /// Bytes that live because of them.
    pub retained: u64,
}

/// Snapshots held against each other.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Growth {
    /// They are of one process.
    pub is_one_process: bool,
    /// Each snapshot, in order.
    pub moments: Vec<HeapMoment>,
    /// Where more is held than before, the most first.
    pub holders: Vec<HolderGrowth>,
    /// Types that grew or shrank, what changed the most first.
    pub types: Vec<TypeGrowth>,
}

/// One snapshot.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HeapMoment {
    /// When, in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken_at: Option<String>,
    /// Objects that are alive.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A place that holds more than before; numbers for each snapshot.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HolderGrowth {
    /// From the root to the holder, in one line.
    pub way: String,
    /// The type that is held.
    #[serde(rename = "type")]
    pub of: String,
    /// Where that is of the framework: the program's own type that hangs on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keeps: Option<String>,
    /// How many.
    pub objects: Vec<u64>,
    /// Bytes that live because of them.
    pub retained: Vec<u64>,
    /// Grew in every interval, and not less towards the end.
    pub always: bool,
}

/// A type; numbers for each snapshot.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TypeGrowth {
    /// Full name.
    pub name: String,
    /// File name of its module.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub module: String,
    /// Objects that are alive.
    pub objects: Vec<u64>,
    /// Their bytes.
    pub bytes: Vec<u64>,
    /// Grew in every interval, and not less towards the end.
    pub always: bool,
}

/// Objects of one generation.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Generation {
    /// `gen0` to `gen2`, `large`, `pinned`, `frozen`.
    pub name: String,
    /// Objects.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Objects of one type.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HeapType {
    /// Full name.
    pub name: String,
    /// File name of its module.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub module: String,
    /// Objects.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Reachable ones; absent: nobody looked, or none is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live_objects: Option<u64>,
    /// Their bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live_bytes: Option<u64>,
    /// Bytes that live because of them; absent: nobody looked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retained_bytes: Option<u64>,
}
