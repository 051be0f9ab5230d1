//! Files that are there whole or not at all.

use std::fs::Permissions;
use std::io::{Result, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Writes a file in the place of the one that is there, down to the disk. Its folder is there. `mode`: its permissions; `None`: for this user alone.
pub(crate) fn write(path: &Path, text: &str, mode: Option<u32>) -> Result<()> {
    let mut file =
        tempfile::Builder::new().prefix(".biopsy-").tempfile_in(path.parent().unwrap_or(Path::new("/")))?;
    if let Some(mode) = mode {
        file.as_file().set_permissions(Permissions::from_mode(mode))?;
    }
    file.write_all(text.as_bytes())?;
    file.as_file().sync_data()?;
    file.persist(path).map(drop).map_err(|error| error.error)
}
