//! Opening the files that JIT compilers write where everybody may write.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// `O_NONBLOCK` of Linux on x86-64 and aarch64: a FIFO must not block the recorder.
const O_NONBLOCK: i32 = 0o4000;

/// Opens a regular file that belongs to `owner` or to root.
pub(super) fn open_owned(path: &Path, owner: Option<u32>) -> io::Result<(File, Metadata)> {
    let refused = |why| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    if !std::fs::metadata(path)?.is_file() {
        return refused("not a regular file");
    }
    let file = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return refused("not a regular file");
    }
    if owner.is_some_and(|owner| metadata.uid() != owner && metadata.uid() != 0) {
        return refused("belongs to another user");
    }
    Ok((file, metadata))
}
