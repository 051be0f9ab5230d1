//! The malloc of musl 1.2.0 and before, which is told from others and not read.
//!
//! Its 64 bins (`src/malloc/oldmalloc/malloc.c`) are 24 bytes each: a lock, the first and the last free chunk. A bin that was used
//! and is empty leads to itself, less 16 bytes. In glibc's malloc bins do so as well, 16 bytes apart.

/// Bytes of a bin.
const BIN: u64 = 24;
const BINS: u64 = 64;
/// From a bin's first chunk to what would be the chunk that has it as its links.
const BACK: u64 = 16;
/// Empty bins that are enough.
const FEWEST: usize = 4;
/// Places that are remembered.
const MOST: usize = 1 << 16;

/// Places in data of modules that look like empty bins.
#[derive(Default)]
pub(super) struct Bins {
    places: Vec<u64>,
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
    }

    /// Whether enough of them lie as the bins of musl do, and nothing else between them.
    pub(super) fn are_of_old_musl(mut self) -> bool {
        self.places.sort_unstable();
        self.places.dedup();
        let mut rest = self.places.as_slice();
        while let Some(&first) = rest.first() {
            let (near, behind) = rest.split_at(rest.partition_point(|&one| one - first < BINS * BIN));
            if near.len() >= FEWEST && near.iter().all(|&one| (one - first).is_multiple_of(BIN)) {
                return true;
            }
            rest = behind;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(bins(BIN, 12).are_of_old_musl());
        assert!(!bins(BIN, 3).are_of_old_musl());
        assert!(!bins(16, 127).are_of_old_musl());
    }
}
