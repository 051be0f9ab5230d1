//! The malloc of musl 1.2.0 and before, which is told from others and not read.
//!
//! It has a map of 64 bits, and 64 bins (`src/malloc/oldmalloc/malloc.c`) of 24 bytes each: a lock, the first and the last free chunk. A bin
//! whose bit is set is a ring through itself, less 16 bytes; any other leads to itself, or was never used. In glibc's malloc bins do so
//! as well, 16 bytes apart.

use biopsy_image::{Image, MemoryExt};

/// Bytes of a bin.
const BIN: u64 = 24;
const BINS: u64 = 64;
/// From a bin's first chunk to what would be the chunk that has it as its links.
const BACK: u64 = 16;
/// Bins that are enough.
const FEWEST: usize = 4;
/// Rings that may be torn, because the moment may be in the middle of a change.
const MOST_TORN: usize = 4;
/// Places that are remembered.
const MOST: usize = 1 << 12;
/// Words of the map and of all bins.
const WORDS: usize = 1 + 3 * BINS as usize;
/// Bytes of them.
pub(super) const BYTES: u64 = WORDS as u64 * 8;

/// What looks like bins in data of modules.
#[derive(Default)]
pub(super) struct Bins {
    /// Empty bins.
    places: Vec<u64>,
    /// Maps with bins behind them.
    maps: Vec<u64>,
}

impl Bins {
    pub(super) fn look_at(&mut self, start: u64, words: &[[u8; 8]]) {
        for (number, pair) in words.windows(2).enumerate() {
            let at = start.wrapping_add(number as u64 * 8);
            let empty = at.wrapping_sub(BACK).to_le_bytes();
            if pair.iter().all(|word| *word == empty) && self.places.len() < MOST {
                self.places.push(at);
            }
        }
        for (number, window) in words.windows(WORDS).enumerate() {
            let at = start.wrapping_add(number as u64 * 8);
            if self.maps.len() < MOST && is_map(at, window) {
                self.maps.push(at);
            }
        }
    }

    /// Whether they are those of musl.
    pub(super) fn are_of_old_musl(self, image: &dyn Image) -> bool {
        self.maps.iter().any(|&map| are_rings(image, map)) || self.lie_as_in_old_musl()
    }

    /// Whether enough empty ones lie as the bins of musl do, and nothing else between them.
    fn lie_as_in_old_musl(mut self) -> bool {
        self.places.sort_unstable();
        self.places.dedup();
        let mut rest = self.places.as_slice();
        while let Some(&first) = rest.first() {
            let (near, behind) = rest.split_at(rest.partition_point(|&one| one - first < BINS * BIN));
            // Lists of spans of tcmalloc do so as well, 48 bytes apart.
            let is_odd = |&one: &u64| (one - first) / BIN % 2 == 1;
            let lie_so = near.iter().all(|&one| (one - first).is_multiple_of(BIN));
            if near.len() >= FEWEST && lie_so && near.iter().any(is_odd) {
                return true;
            }
            rest = behind;
        }
        false
    }
}

/// What the first bin behind a map at `at` would be as a chunk.
fn as_chunk(at: u64, bin: u64) -> u64 {
    at.wrapping_add(16 + bin * BIN).wrapping_sub(BACK)
}

/// Whether the bins behind this word are as its bits say, as far as can be seen here.
fn is_map(at: u64, words: &[[u8; 8]]) -> bool {
    let word = |number: usize| words.get(number).map_or(0, |word| u64::from_le_bytes(*word));
    let map = word(0);
    if map.count_ones() < 2 {
        return false;
    }
    (0..BINS).zip((2..).step_by(3)).all(|(bin, place)| {
        let (first, last) = (word(place), word(place + 1));
        let empty = as_chunk(at, bin);
        match map >> bin & 1 {
            1 => {
                [first, last].iter().all(|&chunk| chunk != 0 && chunk.is_multiple_of(BACK) && chunk != empty)
            }
            _ => first == last && (first == 0 || first == empty),
        }
    })
}

/// Whether the bins whose bits are set are rings.
fn are_rings(image: &dyn Image, map: u64) -> bool {
    let word = |at: Option<u64>| at.and_then(|at| image.read_u64(at).ok());
    let bits = word(Some(map)).unwrap_or_default();
    let (mut rings, mut torn) = (0, 0);
    for bin in (0..BINS).filter(|bin| bits >> bin & 1 == 1) {
        let chunk = as_chunk(map, bin);
        let first = word(chunk.checked_add(BACK)).and_then(|first| word(first.checked_add(BACK + 8)));
        let last = word(chunk.checked_add(BACK + 8)).and_then(|last| word(last.checked_add(BACK)));
        if first == Some(chunk) && last == Some(chunk) {
            rings += 1;
        } else {
            torn += 1;
        }
    }
    rings >= FEWEST && torn <= MOST_TORN
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz::{DATA, HEAP, MadeProcess};

    /// Empty bins so many bytes apart.
    fn bins(apart: u64, count: u64) -> Bins {
        const START: u64 = 0x1000;
        let mut words = vec![[0; 8]; 512];
        for number in 0..count {
            let at = 32 + number * apart;
            let place = usize::try_from(at / 8).expect("it fits");
            words[place..place + 2].fill((START + at - BACK).to_le_bytes());
        }
        let mut bins = Bins::default();
        bins.look_at(START, &words);
        bins
    }

    #[test]
    fn bins_of_old_musl_are_not_taken_for_those_of_glibc() {
        let image = MadeProcess::default();
        assert!(bins(BIN, 12).are_of_old_musl(&image));
        assert!(!bins(BIN, 3).are_of_old_musl(&image));
        assert!(!bins(16, 127).are_of_old_musl(&image));
        assert!(!bins(48, 12).are_of_old_musl(&image), "those of tcmalloc");
    }

    /// A process all of whose bins have one chunk; some of them lead elsewhere.
    fn warnings(torn: u64) -> Vec<String> {
        const MAP: u64 = DATA + 0x800;
        let mut made = MadeProcess::empty();
        made.word(MAP, u64::MAX);
        for bin in 0..BINS {
            let (chunk, free) = (as_chunk(MAP, bin), HEAP + bin * 64);
            made.word(chunk + BACK, free);
            made.word(chunk + BACK + 8, free);
            made.word(free + BACK, chunk);
            made.word(free + BACK + 8, if bin < torn { 0 } else { chunk });
        }
        crate::footprint(&made, &[]).warnings
    }

    #[test]
    fn that_the_old_malloc_is_not_read_is_said() {
        for torn in [0, 4] {
            assert!(warnings(torn)[0].contains("musl 1.2.0 or before"), "{:?}", warnings(torn));
        }
        assert!(warnings(5).is_empty());
    }
}
