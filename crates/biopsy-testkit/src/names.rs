//! Names that break careless readers of `/proc`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Each has been seen to break some tool: a space, parentheses as in `/proc/PID/stat`, a newline, bytes that are not
/// UTF-8, what looks like an option, and what looks like a deleted file.
pub const ODD_NAMES: &[&[u8]] = &[
    b"with space",
    b"paren) S 1 (x",
    b"new\nline",
    b"not-\xff\xfe-utf8",
    b"--for=3s",
    b"gone (deleted)",
    b"percent%s%n",
    b"quote'\"<b>",
];

/// Copies `program` into `folder` under an odd name, executable by everyone.
///
/// # Panics
///
/// Where the copy cannot be made.
#[must_use]
pub fn copy_under_odd_name(program: &Path, folder: &Path, name: &[u8]) -> PathBuf {
    let copy = folder.join(OsStr::from_bytes(name));
    std::fs::copy(program, &copy)
        .unwrap_or_else(|error| panic!("cannot copy to {}: {error}", copy.display()));
    std::fs::set_permissions(&copy, PermissionsExt::from_mode(0o755)).expect("the copy is ours");
    copy
}
