//! Why a snapshot of V8 cannot be read.

use std::io;

/// Why a snapshot of V8 cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeapSnapshotError {
    /// The file system refuses.
    #[error("reading failed")]
    Io(#[from] io::Error),
    /// It is no JSON, not whole, or has another form.
    #[error("it is no whole document of that form")]
    Json(#[from] serde_json::Error),
    /// Numbers of different lists do not fit together.
    #[error("`{list}` number {at}: {what}")]
    Unexpected {
        /// Where.
        list: &'static str,
        /// Which of the list's entries.
        at: u64,
        /// What is wrong with it.
        what: &'static str,
    },
}
