//! Finding the tree of extents without symbols, and going through it.
//!
//! The tree (`rtree_t`, of 48 bits of address) has two levels of 2^18 words each. The root is data of a module; a word of it leads to a leaf, which
//! stands for 1 GiB of addresses, and a word of a leaf to the extent that has the page. The extent says its address, so the place of a word
//! in a leaf is known from where it leads, and the place of the leaf in the root as well: where the root begins follows.

use std::collections::BTreeSet;

use biopsy_image::Image;

use super::base::Bases;
use super::layout::{PAGE, extent_of};
use crate::pages::Pages;
use crate::words::{MOST_SEARCHED, PIECE, data, each_word};

/// Words of the root, and of a leaf.
const WORDS: u64 = 1 << 18;
/// Bytes of them.
const BYTES: u64 = WORDS * 8;
/// Bytes of addresses that a leaf stands for.
const OF_LEAF: u64 = WORDS * PAGE;
/// Leaves are aligned to a line of a cache.
const ALIGNMENT: u64 = 64;
/// Words that lead into a block of bookkeeping and may be a leaf.
const MOST_TRIED: usize = 4096;
/// Pages of a leaf that are agreed on where it stands.
const ENOUGH: usize = 32;
/// Bytes of leaves that are looked through to find the root, and then to read all: of a heap of a gigabyte 2 MiB at most.
const MOST_TO_FIND: u64 = 1 << 30;
const MOST_OF_LEAVES: u64 = 4 << 30;

/// The leaves, each with the first address that it stands for, by address.
pub(super) struct Tree {
    leaves: Vec<(u64, u64)>,
}

impl Tree {
    /// Finds it; `None`: there is none.
    pub(super) fn find(image: &dyn Image, pages: &mut Pages<'_>, bases: &mut Bases) -> Option<Self> {
        let mut budget = MOST_SEARCHED;
        let mut tried = BTreeSet::new();
        let mut left = MOST_TO_FIND;
        for range in data(image.mappings(), BYTES) {
            let mut found = None;
            each_word(image, range, &mut budget, &mut |at, word| {
                let may_be = word != 0 && word.is_multiple_of(ALIGNMENT) && word >> 47 == 0;
                if may_be && is_in_one(bases, pages, word) && tried.len() < MOST_TRIED && tried.insert(word) {
                    let first = stands_for(image, pages, bases, word, &mut left).flatten();
                    found = first
                        .and_then(|first| at.checked_sub(first / OF_LEAF * 8))
                        .and_then(|root| Self::at(image, pages, bases, root, &mut left));
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
    fn at(
        image: &dyn Image,
        pages: &mut Pages<'_>,
        bases: &mut Bases,
        root: u64,
        left: &mut u64,
    ) -> Option<Self> {
        let mut leaves = Vec::new();
        let mut whole = true;
        let mut budget = BYTES;
        each_word(image, root..root.checked_add(BYTES)?, &mut budget, &mut |at, word| {
            if word != 0 {
                let first = (at - root) / 8 * OF_LEAF;
                whole = is_in_one(bases, pages, word)
                    && stands_for(image, pages, bases, word, left)
                        .is_some_and(|found| found.is_none_or(|found| found == first));
                leaves.push((first, word));
            }
            whole
        });
        (whole && !leaves.is_empty()).then_some(Self { leaves })
    }

    /// Goes through the elements of all pages that have one, by address, until `visit` says no. It gives the first page that it wants to
    /// see next, or one that it has seen already.
    pub(super) fn visit(&self, image: &dyn Image, visit: &mut dyn FnMut(u64, u64) -> Option<u64>) {
        let mut next = 0;
        let mut budget = MOST_OF_LEAVES;
        for &(first, leaf) in &self.leaves {
            let mut goes_on = true;
            each_word(image, leaf..leaf.saturating_add(BYTES), &mut budget, &mut |at, element| {
                let page = first + (at - leaf) / 8 * PAGE;
                if element != 0 && page >= next {
                    match visit(page, element) {
                        Some(wanted) => next = wanted,
                        None => goes_on = false,
                    }
                }
                goes_on
            });
            if !goes_on {
                return;
            }
        }
    }

    /// The element of a page.
    pub(super) fn element(&self, pages: &mut Pages<'_>, page: u64) -> Option<u64> {
        let first = page / OF_LEAF * OF_LEAF;
        let at = self.leaves.binary_search_by_key(&first, |&(first, _)| first).ok()?;
        let (_, leaf) = self.leaves.get(at)?;
        pages.word(leaf + (page - first) / PAGE * 8)
    }
}

/// Whether a leaf has room there, in one block of bookkeeping.
fn is_in_one(bases: &mut Bases, pages: &mut Pages<'_>, leaf: u64) -> bool {
    let end = leaf.checked_add(BYTES);
    bases.holding(pages, leaf).zip(end).is_some_and(|(block, end)| end <= block.end)
}

/// The first address that a leaf stands for, as all extents say that it leads to at their first pages, or none where there are none;
/// `None`: they do not agree, or `left` bytes are used up.
fn stands_for(
    image: &dyn Image,
    pages: &mut Pages<'_>,
    bases: &mut Bases,
    leaf: u64,
    left: &mut u64,
) -> Option<Option<u64>> {
    let mut agreed = 0;
    let mut first = None;
    let mut agree = true;
    each_word(image, leaf..leaf.checked_add(BYTES)?, left, &mut |at, element| {
        let extent = extent_of(element);
        if extent == 0 {
            return true;
        }
        let address = bases.holding(pages, extent).and_then(|_| pages.word(extent.checked_add(8)?));
        // A page in the middle of a slab, or at the end of an extent, has the element of its first page.
        let Some(address) = address.filter(|address| address / PAGE % WORDS == (at - leaf) / 8) else {
            agree = address.is_some();
            return agree;
        };
        let here = address / OF_LEAF * OF_LEAF;
        agreed += 1;
        agree = first.is_none_or(|first| first == here);
        first = Some(here);
        agree && agreed < ENOUGH
    });
    (agree && *left >= PIECE).then_some(first)
}
