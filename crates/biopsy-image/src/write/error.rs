//! Why a core could not be written.

use std::io;

use crate::ReadError;

/// A core could not be written, or not to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CoreError {
    /// The image does not say which memory there is. Nothing was written.
    #[error("cannot determine which memory the process has")]
    Image(#[source] ReadError),
    /// The output takes no more.
    #[error("cannot write the core after {written} of about {logical} bytes")]
    Output {
        /// Bytes of the output (compressed, where it is) that are whole.
        written: u64,
        /// Bytes of the uncompressed core that these hold.
        whole: u64,
        /// Size of the uncompressed core in bytes.
        logical: u64,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A block could not be compressed.
    #[error("cannot compress a block of the core")]
    Compression(#[source] io::Error),
    /// Not one thread could be started: limits of tasks or memory of our own. Nothing was written.
    #[error("cannot start a thread that writes")]
    Thread(#[source] io::Error),
    /// The caller wanted no more.
    #[error("stopped after {written} bytes")]
    Stopped {
        /// Bytes of the output that are whole.
        written: u64,
    },
    /// There are more headers than a core can have.
    #[error("{count} segments of memory are more than a core can list")]
    TooManySegments {
        /// How many.
        count: usize,
    },
}
