//! Adds up. Where a block was allocated is a word in a shadow of the address space, by which its release finds the same line.

use core::mem::MaybeUninit;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::layout::*;
use crate::stack::{self, Thread};
use crate::start::{self, SHARED, is_on};
use crate::system;

/// The address space in parts of 64 MiB, and of each, a word for so many bytes as are at least from one block to the next.
const PART: u32 = 26;
const PARTS: usize = 1 << (47 - PART);
/// Bits of a word for a size: the number of the place and one is above it. A size that does not fit is all ones, and is in the next
/// three words, which are of the same block then; with nothing above it, a word is of no block.
const WORD_BITS: u32 = 13;
const IN_NEXT: u64 = (1 << WORD_BITS) - 1;
const SIZE_BITS: u32 = 3 * WORD_BITS;
const _: () = assert!(SITES < 1 << (32 - WORD_BITS));
/// Slots of the table that finds places.
const SLOTS: usize = SITES * 2;
/// How long biopsy may be silent, in seconds.
const PATIENCE: u64 = 60;

static PARTS_AT: AtomicU64 = AtomicU64::new(0);
static INDEX_AT: AtomicU64 = AtomicU64::new(0);
/// Bytes of a word, as a power of two: with all allocators 16, as blocks are so large at least (`calls::least`).
static GRAIN: AtomicU32 = AtomicU32::new(4);

/// The memory for it. `false`: there is none. `are_apart`: blocks begin 32 bytes from each other at least, which halves what is beside them.
pub fn prepare(are_apart: bool) -> bool {
    let (Some(parts), Some(index)) = (system::memory(PARTS * 8), system::memory(SLOTS * 4)) else { return false };
    PARTS_AT.store(parts as u64, Relaxed);
    INDEX_AT.store(index as u64, Relaxed);
    GRAIN.store(if are_apart { 5 } else { 4 }, Relaxed);
    true
}

/// A word of memory of ours.
fn word(base: u64, number: usize) -> &'static AtomicU64 {
    // SAFETY: `base` is the beginning of a mapping of ours that is never unmapped, and all callers keep `number` below its length.
    unsafe { &*(base as *const AtomicU64).add(number) }
}

/// Half a word of memory of ours.
fn half(base: u64, number: usize) -> &'static AtomicU32 {
    // SAFETY: as above.
    unsafe { &*(base as *const AtomicU32).add(number) }
}

pub fn header(number: usize) -> &'static AtomicU64 {
    word(SHARED.load(Relaxed), number)
}

fn of_site(site: usize, field: usize) -> &'static AtomicU64 {
    header(SITES_AT + site * SITE_WORDS + field)
}

fn shadow(block: usize, make: bool) -> Option<&'static AtomicU32> {
    let part = block >> PART;
    if part >= PARTS {
        return None;
    }
    let slot = word(PARTS_AT.load(Relaxed), part);
    let grain = GRAIN.load(Relaxed);
    let part_bytes = (1 << PART >> grain) * 4;
    let mut base = slot.load(Acquire);
    if base == 0 {
        if !make {
            return None;
        }
        let new = system::memory(part_bytes)? as u64;
        base = match slot.compare_exchange(0, new, AcqRel, Acquire) {
            Ok(_) => new,
            Err(other) => {
                system::call(system::MUNMAP, [new as usize, part_bytes, 0, 0, 0, 0]);
                other
            }
        };
    }
    Some(half(base, (block & ((1 << PART) - 1)) >> grain))
}

/// One of the words behind that of a block which has them.
fn behind(block: usize, number: u32, make: bool) -> Option<&'static AtomicU32> {
    shadow(block + ((number as usize + 1) << GRAIN.load(Relaxed)), make)
}

/// What is known of a block: the number of its place and one, above its size.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Known(u64);

impl Known {
    pub const NOTHING: Self = Self(0);

    fn new(site: usize, size: u64) -> Self {
        Self((site as u64 + 1) << SIZE_BITS | size)
    }

    fn site(self) -> Option<usize> {
        ((self.0 >> SIZE_BITS) as usize).checked_sub(1).filter(|site| *site < SITES)
    }

    fn size(self) -> u64 {
        self.0 & ((1 << SIZE_BITS) - 1)
    }

    fn keep(self, block: usize) -> Option<()> {
        let (first, size) = (shadow(block, true)?, self.size());
        if size >= IN_NEXT {
            for number in 0..3 {
                let part = size >> (number * WORD_BITS) & IN_NEXT;
                behind(block, number, true)?.store(part as u32, Relaxed);
            }
        }
        first.store((self.0 >> SIZE_BITS << WORD_BITS | size.min(IN_NEXT)) as u32, Release);
        Some(())
    }

