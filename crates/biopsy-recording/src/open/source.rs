//! Where members are read from: a folder or a zip, behind one face.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;

use biopsy_model::loss::Warning;
use rustix::fs::OFlags;

use super::folder::FolderSource;
use super::zip::ZipSource;
use crate::{Limits, Location, OpenError};

/// A recording's members.
pub(crate) enum Source {
    Folder(FolderSource),
    Zip(ZipSource),
}

impl Source {
    /// Opens a folder or a zip, told by what it is and not by its name.
    pub(crate) fn open(
        location: &Location,
        limits: &Limits,
        warnings: &mut Vec<Warning>,
    ) -> Result<Self, OpenError> {
        let path = location.path();
        // O_NONBLOCK: a FIFO of that name must not stop us; it means nothing for files and folders.
        let mut file = OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open(path)
            .map_err(|e| OpenError::io(path, e))?;
        let metadata = file.metadata().map_err(|e| OpenError::io(path, e))?;
        let not_a_recording = |reason| OpenError::NotARecording { path: path.to_path_buf(), reason };
        if metadata.is_dir() {
            return FolderSource::open(path, limits, warnings).map(Self::Folder);
        }
        if !metadata.is_file() {
            return Err(not_a_recording("it is neither a folder nor a file"));
        }
        let mut start = Vec::new();
        (&mut file).take(32).read_to_end(&mut start).map_err(|e| OpenError::io(path, e))?;
        if start.starts_with(b"PK\x03\x04") || start.starts_with(b"PK\x05\x06") {
            return ZipSource::open(path, Box::new(file), limits, warnings).map(Self::Zip);
        }
        if biopsy_seal::is_sealed(&start) {
            return match location.open_sealed()? {
                Some(mut sealed) => {
                    let mut start = [0; 4];
                    let is_zip = sealed.read_exact(&mut start).is_ok() && start.starts_with(b"PK");
                    if !is_zip {
                        return Err(not_a_recording("what was sealed is no zip"));
                    }
                    ZipSource::open(path, Box::new(sealed), limits, warnings).map(Self::Zip)
                }
                None => {
                    Err(not_a_recording("it is sealed; the key that opens it is named with `--identity`"))
                }
            };
        }
        Err(not_a_recording(if start.is_empty() {
            "it is empty"
        } else if start.starts_with(b"BIOPSYTL") {
            "it is the timeline of one; name the folder it came from"
        } else {
            "it is neither a folder nor a zip"
        }))
    }

    /// Sizes of members by name.
    pub(crate) fn members(&self) -> &BTreeMap<String, u64> {
        match self {
            Self::Folder(folder) => folder.members(),
            Self::Zip(zip) => zip.members(),
        }
    }

    /// Whether there is such a member.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.members().contains_key(name)
    }

    /// Hands a member's bytes to `read`; they end with an error where there are more than the member's size.
    pub(crate) fn with<T>(&mut self, name: &str, read: impl FnOnce(&mut dyn Read) -> T) -> io::Result<T> {
        match self {
            Self::Folder(folder) => {
                let (file, size) = folder.open_member(name)?;
                Ok(read(&mut Claimed { inner: file, left: size }))
            }
            Self::Zip(zip) => zip.with(name, |inner, size| read(&mut Claimed { inner, left: size })),
        }
    }

    /// The bytes of a member that must not have more than `limit`.
    pub(crate) fn bytes(&mut self, name: &str, limit: u64) -> io::Result<Vec<u8>> {
        let claimed = self.members().get(name).copied().unwrap_or_default();
        if claimed > limit {
            let problem = format!("it claims {claimed} bytes, the limit is {limit}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        self.with(name, |reader| {
            let mut bytes = Vec::new();
            reader.take(limit).read_to_end(&mut bytes).map(|_| bytes)
        })?
    }
}

/// Ends with an error where a member has more bytes than it claims: the second half of the defence against zip
/// bombs. (A folder's file that grows meanwhile is a recording in progress: it ends at the size it had.)
struct Claimed<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Claimed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        match self.left.checked_sub(count as u64) {
            Some(left) => self.left = left,
            None => return Err(io::Error::new(io::ErrorKind::InvalidData, "larger than it claims to be")),
        }
        Ok(count)
    }
}
