//! Adds up. Where a block was allocated is a word in a shadow of the address space, by which its release finds the same line.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use crate::layout::*;
use crate::stack::{self, Thread};
use crate::start::{SHARED, is_on};
use crate::system;

/// The address space in parts of 64 MiB, and of each, words for 16 bytes.
const PART: u32 = 26;
const PARTS: usize = 1 << (47 - PART);
const PART_BYTES: usize = (1 << PART) / 16 * 8;
/// Of a word: the number of the place and one, above the size.
const SIZE_BITS: u32 = 40;
/// Slots of the table that finds places.
const SLOTS: usize = SITES * 2;
/// How long biopsy may be silent, in seconds.
const PATIENCE: u64 = 60;

static PARTS_AT: AtomicU64 = AtomicU64::new(0);
static INDEX_AT: AtomicU64 = AtomicU64::new(0);

/// The memory for it. `false`: there is none.
pub fn prepare() -> bool {
    let (Some(parts), Some(index)) = (system::memory(PARTS * 8), system::memory(SLOTS * 8)) else { return false };
    PARTS_AT.store(parts as u64, Relaxed);
    INDEX_AT.store(index as u64, Relaxed);
    true
}

/// A word of memory of ours.
fn word(base: u64, number: usize) -> &'static AtomicU64 {
    // SAFETY: `base` is the beginning of a mapping of ours that is never unmapped, and all callers keep `number` below its length.
    unsafe { &*(base as *const AtomicU64).add(number) }
}

pub fn header(number: usize) -> &'static AtomicU64 {
    word(SHARED.load(Relaxed), number)
}

fn of_site(site: usize, field: usize) -> &'static AtomicU64 {
    header(SITES_AT + site * SITE_WORDS + field)
}

fn shadow(block: usize, make: bool) -> Option<&'static AtomicU64> {
    let part = block >> PART;
    if part >= PARTS {
        return None;
    }
    let slot = word(PARTS_AT.load(Relaxed), part);
    let mut base = slot.load(Acquire);
    if base == 0 {
        if !make {
            return None;
        }
        let new = system::memory(PART_BYTES)? as u64;
        base = match slot.compare_exchange(0, new, AcqRel, Acquire) {
            Ok(_) => new,
            Err(other) => {
                system::call(system::MUNMAP, [new as usize, PART_BYTES, 0, 0, 0, 0]);
                other
            }
        };
    }
    Some(word(base, (block & ((1 << PART) - 1)) >> 4))
}

pub fn allocation(block: usize, size: usize, sp: usize, bp: usize) {
    if block == 0 || !is_on() {
        return;
    }
    let thread = stack::thread();
    if thread.is_time_to_look() && system::seconds().saturating_sub(header(WORD_BEAT).load(Relaxed)) > PATIENCE {
        header(WORD_PROBLEM).store(PROBLEM_GIVEN_UP, Relaxed);
        header(WORD_STOP).store(1, Relaxed);
        return;
    }
    let (site, place) = match (find(sp, bp, thread), shadow(block, true)) {
        (Some(site), Some(place)) => (site, place),
        _ => {
            header(WORD_LOST).fetch_add(1, Relaxed);
            return;
        }
    };
    let size = (size as u64).min((1 << SIZE_BITS) - 1);
    place.store((site as u64 + 1) << SIZE_BITS | size, Release);
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
    let old = take(block);
    released(block, old);
}

/// What is known of a block, which from now on nobody knows: it must be gone before the block is, and somebody else has its address.
pub fn take(block: usize) -> u64 {
    if !is_on() {
        return 0;
    }
    match shadow(block, false) {
        // Blocks belong to whoever frees them: nobody else changes the word meanwhile.
        Some(place) => {
            let old = place.load(Acquire);
            if old != 0 {
                place.store(0, Release);
            }
            old
        }
        None => 0,
    }
}

pub fn put_back(block: usize, old: u64) {
    if old != 0 && let Some(place) = shadow(block, false) {
        place.store(old, Release);
    }
}

pub fn released(block: usize, old: u64) {
    if old == 0 {
        return;
    }
    let (site, size) = ((old >> SIZE_BITS) as usize - 1, old & ((1 << SIZE_BITS) - 1));
    of_site(site, SITE_RELEASED).fetch_add(1, Relaxed);
    of_site(site, SITE_LIVE).fetch_sub(size, Relaxed);
    header(WORD_LIVE).fetch_sub(size, Relaxed);
    if stack::thread().was_last(block) {
        of_site(site, SITE_TEMPORARY).fetch_add(1, Relaxed);
    }
}

/// The line of a stack.
fn find(sp: usize, bp: usize, thread: &Thread) -> Option<usize> {
    let mut frames = [0_u64; DEEPEST];
    let (count, hash) = stack::walk(sp, bp, thread, &mut frames);
    let index = INDEX_AT.load(Relaxed);
    let mut slot = hash as usize % SLOTS;
    let mut made = None;
    // The table is never more than half full.
    for _ in 0..SLOTS {
        let found = word(index, slot).load(Acquire);
        if found == 0 {
            let site = match made {
                Some(site) => site,
                None => make(hash, frames.get(..count)?)?,
            };
            made = Some(site);
            if word(index, slot).compare_exchange(0, site as u64 + 1, AcqRel, Acquire).is_ok() {
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
