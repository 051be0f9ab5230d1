//! Why a runtime, or something in it, cannot be read.

use biopsy_image::ReadError;
use biopsy_model::Avma;

use super::Check;
use crate::layout::LayoutError;
use crate::metadata::MetadataError;

/// Why a runtime, or something in it, cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// Memory is not in the image, or cannot be read.
    #[error(transparent)]
    Memory(#[from] ReadError),
    /// The layout of this version does not say where something is.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The metadata of an assembly cannot be read.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// The layout does not fit the memory: some check failed that must hold.
    #[error("the layout for .NET {version} does not fit this process: {}", failed.first().map_or_else(String::new, Check::failure))]
    DoesNotFit {
        /// Of which runtime.
        version: String,
        /// All checks that failed.
        failed: Vec<Check>,
    },
    /// Something in the memory is not as the layout says.
    #[error("{what} at {address} is not what it should be: {found}")]
    Unexpected {
        /// What was looked at.
        what: &'static str,
        /// Where.
        address: Avma,
        /// What was found there.
        found: String,
    },
    /// A list is longer than any real one, or runs in a circle.
    #[error("{what} has more than {limit} entries")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many are accepted.
        limit: u64,
    },
}

impl RuntimeError {
    /// Whether nothing but checks failed that look at what the program changes all the time ([`Check::moving`]): a thread was
    /// being made or ended, say. Another moment may do; where memory is not frozen, the layout may fit all the same.
    #[must_use]
    pub fn is_of_the_moment(&self) -> bool {
        match self {
            Self::DoesNotFit { failed, .. } => !failed.is_empty() && failed.iter().all(|check| check.moving),
            _ => false,
        }
    }
}
