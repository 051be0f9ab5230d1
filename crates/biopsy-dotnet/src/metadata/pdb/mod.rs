//! Debug information of managed code: which source line each place in the intermediate language of a method was compiled from.
//!
//! It has two forms. Of the portable one (`docs/specs/PortablePdb-Metadata.md` of dotnet/runtime) only the first two tables are needed,
//! documents and the sequence points of methods; they are read as those of an assembly are. The other is that of Windows
//! ([`WindowsPdb`]). Both give the same lines.
//!
//! Debug information lies in a `.pdb` beside the assembly or where the compiler wrote it, or packed inside the assembly
//! ([`find_pdb`]). Its id must be the one that the assembly names: another build's lines would be wrong.

mod either;
mod find;
mod fuzz;
mod portable;
mod sequence_points;
#[cfg(test)]
mod tests;
mod windows;

pub use either::Pdb;
pub use find::{DebugInfo, PdbPlace, debug_info, find_pdb};
pub use fuzz::{fuzz_pdb, fuzz_windows_pdb};
pub use portable::{PortablePdb, SourceLine};
pub use windows::{WindowsId, WindowsPdb};

use super::MetadataError;

/// Why debug information cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PdbError {
    /// A structure is cut or damaged.
    #[error("the debug information is damaged")]
    Damaged(#[from] biopsy_bytes::ReadError),
    /// Its tables are damaged, or there are none.
    #[error("the debug information cannot be read")]
    Metadata(#[from] MetadataError),
    /// The assembly's headers are not those of a PE file, or cut off.
    #[error(transparent)]
    NotPe(#[from] biopsy_image::pe::NotPe),
    /// Something else.
    #[error("not the debug information of Windows: it begins with `{found:#x}`")]
    NotWindows {
        /// First four bytes.
        found: u32,
    },
    /// Something else.
    #[error("not portable debug information: it begins with `{found:#x}`")]
    NotPortable {
        /// First four bytes.
        found: u32,
    },
    /// Larger than any real one.
    #[error("{what} has {found} bytes, limit is {limit}")]
    TooLarge {
        /// What it is.
        what: &'static str,
        /// Bytes.
        found: u64,
        /// How many are accepted.
        limit: u64,
    },
    /// It belongs to another build of the assembly.
    #[error("its id is `{found}`, the assembly's is `{expected}`")]
    AnotherBuild {
        /// Of the debug information.
        found: String,
        /// That the assembly names.
        expected: String,
    },
    /// The packed form cannot be unpacked.
    #[error("the embedded debug information cannot be unpacked")]
    Packed(#[source] std::io::Error),
    /// A file cannot be read.
    #[error("cannot read `{}`", path.display())]
    File {
        /// The file.
        path: std::path::PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}
