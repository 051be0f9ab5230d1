//! Finding the one `struct malloc_context`, without symbols, by what it leads to.
//!
//! It is in the data of musl, or of a static program, where it begins as zeros (`.bss`). It begins with a random number, the secret, and
//! leads to a list of pages, the areas of metas, each of which begins with the same number.

use std::collections::BTreeSet;
use std::ops::Range;

use biopsy_image::{Backing, Image, Mapping, MemoryExt};

use super::old::{self, Bins};

/// `struct malloc_context` where the size of a page is known when musl is compiled.
pub(super) const CONTEXT_BYTES: u64 = 928;
const INIT_DONE: usize = 1;
const SPARE: usize = 4;
const NEXT_META: usize = 3;
const FIRST_AREA: usize = 7;
const LAST_AREA: usize = 8;
const USAGE: usize = 58;
/// Of slots.
pub(super) const CLASSES: usize = 48;
/// Words from its start to the last that is looked at here.
const WORDS: usize = USAGE + CLASSES;
/// `struct meta_area` is a page: the secret, the next one, how many metas, the metas.
pub(super) const AREA_BYTES: u64 = 4096;
const AREA_HEAD: u64 = 24;
pub(super) const META_BYTES: u64 = 40;
const METAS: u64 = (AREA_BYTES - AREA_HEAD) / META_BYTES;
/// Areas that are visited in all: those of 400 million groups.
const MOST_AREAS: usize = 4 << 20;
/// Bytes of data of modules that are searched.
const MOST_SEARCHED: u64 = 128 << 20;
/// Bytes read at once.
const PIECE: u64 = 4 << 20;

/// What was found.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Found {
    Context(Box<Context>),
    /// The malloc of musl 1.2.0 or before.
    Old,
}

/// What the context says.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Context {
    pub(super) address: u64,
    /// Areas of metas, by address.
    pub(super) areas: Vec<u64>,
    /// The one that still has room.
    last: u64,
    /// Metas of it that were never used.
    spare: u64,
    /// Slots of each class, used or free, as musl counts them.
    pub(super) usage: [u64; CLASSES],
}

impl Context {
    /// The addresses of an area's metas that were used at least once.
    pub(super) fn metas(&self, area: u64) -> Range<u64> {
        let count = if area == self.last { METAS - self.spare } else { METAS };
        let first = area + AREA_HEAD;
        first..first + count * META_BYTES
    }
}

/// Looks for it in the data of all modules.
pub(super) fn find(image: &dyn Image) -> Option<Found> {
    let mut bytes_left = MOST_SEARCHED;
    let mut areas_left = MOST_AREAS;
    let mut bins = Bins::default();
    let mut module_end = None;
    for mapping in image.mappings() {
        let private = mapping.protection.write && !mapping.shared;
        let is_data = private && matches!(mapping.backing, Backing::File { .. });
        // What begins as zeros lies behind it, with no file.
        let is_zeros = private && !is_data && module_end == Some(mapping.start);
        module_end = (is_data || matches!(mapping.backing, Backing::File { .. })).then_some(mapping.end);
        if (is_data || is_zeros)
            && let Some(found) = in_data(image, mapping, &mut bytes_left, &mut areas_left, &mut bins)
        {
            return Some(Found::Context(Box::new(found)));
        }
    }
    bins.are_of_old_musl(image).then_some(Found::Old)
}

fn in_data(
    image: &dyn Image,
    mapping: &Mapping,
    bytes_left: &mut u64,
    areas_left: &mut usize,
    bins: &mut Bins,
) -> Option<Context> {
    let mut runs = Vec::new();
    image.written(mapping.range(), &mut runs).ok()?;
    let mut bytes = Vec::new();
    for run in runs {
        let mut at = run.start;
        while at < run.end {
            let length = (run.end - at).min(PIECE);
            *bytes_left = bytes_left.checked_sub(length)?;
            bytes.resize(usize::try_from(length).ok()?, 0);
            let read = image.read_available(at, &mut bytes);
            let words = bytes.get(..read)?.as_chunks::<8>().0;
            bins.look_at(at, words);
            for (number, window) in words.windows(LAST_AREA + 1).enumerate() {
                if looks_like_one(window)
                    && let Some(found) = believed(image, at + number as u64 * 8, areas_left)
                {
                    return Some(found);
                }
            }
            // One may lie across two pieces: the next one begins before the end.
            let behind = at + length;
            at = if behind < run.end { behind - CONTEXT_BYTES.max(old::BYTES) } else { run.end };
        }
    }
    None
}

fn word(words: &[[u8; 8]], number: usize) -> u64 {
    words.get(number).map_or(0, |word| u64::from_le_bytes(*word))
}

/// A secret, a one, and two pages: very few words of data are that.
fn looks_like_one(words: &[[u8; 8]]) -> bool {
    let is_area = |at: u64| at != 0 && at.is_multiple_of(AREA_BYTES);
    word(words, INIT_DONE) & 0xffff_ffff == 1
        && is_area(word(words, FIRST_AREA))
        && is_area(word(words, LAST_AREA))
        && word(words, 0) != 0
}

/// Follows the list of areas from the first to the last; each begins with the secret, and the context leads into the last.
fn believed(image: &dyn Image, address: u64, areas_left: &mut usize) -> Option<Context> {
    let mut bytes = [0; WORDS * 8];
    image.read_exact(address, &mut bytes).ok()?;
    let words = bytes.as_chunks::<8>().0;
    let secret = word(words, 0);
    let last = word(words, LAST_AREA);
    let spare = Some(word(words, SPARE)).filter(|&spare| spare <= METAS)?;
    let next_meta = last.checked_add(AREA_HEAD + (METAS - spare) * META_BYTES)?;
    // A meta is taken off the number first, then off the place.
    let is_next = |at: u64| word(words, NEXT_META).checked_add(at) == Some(next_meta);
    if !is_next(0) && !is_next(META_BYTES) {
        return None;
    }
    let mut areas = BTreeSet::new();
    let mut at = word(words, FIRST_AREA);
    loop {
        let mut head = [0; AREA_HEAD as usize];
        image.read_exact(at, &mut head).ok()?;
        let head = head.as_chunks::<8>().0;
        *areas_left = areas_left.checked_sub(1)?;
        let is_one = word(head, 0) == secret && word(head, 2) & 0xffff_ffff == METAS;
        if !is_one || !areas.insert(at) {
            return None;
        }
        match word(head, 1) {
            0 if at == last => break,
            next if next != 0 && next.is_multiple_of(AREA_BYTES) && at != last => at = next,
            _ => return None,
        }
    }
    // No area reaches the end of all addresses.
    areas.last()?.checked_add(AREA_BYTES)?;
    let mut usage = [0; CLASSES];
    for (class, slots) in usage.iter_mut().enumerate() {
        *slots = word(words, USAGE + class);
    }
    Some(Context { address, areas: areas.into_iter().collect(), last, spare, usage })
}
