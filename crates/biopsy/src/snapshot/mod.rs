//! `biopsy snapshot`: from a name to the graph of a .NET heap.
//!
//! [`take`] freezes, walks, lets go and writes; [`show`] says what there is; [`read`] opens snapshots of recordings again, for
//! `analyze` and `export`.

mod args;
mod export;
pub(crate) mod read;
mod show;
mod take;

use crate::exit_codes::Code;
use crate::failure::Failure;
use crate::render::terminal::ColorChoice;
use crate::session::seal::MADE;

pub(crate) use args::SnapshotArgs;
pub(crate) use export::export_gcdump;

/// Runs `biopsy snapshot`.
pub(crate) fn run(args: &SnapshotArgs, color: ColorChoice) -> Result<Code, Failure> {
    let made = take::run(args)?;
    show::show(args, &made, color).map_err(|failure| failure.naming(MADE, &made.path))
}
