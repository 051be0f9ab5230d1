//! Opening the files that JIT compilers write where everybody may write.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use biopsy_files::Links;

/// Opens a regular file that belongs to `owner` or to root.
pub(super) fn open_owned(path: &Path, owner: Option<u32>) -> io::Result<(File, Metadata)> {
    let file = biopsy_files::open(path, Links::Follow)?.file;
    let metadata = file.metadata()?;
    if owner.is_some_and(|owner| metadata.uid() != owner && metadata.uid() != 0) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "belongs to another user"));
    }
    Ok((file, metadata))
}
