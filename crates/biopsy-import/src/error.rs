//! Why a file cannot be imported at all. Lesser damage is a warning in what was imported.

use biopsy_bytes::ReadError;
use std::io;
use std::path::PathBuf;

/// Why a file cannot be imported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is too large to be read into memory.
    #[error("`{}` has {size} bytes, the limit is {limit}", path.display())]
    TooLarge {
        /// Which.
        path: PathBuf,
        /// Its size.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// It is something else.
    #[error("not a perf.data file: it begins with {found:02x?}")]
    NotPerfData {
        /// Its first bytes.
        found: Vec<u8>,
    },
    /// It was recorded on a big-endian machine.
    #[error("perf.data of a big-endian machine is not supported")]
    BigEndian,
    /// A part without which nothing can be read is damaged.
    #[error("perf.data is damaged")]
    Damaged(#[from] ReadError),
    /// Its records are compressed, and none of them can be unpacked.
    #[error("perf.data holds compressed records that cannot be unpacked: {why}")]
    Compressed {
        /// What zstd said.
        why: String,
    },
    /// It describes no event.
    #[error("perf.data describes no event, so its records cannot be read")]
    NoEvents,
    /// It is no event stream of .NET, or of an unknown version.
    #[error(transparent)]
    Nettrace(#[from] biopsy_dotnet::nettrace::NettraceError),
    /// It is no profile of pprof, or one of something that is not read.
    #[error(transparent)]
    Pprof(#[from] crate::pprof::PprofError),
    /// Two events have different layouts, and nothing in the records tells them apart.
    #[error("perf.data holds events of different layouts without ids")]
    Ambiguous,
}

impl ImportError {
    /// What the reader can do.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            ImportError::TooLarge { .. } => Some(
                "record for a shorter time, or with `--call-graph fp`: copied stacks are what makes the file large",
            ),
            ImportError::NotPerfData { .. } => {
                Some("recordings of biopsy are folders or zip files; this reads `perf record`'s output")
            }
            ImportError::BigEndian | ImportError::Ambiguous => {
                Some("use `perf report` or `perf script` on the machine it is from")
            }
            ImportError::NoEvents | ImportError::Damaged(_) | ImportError::Compressed { .. } => {
                Some("perf must end by itself to write a whole file: stop it with Ctrl-C or SIGINT")
            }
            ImportError::Pprof(error) => error.hint(),
            ImportError::Io { .. } | ImportError::Nettrace(_) => None,
        }
    }
}
