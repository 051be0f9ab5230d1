//! Small objects: pools of blocks of one size (Objects/obmalloc.c), found by what must be true of their heads.
//!
//! ```text
//! pool, 4 KiB (to 3.9) or 16 KiB: 0 blocks in use (4)  8 first free block  16 next pool  24 previous  32 arena (4)
//!       36 size class (4): 16 * (class + 1)  40 first byte that was never given out (4)  44 last place for a block (4)  48 blocks
//! ```

use std::ops::Range;

use biopsy_allocators::UsedBlock;
use biopsy_image::{Backing, Image, MemoryExt};
use biopsy_model::Avma;

use crate::words::{MISSING, written};

/// Bytes that are read at once.
const PIECE: u64 = 1 << 20;
/// Bytes of the largest arena.
const ARENA: u64 = 1 << 20;
const HEAD: u64 = 48;
const POOLS: [u64; 2] = [4 << 10, 16 << 10];
const CLASSES: u32 = 32;

/// Appends the blocks in use, up to `most` in all, and returns where pools are and have been, by address.
pub(crate) fn find(
    image: &dyn Image,
    areas: &[Range<u64>],
    blocks: &mut Vec<UsedBlock>,
    most: usize,
) -> Vec<Range<u64>> {
    let mut pools: Vec<Range<u64>> = Vec::new();
    let mut piece = Piece { image, start: 0, bytes: Vec::new() };
    let mut missing = 0;
    for mapping in image.mappings() {
        let is_anonymous = matches!(mapping.backing, Backing::Anonymous { .. } | Backing::Unknown);
        if !is_anonymous || !mapping.protection.write || mapping.shared {
            continue;
        }
        let mut behind = 0;
        for run in written(image, mapping.range()) {
            let mut next = run.start.max(behind).checked_next_multiple_of(POOLS[0]);
            while let Some(at) = next.filter(|at| *at < run.end && blocks.len() < most && missing < MISSING) {
                let known = areas.partition_point(|area| area.end <= at);
                if let Some(area) = areas.get(known).filter(|area| area.contains(&at)) {
                    next = area.end.checked_next_multiple_of(POOLS[0]);
                    continue;
                }
                let bytes = piece.at(at, run.end);
                missing += usize::from(bytes.is_empty());
                let size = match pool(at, bytes) {
                    Some((size, used)) => {
                        blocks.extend(used);
                        // Between two pools of an arena there are such that are empty now, in which old objects still lie.
                        let last = pools.last_mut().filter(|last: &&mut Range<u64>| {
                            last.start >= mapping.start && at.saturating_sub(last.end) <= ARENA
                        });
                        match last {
                            Some(last) => last.end = last.end.max(at.saturating_add(size)),
                            None => pools.push(at..at.saturating_add(size)),
                        }
                        size
                    }
                    None => POOLS[0],
                };
                behind = at.saturating_add(size);
                next = at.checked_add(size);
            }
        }
    }
    pools
}

/// Memory that is gone through in the order of its addresses.
struct Piece<'i> {
    image: &'i dyn Image,
    start: u64,
    bytes: Vec<u8>,
}

impl Piece<'_> {
    /// As much of a pool as there is: of the last one before `end` behind that too, since not all of its pages need to be written.
    fn at(&mut self, at: u64, end: u64) -> &[u8] {
        let [_, largest] = POOLS;
        let held = self.start.saturating_add(self.bytes.len() as u64);
        if at < self.start || at.saturating_add(largest) > held {
            let length = end.saturating_sub(at).clamp(largest, PIECE);
            self.bytes.resize(usize::try_from(length).unwrap_or(0), 0);
            self.start = at;
            let read = self.image.read_available(at, &mut self.bytes);
            self.bytes.truncate(read);
        }
        let from = usize::try_from(at - self.start).unwrap_or(usize::MAX);
        let rest = self.bytes.get(from..).unwrap_or_default();
        rest.get(..largest as usize).unwrap_or(rest)
    }
}

/// The size of the pool that begins here, and its blocks in use: the list of free ones must be as long as the head says.
fn pool(at: u64, bytes: &[u8]) -> Option<(u64, Vec<UsedBlock>)> {
    let word = |offset: u64| {
        let offset = usize::try_from(offset).ok()?;
        bytes.get(offset..offset.checked_add(8)?)?.try_into().ok().map(u64::from_le_bytes)
    };
    let half = |offset: u64| {
        let offset = usize::try_from(offset).ok()?;
        bytes.get(offset..offset.checked_add(4)?)?.try_into().ok().map(u32::from_le_bytes)
    };
    let (in_use, class, next, last) = (half(0)?, half(36)?, u64::from(half(40)?), u64::from(half(44)?));
    let size = (class < CLASSES).then(|| (u64::from(class) + 1) * 16)?;
    let whole = POOLS.into_iter().find(|whole| last + size == *whole)?;
    if in_use == 0
        || next < HEAD + size
        || next > last + size
        || !(next - HEAD).is_multiple_of(size)
        || !at.is_multiple_of(whole)
    {
        return None;
    }
    let count = (next - HEAD) / size;
    let mut is_free = vec![false; usize::try_from(count).ok()?];
    let mut free = word(8)?;
    let mut frees = 0;
    while free != 0 {
        let offset =
            free.checked_sub(at).filter(|offset| *offset >= HEAD && (offset - HEAD).is_multiple_of(size))?;
        let slot = is_free.get_mut(usize::try_from((offset - HEAD) / size).ok()?).filter(|slot| !**slot)?;
        *slot = true;
        frees += 1;
        free = word(offset)?;
    }
    if frees + u64::from(in_use) != count {
        return None;
    }
    let used = is_free.iter().enumerate().filter(|(_, is_free)| !**is_free);
    let used = used.map(|(number, _)| UsedBlock { start: Avma(at + HEAD + number as u64 * size), size });
    Some((whole, used.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: u64 = 0x7f00_0000_4000;

    /// A pool of 64-byte blocks: four given out, the second free again.
    fn made() -> Vec<u8> {
        let mut bytes = vec![0; 16 << 10];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &3_u32.to_le_bytes());
        put(8, &(AT + HEAD + 64).to_le_bytes());
        put(36, &3_u32.to_le_bytes());
        put(40, &(48 + 4 * 64_u32).to_le_bytes());
        put(44, &((16 << 10) - 64_u32).to_le_bytes());
        bytes
    }

    #[test]
    fn blocks_in_use_are_those_that_are_in_no_list() {
        let (size, used) = pool(AT, &made()).expect("a pool");
        assert_eq!(size, 16 << 10);
        let starts: Vec<u64> = used.iter().map(|block| (block.start.0 - AT - HEAD) / 64).collect();
        assert_eq!(starts, [0, 2, 3]);
    }

    #[test]
    fn what_does_not_add_up_is_no_pool() {
        for (at, value) in [(0, 2_u32), (0, 0), (36, 32), (36, u32::MAX), (40, 48), (40, 49), (44, 100)] {
            let mut bytes = made();
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
            assert!(pool(AT, &bytes).is_none(), "{at}: {value}");
        }
        let mut circle = made();
        circle[112..120].copy_from_slice(&(AT + HEAD + 64).to_le_bytes());
        assert!(pool(AT, &circle).is_none());
        assert!(pool(AT + 4096, &made()).is_none(), "a pool begins at a multiple of its size");
        assert!(pool(AT, &made()[..100]).is_none());
    }
}
