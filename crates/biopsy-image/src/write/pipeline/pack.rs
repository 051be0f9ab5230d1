//! Packs a block: compressed, as it is, or written to its place at once.

use std::fs::File;
use std::io;
use std::sync::{Mutex, PoisonError};

use zstd::bulk::Compressor;
use zstd::zstd_safe::{CParameter, compress_bound};

use super::super::{Compression, CoreError, raw};

/// A block on its way to the writer.
#[derive(Debug)]
pub(super) enum Packed {
    /// To be written; with the number of bytes of the file that it holds.
    Bytes { bytes: Vec<u8>, content: usize },
    /// Already in the file, that many bytes; or the error that writing gave.
    InPlace { written: io::Result<u64>, content: usize },
}

/// Buffers that were written and may be used again: a fresh one for each block is a fault for each of its pages.
#[derive(Default, Debug)]
pub(super) struct Spare(Mutex<Vec<Vec<u8>>>);

impl Spare {
    /// An empty buffer.
    fn take(&self) -> Vec<u8> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    /// Gives one back.
    pub(super) fn give(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
    }
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

    /// Packs `block`, which begins at `offset` of the file, into one of the spare buffers where one is needed.
    pub(super) fn pack(
        &mut self,
        offset: u64,
        block: &mut Vec<u8>,
        spare: &Spare,
    ) -> Result<Packed, CoreError> {
        let content = block.len();
        match self {
            Self::Zstd(compressor) => {
                let mut bytes = spare.take();
                bytes.reserve(compress_bound(content));
                compressor.compress_to_buffer(block, &mut bytes).map_err(CoreError::Compression)?;
                Ok(Packed::Bytes { bytes, content })
            }
            Self::Plain => Ok(Packed::Bytes { bytes: std::mem::replace(block, spare.take()), content }),
            Self::InPlace(file) => {
                Ok(Packed::InPlace { written: raw::write_sparse(file, offset, block), content })
            }
        }
    }
}
