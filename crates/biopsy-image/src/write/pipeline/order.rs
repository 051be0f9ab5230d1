//! Puts blocks back in order and writes them.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::super::layout::Layout;
use super::super::seekable::SeekTable;
use super::super::{Compression, CoreError, CoreOptions, CoreOutput};
use super::pack::{Packed, Packer, Spare};

/// The output, and what arrived before its turn.
pub(super) struct Ordered<'a> {
    output: CoreOutput<'a>,
    compression: Compression,
    waiting: BTreeMap<u64, Packed>,
    next: u64,
    table: SeekTable,
    written: u64,
    whole: u64,
    logical: u64,
    end_note: u64,
    ceiling: Option<u64>,
}

impl<'a> Ordered<'a> {
    pub(super) fn new(output: CoreOutput<'a>, options: &CoreOptions, layout: &Layout) -> Self {
        // A plain core was planned to fit.
        let ceiling = options.max_size.filter(|_| options.compression != Compression::None);
        Self {
            output,
            compression: options.compression,
            waiting: BTreeMap::new(),
            next: 0,
            table: SeekTable::default(),
            written: 0,
            whole: 0,
            logical: layout.file_size(),
            end_note: layout.end_note(),
            ceiling,
        }
    }

    /// The first block that is not written.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Bytes given to the output.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Bytes of the uncompressed core that are written without a gap.
    pub(super) fn whole(&self) -> u64 {
        self.whole
    }

    /// Whether the ceiling is reached.
    pub(super) fn is_full(&self) -> bool {
        self.ceiling.is_some_and(|ceiling| self.written >= ceiling)
    }

    /// Takes a block; writes it and those that waited for it, when it is its turn, and gives their buffers back.
    pub(super) fn put(&mut self, index: u64, packed: Packed, spare: &Spare) -> Result<(), CoreError> {
        self.waiting.insert(index, packed);
        while let Some(packed) = self.waiting.remove(&self.next) {
            self.write(packed, spare)?;
            self.next += 1;
        }
        Ok(())
    }

    /// Writes the end note and, when compressed, the seek table; flushes.
    pub(super) fn finish(&mut self, end_note: &[u8]) -> Result<(), CoreError> {
        let mut block = end_note.to_vec();
        let mut packer = match (&self.output, self.compression) {
            (CoreOutput::File(file), Compression::None) => Packer::in_place(file),
            (_, compression) => Packer::new(compression).map_err(CoreError::Compression)?,
        };
        let spare = Spare::default();
        let packed = packer.pack(self.end_note, &mut block, &spare)?;
        self.write(packed, &spare)?;
        if matches!(self.compression, Compression::SeekableZstd { .. }) {
            let table = self.table.encode();
            self.give(&table)?;
        }
        match &mut self.output {
            CoreOutput::Stream(stream) => stream.flush().map_err(|source| self.failed(source)),
            // The end of a plain core is zeros that were not written.
            CoreOutput::File(file) if self.compression == Compression::None => {
                file.set_len(self.logical).map_err(|source| self.failed(source))
            }
            CoreOutput::File(_) => Ok(()),
        }
    }

    /// The output failed.
    pub(super) fn failed(&self, source: io::Error) -> CoreError {
        CoreError::Output { written: self.written, whole: self.whole, logical: self.logical, source }
    }

    fn write(&mut self, packed: Packed, spare: &Spare) -> Result<(), CoreError> {
        let content = match packed {
            Packed::Bytes { bytes, content } => {
                if matches!(self.compression, Compression::SeekableZstd { .. }) {
                    self.table.add(&bytes, content);
                }
                self.give(&bytes)?;
                spare.give(bytes);
                content
            }
            Packed::InPlace { written, content } => {
                self.written += written.map_err(|source| self.failed(source))?;
                content
            }
        };
        self.whole += content as u64;
        Ok(())
    }

    fn give(&mut self, bytes: &[u8]) -> Result<(), CoreError> {
        let result = match &mut self.output {
            CoreOutput::File(file) => {
                let mut file = *file;
                file.write_all(bytes)
            }
            CoreOutput::Stream(stream) => stream.write_all(bytes),
        };
        result.map_err(|source| self.failed(source))?;
        self.written += bytes.len() as u64;
        Ok(())
    }
}
