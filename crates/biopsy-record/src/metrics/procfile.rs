//! Files of `/proc` that are opened once and read again and again from their start.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// More than this of one file is not read: `/proc/stat` of a machine with 1,000 CPUs has about 300 KB.
const LARGEST: usize = 4 << 20;

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

    /// Reads the whole file into `buffer`, replacing what was there.
    ///
    /// # Errors
    /// When the file cannot be opened or read: the thing it describes is gone, or it is not permitted.
    pub(crate) fn read<'b>(&mut self, buffer: &'b mut Vec<u8>) -> io::Result<&'b [u8]> {
        let opened;
        let file = match &self.file {
            Some(file) => file,
            None => {
                opened = biopsy_files::open_kernels(&self.path)?;
                if self.keep { self.file.insert(opened) } else { &opened }
            }
        };
        read_all(file, buffer)
    }

    /// Like [`ProcFile::read`], for small files that the kernel writes in one piece (`stat`, `status`, `io`,
    /// `schedstat`): a short read is the end, which saves the second call.
    ///
    /// # Errors
    /// As for [`ProcFile::read`].
    pub(crate) fn read_single<'b>(&mut self, buffer: &'b mut Vec<u8>) -> io::Result<&'b [u8]> {
        if buffer.len() < 4096 {
            buffer.resize(4096, 0);
        }
        let opened;
        let file = match &self.file {
            Some(file) => file,
            None => {
                opened = biopsy_files::open_kernels(&self.path)?;
                if self.keep { self.file.insert(opened) } else { &opened }
            }
        };
        let length = file.read_at(buffer, 0)?;
        if length == buffer.len() {
            read_all(file, buffer)
        } else {
            Ok(buffer.get(..length).unwrap_or_default())
        }
    }

    /// The text of the file, or `None` for any reason.
    pub(crate) fn read_ok<'b>(&mut self, buffer: &'b mut Vec<u8>) -> Option<&'b [u8]> {
        self.read(buffer).ok()
    }
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
        let (mut file, mut buffer) = (ProcFile::new(path.clone(), true), Vec::new());
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
        assert!(ProcFile::new(path, false).read(&mut Vec::new()).is_err());
    }
}
