//! What can be wrong with an ELF file.

use std::convert::Infallible;

/// Why a file cannot be read. `E` is what its source says of reads that fail.
#[derive(Debug, thiserror::Error)]
pub enum Problem<E> {
    /// The source failed.
    #[error("it cannot be read")]
    Source(E),
    /// No ELF magic.
    #[error("it is not an ELF file")]
    NotElf,
    /// ELF, but not 64-bit little-endian.
    #[error("it is ELF of class {class}, data encoding {encoding}; 64-bit little-endian is read")]
    Unsupported {
        /// `EI_CLASS`: 1 for 32-bit.
        class: u8,
        /// `EI_DATA`: 2 for big-endian.
        encoding: u8,
        /// `e_machine`; 0 where the file ends before.
        machine: u16,
    },
    /// The source ends in a structure.
    #[error("the file ends in {what} at {at:#x}: {size} bytes are needed, {found} are there")]
    CutShort {
        /// Which one.
        what: &'static str,
        /// Where it should be, in the file or in memory.
        at: u64,
        /// Its size in bytes.
        size: u64,
        /// How many bytes are there.
        found: u64,
    },
    /// Rows of a table have a size that no writer has.
    #[error("{what} of {size} bytes each")]
    RowSize {
        /// Of which table.
        what: &'static str,
        /// Size in bytes of one row.
        size: u16,
    },
}

impl Problem<Infallible> {
    /// The same of a source that could have failed.
    #[must_use]
    pub fn widen<E>(self) -> Problem<E> {
        match self {
            Self::Source(never) => match never {},
            Self::NotElf => Problem::NotElf,
            Self::Unsupported { class, encoding, machine } => {
                Problem::Unsupported { class, encoding, machine }
            }
            Self::CutShort { what, at, size, found } => Problem::CutShort { what, at, size, found },
            Self::RowSize { what, size } => Problem::RowSize { what, size },
        }
    }
}
