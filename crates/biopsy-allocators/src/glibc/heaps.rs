//! Which memory belongs to an arena.
//!
//! The main arena grows the data segment (brk(2)); the others have heaps of 64 MiB of addresses each (`heap_info`, malloc/arena.c),
//! aligned to that, with the arena's own bookkeeping in the first.

use std::ops::Range;

use biopsy_image::{Backing, Image, Mapping, MemoryExt};

use super::chunk::ALIGNMENT;
use super::find::Layout;

/// Addresses of a heap (`HEAP_MAX_SIZE`).
const HEAP: u64 = 64 << 20;
/// Heaps of one arena.
const MOST_HEAPS: usize = 1 << 16;
/// Members of `heap_info`: the arena, the heap before, its size.
const OF_ARENA: u64 = 0;
const BEFORE: u64 = 8;
const SIZE: u64 = 16;
/// Bytes that `heap_info` may have, more in newer versions.
const HEADS: Range<u64> = 32..96;

/// A piece of memory with chunks side by side.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Heap {
    /// From its first byte, bookkeeping included.
    pub(super) range: Range<u64>,
    /// Where the first chunk is.
    pub(super) first: u64,
}

/// The heap of the main arena, which has its last chunk at `top`: from where the data segment began to grow. What is locked, kept out of dumps
/// or made of huge pages is a mapping of its own, so that the segment is all that lies side by side.
pub(super) fn of_main(image: &dyn Image, start: Option<u64>, top: u64) -> Option<Heap> {
    let mappings = image.mappings();
    let number = mappings.partition_point(|one| one.end <= top);
    let grown = mappings.get(number).filter(|one| one.contains(top))?;
    let start = start.filter(|&start| leads_to(mappings, start, number)).unwrap_or(grown.start);
    // The last chunk says how far it goes.
    let size = image.read_u64(top.saturating_add(8)).map_or(0, |word| word & !7);
    let wanted = top.saturating_add(size);
    let mut end = grown.end;
    for more in mappings.iter().skip(number + 1).take_while(|more| !is_of_others(more)) {
        if end >= wanted || more.start != end {
            break;
        }
        end = more.end;
    }
    Some(Heap { range: start..end, first: start.checked_next_multiple_of(ALIGNMENT)? })
}

/// Whether memory lies side by side from `start` to the mapping with this number.
fn leads_to(mappings: &[Mapping], start: u64, number: usize) -> bool {
    let first = mappings.partition_point(|one| one.end <= start);
    let Some(all) = mappings.get(first..=number) else { return false };
    let side_by_side = all.windows(2).all(|pair| pair[0].end == pair[1].start);
    all.first().is_some_and(|one| one.contains(start))
        && side_by_side
        && (all.len() == 1 || !all.iter().any(is_of_others))
}

/// The data segment does not grow over it.
fn is_of_others(one: &Mapping) -> bool {
    one.shared || matches!(one.backing, Backing::File { .. } | Backing::Kernel { .. })
}

/// The heaps of another arena, the newest first.
pub(super) fn of_other(image: &dyn Image, layout: Layout, arena: u64, top: u64) -> Option<Vec<Heap>> {
    let word = |at: u64| image.read_u64(at).ok();
    let own = arena - arena % HEAP;
    let head = arena - own;
    if !HEADS.contains(&head) {
        return None;
    }
    let mut heaps = Vec::new();
    let mut at = top - top % HEAP;
    loop {
        if word(at.checked_add(OF_ARENA)?)? != arena || heaps.len() >= MOST_HEAPS {
            return None;
        }
        let size = word(at.checked_add(SIZE)?)?;
        let end = at.checked_add(size).filter(|_| size <= HEAP)?;
        let used = if at == own { head + layout.size } else { head };
        let first = at.checked_add(used)?.checked_next_multiple_of(ALIGNMENT)?;
        heaps.push(Heap { range: at..end, first });
        match word(at.checked_add(BEFORE)?)? {
            0 if at == own => return Some(heaps),
            // Heaps are made one after the other, and none leads back to itself.
            before if before % HEAP == 0 && before != 0 && before != at => at = before,
            _ => return None,
        }
    }
}
