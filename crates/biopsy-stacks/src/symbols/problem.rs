//! Why some names are missing.

use std::io;
use std::path::PathBuf;

use super::kallsyms::KallsymsError;
use crate::elf::ElfError;

/// Why some names are missing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SymbolProblem {
    /// An ELF file or a part of one.
    #[error(transparent)]
    Elf(#[from] ElfError),
    /// The file at the path is not the one that is mapped.
    #[error("`{path}` has another build id than what is mapped: it was replaced")]
    Replaced {
        /// Path as the target sees it.
        path: String,
    },
    /// The kernel.
    #[error(transparent)]
    Kernel(#[from] KallsymsError),
    /// A perf map or jitdump that exists but cannot be used.
    #[error("cannot use `{}` for the names of compiled code", path.display())]
    Jit {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl SymbolProblem {
    /// What the reader can do.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Kernel(error) => error.hint(),
            _ => None,
        }
    }
}
