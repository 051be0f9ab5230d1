//! What may be typed after `biopsy snapshot`.

use std::path::PathBuf;
use std::time::Duration;

use biopsy_capture::snapshot::{self, How, SnapshotPlan};
use biopsy_capture::{Failure, capture};
use clap::{Args, ValueEnum};

use crate::typed::{duration, typed};

/// Snapshot the memory of a process: where it went, for any program; and the heap of a .NET process, every object and reference, live
/// and garbage apart. With a pause of milliseconds and no garbage collection.
#[derive(Debug, Args)]
pub struct SnapshotArgs {
    /// The process: pid, name, .NET entry assembly, systemd unit or container id.
    pub target: String,
    /// Refuse if the process would have to stand still longer than this.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "250ms")]
    pub max_pause: Duration,
    /// Where the heap is read from: a frozen copy of the memory, or the runtime, which collects garbage first and stands still
    /// while it tells.
    #[arg(long, value_enum, default_value_t = From::Auto)]
    pub from: From,
    /// Where it goes: a folder; a bundle, if it ends in `.zip`; the graph alone for other tools, if it ends in `.gcdump`.
    /// [default: biopsy-NAME-DATE-TIME here, a folder]
    #[arg(short, long, value_name = "PATH")]
    pub output: Option<PathBuf>,
    /// Add the snapshot to this recording of the same process, a folder or a bundle; where there is none, it is made.
    #[arg(long, value_name = "PATH", conflicts_with = "output")]
    pub into: Option<PathBuf>,
    /// Wait for this to happen first: `memory>2G`, `growth>200M` (more than now), or what else `biopsy dump --on` knows of a process
    /// that goes on. May be repeated: any of them.
    #[arg(long = "on", value_name = "TRIGGER")]
    pub on: Vec<String>,
    /// Take several, so far apart: what grows in each interval shows.
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "count")]
    pub every: Option<Duration>,
    /// How many.
    #[arg(long, value_name = "N", requires = "every", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub count: Option<u32>,
    /// Types that are listed; 0: all.
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub top: usize,
    /// For programs: print the result as one JSON document.
    #[arg(long)]
    pub json: bool,
    /// Show no progress.
    #[arg(short, long)]
    pub quiet: bool,
}

/// Where the heap is read from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum From {
    /// Memory; the runtime where memory is not understood and the predicted pause is allowed.
    Auto,
    /// A frozen copy of the memory.
    Memory,
    /// The runtime.
    Runtime,
}

impl From {
    fn of_plan(self) -> snapshot::From {
        match self {
            Self::Auto => snapshot::From::Auto,
            Self::Memory => snapshot::From::Memory,
            Self::Runtime => snapshot::From::Runtime,
        }
    }
}

impl SnapshotArgs {
    /// What is to be done.
    pub fn plan(&self) -> Result<SnapshotPlan, Failure> {
        Ok(SnapshotPlan {
            target: self.target.clone(),
            command: typed(),
            how: How { max_pause: self.max_pause, from: self.from.of_plan() },
            on: self.on.iter().map(|text| capture::trigger(text)).collect::<Result<_, _>>()?,
            output: self.output.clone(),
            into: self.into.clone(),
            count: self.count.unwrap_or(1),
            every: self.every.unwrap_or_default(),
        })
    }
}
