//! Why memory cannot be read.

use std::{fmt, io};

use biopsy_model::dump::Reason;

/// Why a byte is not in an image.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Absence {
    /// No mapping covers the address.
    Unmapped,
    /// The process itself may not read it (`PROT_NONE`), or the kernel does not give it out (`VM_IO`).
    Unreadable,
    /// It was mapped, but whoever wrote the dump left it out.
    LeftOut,
    /// It was mapped, but dumps of this kind do not have it, whether the process wrote it or not.
    NotOfKind,
    /// It was mapped, but the dump had reached its size limit.
    OverLimit,
    /// It was mapped, but there was no time to copy it while the process stood still.
    NoTime,
    /// It should be in the file, but the file ends before.
    Truncated,
    /// The process, or the frozen copy of it, is gone.
    Gone,
}

impl Absence {
    /// What a reader answers for a byte that was left out of a dump for this reason; `None`: it is known to be zero.
    #[must_use]
    pub fn of(reason: Reason) -> Option<Self> {
        match reason {
            Reason::Zero => None,
            Reason::InFile => Some(Self::LeftOut),
            Reason::Kind => Some(Self::NotOfKind),
            Reason::Ceiling => Some(Self::OverLimit),
            Reason::Unreadable | Reason::Device => Some(Self::Unreadable),
            Reason::Gone => Some(Self::Gone),
            Reason::NoTime => Some(Self::NoTime),
        }
    }
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unmapped => "nothing is mapped there",
            Self::Unreadable => "the process itself may not read it",
            Self::LeftOut => "whoever wrote the dump left it out",
            Self::NotOfKind => "dumps of this kind do not have it",
            Self::OverLimit => "it was left out above the size limit of the dump",
            Self::NoTime => "there was no time to copy it while the process stood still",
            Self::Truncated => "the file ends before it",
            Self::Gone => "the process is gone",
        })
    }
}

/// Memory could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The image does not have this byte.
    #[error("memory at {address:#x} is not in the image: {why}")]
    Missing {
        /// The first byte that is missing.
        address: u64,
        /// Why.
        why: Absence,
    },
    /// The source could not be read.
    #[error("cannot read memory at {address:#x}")]
    Io {
        /// From where on.
        address: u64,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The source is damaged there (a compressed block whose checksum is wrong, for example).
    #[error("memory at {address:#x} is damaged in the dump: {what}")]
    Damaged {
        /// From where on.
        address: u64,
        /// What is wrong.
        what: String,
    },
}

impl ReadError {
    /// Whether the byte is just not there, as opposed to a failure.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, ReadError::Missing { .. })
    }
}
