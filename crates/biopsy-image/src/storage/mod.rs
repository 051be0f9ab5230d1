//! Random access to the bytes of a dump, however they are packed.
//!
//! | what the file begins with | how it is read |
//! | --- | --- |
//! | anything else | positioned reads ([`plain`]) |
//! | zstd with a seek table at its end | frames are unpacked when they are needed ([`frames`]) |
//! | zstd of several frames that say their sizes | the same, after a walk over the headers ([`walk`]) |
//! | zstd of one frame, gzip, lz4, xz | unpacked once to an unlinked file ([`unpack`]) |

mod cache;
mod detect;
mod frames;
mod packing;
mod plain;
mod seek_table;
mod unpack;
mod walk;

use std::fmt::Debug;
use std::io;
use std::ops::Range;

pub(crate) use detect::open_storage;
pub use packing::Encoding;
pub(crate) use packing::Unpacked;
pub(crate) use plain::{BytesStorage, PlainFile};

/// Bytes that can be read at any offset, from several threads at once.
pub(crate) trait Storage: Send + Sync + Debug {
    /// How many bytes there are.
    fn len(&self) -> u64;

    /// Reads from `offset` on; fewer bytes than asked for at the end or before a damaged place, 0 only at the end (or
    /// for an empty buffer).
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, StorageError>;

    /// Appends the parts of `range` that are not holes (which read as zeros) of a sparse file.
    fn data_runs(&self, range: Range<u64>, runs: &mut Vec<Range<u64>>) {
        runs.push(range);
    }

    /// Fills `buffer` as far as there are bytes.
    fn read_full(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, StorageError> {
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.read_at(offset.saturating_add(done as u64), rest)? {
                0 => break,
                read => done += read,
            }
        }
        Ok(done)
    }
}

impl biopsy_elf::Source for dyn Storage + '_ {
    type Error = StorageError;

    fn read(&self, at: u64, buffer: &mut [u8]) -> Result<usize, StorageError> {
        self.read_full(at, buffer)
    }
}

/// Bytes could not be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StorageError {
    /// The system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A compressed block is damaged.
    #[error("{what}")]
    Damaged {
        /// What is wrong, with the place in the compressed file.
        what: String,
    },
}

impl From<StorageError> for io::Error {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::Io(error) => error,
            StorageError::Damaged { what } => io::Error::new(io::ErrorKind::InvalidData, what),
        }
    }
}
