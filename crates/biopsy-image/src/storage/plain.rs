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

/// A file or a part of it, read with positioned reads. No mapping of it: one that is cut off while it is mapped kills its reader.
#[derive(Debug)]
pub(crate) struct PlainFile {
    file: File,
    /// Offset in the file of the first byte that counts.
    start: u64,
    len: u64,
}

impl PlainFile {
    pub(crate) fn new(file: File) -> io::Result<Self> {
        Self::part(file, 0..u64::MAX)
    }

    /// The bytes of `range`, as far as the file has them.
    pub(crate) fn part(file: File, range: Range<u64>) -> io::Result<Self> {
        let end = file.metadata()?.len().min(range.end);
        Ok(Self { file, start: range.start, len: end.saturating_sub(range.start) })
    }
}

impl Storage for PlainFile {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, StorageError> {
        let left = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX).min(buffer.len());
        let buffer = buffer.get_mut(..left).unwrap_or_default();
        loop {
            match self.file.read_at(buffer, self.start.saturating_add(offset)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result.map_err(StorageError::Io),
            }
        }
    }

    /// By SEEK_DATA and SEEK_HOLE, lseek(2). The position of the file that they move is used by nobody.
    fn data_runs(&self, range: Range<u64>, runs: &mut Vec<Range<u64>>) {
        let most = runs.len().saturating_add(MAX_RUNS);
        let mut at = range.start;
        let in_file = |at: u64| self.start.saturating_add(at);
        while at < range.end {
            let start = match seek(&self.file, SeekFrom::Data(in_file(at))) {
                Ok(start) => start.saturating_sub(self.start),
                // Nothing but a hole up to the end of the file.
                Err(Errno::NXIO) => return,
                Err(_) => at,
            };
            if start >= range.end {
                return;
            }
            let hole = seek(&self.file, SeekFrom::Hole(in_file(start)));
            let end = hole.map_or(range.end, |hole| hole.saturating_sub(self.start));
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
