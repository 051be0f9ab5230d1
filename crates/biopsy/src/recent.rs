//! `biopsy recent`, which the watcher starts: keeps the last minutes of a process.

use std::path::PathBuf;
use std::time::Duration;

use biopsy_capture::recent::{KeepPlan, keep};
use biopsy_capture::{Failure, Patience};
use biopsy_standby::journal::make_folder;
use biopsy_standby::places;
use clap::Args;

use biopsy_foreground::Code;
use crate::running::begin;
use crate::render::result;
use biopsy_terminal::terminal::ColorChoice;
use crate::typed::{duration, typed};

/// Keep the last minutes of a process in memory, until it ends or this command is ended.
#[derive(Debug, Args)]
pub(crate) struct RecentArgs {
    /// How many.
    #[arg(value_parser = duration)]
    length: Duration,
    /// The process.
    target: String,
    /// Not those of the processes that it started and starts.
    #[arg(long)]
    no_children: bool,
    /// Where they are written if it ends badly.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// For programs: print the result as one JSON document.
    #[arg(long)]
    json: bool,
    /// Show no progress.
    #[arg(short, long)]
    quiet: bool,
}

/// Runs `biopsy recent`.
pub(crate) fn run(args: &RecentArgs, color: ColorChoice) -> Result<Code, Failure> {
    let (job, _) = begin(color, args.quiet, args.json, Patience::Unlimited)?;
    let folder = places::recent_folder()?;
    make_folder(&folder)?;
    let plan = KeepPlan {
        target: args.target.clone(),
        command: typed(),
        length: args.length,
        children: !args.no_children,
        folder,
        output: args.output.clone(),
    };
    let (made, diagnosis) = keep(&plan, &job)?;
    result::show(&diagnosis, (&made.path, made.bytes), args.json.then_some(1), 0, color)
}
