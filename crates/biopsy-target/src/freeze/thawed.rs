//! What can be read after the frozen copy was ended: files, and memory that is shared as files are.

use std::collections::BTreeMap;
use std::ops::Range;

use biopsy_image::{Absence, Backing, Mapping, PAGE_SIZE, ReadError};

use super::KeptMemory;
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
    /// Pages of shared memory that its file ends in the middle of, by address.
    cut: BTreeMap<u64, Vec<u8>>,
}

impl Thawed {
    /// Opens all files. `None`: there are too many, or one cannot be opened; then only the frozen copy has it.
    pub(super) fn open(live: &ProcessMemory, kept: &dyn KeptMemory, mappings: &[Mapping]) -> Option<Self> {
        let mut thawed = Self::default();
        for one in mappings.iter().filter(|one| one.protection.read && is_file(one)) {
            if thawed.files.len() >= FILES {
                return None;
            }
            let file = match live.open_file(one, one.start) {
                Ok(file) => file,
                // A device: nobody reads it.
                Err(ReadError::Missing { why: Absence::Unreadable, .. }) => continue,
                Err(_) => return None,
            };
            if one.shared {
                live.written(one, one.range(), &mut thawed.data).ok()?;
                if let Some(page) = file.cut_page(one).filter(|page| thawed.has_data(*page)) {
                    let mut bytes = vec![0; usize::try_from(PAGE_SIZE).unwrap_or(0)];
                    let read = kept.read(page, &mut bytes).ok()?;
                    bytes.truncate(read);
                    thawed.cut.insert(page, bytes);
                }
            }
            thawed.files.insert(one.start, file);
        }
        Some(thawed)
    }

    fn has_data(&self, address: u64) -> bool {
        self.data.iter().any(|run| run.contains(&address))
    }

    pub(super) fn read(&self, one: &Mapping, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        let page = address - address % PAGE_SIZE;
        let cut = self.cut.get(&page).and_then(|bytes| bytes.get(usize::try_from(address - page).ok()?..));
        if let Some(found) = cut.filter(|found| !found.is_empty()) {
            let length = found.len().min(buffer.len());
            if let (Some(to), Some(from)) = (buffer.get_mut(..length), found.get(..length)) {
                to.copy_from_slice(from);
            }
            return Ok(length);
        }
        // A read ends before a page that is kept apart.
        let next = self.cut.range(address..).next().map_or(u64::MAX, |(page, _)| *page);
        let length = usize::try_from(next - address).unwrap_or(usize::MAX).min(buffer.len());
        let buffer = buffer.get_mut(..length).unwrap_or_default();
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
