//! Finding the main arena without symbols, by what its bins must look like.
//!
//! An arena (`struct malloc_state`, malloc/malloc.c of glibc) has 127 pairs of pointers. A bin is a ring of free chunks through
//! its pair; seen as a chunk it begins 16 bytes before it, and an empty bin's pair points to just there. Most bins are empty at most
//! times, and nothing else looks like that. What stands before and behind the bins follows from where the ring of arenas closes.

use biopsy_image::{Backing, Image, Mapping, MemoryExt};

use super::chunk::BACK;

/// Pairs of pointers in an arena (`NBINS` - 1).
const BINS: u64 = 127;
/// Bytes of a pair.
const PAIR: u64 = 16;
/// From the first bin to the pointer to the next arena: the bins, and a bitmap of 128 bits.
const BINS_TO_NEXT: u64 = BINS * PAIR + 16;
/// From that pointer to its arena's size in bytes: `next`, `next_free`, `attached_threads` come first.
const NEXT_TO_SYSTEM: u64 = 24;
/// From that pointer to the end of the structure: `system_mem` and `max_system_mem` come last.
const NEXT_TO_END: u64 = 40;
/// Before the first bin: `top` and `last_remainder`.
const TOP_TO_BINS: u64 = 16;
/// Empty bins that are enough to look further.
const FEWEST_EMPTY: usize = 16;
/// Bins that may be neither empty nor a ring: the moment may be in the middle of a change.
const MOST_TORN: u64 = 4;
/// Arenas of one process: glibc makes eight for each processor, unless it is told otherwise.
const MOST_ARENAS: usize = 1 << 16;
/// Arenas that are passed on all rings that are tried: a hostile process may have many that lead nowhere.
const MOST_STEPS: usize = 4 * MOST_ARENAS;
/// Bytes of data of modules that are searched.
const MOST_SEARCHED: u64 = 128 << 20;
/// Bytes read at once.
const PIECE: u64 = 4 << 20;

/// What stands before `top`: bytes before the fast bins, and fast bins (with `have_fastchunks` since 2.27; without fast bins
/// from the versions on that have dropped them).
const HEADS: [(u64, u64); 4] = [(16, 10), (8, 10), (16, 0), (8, 0)];

/// Where the members of an arena are, from its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    pub(super) fast_bins: u64,
    pub(super) fast_count: u64,
    pub(super) top: u64,
    pub(super) next: u64,
    pub(super) system: u64,
    pub(super) size: u64,
}

impl Layout {
    fn of((head, fast_count): (u64, u64)) -> Self {
        let top = head + fast_count * 8;
        let next = top + TOP_TO_BINS + BINS_TO_NEXT;
        Self {
            fast_bins: head,
            fast_count,
            top,
            next,
            system: next + NEXT_TO_SYSTEM,
            size: next + NEXT_TO_END,
        }
    }
}

/// All arenas of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Arenas {
    pub(super) layout: Layout,
    /// Their addresses, the main one first.
    pub(super) addresses: Vec<u64>,
    /// The data of the module that holds the main one.
    pub(super) data: Mapping,
}

/// Finds the arenas, in the data of the C library or of a static program.
pub(super) fn arenas(image: &dyn Image) -> Option<Arenas> {
    let mut budget = MOST_SEARCHED;
    let mut steps = MOST_STEPS;
    let is_libc = |one: &Mapping| {
        let name = one.path().and_then(|path| path.rsplit(|&byte| byte == b'/').next()).unwrap_or_default();
        name.starts_with(b"libc.so") || name.starts_with(b"libc-")
    };
    let data = || image.mappings().iter().filter(|one| is_data(one));
    let in_order = data().filter(|one| is_libc(one)).chain(data().filter(|one| !is_libc(one)));
    in_order
        .take_while(|one| {
            let fits = one.size() <= budget;
            budget = budget.saturating_sub(one.size());
            fits
        })
        .find_map(|mapping| in_data(image, mapping, &mut steps))
}

/// Data of a module, as the loader maps it.
fn is_data(one: &Mapping) -> bool {
    matches!(one.backing, Backing::File { .. }) && one.protection.write && !one.shared
}

