//! What an import may look at beside the file.

use std::path::PathBuf;

/// What beside the file itself may be looked at.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// Folders below which the recorded programs and their symbols are looked for: `/` for this machine. Without any, nothing
    /// that the file names is opened, and the kernel is not asked for its names.
    pub roots: Vec<PathBuf>,
    /// perf's cache of files by build id (`~/.debug`).
    pub build_id_cache: Option<PathBuf>,
    /// When the file was last written, nanoseconds since 1970-01-01 UTC: about the end of the recording, which perf
    /// does not write down.
    pub modified_unix_nanos: Option<i128>,
}

impl Options {
    /// Nothing but the bytes.
    #[must_use]
    pub fn closed() -> Options {
        Options::default()
    }
}
