//! Members in a folder.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use biopsy_model::loss::Warning;
use rustix::fs::OFlags;

use super::names::{checked_name, is_temporary, shown};
use crate::warn::warning;
use crate::{Limits, OpenError};

/// Regular files below a folder; links, devices and FIFOs are not members.
pub(crate) struct FolderSource {
    base: PathBuf,
    members: BTreeMap<String, u64>,
}

impl FolderSource {
    pub(crate) fn open(path: &Path, limits: &Limits, warnings: &mut Vec<Warning>) -> Result<Self, OpenError> {
        let mut members = BTreeMap::new();
        // Names of folders still to be read, relative to the recording. Depth and length of names are bounded by
        // what may be a name, their number by the limit on members.
        let mut folders = vec![String::new()];
        let mut seen = 0;
        while let Some(folder) = folders.pop() {
            let entries = match fs::read_dir(path.join(&folder)) {
                Ok(entries) => entries,
                Err(error) if folder.is_empty() => return Err(OpenError::io(path, error)),
                Err(error) => {
                    warnings.push(unreadable(&folder, &error));
                    continue;
                }
            };
            for entry in entries {
                let entry = match entry {
                    Ok(entry) => entry,
                    // Its header may be what is missing: then it would be taken for something else.
                    Err(error) if folder.is_empty() => return Err(OpenError::io(path, error)),
                    Err(error) => {
                        warnings.push(unreadable(&folder, &error));
                        break;
                    }
                };
                seen += 1;
                if seen > limits.members {
                    return Err(OpenError::OverLimit {
                        path: path.to_path_buf(),
                        what: "members",
                        claimed: seen as u64,
                        limit: limits.members as u64,
                    });
                }
                let mut name = folder.as_bytes().to_vec();
                if !name.is_empty() {
                    name.push(b'/');
                }
                name.extend_from_slice(entry.file_name().as_bytes());
                let Some(name) = checked_name(&name) else {
                    let message = format!("`{}` left out: not a name a member can have", shown(&name));
                    warnings.push(warning("recording.bad-name", message, None));
                    continue;
                };
                // `DirEntry::metadata` does not follow links.
                match entry.metadata() {
                    Ok(metadata) if metadata.is_dir() => folders.push(name.to_owned()),
                    Ok(metadata) if metadata.is_file() => {
                        if !is_temporary(name) {
                            members.insert(name.to_owned(), metadata.len());
                        }
                    }
                    Ok(_) => {
                        let message = format!("`{name}` left out: it is a link or a special file");
                        warnings.push(warning("recording.not-a-file", message, None));
                    }
                    Err(error) => warnings.push(unreadable(name, &error)),
                }
            }
        }
        Ok(Self { base: path.to_path_buf(), members })
    }

    pub(crate) fn members(&self) -> &BTreeMap<String, u64> {
        &self.members
    }

    /// Opens a member. It ends at the size it had when the folder was read.
    pub(crate) fn open_member(&self, name: &str) -> io::Result<(impl Read + use<>, u64)> {
        let Some(&size) = self.members.get(name) else { return Err(io::ErrorKind::NotFound.into()) };
        let file: File = OpenOptions::new()
            .read(true)
            .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
            .open(self.base.join(name))?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file any more"));
        }
        Ok((file.take(size), size))
    }
}

fn unreadable(name: &str, error: &io::Error) -> Warning {
    warning("recording.unreadable", format!("`{}` left out: {error}", shown(name.as_bytes())), None)
}
