//! What can be wrong with an ELF file.

use std::io;
use std::path::PathBuf;

use biopsy_elf::Problem;

use super::bytes::Bytes;

/// Why a file gave no unwind information or names. Never fatal for a recording: the frames of that file are then
/// shown as module + offset.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ElfError {
    /// The file system said no.
    #[error("cannot read `{}`", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// A folder, FIFO, socket or device.
    #[error("`{}` is not a regular file", path.display())]
    NotRegular {
        /// The file.
        path: PathBuf,
    },
    /// No ELF magic.
    #[error("`{}` is not an ELF file", path.display())]
    NotElf {
        /// The file.
        path: PathBuf,
    },
    /// ELF, but not of a kind that is read here.
    #[error("`{}` is ELF of class {class}, data encoding {encoding}, machine {machine}; 64-bit little-endian is read", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// `EI_CLASS`.
        class: u8,
        /// `EI_DATA`.
        encoding: u8,
        /// `e_machine`.
        machine: u16,
    },
    /// A table or section reaches past the end of the file.
    #[error("`{}`: {what} at offset {offset:#x} needs {size} bytes, the file has {available}", path.display())]
    CutShort {
        /// The file.
        path: PathBuf,
        /// Which part.
        what: &'static str,
        /// Where it should be.
        offset: u64,
        /// How long it claims to be, in bytes.
        size: u64,
        /// Length of the file, in bytes.
        available: u64,
    },
    /// A size above the limit.
    #[error("`{}`: {what} claims {size} bytes, the limit is {limit}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Which part.
        what: &'static str,
        /// What it claims, in bytes.
        size: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// A compressed section that does not decompress to what it claims.
    #[error("`{}`: compressed section `{section}` is damaged or of an unknown kind", path.display())]
    Compression {
        /// The file.
        path: PathBuf,
        /// Section name.
        section: String,
    },
    /// Debug information that cannot be parsed.
    #[error("`{}`: debug information is damaged", path.display())]
    DebugInfo {
        /// The file.
        path: PathBuf,
    },
    /// Inlined calls in one another, more than any compiler makes.
    #[error("`{}`: inlined calls of its debug information are nested too deep to be read", path.display())]
    TooDeep {
        /// The file.
        path: PathBuf,
    },
    /// None of the candidate paths could be opened; the last error.
    #[error("none of {count} candidate paths for `{label}` could be read")]
    NoCandidate {
        /// What was looked for.
        label: String,
        /// How many paths were tried.
        count: usize,
        /// What the last one said.
        #[source]
        last: Option<Box<ElfError>>,
    },
}

impl ElfError {
    /// What is wrong with the headers of a file.
    pub(super) fn of(bytes: &Bytes, problem: Problem<io::Error>) -> Self {
        let path = bytes.label().to_owned();
        match problem {
            Problem::Source(source) => bytes.failed(source),
            Problem::NotElf | Problem::RowSize { .. } => Self::NotElf { path },
            Problem::Unsupported { class, encoding, machine } => {
                Self::Unsupported { path, class, encoding, machine }
            }
            Problem::CutShort { what, at: offset, size, .. } => {
                Self::CutShort { path, what, offset, size, available: bytes.len() }
            }
        }
    }
}
