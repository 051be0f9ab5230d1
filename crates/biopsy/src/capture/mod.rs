//! `biopsy capture` and `biopsy trace`.

mod dry_run;
mod show;

use biopsy_cli::CaptureArgs;
use std::sync::Arc;

use biopsy_capture::capture::{self, Remote};
use biopsy_capture::{Failure, FailureKind, Job, MADE, Patience};

use crate::running::begin;
use biopsy_foreground::{Code, Screen, SignalWishes};
use biopsy_terminal::terminal::ColorChoice;

/// Runs `biopsy capture`, or `biopsy trace`.
pub(crate) fn run(args: &CaptureArgs, trace_only: bool, color: ColorChoice) -> Result<Code, Failure> {
    if args.dry_run {
        return dry_run::show(&args.plan(trace_only)?, args.json);
    }
    let (job, screen) = begin(color, args.quiet, args.json, Patience::Unlimited)?;
    record(args, trace_only, color, &job, &screen)
}

/// The same for a job that is there.
pub(crate) fn record(
    args: &CaptureArgs,
    trace_only: bool,
    color: ColorChoice,
    job: &Job,
    screen: &Arc<Screen>,
) -> Result<Code, Failure> {
    let plan = args.plan(trace_only)?;
    let remote = Remote::new(job);
    let _signals = SignalWishes::listen(remote.sender())
        .map_err(|error| Failure::new(FailureKind::Memory, format!("cannot listen to signals: {error}")))?;
    // A program that was started has the terminal for itself.
    if !args.quiet && args.program.is_empty() {
        screen.listen_to_keys(remote.sender());
    }
    let captured = capture::run(&plan, &remote, job);
    screen.clear()?;
    let captured = captured?;
    show::show(args, &captured, color).map_err(|failure| failure.naming(MADE, &captured.result.path))
}
