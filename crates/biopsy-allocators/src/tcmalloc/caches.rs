//! What caches keep after it was given back: those of threads (`thread_cache.h`), and what is moved between them (`central_freelist.h`).
//!
//! ```text
//!  of a thread   for each class, 32 bytes: list │ length, lowest │ longest, too long │ size of its blocks        then, somewhere: next │ previous
//!  central       for each class, 1,216 bytes: lock │ class │ two lists of spans │ spans │ free blocks │ 64 lists: first, last │ how many of them
//! ```
//!
//! Both are found from data of modules: a cache of a thread by the sizes of all classes in it, the central one by the numbers of all classes. Each block
//! must be one of the list's size that is in use.

use std::collections::BTreeSet;

use biopsy_image::{Image, mapping};

use super::classes::Sizes;
use super::spans::Spans;
use crate::pages::Pages;
use crate::regions::{GivenBack, Region, followed};
use crate::window::Window;
use crate::words::{data, each_word};

/// Caches of one process.
const MOST: usize = 1 << 16;
/// Words of data that may lead to one.
const MOST_TRIED: usize = 1 << 16;
/// Bytes of a list of a thread's cache, and in it the size of its blocks.
const LIST: u64 = 32;
const SIZE: u64 = 24;
/// Behind the lists, bytes in which the links to other caches are.
const BEHIND: u64 = 512;
/// From class to class of the central lists.
const CENTRAL: u64 = 1216;
/// In one of those, from the class to the lists that are moved, and to how many there are.
const MOVED: u64 = 120;
const COUNT: u64 = 1144;
const MOST_MOVED: u64 = 64;

/// What they keep, and whether they were found.
pub(super) struct Cached {
    pub(super) given_back: GivenBack,
    /// Where caches of threads are, and how long.
    pub(super) caches: BTreeSet<u64>,
    pub(super) bytes: u64,
    /// Places that they lead to and that are not in the image.
    pub(super) missing: usize,
    pub(super) central: bool,
}

/// Reads all.
pub(super) fn read(
    image: &dyn Image,
    pages: &mut Pages<'_>,
    spans: &Spans,
    sizes: &Sizes,
    budget: &mut u64,
) -> Cached {
    let (first, central) = find(image, pages, sizes, budget);
    let (caches, missing) = first.map(|first| all(image, pages, sizes, first)).unwrap_or_default();
    let bytes = sizes.room as u64 * LIST;
    let mut lists = Lists { window: Window::new(image), given_back: GivenBack::default(), spans };
    // No block is kept twice, so that there are no more of them than blocks in use.
    let mut left = spans.used();
    for &cache in &caches {
        for class in 1..sizes.count() {
            let Some([list, lengths]) = pages.words(cache + class as u64 * LIST) else { continue };
            left = left.saturating_sub(lists.take(sizes.size(class), list, lengths & 0xffff_ffff, left));
        }
    }
    for class in (1..sizes.count()).filter(|_| central.is_some()) {
        let of_class = central.unwrap_or_default().wrapping_add((class as u64 - 1) * CENTRAL);
        let count = pages.word(of_class.wrapping_add(COUNT)).unwrap_or_default() & 0xffff_ffff;
        for number in 0..count.min(MOST_MOVED) {
            let list = pages.word(of_class.wrapping_add(MOVED + number * 16)).unwrap_or_default();
            let moved = sizes.moved(class).unwrap_or_default();
            left = left.saturating_sub(lists.take(sizes.size(class), list, moved, left));
        }
    }
    Cached { given_back: lists.given_back, caches, bytes, missing, central: central.is_some() }
}

/// Lists of blocks of one size.
struct Lists<'i, 's> {
    window: Window<'i>,
    given_back: GivenBack,
    spans: &'s Spans,
}

impl Lists<'_, '_> {
    /// Takes a list of so many blocks of this size, up to `left`; gives how many it has.
    fn take(&mut self, size: Option<u64>, list: u64, length: u64, left: u64) -> u64 {
        let mut blocks: Vec<(u64, Region)> = Vec::new();
        let whole = followed(list, length.saturating_add(1).min(left), |block| {
            let region = self.spans.region(block).filter(|region| Some(region.size) == size)?;
            region.number(block)?;
            blocks.push((block, region));
            self.window.word(block)
        });
        // One may be taken or given back just now.
        let count = blocks.len() as u64;
        self.given_back.take(whole && count.abs_diff(length) <= 1, &blocks);
        count
    }
}

/// A cache of a thread, and where the central lists say that they are of the first class.
fn find(
    image: &dyn Image,
    pages: &mut Pages<'_>,
    sizes: &Sizes,
    budget: &mut u64,
) -> (Option<u64>, Option<u64>) {
    let (mut cache, mut central) = (None, None);
    let mut tried = BTreeSet::new();
    for range in data(image.mappings(), 0) {
        each_word(image, range, budget, &mut |at, word| {
            if central.is_none() && word == 1 && is_central(pages, sizes, at) {
                central = Some(at);
            }
            let may_be = cache.is_none() && word != 0 && word.is_multiple_of(8) && word >> 47 == 0;
            if may_be
                && tried.len() < MOST_TRIED
                && mapping::find(image.mappings(), word).is_some_and(|one| one.protection.write)
                && tried.insert(word)
                && is_cache(pages, sizes, word)
            {
                cache = Some(word);
            }
            cache.is_none() || central.is_none()
        });
    }
    (cache, central)
}

/// Whether the sizes of all classes stand there.
fn is_cache(pages: &mut Pages<'_>, sizes: &Sizes, at: u64) -> bool {
    (1..sizes.count()).all(|class| {
        let size = at.checked_add(class as u64 * LIST + SIZE).and_then(|at| pages.word(at));
        size.map(|size| size & 0xffff_ffff) == sizes.size(class)
    })
}

/// Whether the numbers of all classes stand there, one after the other.
fn is_central(pages: &mut Pages<'_>, sizes: &Sizes, at: u64) -> bool {
    (1..sizes.count()).all(|class| {
        let number = at.checked_add((class as u64 - 1) * CENTRAL).and_then(|at| pages.word(at));
        number == Some(class as u64)
    })
}

/// All caches that this one leads to, and how many places could not be read that it leads to.
fn all(image: &dyn Image, pages: &mut Pages<'_>, sizes: &Sizes, first: u64) -> (BTreeSet<u64>, usize) {
    let mut found = BTreeSet::from([first]);
    let mut missing = BTreeSet::new();
    let mut ways = vec![first];
    while let Some(cache) = ways.pop() {
        let links = sizes.count() as u64 * LIST..sizes.room as u64 * LIST + BEHIND;
        for at in links.step_by(8).filter_map(|into| cache.checked_add(into)) {
            let link = pages.word(at);
            if link.is_none() {
                missing.insert(at);
            }
            let Some(other) = link.filter(|&other| other != 0 && other.is_multiple_of(8)) else { continue };
            if found.contains(&other) || found.len() >= MOST {
                continue;
            }
            if is_cache(pages, sizes, other) {
                found.insert(other);
                ways.push(other);
            } else if pages.word(other).is_none() && mapping::find(image.mappings(), other).is_some() {
                missing.insert(other);
            }
        }
    }
    (found, missing.len())
}
