//! The promised numbers of SPECIFICATION.md, measured side by side with perf and samply in one run.

use crate::run::Outcome;

/// How to measure.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Few and short rounds: shows that everything runs, not what it costs
    #[arg(long)]
    quick: bool,
}

/// Measures and prints.
pub(crate) fn run(options: &Options) -> Outcome {
    let _ = options.quick;
    Err("not written yet".to_owned())
}
