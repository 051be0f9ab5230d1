//! The map of pages: two levels, of which the upper one is memory of its own (`page-map.c`).
//!
//! ```text
//!  word of data ─► upper: where its own end is │ maps of 512 MiB each ...     map: for each slice of 64 KiB where its page is described
//! ```
//!
//! The map for the lowest addresses is right behind the upper one, which ends where 47 or 48 bits of address do, so that its first word is known.

use std::collections::BTreeSet;

use biopsy_image::{Image, mapping};

use super::layout::SLICE;
use crate::pages::Pages;
use crate::words::{MOST_SEARCHED, data, each_word};

/// Bytes of the upper one.
const UPPER: [u64; 2] = [2 << 20, 4 << 20];
/// Slices of a map, and its bytes.
const SLICES: u64 = 1 << 13;
pub(super) const BYTES: u64 = SLICES * 8;
const PAGE: u64 = 4096;
/// Words of data that may lead to the upper one.
const MOST_TRIED: usize = 1 << 16;
/// Maps of one process: those of 4 TiB.
const MOST_MAPS: usize = 1 << 13;

/// The maps, each with the first slice that it stands for, by slice.
#[derive(Debug)]
pub(super) struct Map {
    /// The upper one, and its bytes.
    pub(super) upper: (u64, u64),
    pub(super) maps: Vec<(u64, u64)>,
    /// Some of it is not in the image.
    pub(super) is_cut: bool,
}

impl Map {
    /// Finds it; `None`: there is none.
    pub(super) fn find(image: &dyn Image, pages: &mut Pages<'_>) -> Option<Self> {
        let mut budget = MOST_SEARCHED;
        let mut tried = BTreeSet::new();
        for range in data(image.mappings(), 0) {
            let mut found = None;
            each_word(image, range, &mut budget, &mut |_, word| {
                let may_be = word != 0 && word.is_multiple_of(PAGE) && word >> 47 == 0;
                if may_be && is_there(image, word) && tried.len() < MOST_TRIED && tried.insert(word) {
                    let first = pages.word(word);
                    found = UPPER
                        .into_iter()
                        .filter(|bytes| first == word.checked_add(*bytes))
                        .find_map(|bytes| Self::at(image, word, bytes));
                }
                found.is_none()
            });
            if found.is_some() {
                return found;
            }
        }
        None
    }

    fn at(image: &dyn Image, upper: u64, bytes: u64) -> Option<Self> {
        let mut maps = Vec::new();
        let mut whole = true;
        let mut budget = bytes * 2;
        let is_whole = each_word(image, upper..upper.checked_add(bytes)?, &mut budget, &mut |at, word| {
            if word != 0 {
                let last = word.checked_add(BYTES - 1);
                whole = word.is_multiple_of(PAGE)
                    && is_there(image, word)
                    && last.is_some_and(|last| is_there(image, last))
                    && maps.len() < MOST_MAPS;
                maps.push(((at - upper) / 8 * SLICES, word));
            }
            whole
        });
        // The lowest one is not all: nothing is given out there.
        (whole && maps.len() > 1).then_some(Self { upper: (upper, bytes), maps, is_cut: !is_whole })
    }

    /// Goes through slices that have a page, by address. `visit` gives the first slice that it wants to see next. Gives whether all is in the
    /// image.
    pub(super) fn visit(&self, image: &dyn Image, visit: &mut dyn FnMut(u64, u64) -> u64) -> bool {
        let mut next = 0;
        let mut whole = true;
        let mut budget = u64::MAX;
        for &(first, map) in self.maps.iter().skip(1) {
            whole &= each_word(image, map..map.saturating_add(BYTES), &mut budget, &mut |at, word| {
                let slice = first + (at - map) / 8;
                if word != 0 && slice >= next {
                    next = visit(slice, word);
                }
                true
            });
        }
        whole
    }

    /// Where the page of a slice is described.
    pub(super) fn word(&self, pages: &mut Pages<'_>, slice: u64) -> Option<u64> {
        let first = slice / SLICES * SLICES;
        let at = self.maps.binary_search_by_key(&first, |&(first, _)| first).ok()?;
        let (_, map) = self.maps.get(at)?;
        pages.word(map.checked_add((slice - first) * 8)?)
    }
}

/// Whether memory that may be written is there.
pub(super) fn is_there(image: &dyn Image, at: u64) -> bool {
    mapping::find(image.mappings(), at).is_some_and(|one| one.protection.write)
}

/// The slice of an address.
pub(super) fn slice(address: u64) -> u64 {
    address / SLICE
}
