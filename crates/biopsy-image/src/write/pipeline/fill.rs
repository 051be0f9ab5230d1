//! Fills a block of the file: headers, and memory from the image.

use std::ops::Range;

use super::super::contents::{ask, reason};
use super::super::layout::{Layout, Placed};
use crate::vendor::{MissingRange, Reason};
use crate::{Absence, Image, PAGE_SIZE, ReadError};

/// Ranges that could not be read, in any order.
#[derive(Default, Debug)]
pub(super) struct Missing {
    ranges: Vec<MissingRange>,
}

impl Missing {
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub(super) fn append(&mut self, mut other: Self) {
        self.ranges.append(&mut other.ranges);
    }

    fn add(&mut self, range: Range<u64>, reason: Reason) {
        match self.ranges.last_mut() {
            Some(last) if last.reason == reason && last.range.end == range.start => {
                last.range.end = range.end
            }
            _ if range.start < range.end => self.ranges.push(MissingRange { range, reason }),
            _ => {}
        }
    }

    /// By address, neighbours with one reason joined.
    pub(super) fn finish(mut self) -> Vec<MissingRange> {
        self.ranges.sort_unstable_by_key(|one| one.range.start);
        let mut joined = Self::default();
        for one in self.ranges {
            joined.add(one.range, one.reason);
        }
        joined.ranges
    }
}

/// Makes `block`, which may hold anything, the bytes of `range` of the file. With `skip`, memory is not read and is missing for
/// the ceiling.
pub(super) fn fill(
    image: &dyn Image,
    layout: &Layout,
    range: Range<u64>,
    skip: bool,
    block: &mut Vec<u8>,
    runs: &mut Vec<Range<u64>>,
) -> Missing {
    block.resize(usize::try_from(range.end - range.start).unwrap_or(0), 0);
    // Up to here it is filled. Only what lies between runs is made zero: most blocks are one run, and memory is slow.
    let mut filled = 0;
    let mut missing = Missing::default();
    if let Some(header) = usize::try_from(range.start).ok().and_then(|start| layout.header().get(start..)) {
        let length = header.len().min(block.len());
        block[..length].copy_from_slice(&header[..length]);
        filled = length;
    }
    for placed in layout.memory_in(range.clone()) {
        let memory = placed.address..placed.address + placed.length;
        if skip {
            missing.add(memory, Reason::Ceiling);
            continue;
        }
        runs.clear();
        if ask(image, memory.clone(), placed.source, runs).is_err() {
            missing.add(memory, Reason::Gone);
            continue;
        }
        for run in runs.iter() {
            let at = usize::try_from(placed.offset - range.start + (run.start - placed.address))
                .unwrap_or(usize::MAX);
            let length = usize::try_from(run.end - run.start).unwrap_or(0);
            let end = at.saturating_add(length);
            if let Some(between) = block.get_mut(filled..at) {
                between.fill(0);
            }
            if let Some(bytes) = block.get_mut(at..end) {
                read_run(image, run.start, bytes, &placed, &mut missing);
                filled = filled.max(end);
            }
        }
    }
    if let Some(rest) = block.get_mut(filled..) {
        rest.fill(0);
    }
    missing
}

/// Reads one run; pages that cannot be read stay zeros and are told.
fn read_run(image: &dyn Image, address: u64, bytes: &mut [u8], placed: &Placed, missing: &mut Missing) {
    let mut done = 0;
    while done < bytes.len() {
        let at = address + done as u64;
        let rest = &mut bytes[done..];
        match image.read(at, rest) {
            Ok(read) if read > 0 => done += read.min(rest.len()),
            result => {
                // To the end of the page, or of everything when there is nothing behind it either.
                let left = rest.len() as u64;
                let length = match &result {
                    Err(ReadError::Missing { why: Absence::Gone, .. }) => left,
                    Ok(_) | Err(_) => left.min(to_page_end(at)),
                };
                // A part of the page may have been read before the error.
                let skipped = usize::try_from(length).unwrap_or(rest.len());
                rest[..skipped].fill(0);
                missing.add(at..at + length, reason(&result, placed.source));
                done += skipped;
            }
        }
    }
}

fn to_page_end(address: u64) -> u64 {
    PAGE_SIZE - address % PAGE_SIZE
}
