//! Where bytes come from.

use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use object::pod::{Pod, slice_from_bytes};

/// Bytes that can be read at any place: an offset in a file, or an address in a process.
pub trait Source {
    /// What is said of a read that fails; [`Infallible`] where bytes are there or not, and nothing more is known.
    type Error;

    /// Reads from `at` on into `buffer` and says how many bytes it were: fewer than asked for only where the next one is not
    /// there.
    ///
    /// # Errors
    /// The source failed. Bytes that are not there are no error.
    fn read(&self, at: u64, buffer: &mut [u8]) -> Result<usize, Self::Error>;
}

impl Source for [u8] {
    type Error = Infallible;

    fn read(&self, at: u64, buffer: &mut [u8]) -> Result<usize, Infallible> {
        let rest = usize::try_from(at).ok().and_then(|at| self.get(at..)).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

/// Positioned reads: a file that shrinks meanwhile is shorter, where a mapping of it would give SIGBUS.
impl Source for File {
    type Error = io::Error;

    fn read(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.read_at(rest, at.saturating_add(done as u64)) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Beyond what an offset can be is beyond the end.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }
}

/// The memory of a process, by a function that reads from an address on and says how many bytes it were.
#[derive(Clone, Copy, Debug)]
pub struct Memory<F>(pub F);

impl<F: Fn(u64, &mut [u8]) -> usize> Source for Memory<F> {
    type Error = Infallible;

    fn read(&self, at: u64, buffer: &mut [u8]) -> Result<usize, Infallible> {
        Ok((self.0)(at, buffer).min(buffer.len()))
    }
}

/// Bytes are read in steps of this size, so that memory is taken for what is there.
pub(crate) const STEP: u64 = 1 << 20;

/// As many bytes as there are from `at` on, up to `size`, which the caller has bounded.
///
/// # Errors
/// What the source says.
pub fn read_up_to<S: Source + ?Sized>(source: &S, at: u64, size: u64) -> Result<Vec<u8>, S::Error> {
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < size {
        let start = bytes.len();
        let step = (size - start as u64).min(STEP) as usize;
        let Some(from) = at.checked_add(start as u64) else { break };
        bytes.resize(start + step, 0);
        let read = source.read(from, &mut bytes[start..])?.min(step);
        bytes.truncate(start + read);
        if read < step {
            break;
        }
    }
    Ok(bytes)
}

/// The bytes as a table of structures of [`crate::raw`]; what is left over at the end is no row.
///
/// ```
/// use biopsy_elf::{LE, raw, rows};
///
/// let bytes = [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0xff];
/// let entries = rows::<raw::Dyn64<_>>(&bytes);
/// assert_eq!((entries.len(), entries[0].d_tag.get(LE), entries[0].d_val.get(LE)), (1, raw::DT_NEEDED, 2));
/// ```
#[must_use]
pub fn rows<T: Pod>(bytes: &[u8]) -> &[T] {
    let count = bytes.len().checked_div(size_of::<T>()).unwrap_or(0);
    slice_from_bytes(bytes, count).map_or(&[], |(rows, _)| rows)
}
