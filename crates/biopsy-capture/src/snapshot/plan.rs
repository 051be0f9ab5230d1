//! Of which process snapshots are taken, how, and what came of it.

use std::path::PathBuf;
use std::time::Duration;

use biopsy_analyze::Diagnosis;
use biopsy_record::triggers::Trigger;

use crate::finish::HandedOver;

/// Where the heap is read from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum From {
    /// Memory; the runtime where memory is not understood and the predicted pause is allowed.
    Auto,
    /// A frozen copy of the memory.
    Memory,
    /// The runtime, which collects garbage first.
    Runtime,
}

/// How a snapshot is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct How {
    /// It is refused where the process would stand still longer.
    pub max_pause: Duration,
    /// Where the heap is read from.
    pub from: From,
}

/// Of which process, how, and where it goes.
#[derive(Clone, Debug)]
pub struct SnapshotPlan {
    /// The process: pid, name, .NET entry assembly, systemd unit or container id.
    pub target: String,
    /// What the user typed, for the header of the recording, which masks it.
    pub command: Vec<String>,
    /// How it is taken.
    pub how: How,
    /// The first one is taken when one of these happens; empty: at once.
    pub on: Vec<Trigger>,
    /// A folder; a bundle, if it ends in `.zip`; the graph alone, if it ends in `.gcdump`; `None`: a folder named after the target
    /// and the time.
    pub output: Option<PathBuf>,
    /// A recording of the same process that the snapshot is added to; where it does not exist, it is made.
    pub into: Option<PathBuf>,
    /// So many snapshots, at least one.
    pub count: u32,
    /// How long after the beginning of one the next begins.
    pub every: Duration,
}

/// A snapshot that was taken and written.
#[derive(Debug)]
pub struct Snapshot {
    /// What the heap holds.
    pub diagnosis: Diagnosis,
    /// The recording, or the file.
    pub result: HandedOver,
}
