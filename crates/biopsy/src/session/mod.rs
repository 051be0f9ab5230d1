//! `biopsy capture` and `biopsy trace`: from a name to a bundle with a report.
//!
//! The flow: [`subject`] finds (or starts) the process and looks whether it may be recorded; [`record`] runs the
//! recorders while [`controls`] listens to keys and signals and [`progress`] shows how it goes; [`again`] masks once more,
//! [`seal`] reports and packs, and [`verify`] looks through what was packed.

pub(crate) mod again;
pub(crate) mod controls;
mod dotnet;
mod look;
pub(crate) mod output;
pub(crate) mod progress;
pub(crate) mod record;
mod result;
pub(crate) mod seal;
pub(crate) mod subject;
pub(crate) mod verify;
mod wait;

use crate::cli::CaptureArgs;
use crate::exit_codes::Code;
use crate::failure::Failure;
use crate::render::terminal::{ColorChoice, Terminal};

/// Which of the two commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Everything.
    Capture,
    /// The timeline alone.
    Trace,
}

/// Runs `biopsy capture` or `biopsy trace`.
pub(crate) fn run(args: &CaptureArgs, kind: Kind, color: ColorChoice) -> Result<Code, Failure> {
    let terminal = Terminal::of_stderr(color);
    let subject = subject::find_or_start(args)?;
    let place = output::Place::choose(args, &subject.name)?;
    subject::check(&subject, args, kind, &place, terminal)?;
    let reason = wait::wait(args, &subject)?;
    let kept = |failure: Failure| failure.naming(seal::KEPT, &place.folder);
    let recorded = record::record(args, kind, subject, &place, reason.as_deref(), terminal).map_err(kept)?;
    let sealed = seal::seal(&recorded, &place).map_err(kept)?;
    result::show(args, &recorded, &sealed, color).map_err(|failure| failure.naming(seal::MADE, &sealed.path))
}
