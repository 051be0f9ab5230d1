//! Why there is no snapshot.

use biopsy_dotnet::heap::HeapError;
use biopsy_dotnet::runtime::RuntimeError;
use biopsy_model::Pid;
use biopsy_target::freeze::FreezeError;

/// Why there is no snapshot. The process runs on as before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The process cannot be frozen.
    #[error(transparent)]
    Freeze(#[from] FreezeError),
    /// No .NET runtime that can be read from memory is loaded.
    #[error("process {pid} has no .NET runtime that can be read from memory")]
    NoRuntime {
        /// The process.
        pid: Pid,
    },
    /// The runtime is there, and not one that is known.
    #[error("the .NET runtime of process {pid} cannot be read from memory")]
    Runtime {
        /// The process.
        pid: Pid,
        /// Why not.
        #[source]
        source: RuntimeError,
    },
    /// Each time it was frozen, a garbage collection was under way.
    #[error("process {pid} was collecting garbage each of the {attempts} times that it was frozen")]
    AlwaysCollecting {
        /// The process.
        pid: Pid,
        /// How often it was tried.
        attempts: u32,
    },
    /// The heap cannot be walked.
    #[error("the heap of process {pid} cannot be read")]
    Heap {
        /// The process.
        pid: Pid,
        /// Why not.
        #[source]
        source: HeapError,
    },
    /// The frozen copy was ended because memory ran short.
    #[error("the frozen copy of process {pid} was ended because memory ran short")]
    MemoryShort {
        /// The process.
        pid: Pid,
    },
}

impl SnapshotError {
    /// Whether it is of the moment, and may be over a little later: on a machine where the process gets no processor a freeze takes too long.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::AlwaysCollecting { .. } => true,
            Self::Freeze(error) => matches!(
                error,
                FreezeError::NotStopped { .. }
                    | FreezeError::NoSafeThread { .. }
                    | FreezeError::TookTooLong { .. }
            ),
            Self::NoRuntime { .. } | Self::Runtime { .. } | Self::Heap { .. } | Self::MemoryShort { .. } => {
                false
            }
        }
    }

    /// Whether the runtime itself may still be able to tell its heap, where memory is not understood.
    #[must_use]
    pub fn may_ask_the_runtime(&self) -> bool {
        match self {
            Self::NoRuntime { .. }
            | Self::Runtime { .. }
            | Self::AlwaysCollecting { .. }
            | Self::Heap { .. } => true,
            Self::Freeze(error) => !matches!(error, FreezeError::Ended { .. }),
            Self::MemoryShort { .. } => false,
        }
    }
}
