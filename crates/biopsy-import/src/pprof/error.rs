//! Why a profile cannot be read at all.

use biopsy_bytes::ReadError;

/// Why a profile cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PprofError {
    /// There is nothing in it.
    #[error("the profile has no samples, or is cut short before its kinds of samples and their names")]
    Empty,
    /// Its first field cannot be read.
    #[error("not a pprof profile")]
    NotOne(#[source] ReadError),
    /// It has numbers, and none of them are time or bytes.
    #[error("the profile holds {kinds}, which biopsy does not read: neither time nor bytes of memory")]
    OtherKinds {
        /// Types and units.
        kinds: String,
    },
}

impl PprofError {
    /// What the reader can do.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Empty => {
                Some("fetch it again: a profile is written at its end, and one that was cut off has no names")
            }
            Self::NotOne(_) => None,
            Self::OtherKinds { .. } => Some(
                "`go tool pprof` shows counts by stack; where goroutines wait and for what, `biopsy stacks PID` says of the process itself",
            ),
        }
    }
}
