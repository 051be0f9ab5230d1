//! An image of few words, for processes that are made by hand and have much memory.

use std::collections::BTreeMap;
use std::ops::Range;

use biopsy_image::{
    Absence, Backing, Image, ImageModule, Mapping, ProcessFacts, Protection, ReadError, Thread,
};

const PAGE: u64 = 4096;

/// Mappings of which some words are not 0.
#[derive(Debug, Default)]
pub struct MadeImage {
    mappings: Vec<Mapping>,
    words: BTreeMap<u64, u64>,
    /// What is in memory besides pages with words, by address.
    in_memory: Vec<Range<u64>>,
    process: ProcessFacts,
}

impl MadeImage {
    /// Adds a mapping behind all others; `path`: of a file, or nothing.
    pub(crate) fn map(&mut self, range: Range<u64>, path: &str) {
        let backing = if path.is_empty() {
            Backing::Anonymous { label: String::new() }
        } else {
            let path = path.as_bytes().to_vec();
            Backing::File { path, offset: 0, deleted: false, identity: (1, 2) }
        };
        self.mappings.push(Mapping {
            start: range.start,
            end: range.end,
            protection: Protection { read: true, write: true, execute: false },
            shared: false,
            backing,
            not_frozen: false,
        });
    }

    /// All of it is in memory: multiples of a page.
    pub(crate) fn is_in_memory(&mut self, range: Range<u64>) {
        self.in_memory.push(range);
    }

    /// Writes a word, at a multiple of 8.
    pub fn word(&mut self, address: u64, word: u64) {
        self.words.insert(address & !7, word);
    }

    /// Writes one, two or four bytes.
    pub(crate) fn part(&mut self, address: u64, bytes: u32, value: u64) {
        let shift = (address & 7) * 8;
        let mask = (u64::MAX >> (64 - bytes * 8)) << shift;
        let word = self.words.entry(address & !7).or_default();
        *word = (*word & !mask) | ((value << shift) & mask);
    }

    /// Bytes of all mappings.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.mappings.iter().map(Mapping::size).sum()
    }

    /// Each ten bytes are the number of a word that is there, or of one beside it, and what to put there.
    pub(super) fn change(&mut self, bytes: &[u8]) {
        let places: Vec<u64> = self.words.keys().copied().collect();
        for patch in bytes.as_chunks::<10>().0.iter().take(256) {
            let [low, high, word @ ..] = *patch;
            let number = usize::from(u16::from_le_bytes([low, high]));
            let place = places.get(number / 3 % places.len().max(1)).copied().unwrap_or_default();
            self.word(place + (number % 3) as u64 * 8, u64::from_le_bytes(word));
        }
    }

    /// A word that leads to one of those that are there.
    #[cfg(test)]
    pub(super) fn address(&self, number: usize) -> u64 {
        self.words.keys().nth(number % self.words.len().max(1)).copied().unwrap_or_default()
    }
}

impl Image for MadeImage {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        let there = self.mappings.iter().find(|one| one.contains(address));
        let there = there.ok_or(ReadError::Missing { address, why: Absence::Unmapped })?;
        let length = buffer.len().min(usize::try_from(there.end - address).unwrap_or(usize::MAX));
        let filled = &mut buffer[..length];
        filled.fill(0);
        let end = address + length as u64;
        for (&at, word) in self.words.range(address.saturating_sub(7)..end) {
            for (at, byte) in (at..).zip(word.to_le_bytes()) {
                let to = at.checked_sub(address).and_then(|at| usize::try_from(at).ok());
                if let Some(to) = to.and_then(|at| filled.get_mut(at)) {
                    *to = byte;
                }
            }
        }
        Ok(length)
    }

    fn mappings(&self) -> &[Mapping] {
        &self.mappings
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

    fn written(&self, range: Range<u64>, runs: &mut Vec<Range<u64>>) -> Result<(), ReadError> {
        let pages = self.words.range(range.clone()).map(|(&at, _)| at / PAGE * PAGE..at / PAGE * PAGE + PAGE);
        let whole = self.in_memory.iter().cloned();
        let mut all: Vec<Range<u64>> =
            pages.chain(whole).map(|one| one.start.max(range.start)..one.end.min(range.end)).collect();
        all.retain(|one| one.start < one.end);
        runs.extend(crate::parts::merged(all));
        Ok(())
    }
}
