//! What may be typed after `biopsy recent`, which the watcher starts.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::typed::duration;

/// Keep the last minutes of a process in memory, until it ends or this command is ended.
#[derive(Debug, Args)]
pub struct RecentArgs {
    /// How many.
    #[arg(value_parser = duration)]
    pub length: Duration,
    /// The process.
    pub target: String,
    /// Not those of the processes that it started and starts.
    #[arg(long)]
    pub no_children: bool,
    /// Take these logs, cut to those minutes, if it ends badly; may be repeated. Quote patterns.
    #[arg(long, value_name = "GLOB")]
    pub logs: Vec<String>,
    /// Take the journal of this systemd unit; may be repeated.
    #[arg(long, value_name = "UNIT")]
    pub journal: Vec<String>,
    /// Where they are written if it ends badly.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// For programs: print the result as one JSON document.
    #[arg(long)]
    pub json: bool,
    /// Show no progress.
    #[arg(short, long)]
    pub quiet: bool,
}
