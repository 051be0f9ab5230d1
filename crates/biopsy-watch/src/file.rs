//! Reads a file of settings that nobody else could have written.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::text::LONGEST;

/// Why a file of settings is not used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot read the settings `{}`: {error}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// It is a device, a folder, a FIFO.
    #[error("`{}` is no regular file", path.display())]
    NotRegular {
        /// Which file.
        path: PathBuf,
    },
    /// Others may write what biopsy would do as this user.
    #[error("the settings are not used: `{}` {why}", path.display())]
    Others {
        /// The file, or a folder above it.
        path: PathBuf,
        /// Who may write it.
        why: String,
        /// What makes it one's own.
        hint: String,
    },
    /// Not a text, or too long to be one of settings.
    #[error("`{}` is no text of settings: {why}", path.display())]
    NoText {
        /// Which file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
}

impl FileError {
    /// What the reader can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Others { hint, .. } => Some(hint.clone()),
            Self::Read { .. } | Self::NotRegular { .. } | Self::NoText { .. } => None,
        }
    }
}

/// The text of a file; `None`: there is none.
///
/// # Errors
/// [`FileError`]: it cannot be read, or somebody else than root and this user may write it, or exchange it.
pub fn read(path: &Path) -> Result<Option<String>, FileError> {
    let failed = |error: io::Error| FileError::Read { path: path.to_owned(), error };
    // Not blocking: a FIFO is found out before it is waited for.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(error) => return Err(failed(error.into())),
    };
    let meta = file.metadata().map_err(failed)?;
    if !meta.is_file() {
        return Err(FileError::NotRegular { path: path.to_owned() });
    }
    let me = rustix::process::geteuid().as_raw();
    // What was opened, and by what names it was found: links resolved.
    let real = path.canonicalize().map_err(failed)?;
    if let Some((why, hint)) = others(&meta, me, &real, false) {
        return Err(FileError::Others { path: real, why, hint });
    }
    for folder in real.ancestors().skip(1) {
        let meta = folder.metadata().map_err(failed)?;
        if let Some((why, hint)) = others(&meta, me, folder, true) {
            return Err(FileError::Others { path: folder.to_owned(), why, hint });
        }
    }
    let mut bytes = Vec::new();
    file.take(LONGEST as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    let no_text = |why: &str| FileError::NoText { path: path.to_owned(), why: why.to_owned() };
    if bytes.len() > LONGEST {
        return Err(no_text("it has more than 1 MiB"));
    }
    String::from_utf8(bytes).map(Some).map_err(|_| no_text("it is not UTF-8"))
}

/// Who else may write it, and what takes that away.
fn others(meta: &std::fs::Metadata, me: u32, path: &Path, is_folder: bool) -> Option<(String, String)> {
    let shown = path.display();
    if meta.uid() != me && meta.uid() != 0 {
        let hint = format!("settings belong to the user who runs biopsy, or to root: `chown {me} '{shown}'`");
        return Some((format!("belongs to the user {}", meta.uid()), hint));
    }
    // In a sticky folder names of others' files cannot be exchanged.
    let is_sticky = is_folder && meta.mode() & 0o1000 != 0;
    // A group of the user's own number is his alone by custom, and may still have others in it: refused as well.
    if meta.mode() & 0o022 != 0 && !is_sticky {
        return Some(("may be written by others".to_owned(), format!("`chmod go-w '{shown}'`")));
    }
    None
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn files_that_others_may_write_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("diagnostics.json");
        let mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap()
        };
        assert!(read(&path).unwrap().is_none());
        std::fs::write(&path, "{}").unwrap();
        mode(&path, 0o644);
        assert_eq!(read(&path).unwrap().as_deref(), Some("{}"));
        for bad in [0o664, 0o646, 0o666] {
            mode(&path, bad);
            let error = read(&path).unwrap_err();
            assert!(error.to_string().contains("written by others"), "{error}");
            assert!(error.hint().unwrap().starts_with("`chmod go-w"));
        }
        mode(&path, 0o600);
        mode(folder.path(), 0o777);
        assert!(read(&path).is_err(), "its name can be given to another file");
        mode(folder.path(), 0o1777);
        assert!(read(&path).is_ok());
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(read(&link).is_ok());
        assert!(matches!(read(folder.path()), Err(FileError::NotRegular { .. })));
        std::fs::write(&path, b"\xff").unwrap();
        assert!(matches!(read(&path), Err(FileError::NoText { .. })));
        std::fs::write(&path, vec![b' '; LONGEST + 1]).unwrap();
        assert!(matches!(read(&path), Err(FileError::NoText { .. })));
    }
}
