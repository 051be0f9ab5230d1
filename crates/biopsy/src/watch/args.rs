//! What may be typed after `biopsy watch`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::typed::duration;

/// Stand by: record processes as the settings say, when they start or when something happens to them.
#[derive(Clone, Debug, Args)]
pub(crate) struct WatchArgs {
    /// Use this file of settings alone. [default: those of the machine, and over them those of this user]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where results go. [default: as the settings say]
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) output: Option<PathBuf>,
    /// End after this; all that was begun ends with it. [default: as the settings say, or 24 h]
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    pub(crate) length: Option<Duration>,
    /// Say which processes the rules are about now, and do nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// For programs: one JSON object a line, for each thing that happens.
    #[arg(long)]
    pub(crate) json: bool,
}
