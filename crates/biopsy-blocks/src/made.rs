//! Memory that was made up for a test.

use biopsy_image::{Absence, Image, ImageModule, Mapping, ProcessFacts, ReadError, Thread};

/// Where memory begins that is written piece by piece.
pub(crate) const BASE: u64 = 0x10_0000;

/// Memory in pieces, with nothing in between.
#[derive(Default, Debug)]
pub(crate) struct Pieces {
    /// By address.
    pub(crate) pieces: Vec<(u64, Vec<u8>)>,
    process: ProcessFacts,
}

impl Pieces {
    pub(crate) fn new(pieces: Vec<(u64, Vec<u8>)>) -> Self {
        Self { pieces, ..Self::default() }
    }

    /// Writes bytes into the piece that begins at [`BASE`]: it grows as far as they need it, with zeros in between.
    pub(crate) fn put(&mut self, at: u64, bytes: &[u8]) {
        if self.pieces.is_empty() {
            self.pieces.push((BASE, Vec::new()));
        }
        let piece = &mut self.pieces[0].1;
        let at = (at - BASE) as usize;
        let end = at + bytes.len();
        piece.resize(piece.len().max(end), 0);
        piece[at..end].copy_from_slice(bytes);
    }

    pub(crate) fn word(&mut self, at: u64, word: u64) {
        self.put(at, &word.to_le_bytes());
    }

    /// The byte at an address, if there is one.
    pub(crate) fn byte(&self, at: u64) -> Option<u8> {
        self.pieces
            .iter()
            .find_map(|(start, bytes)| bytes.get(usize::try_from(at.checked_sub(*start)?).ok()?).copied())
    }
}

impl Image for Pieces {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        for (start, bytes) in &self.pieces {
            let at = address.checked_sub(*start).and_then(|at| usize::try_from(at).ok());
            if let Some(rest) = at.and_then(|at| bytes.get(at..)).filter(|rest| !rest.is_empty()) {
                let count = rest.len().min(buffer.len());
                buffer[..count].copy_from_slice(&rest[..count]);
                return Ok(count);
            }
        }
        Err(ReadError::Missing { address, why: Absence::Unmapped })
    }

    fn mappings(&self) -> &[Mapping] {
        &[]
    }

    fn threads(&self) -> &[Thread] {
        &[]
    }

    fn modules(&self) -> &[ImageModule] {
        &[]
    }

    fn process(&self) -> &ProcessFacts {
        &self.process
    }
}
