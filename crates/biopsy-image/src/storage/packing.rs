//! How a dump is packed, and what one has when it is not any more.

use std::fmt;
use std::sync::Arc;

use biopsy_model::loss::Warning;

use super::Storage;

/// How the file of a dump is packed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Encoding {
    /// Not at all.
    Plain,
    /// zstd with a seek table: read without unpacking it first.
    SeekableZstd,
    /// zstd of several frames without a seek table: read without unpacking it first.
    FramedZstd,
    /// zstd of one frame: unpacked to an unlinked temporary file.
    Zstd,
    /// gzip: unpacked to an unlinked temporary file.
    Gzip,
    /// lz4 (systemd-coredump before version 246): unpacked to an unlinked temporary file.
    Lz4,
    /// xz (systemd-coredump where it has nothing else): unpacked to an unlinked temporary file.
    Xz,
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::SeekableZstd => "zstd with a seek table",
            Self::FramedZstd => "zstd of several frames",
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
            Self::Lz4 => "lz4",
            Self::Xz => "xz",
        })
    }
}

/// A dump that can be read at any offset.
#[derive(Debug)]
pub(crate) struct Unpacked {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) encoding: Encoding,
    pub(crate) warnings: Vec<Warning>,
    /// The compressed file ended early, or is damaged from some place on: the end of `storage` is not the end of the
    /// dump.
    pub(crate) cut: bool,
}
