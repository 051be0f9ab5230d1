//! Where the bytes of a copy are.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes that are read from the process at once, on their way to a file.
const AT_ONCE: usize = 1 << 20;

/// The bytes of a copy, one after the other.
pub(super) enum Store {
    /// In memory.
    Memory(Vec<u8>),
    /// In a file, by way of a buffer.
    File { file: File, buffer: Vec<u8> },
}

impl Store {
    pub(super) fn in_memory(bytes: u64) -> Self {
        Self::Memory(vec![0; usize::try_from(bytes).unwrap_or(0)])
    }

    pub(super) fn in_file(file: File) -> Self {
        Self::File { file, buffer: vec![0; AT_ONCE] }
    }

    /// Has `fill` put at most `length` bytes at `at`; returns what it said. `Err`: the file takes no more.
    pub(super) fn put<E>(
        &mut self,
        at: usize,
        length: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> io::Result<Result<usize, E>> {
        match self {
            Self::Memory(bytes) => {
                let place = at.checked_add(length).and_then(|end| bytes.get_mut(at..end));
                Ok(fill(place.unwrap_or_default()))
            }
            Self::File { file, buffer } => {
                let place = buffer.get_mut(..length.min(AT_ONCE)).unwrap_or_default();
                let filled = fill(place);
                if let Ok(read) = filled {
                    let read = place.get(..read).unwrap_or_default();
                    file.write_all_at(read, u64::try_from(at).unwrap_or(u64::MAX))?;
                }
                Ok(filled)
            }
        }
    }

    /// Reads all of `out`, which was put at `at`.
    pub(super) fn read(&self, at: usize, out: &mut [u8]) -> io::Result<()> {
        match self {
            Self::Memory(bytes) => {
                let found = at.checked_add(out.len()).and_then(|end| bytes.get(at..end));
                out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
            Self::File { file, .. } => file.read_exact_at(out, u64::try_from(at).unwrap_or(u64::MAX)),
        }
    }
}
