//! A file as it is, and bytes in memory.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use super::{Storage, StorageError};

/// Most holes that are told apart in one question: a file of alternating pages must not fill memory.
const MAX_RUNS: usize = 1 << 16;

/// A file, read with positioned reads. No mapping of it: one that is cut off while it is mapped kills its reader.
#[derive(Debug)]
pub(crate) struct PlainFile {
    file: File,
    len: u64,
}

impl PlainFile {
    pub(crate) fn new(file: File) -> io::Result<Self> {
        let len = file.metadata()?.len();
        Ok(Self { file, len })
    }
}

impl Storage for PlainFile {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, StorageError> {
        loop {
            match self.file.read_at(buffer, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result.map_err(StorageError::Io),
            }
        }
    }

    /// By SEEK_DATA and SEEK_HOLE, lseek(2). The position of the file that they move is used by nobody.
    fn data_runs(&self, range: Range<u64>, runs: &mut Vec<Range<u64>>) {
        let most = runs.len().saturating_add(MAX_RUNS);
        let mut at = range.start;
        while at < range.end {
            let start = match seek(&self.file, SeekFrom::Data(at)) {
                Ok(start) => start,
                // Nothing but a hole up to the end of the file.
                Err(Errno::NXIO) => return,
                Err(_) => at,
            };
            if start >= range.end {
                return;
            }
            let end = seek(&self.file, SeekFrom::Hole(start)).unwrap_or(range.end);
            let end = if end <= start || runs.len() >= most { range.end } else { end.min(range.end) };
            runs.push(start..end);
            at = end;
        }
    }
}

/// Bytes in memory, for fuzzing and tests.
#[derive(Debug)]
pub(crate) struct BytesStorage(pub(crate) Arc<[u8]>);

impl Storage for BytesStorage {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, StorageError> {
        let Some(rest) = usize::try_from(offset).ok().and_then(|offset| self.0.get(offset..)) else {
            return Ok(0);
        };
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}
