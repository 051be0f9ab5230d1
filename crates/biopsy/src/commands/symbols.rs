//! What is needed to read evidence, beside the evidence: files that it names, and the key to it.

use std::path::{Path, PathBuf};

use biopsy_capture::{Failure, FailureKind};
use biopsy_import::Location;
use biopsy_seal::Identity;
use clap::Args;

/// What is needed to read evidence, beside the evidence.
#[derive(Debug, Default, Args)]
pub(crate) struct SymbolArgs {
    /// Look for the programs and libraries of the process below FOLDER, at the paths that it knew; `/`: on this machine. Only
    /// those are used that are the same. Without it no file is opened because a dump names it. Can be given several times.
    #[arg(long = "symbols", value_name = "FOLDER")]
    folders: Vec<PathBuf>,
    /// The key that opens sealed files, as `age-keygen` writes it. They are read where they are: nothing is decrypted to a disk.
    #[arg(long, value_name = "KEYFILE")]
    identity: Option<PathBuf>,
}

impl SymbolArgs {
    /// A file, and the key to it if it is sealed.
    pub(crate) fn location(&self, file: &Path) -> Result<Location, Failure> {
        let Some(identity) = self.identity.as_ref().filter(|_| is_sealed(file)) else {
            return Ok(file.into());
        };
        let identity = Identity::of_file(identity)
            .map_err(|error| Failure::from_error(FailureKind::BadInput, &error))?;
        Ok(Location::sealed(file, identity))
    }

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

/// Whether it begins as sealed files do. What cannot be read is said by whoever reads it.
fn is_sealed(file: &Path) -> bool {
    let mut start = Vec::new();
    let read = std::fs::File::open(file)
        .and_then(|file| std::io::Read::read_to_end(&mut std::io::Read::take(file, 32), &mut start));
    read.is_ok() && biopsy_seal::is_sealed(&start)
}
