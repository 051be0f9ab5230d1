//! Bytes of mapped files, read from the files: what a process did not write itself need not be read from it.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use biopsy_files::Refused;
use biopsy_image::{Absence, Backing, Mapping, PAGE_SIZE, ReadError};
use rustix::io::{pread, retry_on_intr};

use super::memory::{ProcessMemory, missing};
use crate::process::proc_root::ProcessDir;

impl ProcessMemory {
    /// Reads from the file behind a private mapping, at the place that `address` shows: right for pages that the process
    /// has no copies of its own of. Nothing is faulted into the process.
    ///
    /// # Errors
    /// [`Absence::LeftOut`] where the file cannot be opened, [`Absence::Unreadable`] behind its end and for devices.
    pub fn read_file(&self, mapping: &Mapping, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        self.open_file(mapping, address)?.read(mapping, address, buffer)
    }

    /// Opens the regular file behind a mapping. `address` is for messages.
    ///
    /// # Errors
    /// As [`Self::read_file`].
    pub fn open_file(&self, mapping: &Mapping, address: u64) -> Result<MappedFile, ReadError> {
        let Backing::File { .. } = &mapping.backing else {
            return Err(missing(address, Absence::Unreadable));
        };
        let left_out = || missing(address, Absence::LeftOut);
        let found = locate_mapped(&self.process, mapping).map_err(|_| left_out())?;
        match biopsy_files::open_handle(&found, self.mounts()) {
            Ok(file) => Ok(MappedFile { file }),
            Err(Refused::NotRegular(_)) => Err(missing(address, Absence::Unreadable)),
            Err(_) => Err(left_out()),
        }
    }
}

/// Finds the file behind a mapping without opening it for reading: by the link that the kernel has for it, whatever became of
/// its name. Who may not follow that (it takes CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE, proc_pid_map_files(5)) finds it by its
/// name in the root of the process, if what has that name now is the file that is mapped.
///
/// # Errors
/// What the kernel says of the link, or of the name; `PermissionDenied` where another file has the name.
pub(crate) fn locate_mapped(process: &ProcessDir, mapping: &Mapping) -> io::Result<OwnedFd> {
    let refused = match process.locate(&format!("map_files/{:x}-{:x}", mapping.start, mapping.end)) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => error,
        found => return found,
    };
    let Backing::File { path, deleted: false, identity, .. } = &mapping.backing else { return Err(refused) };
    let found = process.locate_in_root(path)?;
    let facts = rustix::fs::fstat(&found)?;
    if is_same_file((facts.st_dev, facts.st_ino), *identity) { Ok(found) } else { Err(refused) }
}

/// Whether device and inode of a file are those of a mapping. btrfs and overlays show a device of their own for each subvolume
/// or layer in stat(2), and another one in `maps`; both have no device behind them (major number 0).
fn is_same_file((device, inode): (u64, u64), (mapped_device, mapped_inode): (u64, u64)) -> bool {
    let is_virtual = |device| rustix::fs::major(device) == 0;
    inode == mapped_inode && (device == mapped_device || is_virtual(device) && is_virtual(mapped_device))
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

#[cfg(test)]
mod tests {
    use super::is_same_file;

    #[test]
    fn a_file_is_known_by_device_and_inode() {
        let disk = rustix::fs::makedev(254, 0);
        let [subvolume, superblock] = [29, 30].map(|minor| rustix::fs::makedev(0, minor));
        for (file, mapped, same) in [
            ((disk, 7), (disk, 7), true),
            ((disk, 8), (disk, 7), false),
            ((rustix::fs::makedev(254, 1), 7), (disk, 7), false),
            ((subvolume, 7), (superblock, 7), true),
            ((subvolume, 8), (superblock, 7), false),
            ((subvolume, 7), (disk, 7), false),
        ] {
            assert_eq!(is_same_file(file, mapped), same, "{file:?} {mapped:?}");
        }
    }
}
