//! Why a stream cannot be read at all. Lesser damage ends or thins what is read, and is told by the reader.

use biopsy_bytes::ReadError;
use std::io;

/// Why a stream cannot be read (any further).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NettraceError {
    /// The source failed. Nothing is lost: where it was only not ready (`WouldBlock`, `TimedOut`), ask again.
    #[error("cannot read the event stream")]
    Io(#[from] io::Error),
    /// It is something else.
    #[error("not a nettrace stream: it begins with {found:02x?}")]
    NotNettrace {
        /// Its first bytes.
        found: Vec<u8>,
    },
    /// It ends before it has said anything.
    #[error("nettrace stream of {length} bytes ends within its header")]
    TooShort {
        /// Bytes that are there.
        length: u64,
    },
    /// A version that nobody has described yet.
    #[error("nettrace version {version} is not known; 4, 5 and 6 are")]
    Version {
        /// What it says.
        version: u32,
    },
    /// The header is damaged.
    #[error("nettrace header is damaged")]
    Damaged(#[from] ReadError),
}

impl NettraceError {
    /// Whether the source had only nothing to give at this moment.
    #[must_use]
    pub fn is_not_ready(&self) -> bool {
        matches!(self, NettraceError::Io(error)
            if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut))
    }
}
