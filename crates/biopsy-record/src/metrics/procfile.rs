//! Files of `/proc` that are opened once and read again and again from their start.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// More than this of one file is not read: `/proc/stat` of a machine with 1,000 CPUs has about 300 KB.
const LARGEST: usize = 4 << 20;

/// Failures that are kept for telling, of one reading.
const MOST_FAILED: usize = 20;

/// What files are read into, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    /// What could not be read although it may be there, in words.
    pub(crate) failed: Vec<String>,
}

/// The thing is gone, or never was, or is not for us: an empty place in a table says that already.
pub(crate) fn says_that_there_is_none(error: &io::Error) -> bool {
    use libc::{EACCES, EINVAL, ENODEV, ENOENT, ENXIO, EOPNOTSUPP, EPERM, ESRCH};
    error.raw_os_error().is_some_and(|errno| {
        [ENOENT, ESRCH, ENODEV, ENXIO, EACCES, EPERM, EOPNOTSUPP, EINVAL].contains(&errno)
    })
}

/// A file of `/proc` or of a cgroup.
///
/// Keeping it open halves the cost of a reading, and pins its meaning: the file of a thread that ended
/// answers ESRCH, also when its id was given to another one since.
#[derive(Debug)]
pub(crate) struct ProcFile {
    path: PathBuf,
    file: Option<File>,
    /// Opened for each reading, since there are too many files to keep them open.
    keep: bool,
}

impl ProcFile {
    pub(crate) fn new(path: PathBuf, keep: bool) -> ProcFile {
        ProcFile { path, file: None, keep }
    }

    /// Where it is.
    #[cfg(test)]
    pub(crate) fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Reads the whole file into `buffer`, replacing what was there.
    ///
    /// # Errors
    /// When the file cannot be opened or read: the thing it describes is gone, or it is not permitted. Other reasons are kept in
    /// the buffer, to be told.
    pub(crate) fn read<'b>(&mut self, buffer: &'b mut Buffer) -> io::Result<&'b [u8]> {
        self.read_with(buffer, read_all)
    }

    /// Like [`ProcFile::read`], for small files that the kernel writes in one piece (`stat`, `status`, `io`,
    /// `schedstat`): a short read is the end, which saves the second call.
    ///
    /// # Errors
    /// As for [`ProcFile::read`].
    pub(crate) fn read_single<'b>(&mut self, buffer: &'b mut Buffer) -> io::Result<&'b [u8]> {
        self.read_with(buffer, read_single)
    }

    fn read_with<'b>(
        &mut self,
        buffer: &'b mut Buffer,
        read: fn(&File, &'b mut Vec<u8>) -> io::Result<&'b [u8]>,
    ) -> io::Result<&'b [u8]> {
        let Buffer { bytes, failed } = buffer;
        let text = match &self.file {
            Some(file) => read(file, bytes),
            None => biopsy_files::open_kernels(&self.path).and_then(|file| {
                let text = read(&file, bytes);
                if self.keep {
                    self.file = Some(file);
                }
                text
            }),
        };
        if let Err(error) = &text
            && failed.len() < MOST_FAILED
            && !says_that_there_is_none(error)
        {
            failed.push(format!("`{}` could not be read at one reading: {error}", self.path.display()));
        }
        text
    }

    /// The text of the file, or `None` for any reason.
    pub(crate) fn read_ok<'b>(&mut self, buffer: &'b mut Buffer) -> Option<&'b [u8]> {
        self.read(buffer).ok()
    }
}

fn read_single<'b>(file: &File, buffer: &'b mut Vec<u8>) -> io::Result<&'b [u8]> {
    if buffer.len() < 4096 {
        buffer.resize(4096, 0);
    }
    let length = loop {
        match file.read_at(buffer, 0) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => break read?,
        }
    };
    if length == buffer.len() { read_all(file, buffer) } else { Ok(buffer.get(..length).unwrap_or_default()) }
}

fn read_all<'b>(file: &File, buffer: &'b mut Vec<u8>) -> io::Result<&'b [u8]> {
    let mut length = 0;
    loop {
        if buffer.len() - length < 1024 {
            let larger = (buffer.len() * 2).max(4096);
            buffer.resize(larger, 0);
        }
        let room = buffer.get_mut(length..).unwrap_or_default();
        match file.read_at(room, length as u64) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if length >= LARGEST {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "file of `/proc` is larger than 4 MiB"));
        }
    }
    Ok(buffer.get(..length).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_again_from_the_start() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("stat");
        std::fs::write(&path, "one").expect("write");
        let (mut file, mut buffer) = (ProcFile::new(path.clone(), true), Buffer::default());
        assert_eq!(file.read(&mut buffer).expect("readable"), b"one");
        std::fs::write(&path, "longer than before").expect("write");
        assert_eq!(file.read(&mut buffer).expect("readable"), b"longer than before");
        std::fs::write(&path, "x").expect("write");
        assert_eq!(file.read(&mut buffer).expect("readable"), b"x");
    }

    #[test]
    fn too_large_is_an_error() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("stat");
        std::fs::write(&path, vec![b'x'; LARGEST + 1]).expect("write");
        assert!(ProcFile::new(path, false).read(&mut Buffer::default()).is_err());
    }

    #[test]
    fn what_is_gone_is_not_told_and_what_cannot_be_read_is() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut buffer = Buffer::default();
        assert!(ProcFile::new(folder.path().join("none"), true).read_single(&mut buffer).is_err());
        assert!(buffer.failed.is_empty(), "{:?}", buffer.failed);
        // A folder: EISDIR.
        assert!(ProcFile::new(folder.path().to_owned(), true).read_ok(&mut buffer).is_none());
        assert!(buffer.failed[0].contains("could not be read at one reading"), "{:?}", buffer.failed);
    }
}
