//! A minidump as an image.

use std::ops::Range;
use std::sync::Arc;

use super::facts::Facts;
use super::memory::MemoryRange;
use crate::mapping::{find, is_memory_file};
use crate::storage::{Storage, StorageError};
use crate::{Absence, Crash, Image, ImageModule, Mapping, ProcessFacts, ReadError, Thread};

/// An opened minidump.
#[derive(Debug)]
pub(crate) struct MinidumpImage {
    storage: Arc<dyn Storage>,
    /// By address, not overlapping.
    ranges: Vec<MemoryRange>,
    mappings: Vec<Mapping>,
    facts: Facts,
}

impl MinidumpImage {
    pub(super) fn new(
        storage: Arc<dyn Storage>,
        ranges: Vec<MemoryRange>,
        mappings: Vec<Mapping>,
        facts: Facts,
    ) -> Self {
        Self { storage, ranges, mappings, facts }
    }

    /// Why there is no byte at `address`.
    fn absence(&self, address: u64, range: Option<&MemoryRange>) -> Absence {
        if range.is_some_and(|range| range.start <= address && address < range.end) {
            Absence::Truncated
        } else if find(&self.mappings, address).is_some() {
            Absence::LeftOut
        } else {
            Absence::Unmapped
        }
    }
}

impl Image for MinidumpImage {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        let mut done = 0usize;
        let mut index = self.ranges.partition_point(|range| range.start <= address).saturating_sub(1);
        while done < buffer.len() {
            let at = address.saturating_add(done as u64);
            let range = self.ranges.get(index);
            let Some(here) = range.filter(|range| range.start <= at && at < range.filled_to) else {
                if done > 0 {
                    break;
                }
                return Err(ReadError::Missing { address, why: self.absence(address, range) });
            };
            let room = usize::try_from(here.filled_to - at).unwrap_or(usize::MAX).min(buffer.len() - done);
            let offset = here.offset.saturating_add(at - here.start);
            match self.storage.read_full(offset, &mut buffer[done..done + room]) {
                Ok(read) if read > 0 => done += read,
                _ if done > 0 => break,
                Ok(_) => return Err(ReadError::Missing { address, why: Absence::Truncated }),
                Err(StorageError::Io(source)) => return Err(ReadError::Io { address, source }),
                Err(StorageError::Damaged { what }) => return Err(ReadError::Damaged { address, what }),
            }
            index += 1;
        }
        Ok(done)
    }

    fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    fn threads(&self) -> &[Thread] {
        &self.facts.threads
    }

    fn modules(&self) -> &[ImageModule] {
        &self.facts.modules
    }

    fn process(&self) -> &ProcessFacts {
        &self.facts.process
    }

    fn crash(&self) -> Option<&Crash> {
        self.facts.crash.as_ref()
    }

    /// The memory that is there. Memory of the process alone that is not there may be anything: runs of their own.
    fn written(&self, range: Range<u64>, runs: &mut Vec<Range<u64>>) -> Result<(), ReadError> {
        let first = self.mappings.partition_point(|one| one.end <= range.start);
        for mapping in self.mappings.iter().skip(first).take_while(|one| one.start < range.end) {
            let (start, end) = (mapping.start.max(range.start), mapping.end.min(range.end));
            let is_file = mapping.path().is_some_and(|path| !is_memory_file(path));
            let readable = mapping.protection.read;
            let mut at = start;
            let inside = self.ranges.partition_point(|one| one.filled_to <= start);
            for one in self.ranges.iter().skip(inside).take_while(|one| one.start < end) {
                let (from, to) = (one.start.max(start), one.filled_to.min(end));
                if from >= to {
                    continue;
                }
                if at < from && readable && !is_file {
                    runs.push(at..from);
                }
                match runs.last_mut() {
                    Some(last) if at == from && last.end == from && from > start => last.end = to,
                    _ => runs.push(from..to),
                }
                at = to;
            }
            if at < end && readable && !is_file {
                runs.push(at..end);
            }
        }
        Ok(())
    }
}
