//! Packs a block: compressed, as it is, or written to its place at once.

use std::fs::File;
use std::io;

use zstd::bulk::Compressor;
use zstd::zstd_safe::CParameter;

use super::super::{Compression, CoreError, raw};

/// A block on its way to the writer.
#[derive(Debug)]
pub(super) enum Packed {
    /// To be written; with the number of bytes of the file that it holds.
    Bytes { bytes: Vec<u8>, content: usize },
    /// Already in the file, that many bytes; or the error that writing gave.
    InPlace { written: io::Result<u64>, content: usize },
}

/// Packs blocks on one thread.
pub(super) enum Packer<'a> {
    Zstd(Compressor<'static>),
    Plain,
    InPlace(&'a File),
}

impl<'a> Packer<'a> {
    pub(super) fn new(compression: Compression) -> io::Result<Self> {
        match compression {
            Compression::None => Ok(Self::Plain),
            Compression::SeekableZstd { level } => {
                let mut compressor = Compressor::new(level)?;
                compressor.set_parameter(CParameter::ChecksumFlag(true))?;
                compressor.set_parameter(CParameter::ContentSizeFlag(true))?;
                Ok(Self::Zstd(compressor))
            }
        }
    }

    pub(super) fn in_place(file: &'a File) -> Self {
        Self::InPlace(file)
    }

    /// Packs `block`, which begins at `offset` of the file.
    pub(super) fn pack(&mut self, offset: u64, block: &mut Vec<u8>) -> Result<Packed, CoreError> {
        let content = block.len();
        match self {
            Self::Zstd(compressor) => {
                let bytes = compressor.compress(block).map_err(CoreError::Compression)?;
                Ok(Packed::Bytes { bytes, content })
            }
            Self::Plain => Ok(Packed::Bytes { bytes: std::mem::take(block), content }),
            Self::InPlace(file) => {
                Ok(Packed::InPlace { written: raw::write_sparse(file, offset, block), content })
            }
        }
    }
}