    /// Blocks belong to whoever frees them: nobody else changes their words meanwhile.
    fn take(block: usize) -> Self {
        let Some(place) = shadow(block, false) else { return Self::NOTHING };
        let word = u64::from(place.load(Acquire));
        let (site, mut size) = (word >> WORD_BITS, word & IN_NEXT);
        if site == 0 {
            return Self::NOTHING;
        }
        place.store(0, Release);
        if size == IN_NEXT {
            let part = |number: u32| {
                let place = behind(block, number, false);
                place.map_or(0, |place| u64::from(place.load(Relaxed)) & IN_NEXT) << (number * WORD_BITS)
            };
            size = part(0) | part(1) | part(2);
        }
        Self(site << SIZE_BITS | size)
    }
}

pub fn allocation(block: usize, size: usize, sp: usize, bp: usize) {
    if block == 0 || !is_on() {
        return;
    }
    let thread = stack::thread();
    if thread.is_time_to_look() && start::seconds().saturating_sub(header(WORD_BEAT).load(Relaxed)) > PATIENCE {
        header(WORD_PROBLEM).store(PROBLEM_GIVEN_UP, Relaxed);
        header(WORD_STOP).store(1, Relaxed);
        return;
    }
    // It was given back in a way that we have no part in: nobody has it, or it would not be given out.
    count_back(Known::take(block));
    let size = (size as u64).min((1 << SIZE_BITS) - 1);
    let site = find(sp, bp, thread).filter(|site| Known::new(*site, size).keep(block).is_some());
    let Some(site) = site else {
        header(WORD_LOST).fetch_add(1, Relaxed);
        return;
    };
    thread.set_last(block);
    of_site(site, SITE_CALLS).fetch_add(1, Relaxed);
    of_site(site, SITE_BYTES).fetch_add(size, Relaxed);
    let live = of_site(site, SITE_LIVE).fetch_add(size, Relaxed).wrapping_add(size);
    highest(of_site(site, SITE_PEAK), live);
    let live = header(WORD_LIVE).fetch_add(size, Relaxed).wrapping_add(size);
    highest(header(WORD_PEAK), live);
}

fn highest(of: &AtomicU64, value: u64) {
    if value > of.load(Relaxed) {
        of.fetch_max(value, Relaxed);
    }
}

pub fn release(block: usize) {
    let known = take(block);
    released(block, known);
}

/// What is known of a block, which from now on nobody knows: it must be gone before the block is, and somebody else has its address.
pub fn take(block: usize) -> Known {
    if is_on() { Known::take(block) } else { Known::NOTHING }
}

pub fn put_back(block: usize, known: Known) {
    if known != Known::NOTHING {
        // Its words are there: it was taken from them.
        let _ = known.keep(block);
    }
}

pub fn released(block: usize, known: Known) {
    let Some(site) = count_back(known) else { return };
    if stack::thread().was_last(block) {
        of_site(site, SITE_TEMPORARY).fetch_add(1, Relaxed);
    }
}

fn count_back(known: Known) -> Option<usize> {
    let (site, size) = (known.site()?, known.size());
    of_site(site, SITE_RELEASED).fetch_add(1, Relaxed);
    of_site(site, SITE_LIVE).fetch_sub(size, Relaxed);
    header(WORD_LIVE).fetch_sub(size, Relaxed);
    Some(site)
}

/// The line of a stack.
fn find(sp: usize, bp: usize, thread: &Thread) -> Option<usize> {
    // Nothing is written before it is known.
    let mut frames = [const { MaybeUninit::<u64>::uninit() }; DEEPEST];
    let (frames, hash) = stack::walk(sp, bp, thread, &mut frames);
    let index = INDEX_AT.load(Relaxed);
    let mut slot = hash as usize % SLOTS;
    let mut made = None;
    // The table is never more than half full.
    for _ in 0..SLOTS {
        let found = half(index, slot).load(Acquire);
        if found == 0 {
            let site = match made {
                Some(site) => site,
                None => make(hash, frames)?,
            };
            made = Some(site);
            if half(index, slot).compare_exchange(0, site as u32 + 1, AcqRel, Acquire).is_ok() {
                return Some(site);
            }
            // Somebody else was here: perhaps with the same stack. What was made stays unused.
            continue;
        }
        let site = found as usize - 1;
        if of_site(site, SITE_HASH).load(Relaxed) == hash {
            return Some(site);
        }
        slot = (slot + 1) % SLOTS;
    }
    None
}

fn make(hash: u64, frames: &[u64]) -> Option<usize> {
    let first = header(WORD_FRAMES).load(Relaxed) as usize;
    if first + frames.len() > FRAMES || header(WORD_SITES).load(Relaxed) as usize >= SITES {
        return None;
    }
    let first = header(WORD_FRAMES).fetch_add(frames.len() as u64, Relaxed) as usize;
    let site = header(WORD_SITES).fetch_add(1, Relaxed) as usize;
    if first + frames.len() > FRAMES || site >= SITES {
        return None;
    }
    for (number, frame) in frames.iter().enumerate() {
        header(FRAMES_AT + first + number).store(*frame, Relaxed);
    }
    of_site(site, SITE_HASH).store(hash, Relaxed);
    of_site(site, SITE_FRAMES).store((first as u64) << 8 | frames.len() as u64, Release);
    Some(site)
}
