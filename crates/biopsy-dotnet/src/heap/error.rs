//! Why a heap cannot be read.

use biopsy_image::ReadError;

use crate::layout::LayoutError;
use crate::runtime::RuntimeError;

/// Why a heap cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeapError {
    /// The image was taken while the collector moved objects.
    #[error("the garbage collector was at work at that moment")]
    Collecting,
    /// The runtime does not show what its collector shows to debuggers.
    #[error("the collector's variables are not known in this runtime")]
    NoVariables,
    /// Memory that the heap is described by is missing.
    #[error("{what} cannot be read")]
    Memory {
        /// What was looked for.
        what: &'static str,
        /// Why not.
        #[source]
        source: ReadError,
    },
    /// The layout lacks something.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The runtime cannot be read.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// A number that cannot be.
    #[error("the collector's variables are damaged: {what} is {found}")]
    Damaged {
        /// Which number.
        what: &'static str,
        /// What it is.
        found: u64,
    },
    /// No segment holds anything: memory of the heap was not dumped, or the runtime had not started.
    #[error("the memory of the heap is not in this image")]
    Empty,
    /// Larger than can be numbered.
    #[error("the heap has {bytes} bytes, more than the {limit} that can be walked")]
    TooLarge {
        /// Bytes.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// References that were spilled cannot be written or read.
    #[error("references cannot be kept on disk")]
    Spill(#[from] std::io::Error),
}

impl HeapError {
    /// Wraps the error of a read.
    pub(super) fn memory(what: &'static str) -> impl Fn(ReadError) -> Self {
        move |source| Self::Memory { what, source }
    }
}
