//! An image that remembers what it was asked.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{Crash, Image, ImageModule, Mapping, PAGE_SIZE, ProcessFacts, ReadError, Thread};

/// Most pages that are remembered: the headers of a process's files are some hundred.
const MOST_PAGES: usize = 16 << 10;

/// Passes everything on, and remembers the pages that were read and which memory was said to be written.
pub(super) struct Noting<'a> {
    image: &'a dyn Image,
    notes: Mutex<Notes>,
}

/// What was remembered.
#[derive(Default)]
pub(super) struct Notes {
    /// By address. Shorter than a page where the rest of it is missing.
    pub(super) pages: BTreeMap<u64, Vec<u8>>,
    /// Answers of [`Image::written`], by address, joined.
    pub(super) written: Vec<Range<u64>>,
    /// Answers of [`Image::populated`], by address, joined.
    pub(super) populated: Vec<Range<u64>>,
    /// More was read than is remembered.
    pub(super) too_much: bool,
}

impl<'a> Noting<'a> {
    pub(super) fn new(image: &'a dyn Image) -> Self {
        Self { image, notes: Mutex::default() }
    }

    pub(super) fn finish(self) -> Notes {
        let mut notes = self.notes.into_inner().unwrap_or_else(PoisonError::into_inner);
        notes.written = joined(notes.written);
        notes.populated = joined(notes.populated);
        notes
    }

    fn lock(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads within one page, which is remembered whole.
    fn read_in_page(&self, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        let page = address / PAGE_SIZE * PAGE_SIZE;
        let mut notes = self.lock();
        if !notes.pages.contains_key(&page) {
            if notes.pages.len() >= MOST_PAGES {
                notes.too_much = true;
                return self.image.read(address, buffer);
            }
            let mut bytes = vec![0; usize::try_from(PAGE_SIZE).unwrap_or(0)];
            let read = self.image.read(page, &mut bytes)?;
            bytes.truncate(read);
            notes.pages.insert(page, bytes);
        }
        let inside = usize::try_from(address - page).unwrap_or(usize::MAX);
        let known = notes.pages.get(&page).and_then(|bytes| bytes.get(inside..)).unwrap_or_default();
        if known.is_empty() {
            // The page ends before: the image says why.
            return self.image.read(address, buffer);
        }
        let length = known.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..length), known.get(..length)) {
            to.copy_from_slice(from);
        }
        Ok(length)
    }
}

impl Image for Noting<'_> {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let Some(at) = address.checked_add(done as u64) else { break };
            match self.read_in_page(at, rest) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(done)
    }

    fn mappings(&self) -> &[Mapping] {
        self.image.mappings()
    }

    fn threads(&self) -> &[Thread] {
        self.image.threads()
    }

    fn modules(&self) -> &[ImageModule] {
        self.image.modules()
    }

    fn process(&self) -> &ProcessFacts {
        self.image.process()
    }

    fn crash(&self) -> Option<&Crash> {
        self.image.crash()
    }

    fn written(&self, range: Range<u64>, runs: &mut Vec<Range<u64>>) -> Result<(), ReadError> {
        let before = runs.len();
        self.image.written(range, runs)?;
        self.lock().written.extend(runs.iter().skip(before).cloned());
        Ok(())
    }

    fn populated(&self, range: Range<u64>, runs: &mut Vec<Range<u64>>) -> Result<(), ReadError> {
        let before = runs.len();
        self.image.populated(range, runs)?;
        self.lock().populated.extend(runs.iter().skip(before).cloned());
        Ok(())
    }
}

/// By address, those that touch or overlap as one.
pub(super) fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}
