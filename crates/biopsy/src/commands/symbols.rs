//! Where files may be looked for that a dump or recording names.

use std::path::PathBuf;

use biopsy_capture::{Failure, FailureKind};
use clap::Args;

/// Where files may be looked for that a dump or recording names.
#[derive(Debug, Args)]
pub(crate) struct SymbolArgs {
    /// Look for the programs and libraries of the process below FOLDER, at the paths that it knew; `/`: on this machine. Only
    /// those are used that are the same. Without it no file is opened because a dump names it. Can be given several times.
    #[arg(long = "symbols", value_name = "FOLDER")]
    folders: Vec<PathBuf>,
}

impl SymbolArgs {
    /// The folders by names without links, which are not followed below them.
    pub(crate) fn roots(&self) -> Result<Vec<PathBuf>, Failure> {
        let real = |folder: &PathBuf| {
            std::fs::canonicalize(folder).map_err(|error| {
                Failure::new(
                    FailureKind::Usage,
                    format!("cannot look for files in `{}`: {error}", folder.display()),
                )
            })
        };
        self.folders.iter().map(real).collect()
    }
}
