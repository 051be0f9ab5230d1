//! Bytes of mapped files, read from the files: what a process did not write itself need not be read from it.

use std::fs::File;

use biopsy_files::Refused;
use biopsy_image::{Absence, Backing, Mapping, PAGE_SIZE, ReadError};
use rustix::io::{pread, retry_on_intr};

use super::memory::{ProcessMemory, missing};

impl ProcessMemory {
    /// Reads from the file behind a private mapping, at the place that `address` shows: right for pages that the process
    /// has no copies of its own of. Nothing is faulted into the process.
    ///
    /// # Errors
    /// [`Absence::LeftOut`] where the file cannot be opened (without CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE),
    /// [`Absence::Unreadable`] behind its end and for devices.
    pub fn read_file(&self, mapping: &Mapping, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        self.open_file(mapping, address)?.read(mapping, address, buffer)
    }

    /// Opens the regular file behind a mapping, in the way that the kernel has for it, whatever became of its name. `address`
    /// is for messages.
    ///
    /// # Errors
    /// As [`Self::read_file`].
    pub fn open_file(&self, mapping: &Mapping, address: u64) -> Result<MappedFile, ReadError> {
        let Backing::File { .. } = &mapping.backing else {
            return Err(missing(address, Absence::Unreadable));
        };
        let name = format!("map_files/{:x}-{:x}", mapping.start, mapping.end);
        let left_out = || missing(address, Absence::LeftOut);
        let found = self.process.locate(&name).map_err(|_| left_out())?;
        match biopsy_files::open_handle(&found, self.mounts()) {
            Ok(file) => Ok(MappedFile { file }),
            Err(Refused::NotRegular(_)) => Err(missing(address, Absence::Unreadable)),
            Err(_) => Err(left_out()),
        }
    }
}

/// A file that is mapped. It can be read whatever becomes of the process.
#[derive(Debug)]
pub struct MappedFile {
    file: File,
}

impl MappedFile {
    /// Where its last page ends.
    fn pages(&self) -> u64 {
        self.file.metadata().map_or(0, |meta| meta.len().next_multiple_of(PAGE_SIZE))
    }

    /// The page of `mapping` that the file ends in the middle of: what is behind the end is in memory only.
    #[must_use]
    pub fn cut_page(&self, mapping: &Mapping) -> Option<u64> {
        let Backing::File { offset, .. } = &mapping.backing else { return None };
        let end = self.file.metadata().ok()?.len();
        let page = end - end % PAGE_SIZE;
        let address = mapping.start.checked_add(page.checked_sub(*offset)?)?;
        (end != page && mapping.contains(address)).then_some(address)
    }

    /// Reads what `address` of `mapping` shows of the file.
    ///
    /// # Errors
    /// [`Absence::Unreadable`] behind its end, [`Absence::Unmapped`] outside of the mapping.
    pub fn read(&self, mapping: &Mapping, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        let Backing::File { offset, .. } = &mapping.backing else {
            return Err(missing(address, Absence::Unreadable));
        };
        let at = address.checked_sub(mapping.start).and_then(|inside| offset.checked_add(inside));
        let at = at.filter(|_| mapping.contains(address)).ok_or(missing(address, Absence::Unmapped))?;
        let length = usize::try_from(mapping.end - address).unwrap_or(usize::MAX).min(buffer.len());
        let Some(part) = buffer.get_mut(..length) else { return Ok(0) };
        match retry_on_intr(|| pread(&self.file, &mut *part, at)) {
            // The rest of its last page is there in memory, and zeros.
            Ok(0) if length > 0 && at < self.pages() => {
                let rest = usize::try_from(self.pages() - at).unwrap_or(length).min(length);
                part.get_mut(..rest).unwrap_or_default().fill(0);
                Ok(rest)
            }
            Ok(0) if length > 0 => Err(missing(address, Absence::Unreadable)),
            Ok(read) => Ok(read),
            Err(source) => Err(ReadError::Io { address, source: source.into() }),
        }
    }
}
