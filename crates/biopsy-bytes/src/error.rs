//! What can be wrong with bytes, and where.

use std::fmt;

/// A field that could not be read: which, where, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadError {
    /// Name of the field, as the format's document spells it.
    pub field: &'static str,
    /// Absolute offset of the first byte of the field in its file (or chunk, if the cursor began there).
    pub offset: u64,
    /// What is wrong.
    pub kind: ReadErrorKind,
}

/// Why a field could not be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadErrorKind {
    /// The data ends before the field does.
    UnexpectedEnd {
        /// Bytes the field needs.
        needed: u64,
        /// Bytes that are there.
        found: u64,
    },
    /// A variable-length integer does not fit 64 bits.
    VarintTooLong,
    /// A length or count is over the limit of the reader.
    OverLimit {
        /// What the data claims.
        claimed: u64,
        /// What the reader accepts.
        limit: u64,
    },
    /// A constant (magic number) is another one.
    Unexpected {
        /// What the format says.
        expected: u64,
        /// What is there.
        found: u64,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, offset, kind } = self;
        write!(f, "field `{field}` at offset {offset:#x} ")?;
        match kind {
            ReadErrorKind::UnexpectedEnd { needed, found } => {
                write!(f, "needs {needed} bytes, {found} remain")
            }
            ReadErrorKind::VarintTooLong => write!(f, "is a variable-length integer of more than 64 bits"),
            ReadErrorKind::OverLimit { claimed, limit } => {
                write!(f, "claims {claimed}, the limit is {limit}")
            }
            ReadErrorKind::Unexpected { expected, found } => {
                write!(f, "is {found:#x}, expected {expected:#x}")
            }
        }
    }
}

impl std::error::Error for ReadError {}
