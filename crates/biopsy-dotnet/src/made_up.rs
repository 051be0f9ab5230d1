//! Memory that a test has made up.

use biopsy_image::{Absence, Image, ImageModule, Mapping, ProcessFacts, ReadError, Thread};

/// A few areas of memory.
#[derive(Debug, Default)]
pub(crate) struct MadeUp {
    pub(crate) areas: Vec<(u64, Vec<u8>)>,
    pub(crate) mappings: Vec<Mapping>,
    pub(crate) threads: Vec<Thread>,
    pub(crate) facts: ProcessFacts,
}

impl MadeUp {
    pub(crate) fn new(areas: Vec<(u64, Vec<u8>)>) -> Self {
        Self { areas, ..Self::default() }
    }

    /// Writes a number of 8 bytes, if all of it lies in an area.
    pub(crate) fn put(&mut self, address: u64, value: u64) {
        for (start, bytes) in &mut self.areas {
            let Some(offset) = address.checked_sub(*start).and_then(|offset| usize::try_from(offset).ok())
            else {
                continue;
            };
            if let Some(place) = bytes.get_mut(offset..).and_then(|rest| rest.get_mut(..8)) {
                place.copy_from_slice(&value.to_le_bytes());
            }
        }
    }
}

impl Image for MadeUp {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        for (start, bytes) in &self.areas {
            let Some(offset) = address.checked_sub(*start).and_then(|offset| usize::try_from(offset).ok())
            else {
                continue;
            };
            if let Some(from) = bytes.get(offset..).filter(|from| !from.is_empty()) {
                let length = from.len().min(buffer.len());
                buffer[..length].copy_from_slice(&from[..length]);
                return Ok(length);
            }
        }
        Err(ReadError::Missing { address, why: Absence::Unmapped })
    }

    fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    fn threads(&self) -> &[Thread] {
        &self.threads
    }

    fn modules(&self) -> &[ImageModule] {
        &[]
    }

    fn process(&self) -> &ProcessFacts {
        &self.facts
    }
}
