//! Why a dump could not be opened, and what the user can do.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::storage::StorageError;

/// A dump could not be opened.
#[derive(Debug)]
pub struct OpenError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong. It is in the message; its own cause, if it has one, is the source.
    pub problem: OpenProblem,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot open `{}` as a dump: {}", self.path.display(), self.problem)
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.problem.source()
    }
}

impl OpenError {
    /// What the user can do, where that is known.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match &self.problem {
            OpenProblem::OtherPacking { command, .. } => {
                Some(format!("unpack it first: `{command} {}`", self.path.display()))
            }
            OpenProblem::NoRoom { .. } => {
                Some("set TMPDIR to a folder that has room for the unpacked dump".to_owned())
            }
            OpenProblem::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                Some("cores are readable by their owner only; run as that user or as root".to_owned())
            }
            OpenProblem::NotAFile { what: "a pipe" } => {
                Some("a dump is read at many places; write it to a file first".to_owned())
            }
            OpenProblem::NotACore { .. } => {
                Some("give the core that the process left; this is a program or library file".to_owned())
            }
            _ => None,
        }
    }
}

/// Why a dump could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenProblem {
    /// The system refused.
    #[error("cannot {doing} it")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// Not a regular file.
    #[error("it is {what}")]
    NotAFile {
        /// What it is.
        what: &'static str,
    },
    /// Packed in a way that is not read.
    #[error("it is packed as {format}")]
    OtherPacking {
        /// How.
        format: &'static str,
        /// The program that unpacks it.
        command: &'static str,
    },
    /// Neither a core nor a minidump.
    #[error("{what}")]
    NotADump {
        /// What it is instead, as far as can be told.
        what: &'static str,
    },
    /// ELF, but not a core.
    #[error("it is an ELF file of type {e_type}, not a core (type 4)")]
    NotACore {
        /// `e_type` of the ELF header.
        e_type: u16,
    },
    /// A core or minidump of a kind of process that is not supported.
    #[error("it is of {what}, which is not supported")]
    Unsupported {
        /// Of what.
        what: String,
    },
    /// A header is cut off or contradicts itself.
    #[error("it is damaged: {field}")]
    Header {
        /// Which field, where.
        field: biopsy_bytes::ReadError,
    },
    /// Damaged so much that nothing can be shown.
    #[error("it is damaged: {what}")]
    Damaged {
        /// What and where.
        what: String,
    },
    /// It asks for more than the limits.
    #[error("it has {found} {what}, the limit is {limit}")]
    OverLimit {
        /// Of what.
        what: &'static str,
        /// How much it has.
        found: u64,
        /// The limit.
        limit: u64,
    },
    /// The temporary file could not be made or written.
    #[error("cannot unpack it to a temporary file in `{}`", folder.display())]
    NoRoom {
        /// Where.
        folder: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

impl From<biopsy_bytes::ReadError> for OpenProblem {
    fn from(field: biopsy_bytes::ReadError) -> Self {
        Self::Header { field }
    }
}

impl From<StorageError> for OpenProblem {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::Io(source) => Self::Io { doing: "read", source },
            StorageError::Damaged { what } => Self::Damaged { what },
        }
    }
}
