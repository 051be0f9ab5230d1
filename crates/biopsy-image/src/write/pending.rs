//! A file that gets its name when it is complete.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A new file beside its future place, readable by its owner only: a dump holds secrets. Removed when it is dropped, unless it
/// was finished or kept.
#[derive(Debug)]
pub struct PendingFile {
    file: File,
    partial: PathBuf,
    path: PathBuf,
    remove: bool,
}

impl PendingFile {
    /// Opens `NAME.partial` for `path`. What is at `path` stays until [`PendingFile::finish`].
    ///
    /// # Errors
    /// The file cannot be made, or is there: somebody else writes it, or it was left by a run that failed.
    pub fn create(path: &Path) -> io::Result<Self> {
        let mut name = path.file_name().map_or_else(OsString::new, OsString::from);
        if name.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no file name"));
        }
        name.push(".partial");
        let partial = path.with_file_name(name);
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&partial)?;
        Ok(Self { file, partial, path: path.to_owned(), remove: true })
    }

    /// The file, to write to.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Where it is until it is finished.
    #[must_use]
    pub fn partial_path(&self) -> &Path {
        &self.partial
    }

    /// Gives it its name. Refuses to replace a file unless `replace`.
    ///
    /// # Errors
    /// There is a file of that name, or it cannot be renamed; the partial file is removed then.
    pub fn finish(mut self, replace: bool) -> io::Result<File> {
        if replace {
            std::fs::rename(&self.partial, &self.path)?;
        } else {
            // A link fails where the name is taken, with no moment in between; filesystems without links get the plain check.
            match std::fs::hard_link(&self.partial, &self.path) {
                Ok(()) => std::fs::remove_file(&self.partial)?,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(error),
                Err(_) if self.path.symlink_metadata().is_ok() => {
                    return Err(io::ErrorKind::AlreadyExists.into());
                }
                Err(_) => std::fs::rename(&self.partial, &self.path)?,
            }
        }
        self.remove = false;
        self.file.try_clone()
    }

    /// Leaves the file under its partial name, because what is in it is better than nothing, and says where.
    #[must_use]
    pub fn keep_partial(mut self) -> PathBuf {
        self.remove = false;
        self.partial.clone()
    }
}

impl Drop for PendingFile {
    fn drop(&mut self) {
        if self.remove {
            // Nothing more can be done about a file that cannot be removed; its name says that it is partial.
            let _ = std::fs::remove_file(&self.partial);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_has_its_name_only_when_it_is_finished() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("core");
        let pending = PendingFile::create(&path).unwrap();
        assert!(PendingFile::create(&path).is_err(), "two writers of one file");
        (&mut pending.file()).write_all(b"memory").unwrap();
        assert!(!path.exists());
        pending.finish(false).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"memory");

        let second = PendingFile::create(&path).unwrap();
        assert_eq!(second.finish(false).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
        PendingFile::create(&path).unwrap().finish(true).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"");
    }

    #[test]
    fn a_file_that_failed_is_removed_or_kept_under_its_partial_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("core.zst");
        drop(PendingFile::create(&path).unwrap());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let kept = PendingFile::create(&path).unwrap().keep_partial();
        assert_eq!(kept, folder.path().join("core.zst.partial"));
        assert!(kept.exists());
    }
}
