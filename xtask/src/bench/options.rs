//! What is measured, and how often.

use std::path::PathBuf;

use super::recorder::{Kind, Tools};

/// How to measure.
#[derive(clap::Args, Clone)]
pub(crate) struct Options {
    /// Few and short rounds: shows that everything runs, not what it costs
    #[arg(long)]
    pub(super) quick: bool,
    /// Rounds of each workload
    #[arg(long)]
    pub(super) rounds: Option<usize>,
    /// Seconds of each run on the server
    #[arg(long)]
    pub(super) seconds: Option<f64>,
    /// Leave out the recording of five minutes
    #[arg(long)]
    pub(super) no_long: bool,
    /// Only these workloads: `serving` (M), `compressing` (Z), `long`, `dumping` (D), `dumping-large`, `following` (S),
    /// `killing` (K), `catching` (L), `scrubbing`, `dotnet` (N), `dotnet-attach` (N6), `nettrace`, `heap` (H), `watch` (W), `delivery` (V), `cases` (V7),
    /// `redaction` (as `cargo xtask redaction --speed`)
    #[arg(long, value_delimiter = ',')]
    pub(super) only: Vec<String>,
    /// Only these recorders: `none`, `states`, `biopsy`, `recent`, `perf`, `samply`; of a .NET server `trace`, `capture`, `requests`, `debug`,
    /// `recent`, `dotnet-trace`; of the watcher its parts `idle`, `recent`, `build`, `starts`; of delivery its parts `sealing`, `opening`, `throughput`, `cutting`,
    /// `notices`, `slow`
    #[arg(long, value_delimiter = ',')]
    pub(super) recorders: Vec<String>,
    /// A samply 0.13.1; without it, one is built once with `cargo install`
    #[arg(long)]
    pub(super) samply: Option<PathBuf>,
    /// A biopsy; without it, the release program of this repository
    #[arg(long)]
    pub(super) biopsy: Option<PathBuf>,
    /// A biopsy-lab, for `delivery` and `cases`; without it, the release program of this repository
    #[arg(long)]
    pub(super) lab: Option<PathBuf>,
}

impl Options {
    pub(super) fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.quick { 2 } else { 8 })
    }

    pub(super) fn seconds(&self) -> f64 {
        self.seconds.unwrap_or(if self.quick { 2.0 } else { 5.0 })
    }

    pub(super) fn wants_recorder(&self, kind: Kind) -> bool {
        self.wants_named(kind.key())
    }

    pub(super) fn wants_named(&self, recorder: &str) -> bool {
        self.recorders.is_empty() || self.recorders.iter().any(|one| one == recorder)
    }

    pub(super) fn wants(&self, workload: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|one| one == workload)
    }
}

/// The recorders that take part, in the order of a round.
pub(super) fn kinds(tools: &Tools, options: &Options) -> Vec<Kind> {
    let mut kinds = vec![Kind::None, Kind::Recent, Kind::States, Kind::WaitStacks];
    kinds.extend(tools.perf.is_some().then_some(Kind::Perf));
    kinds.extend(tools.samply.is_some().then_some(Kind::Samply));
    kinds.retain(|kind| options.wants_recorder(*kind));
    kinds
}
