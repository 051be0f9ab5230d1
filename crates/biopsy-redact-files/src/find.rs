//! What is to be written again: a file, or all files below a folder.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::RewriteError;
use crate::packing::Packing;

/// Files that are taken at most, so that a list of them always fits memory.
const FILES: usize = 1_000_000;

/// A file that is to be written again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Item {
    /// Where it is.
    pub path: PathBuf,
    /// Its name below the folder that was named; empty: it was named itself.
    pub name: PathBuf,
    /// How it is packed.
    pub packing: Packing,
}

/// What is not written, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeftOut {
    /// Its name below the folder, or of the member below the file.
    pub name: PathBuf,
    /// A few words.
    pub why: String,
}

/// What there is.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Found {
    /// In the order of their names.
    pub items: Vec<Item>,
    /// What is none.
    pub left_out: Vec<LeftOut>,
}

/// Lists what is to be written again. A link that is named itself is followed; below a folder none is.
///
/// # Errors
/// What is named cannot be read, or is neither a file nor a folder.
pub fn find(input: &Path) -> Result<Found, RewriteError> {
    let read = |source| RewriteError::Read { path: input.to_owned(), source };
    let meta = std::fs::metadata(input).map_err(read)?;
    let mut found = Found::default();
    if meta.is_file() {
        match open(input).and_then(Packing::of).map_err(read)? {
            Some(packing) => {
                found.items.push(Item { path: input.to_owned(), name: PathBuf::new(), packing });
            }
            None => found.left_out.push(LeftOut { name: PathBuf::new(), why: BINARY.to_owned() }),
        }
        return Ok(found);
    }
    if !meta.is_dir() {
        return Err(RewriteError::NoFile { path: input.to_owned() });
    }
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let entries = match std::fs::read_dir(input.join(&folder)) {
            Ok(entries) => entries,
            Err(error) if folder.as_os_str().is_empty() => return Err(read(error)),
            Err(error) => {
                found.left_out.push(LeftOut { name: folder, why: error.to_string() });
                continue;
            }
        };
        for entry in entries {
            let entry = entry.map_err(read)?;
            let name = folder.join(entry.file_name());
            let kind = entry.file_type().map_err(read)?;
            if kind.is_dir() {
                folders.push(name);
            } else if !kind.is_file() {
                let why = if kind.is_symlink() { "a link" } else { "no regular file" };
                found.left_out.push(LeftOut { name, why: why.to_owned() });
            } else if found.items.len() >= FILES {
                found.left_out.push(LeftOut { name, why: format!("more than {FILES} files") });
            } else {
                match open_below(&entry.path()).and_then(Packing::of) {
                    Ok(Some(packing)) => found.items.push(Item { path: entry.path(), name, packing }),
                    Ok(None) => found.left_out.push(LeftOut { name, why: BINARY.to_owned() }),
                    Err(error) => found.left_out.push(LeftOut { name, why: error.to_string() }),
                }
            }
        }
    }
    found.items.sort_by(|a, b| a.name.cmp(&b.name));
    found.left_out.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// What is said of a file that holds no text.
pub(crate) const BINARY: &str = "no text: it cannot be looked into";

/// Opens what was named: its links are followed, it must be a regular file, and nothing waits.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    open_with(path, OFlags::empty())
}

/// Opens what a folder holds: no link is followed.
pub(crate) fn open_below(path: &Path) -> io::Result<File> {
    open_with(path, OFlags::NOFOLLOW)
}

fn open_with(path: &Path, more: OFlags) -> io::Result<File> {
    // A FIFO or a device is opened without waiting, and refused.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC | more;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"))
}
