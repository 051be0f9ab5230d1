//! `biopsy recent`, which the watcher starts: keeps the last minutes of a process.

use biopsy_cli::RecentArgs;

use biopsy_capture::recent::{KeepPlan, keep};
use biopsy_capture::{Failure, Patience};
use biopsy_standby::journal::make_folder;
use biopsy_standby::places;

use crate::render::result;
use crate::running::begin;
use biopsy_cli::typed;
use biopsy_foreground::Code;
use biopsy_terminal::terminal::ColorChoice;

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
        logs: args.logs.clone(),
        journal: args.journal.clone(),
        output: args.output.clone(),
    };
    let (made, diagnosis) = keep(&plan, &job)?;
    result::show(&diagnosis, (&made.path, made.bytes), args.json.then_some(1), 0, color)
}
