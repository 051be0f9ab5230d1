//! What an import may look at beside the file.

use std::path::PathBuf;

use biopsy_stacks::symbols::FileSources;

/// What beside the file itself may be looked at.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Where the recorded programs and their symbols are looked for. Without roots, nothing that the file names is opened, and the
    /// kernel is not asked for its names.
    pub sources: FileSources,
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
