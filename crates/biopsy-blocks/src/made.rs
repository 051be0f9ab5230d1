//! A piece of memory that was made up for a test.

use biopsy_image::{Absence, Image, ImageModule, Mapping, ProcessFacts, ReadError, Thread};

/// Where it begins.
pub(crate) const BASE: u64 = 0x10_0000;

#[derive(Default)]
pub(crate) struct Flat {
    pub(crate) bytes: Vec<u8>,
    process: ProcessFacts,
}

impl Flat {
    pub(crate) fn put(&mut self, at: u64, bytes: &[u8]) {
        let at = (at - BASE) as usize;
        let end = at + bytes.len();
        self.bytes.resize(self.bytes.len().max(end), 0);
        self.bytes[at..end].copy_from_slice(bytes);
    }

    pub(crate) fn word(&mut self, at: u64, word: u64) {
        self.put(at, &word.to_le_bytes());
    }
}

impl Image for Flat {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        let missing = || ReadError::Missing { address, why: Absence::Unmapped };
        let at = address.checked_sub(BASE).and_then(|at| usize::try_from(at).ok()).ok_or_else(missing)?;
        let rest = self.bytes.get(at..).filter(|rest| !rest.is_empty()).ok_or_else(missing)?;
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
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
