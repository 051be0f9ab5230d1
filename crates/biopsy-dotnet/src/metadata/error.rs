//! Why metadata cannot be read.

/// Why an assembly, or something in its metadata, cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MetadataError {
    /// A structure is cut or damaged.
    #[error("metadata is damaged")]
    Damaged(#[from] biopsy_bytes::ReadError),
    /// Its headers are not those of a PE file, or cut off.
    #[error(transparent)]
    NotPe(#[from] biopsy_image::pe::NotPe),
    /// A signature or name is not what it must be.
    #[error("{what} is `{found:#x}`, expected `{expected:#x}`")]
    NotThis {
        /// What was looked at.
        what: &'static str,
        /// What was found.
        found: u64,
        /// What must be there.
        expected: u64,
    },
    /// A row, offset or address is outside of what there is.
    #[error("{what} {index:#x} is out of range, there are {limit:#x}")]
    Outside {
        /// What it counts.
        what: &'static str,
        /// Which one.
        index: u64,
        /// How many there are.
        limit: u64,
    },
    /// It has no such part.
    #[error("there is no {0}")]
    Absent(&'static str),
    /// Larger than any real one.
    #[error("{what} has {found} bytes, limit is {limit}")]
    TooLarge {
        /// What it is.
        what: &'static str,
        /// Bytes.
        found: u64,
        /// How many are accepted.
        limit: u64,
    },
    /// The bytes cannot be read from memory.
    #[error("metadata is not in the image at {address:#x}")]
    Unreadable {
        /// Where.
        address: u64,
    },
}
