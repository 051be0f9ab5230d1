//! New lines of a log file, from its end on, through rotation.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Longest line that is matched; the rest of a longer one is matched as further lines.
const LINE: usize = 64 << 10;
/// Most bytes read at one look. What a program writes faster than this is matched later.
const AT_ONCE: usize = 8 << 20;

/// Follows one file by its name.
#[derive(Debug)]
pub(super) struct LogTail {
    path: PathBuf,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    /// Device and inode.
    identity: (u64, u64),
    position: u64,
    /// The beginning of a line whose end is not written yet.
    part: Vec<u8>,
}

impl LogTail {
    /// From the end of the file as it is now; from the start of one that appears later.
    pub(super) fn new(path: PathBuf) -> Self {
        let open = Open::at(&path, true).ok();
        Self { path, open }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Calls `each` with every line that is new. It ends early when `each` says so; the other lines come next time.
    pub(super) fn read(&mut self, mut each: impl FnMut(&[u8]) -> bool) -> io::Result<()> {
        if self.open.is_none() {
            match Open::at(&self.path, false) {
                Ok(open) => self.open = Some(open),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        if !open.read(&mut each)? {
            return Ok(());
        }
        // Everything is read: is the name another file's by now?
        let now = biopsy_files::open(&self.path, biopsy_files::Links::Follow).map_err(io::Error::from);
        let now = now.and_then(|opened| opened.file.metadata());
        let moved = match &now {
            Ok(now) => identity(now) != open.identity,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        if moved {
            // A last line without an end is a line once nothing more can come.
            let part = std::mem::take(&mut open.part);
            self.open = None;
            if !part.is_empty() && !each(&part) {
                return Ok(());
            }
            if now.is_ok() {
                return self.read(each);
            }
        }
        Ok(())
    }
}

impl Open {
    fn at(path: &Path, at_end: bool) -> io::Result<Self> {
        let mut file = biopsy_files::open(path, biopsy_files::Links::Follow)?.file;
        let metadata = file.metadata()?;
        let position = if at_end { file.seek(SeekFrom::End(0))? } else { 0 };
        Ok(Self { identity: identity(&metadata), file, position, part: Vec::new() })
    }

    /// True: everything there is has been read.
    fn read(&mut self, each: &mut impl FnMut(&[u8]) -> bool) -> io::Result<bool> {
        // Emptied by its writer (copytruncate): what follows begins at the start.
        if self.file.metadata()?.len() < self.position {
            self.position = 0;
            self.part.clear();
        }
        self.file.seek(SeekFrom::Start(self.position))?;
        let mut buffer = vec![0; 64 << 10];
        let mut total = 0;
        loop {
            let length = match self.file.read(&mut buffer) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let mut new = buffer.get(..length).unwrap_or_default();
            if new.is_empty() {
                return Ok(true);
            }
            while !new.is_empty() {
                let end = memchr::memchr(b'\n', new);
                let taken = end.map_or(new.len(), |end| end + 1).min(LINE);
                let (line, rest) = new.split_at(taken);
                new = rest;
                self.position += taken as u64;
                self.part.extend_from_slice(line);
                if line.ends_with(b"\n") || self.part.len() >= LINE {
                    let line = std::mem::take(&mut self.part);
                    if !each(line.trim_ascii_end()) {
                        return Ok(false);
                    }
                }
            }
            total += length;
            if total >= AT_ONCE {
                return Ok(false);
            }
        }
    }
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn lines(tail: &mut LogTail) -> Vec<String> {
        let mut lines = Vec::new();
        let mut each = |line: &[u8]| {
            lines.push(String::from_utf8_lossy(line).into_owned());
            true
        };
        tail.read(&mut each).unwrap();
        lines
    }

    fn append(path: &Path, text: &str) {
        File::options().append(true).create(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
    }

    #[test]
    fn only_new_whole_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        append(&path, "old\nhalf of ");
        let mut tail = LogTail::new(path.clone());
        assert!(lines(&mut tail).is_empty());
        append(&path, "a line\r\nnew");
        assert_eq!(lines(&mut tail), ["a line"]);
        append(&path, "er\n");
        assert_eq!(lines(&mut tail), ["newer"]);
    }

    #[test]
    fn rotation_by_another_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        append(&path, "old\n");
        let mut tail = LogTail::new(path.clone());
        append(&path, "last\nwithout end");
        std::fs::rename(&path, folder.path().join("log.1")).unwrap();
        append(&path, "first\n");
        assert_eq!(lines(&mut tail), ["last", "without end", "first"]);
        std::fs::remove_file(&path).unwrap();
        assert!(lines(&mut tail).is_empty());
        assert!(lines(&mut tail).is_empty());
        append(&path, "again\n");
        assert_eq!(lines(&mut tail), ["again"]);
    }

    #[test]
    fn rotation_by_emptying() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        append(&path, "a long old line\n");
        let mut tail = LogTail::new(path.clone());
        File::create(&path).unwrap();
        append(&path, "new\n");
        assert_eq!(lines(&mut tail), ["new"]);
    }

    #[test]
    fn a_file_that_appears_later_is_read_from_its_start() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut tail = LogTail::new(path.clone());
        assert!(lines(&mut tail).is_empty());
        append(&path, "first\n");
        assert_eq!(lines(&mut tail), ["first"]);
    }

    #[test]
    fn lines_without_end_are_bounded_and_an_early_end_loses_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut tail = LogTail::new(path.clone());
        append(&path, &"x".repeat(3 * LINE / 2));
        assert_eq!(lines(&mut tail).iter().map(String::len).collect::<Vec<_>>(), [LINE]);
        append(&path, "\none\ntwo\n");
        let mut seen = Vec::new();
        tail.read(|line| {
            seen.push(line.len());
            false
        })
        .unwrap();
        assert_eq!(seen, [LINE / 2]);
        assert_eq!(lines(&mut tail), ["one", "two"]);
    }

    #[test]
    fn devices_are_no_logs() {
        assert!(LogTail::new(PathBuf::from("/dev/null")).read(|_| true).is_err());
    }
}
