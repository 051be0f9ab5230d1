//! `biopsy snapshot`, and reading what it made.

use biopsy_cli::SnapshotArgs;
use std::time::Duration;

use biopsy_capture::snapshot::{self, Snapshot};
use biopsy_capture::{Failure, MADE, Patience};

use crate::render::result;
use crate::running::begin;
use biopsy_foreground::Code;
use biopsy_terminal::terminal::ColorChoice;

/// Runs `biopsy snapshot`.
pub(crate) fn run(args: &SnapshotArgs, color: ColorChoice) -> Result<Code, Failure> {
    let (job, _) = begin(color, args.quiet, args.json, Patience::Limited(Duration::ZERO))?;
    let made = snapshot::run(&args.plan()?, &job)?;
    let Snapshot { diagnosis, result: file } = &made;
    result::show(diagnosis, (&file.path, file.bytes), args.json.then_some(2), args.top, color)
        .map_err(|failure| failure.naming(MADE, &file.path))?;
    Ok(if diagnosis.is_damaged() { Code::Partial } else { Code::Ok })
}
