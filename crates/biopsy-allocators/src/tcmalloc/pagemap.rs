//! Finding the map of pages without symbols, and going through it (`TCMalloc_PageMap2`, `pagemap.h`).
//!
//! The root, 2^17 words, is data of a module; a word of it leads to a leaf, which stands for 2 GiB of addresses, and a word of a leaf to the span
//! that has the page. The span says its first page, so the place of a word in a leaf is known from where it leads, and the place of the leaf in
//! the root as well: where the root begins follows. Words of pages in the middle of a span may be of spans that were there before, so only the first
//! and the last page of one are asked.

use std::collections::BTreeSet;

use biopsy_image::{Image, mapping};

use super::span::{PAGE_BITS, PAGES, Span, span};
use crate::pages::Pages;
use crate::words::{MOST_SEARCHED, PIECE, data, each_word};

/// Words of a leaf, and of the root.
const OF_LEAF: u64 = 1 << 18;
pub(super) const LEAF_BYTES: u64 = OF_LEAF * 8;
pub(super) const ROOT_BYTES: u64 = (PAGES / OF_LEAF) * 8;
/// Words of data that may lead to a leaf.
const MOST_TRIED: usize = 1 << 16;
/// Bytes of what may be leaves that are looked through to find the root, and of leaves then to read all: of two gigabytes of heap 2 MiB at most.
const MOST_TO_FIND: u64 = 256 << 20;
const MOST_OF_LEAVES: u64 = 4 << 30;
/// Words that are looked at first.
const NEAR: usize = 64;

/// The leaves, each with the first page that it stands for, by page.
pub(super) struct PageMap {
    /// Where the root begins.
    pub(super) root: u64,
    pub(super) leaves: Vec<(u64, u64)>,
}

impl PageMap {
    /// Finds it; `None`: there is none.
    pub(super) fn find(image: &dyn Image, pages: &mut Pages<'_>) -> Option<Self> {
        let mut budget = MOST_SEARCHED;
        let mut tried = BTreeSet::new();
        let mut left = MOST_TO_FIND;
        let mut left_at = MOST_OF_LEAVES;
        for range in data(image.mappings(), ROOT_BYTES) {
            let mut found = None;
            each_word(image, range, &mut budget, &mut |at, word| {
                let may_be = word != 0 && word.is_multiple_of(16) && word >> 47 == 0;
                if may_be && has_room(image, word) && tried.len() < MOST_TRIED && tried.insert(word) {
                    found = stands_for(image, pages, word, &mut left)
                        .and_then(|leaf| at.checked_sub(leaf * 8))
                        .and_then(|root| Self::at(image, pages, root, &mut left_at));
                }
                found.is_none()
            });
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// With the root at this address: all its words lead to leaves, which stand for what their places say.
    fn at(image: &dyn Image, pages: &mut Pages<'_>, root: u64, left: &mut u64) -> Option<Self> {
        let mut leaves = Vec::new();
        let mut whole = true;
        let mut budget = ROOT_BYTES + PIECE;
        each_word(image, root..root.checked_add(ROOT_BYTES)?, &mut budget, &mut |at, word| {
            if word != 0 {
                let number = (at - root) / 8;
                whole = has_room(image, word) && stands_for(image, pages, word, left) == Some(number);
                leaves.push((number * OF_LEAF, word));
            }
            whole
        });
        (whole && !leaves.is_empty()).then_some(Self { root, leaves })
    }

    /// Goes through the words of pages that have one, by page, until `visit` says no. It gives the first page that it wants to see next. Gives whether
    /// all leaves are in the image.
    pub(super) fn visit(&self, image: &dyn Image, visit: &mut dyn FnMut(u64, u64) -> Option<u64>) -> bool {
        let mut whole = true;
        let mut next = 0;
        let mut budget = MOST_OF_LEAVES;
        for &(first, leaf) in &self.leaves {
            let mut goes_on = true;
            let range = leaf..leaf.saturating_add(LEAF_BYTES);
            whole &= each_word(image, range, &mut budget, &mut |at, word| {
                let page = first + (at - leaf) / 8;
                if word != 0 && page >= next {
                    match visit(page, word) {
                        Some(wanted) => next = wanted,
                        None => goes_on = false,
                    }
                }
                goes_on
            });
            if !goes_on {
                break;
            }
        }
        whole
    }

    /// Where the span of a page is described, as the map says.
    pub(super) fn word(&self, pages: &mut Pages<'_>, page: u64) -> Option<u64> {
        let first = page / OF_LEAF * OF_LEAF;
        let at = self.leaves.binary_search_by_key(&first, |&(first, _)| first).ok()?;
        let (_, leaf) = self.leaves.get(at)?;
        pages.word(leaf.checked_add((page - first) * 8)?)
    }
}

/// Whether a leaf has room there.
fn has_room(image: &dyn Image, leaf: u64) -> bool {
    let behind = leaf.checked_add(LEAF_BYTES);
    let may_be = |at: u64| mapping::find(image.mappings(), at).is_some_and(|one| one.protection.write);
    may_be(leaf) && behind.is_some_and(|behind| may_be(behind - 1))
}

/// The number of the leaf, as the first span says that it leads to; `None`: it is none.
fn stands_for(image: &dyn Image, pages: &mut Pages<'_>, leaf: u64, left: &mut u64) -> Option<u64> {
    // What is no leaf has something else in its first words more often than not.
    let near: [u64; NEAR] = pages.words(leaf)?;
    let mut first = (0..).zip(near).find(|(_, word)| *word != 0);
    if first.is_none() {
        each_word(image, leaf..leaf.checked_add(LEAF_BYTES)?, left, &mut |at, word| {
            first = (word != 0).then_some(((at - leaf) / 8, word));
            first.is_none()
        });
    }
    // It is that of a span that begins here, or before it and ends here.
    let (place, word) = first?;
    let span = span(pages, word)?;
    number(image, &span, place)
}

/// The leaf in which this span has a page at this place.
fn number(image: &dyn Image, span: &Span, place: u64) -> Option<u64> {
    let ahead = place.wrapping_sub(span.start) % OF_LEAF;
    let is_there = mapping::find(image.mappings(), span.start << PAGE_BITS).is_some();
    (ahead < span.length && is_there).then(|| (span.start + ahead) / OF_LEAF)
}
