//! What can be read after the frozen copy was ended: files, and memory that is shared as files are.

use std::collections::BTreeMap;
use std::ops::Range;

use biopsy_image::{Absence, Backing, Mapping, ReadError};

use crate::address_space::{MappedFile, ProcessMemory};

/// Most files that are held open.
const FILES: usize = 512;

/// The files behind all mappings, held open: the process may end meanwhile.
#[derive(Debug, Default)]
pub(super) struct Thawed {
    /// By the mapping's start.
    files: BTreeMap<u64, MappedFile>,
    /// Parts of shared mappings that hold data.
    data: Vec<Range<u64>>,
}

impl Thawed {
    /// Opens all files. `None`: there are too many, or one cannot be opened; then only the frozen copy has it.
    pub(super) fn open(live: &ProcessMemory, mappings: &[Mapping]) -> Option<Self> {
        let mut thawed = Self::default();
        for one in mappings.iter().filter(|one| one.protection.read && is_file(one)) {
            if thawed.files.len() >= FILES {
                return None;
            }
            match live.open_file(one, one.start) {
                Ok(file) => drop(thawed.files.insert(one.start, file)),
                // A device: nobody reads it.
                Err(ReadError::Missing { why: Absence::Unreadable, .. }) => continue,
                Err(_) => return None,
            }
            if one.shared {
                live.written(one, one.range(), &mut thawed.data).ok()?;
            }
        }
        Some(thawed)
    }

    pub(super) fn read(&self, one: &Mapping, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        match self.files.get(&one.start) {
            Some(file) => file.read(one, address, buffer),
            None => Err(ReadError::Missing { address, why: Absence::Gone }),
        }
    }

    /// The parts of `range`, of a shared mapping, that hold data.
    pub(super) fn written(&self, range: &Range<u64>, runs: &mut Vec<Range<u64>>) {
        let first = self.data.partition_point(|run| run.end <= range.start);
        let inside = self.data.iter().skip(first).take_while(|run| run.start < range.end);
        runs.extend(inside.map(|run| run.start.max(range.start)..run.end.min(range.end)));
    }
}

fn is_file(mapping: &Mapping) -> bool {
    matches!(mapping.backing, Backing::File { .. }) && !mapping.not_frozen
}