fn in_data(image: &dyn Image, mapping: &Mapping, steps: &mut usize) -> Option<Arenas> {
    let mut runs = Vec::new();
    image.written(mapping.range(), &mut runs).ok()?;
    let mut empty = Vec::new();
    let mut bytes = Vec::new();
    for run in runs {
        let mut at = run.start;
        while at < run.end {
            let length = (run.end - at).min(PIECE);
            bytes.resize(usize::try_from(length).ok()?, 0);
            let read = image.read_available(at, &mut bytes) as u64;
            empty_bins(at, bytes.get(..usize::try_from(read).ok()?)?, &mut empty);
            // A pair may lie across two pieces: the next one begins before it.
            at = if at + length < run.end { at + length - PAIR } else { run.end };
        }
    }
    empty.dedup();
    // The bins of one arena have the same distance to a multiple of a pair: 16, so any first one will do.
    let mut rest = empty.as_slice();
    while let Some((&first, _)) = rest.split_first() {
        let (near, behind) = rest.split_at(rest.partition_point(|&one| one - first < BINS * PAIR));
        rest = behind;
        if near.iter().filter(|&&one| (one - first) % PAIR == 0).count() < FEWEST_EMPTY {
            continue;
        }
        let found = (0..BINS).filter_map(|before| first.checked_sub(before * PAIR)).find_map(|bins| {
            let (layout, addresses) = arenas_of(image, bins, steps)?;
            Some(Arenas { layout, addresses, data: mapping.clone() })
        });
        if found.is_some() {
            return found;
        }
    }
    None
}

/// Appends the addresses of all pairs that look like an empty bin.
fn empty_bins(start: u64, bytes: &[u8], found: &mut Vec<u64>) {
    let words = bytes.as_chunks::<8>().0;
    for (index, pair) in words.windows(2).enumerate() {
        let at = start + index as u64 * 8;
        let empty = at.wrapping_sub(BACK).to_le_bytes();
        if pair.iter().all(|word| *word == empty) {
            found.push(at);
        }
    }
}

/// The ring of arenas, if the bins of the main one begin here.
fn arenas_of(image: &dyn Image, bins: u64, steps: &mut usize) -> Option<(Layout, Vec<u64>)> {
    let next = image.read_u64(bins.checked_add(BINS_TO_NEXT)?).ok()?;
    HEADS.into_iter().map(Layout::of).find_map(|layout| {
        let main = bins.checked_sub(layout.top + TOP_TO_BINS)?;
        // Data of a dump may reach to the end of all addresses, and what stands behind `next` would be behind it.
        main.checked_add(layout.size)?;
        let ring = ring(image, main, next, layout, steps)?;
        are_bins(image, bins).then_some((layout, ring))
    })
}

/// Follows the ring from the main arena back to it.
fn ring(image: &dyn Image, main: u64, first: u64, layout: Layout, steps: &mut usize) -> Option<Vec<u64>> {
    let mut ring = vec![main];
    let mut next = first;
    while next != main {
        *steps = steps.checked_sub(1)?;
        if ring.len() >= MOST_ARENAS || next == 0 || !next.is_multiple_of(8) {
            return None;
        }
        ring.push(next);
        next = image.read_u64(next.checked_add(layout.next)?).ok()?;
    }
    Some(ring)
}

/// Whether each of them is empty or begins a ring.
fn are_bins(image: &dyn Image, bins: u64) -> bool {
    let mut torn = 0;
    for bin in (0..BINS).map(|number| bins + number * PAIR) {
        let chunk = bin.wrapping_sub(BACK);
        let pair = [bin, bin + 8].map(|at| image.read_u64(at).ok());
        let [Some(forward), Some(back)] = pair else { return false };
        let is_empty = forward == chunk && back == chunk;
        let leads_back = |neighbour: u64, offset| {
            neighbour.checked_add(offset).and_then(|at| image.read_u64(at).ok()) == Some(chunk)
        };
        let is_ring = || leads_back(forward, BACK + 8) && leads_back(back, BACK);
        if !(is_empty || is_ring()) {
            torn += 1;
        }
    }
    torn <= MOST_TORN
}
