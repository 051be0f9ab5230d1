//! The first stage: where one of many short texts may start, in ASCII and in UTF-16 of both orders, in one pass.
//!
//! Like Teddy of the `aho-corasick` crate, which looks bytes up by halves in tables of 16 bytes, 16 to 64 lookups at a
//! time, and lets each bit of the result stand for a group of texts. Two things are different. The lookups of a byte
//! serve both its reading as ASCII (neighbours at 1, 2, 3) and as half of a UTF-16 character (neighbours at 2, 4, 6),
//! so UTF-16 costs little more; and letters match in both cases, so one text stands for all its spellings. Teddy over
//! the same texts in three encodings and three spellings is beyond its limit of patterns, and ran at half the speed
//! (docs/design/08-scrubbing.md).

use std::collections::BTreeSet;
use std::ops::Range;

use fearless_simd::prelude::*;
use fearless_simd::{Level, Simd, dispatch, u8x16};

use super::gram::{self, GRAM, Gram, SETS, Tables};

/// Bits of the table of hashes.
const HASH_BITS: u32 = 13;
/// Words that hold them.
const WORDS: usize = (1 << HASH_BITS) / 64;
/// Bytes that a place is decided by, from its start on: four characters of UTF-16, without the last half.
const REACH: usize = 2 * GRAM - 1;
/// Memory is tested for zeros in steps of this many bytes.
const PAGE: usize = 4096;

/// A set of texts to look for.
#[derive(Debug)]
pub(super) struct Filter {
    tables: [Tables; SETS],
    /// Bits by hash of a whole gram, and by hash of one of three bytes.
    whole: Box<[u64; WORDS]>,
    short: Box<[u64; WORDS]>,
    any_short: bool,
    /// Anchors by slot of [`Filter::slot`].
    slots: Vec<Vec<Entry>>,
    level: Level,
}

/// An anchor as it is found by its gram.
#[derive(Clone, Debug)]
struct Entry {
    anchor: usize,
    /// Of the gram in the anchor.
    offset: usize,
    gram: Gram,
}

/// A place where the gram of an anchor stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Candidate {
    /// Start of the anchor, if it is one.
    pub(super) start: usize,
    /// Which one.
    pub(super) anchor: usize,
    /// 1: bytes; 2: every other byte.
    pub(super) stride: usize,
}

impl Filter {
    /// A filter for `anchors`, each of at least three bytes, and whether their case matters.
    pub(super) fn new(anchors: &[(&[u8], bool)]) -> Self {
        let chosen = gram::choose(anchors);
        let grams: BTreeSet<Gram> = chosen.iter().map(|(_, gram)| *gram).collect();
        let mut filter = Self {
            tables: Tables::new(&grams),
            whole: Box::new([0; WORDS]),
            short: Box::new([0; WORDS]),
            any_short: false,
            slots: vec![Vec::new(); 1 << HASH_BITS],
            level: Level::new(),
        };
        for (anchor, (offset, gram)) in chosen.into_iter().enumerate() {
            let bytes = u32::from_le_bytes(gram.bytes.map(|byte| byte.unwrap_or_default()));
            let short = gram.bytes[GRAM - 1].is_none();
            let hash = if short { hash_short(bytes) } else { hash(bytes) };
            let bits = if short { &mut filter.short } else { &mut filter.whole };
            bits[hash >> 6] |= 1 << (hash & 63);
            filter.any_short |= short;
            filter.slots[hash].push(Entry { anchor, offset, gram });
        }
        filter
    }

    /// Calls `found` with every place in `bytes` whose gram is that of an anchor, by place.
    pub(super) fn scan(&self, bytes: &[u8], places: &mut Vec<usize>, mut found: impl FnMut(Candidate)) {
        places.clear();
        for run in runs_without_zeros(bytes) {
            dispatch!(self.level, simd => vectors(simd, self, bytes, run.clone(), places));
        }
        for at in places.iter().copied() {
            for stride in [1, 2] {
                let Some(gram) = gram_at(bytes, at, stride) else { continue };
                for (hash, short) in [(hash(gram), false), (hash_short(gram), true)] {
                    for entry in &self.slots[hash] {
                        let same = entry.gram.bytes[GRAM - 1].is_none() == short && entry.is(gram);
                        if let Some(start) = at.checked_sub(entry.offset * stride).filter(|_| same) {
                            found(Candidate { start, anchor: entry.anchor, stride });
                        }
                    }
                }
            }
        }
    }

    /// Whether the hash of a gram is that of an anchor.
    #[inline(always)]
    fn knows(&self, gram: u32) -> bool {
        let hash = hash(gram);
        if (self.whole[hash >> 6] >> (hash & 63)) & 1 == 1 {
            return true;
        }
        let hash = hash_short(gram);
        self.any_short && (self.short[hash >> 6] >> (hash & 63)) & 1 == 1
    }

    /// Whether the eight bytes from a place on begin with the gram of an anchor, in either reading.
    #[inline(always)]
    fn knows_either(&self, bytes: u64) -> bool {
        self.knows(bytes as u32) || (bytes & BETWEEN == 0 && self.knows(every_other(bytes)))
    }
}

impl Entry {
    fn is(&self, gram: u32) -> bool {
        let bytes =
            gram.to_le_bytes().map(|byte| if self.gram.exact { byte } else { byte.to_ascii_lowercase() });
        self.gram.bytes.iter().zip(bytes).all(|(want, byte)| want.is_none_or(|want| want == byte))
    }
}

/// The halves between four characters of UTF-16, when the first byte is one of a character.
const BETWEEN: u64 = 0x0000_ff00_ff00_ff00;

/// The bytes at 0, 2, 4 and 6.
#[inline(always)]
fn every_other(bytes: u64) -> u32 {
    (bytes & 0xff | (bytes >> 8) & 0xff00 | (bytes >> 16) & 0xff_0000 | (bytes >> 24) & 0xff00_0000) as u32
}

/// The four characters at `at`; those behind the end of `bytes` are zero.
fn gram_at(bytes: &[u8], at: usize, stride: usize) -> Option<u32> {
    let gram = eight(bytes, at);
    if stride == 1 {
        return Some(gram as u32);
    }
    (gram & BETWEEN == 0).then(|| every_other(gram))
}

/// The eight bytes at `at`; those behind the end of `bytes` are zero.
#[inline(always)]
fn eight(bytes: &[u8], at: usize) -> u64 {
    match bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        Some(eight) => u64::from_le_bytes(*eight),
        None => last_eight(bytes, at),
    }
}

#[cold]
fn last_eight(bytes: &[u8], at: usize) -> u64 {
    let mut eight = [0; 8];
    let rest = bytes.get(at..).unwrap_or_default();
    eight[..rest.len().min(8)].copy_from_slice(&rest[..rest.len().min(8)]);
    u64::from_le_bytes(eight)
}

/// In any case: `0x20` is what makes letters lower case; what it does to other bytes it does everywhere.
#[inline(always)]
fn hash(gram: u32) -> usize {
    ((gram | 0x2020_2020).wrapping_mul(0x9e37_79b1) >> (32 - HASH_BITS)) as usize
}

#[inline(always)]
fn hash_short(gram: u32) -> usize {
    (((gram | 0x2020_2020) & 0x00ff_ffff).wrapping_mul(0x9e37_79b1) >> (32 - HASH_BITS)) as usize
}

/// Stretches of `bytes` that are not whole pages of zeros. No anchor starts in zeros.
fn runs_without_zeros(bytes: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let page = |at: usize| &bytes[at..bytes.len().min(at + PAGE)];
        while at < bytes.len() && is_zero(page(at)) {
            at += page(at).len();
        }
        let start = at;
        while at < bytes.len() && !is_zero(page(at)) {
            at += page(at).len();
        }
        (start < at).then_some(start..at)
    })
}

fn is_zero(page: &[u8]) -> bool {
    page.chunks(64).all(|line| line.iter().fold(0, |all, byte| all | byte) == 0)
}

/// The tables in vectors.
struct Lookup<S: Simd> {
    low: [S::u8s; GRAM],
    high: [S::u8s; GRAM],
}

// Everything here is inlined by force: a call would lose the vector instructions that `dispatch!` chose.
impl<S: Simd> Lookup<S> {
    #[inline(always)]
    fn new(simd: S, tables: &Tables) -> Self {
        let [a, b, c, d] = &tables.low;
        let low = [Self::table(simd, a), Self::table(simd, b), Self::table(simd, c), Self::table(simd, d)];
        let [a, b, c, d] = &tables.high;
        let high = [Self::table(simd, a), Self::table(simd, b), Self::table(simd, c), Self::table(simd, d)];
        Self { low, high }
    }

    #[inline(always)]
    fn table(simd: S, table: &[u8; 16]) -> S::u8s {
        S::u8s::block_splat(u8x16::from_slice(simd, table))
    }

    /// Low and high halves of the bytes from `offset` on.
    #[inline(always)]
    fn halves(simd: S, window: &[u8], offset: usize) -> (S::u8s, S::u8s) {
        let bytes = S::u8s::from_slice(simd, &window[offset..offset + S::u8s::LEN]);
        (bytes & 15u8, (bytes >> 4u32) & 15u8)
    }

    /// Buckets that let a gram through, given its bytes by place.
    #[inline(always)]
    fn buckets(&self, [a, b, c, d]: [(S::u8s, S::u8s); GRAM]) -> S::u8s {
        (self.look(0, a) & self.look(1, b)) & (self.look(2, c) & self.look(3, d))
    }

    /// Buckets that let these bytes through at a place of the gram.
    #[inline(always)]
    fn look(&self, place: usize, (low, high): (S::u8s, S::u8s)) -> S::u8s {
        self.low[place].swizzle_dyn_within_blocks(low) & self.high[place].swizzle_dyn_within_blocks(high)
    }
}

/// Which of the bytes from `offset` on are zero.
#[inline(always)]
fn zeros<S: Simd>(simd: S, window: &[u8], offset: usize) -> u64 {
    let bytes = S::u8s::from_slice(simd, &window[offset..offset + S::u8s::LEN]);
    bytes.simd_eq(S::u8s::splat(simd, 0)).to_bitmask()
}

/// Appends the places in `run` that may be grams of anchors. Reads `bytes` behind the run, too.
#[inline(always)]
fn vectors<S: Simd>(simd: S, filter: &Filter, bytes: &[u8], run: Range<usize>, places: &mut Vec<usize>) {
    let lanes = S::u8s::LEN;
    let [first, second] = &filter.tables;
    let (first, second) = (Lookup::new(simd, first), Lookup::new(simd, second));
    let zero = S::u8s::splat(simd, 0);
    let all_lanes = if lanes < 64 { (1u64 << (lanes & 63)) - 1 } else { u64::MAX };
    let mut at = run.start;
    while at < run.end && at + lanes + REACH < bytes.len() {
        let window = &bytes[at..at + lanes + REACH + 1];
        let (start, two) = (Lookup::halves(simd, window, 0), Lookup::halves(simd, window, 2));
        let narrow = [start, Lookup::halves(simd, window, 1), two, Lookup::halves(simd, window, 3)];
        let mut lanes_left = !(first.buckets(narrow) | second.buckets(narrow)).simd_eq(zero).to_bitmask();
        // A text in UTF-16 has zeros between its characters. There are none in text that is not, nor in most of the rest.
        let spaced = all_lanes & zeros(simd, window, 1) & zeros(simd, window, 3) & zeros(simd, window, 5);
        if spaced != 0 {
            let wide = [start, two, Lookup::halves(simd, window, 4), Lookup::halves(simd, window, 6)];
            lanes_left |= !(first.buckets(wide) | second.buckets(wide)).simd_eq(zero).to_bitmask() & spaced;
        }
        lanes_left &= all_lanes;
        while lanes_left != 0 {
            let place = at + lanes_left.trailing_zeros() as usize;
            lanes_left &= lanes_left - 1;
            if filter.knows_either(eight(bytes, place)) && place < run.end {
                places.push(place);
            }
        }
        at += lanes;
    }
    // The last bytes, too few for a vector.
    for place in at..run.end {
        if filter.knows_either(eight(bytes, place)) {
            places.push(place);
        }
    }
}

#[cfg(test)]
mod tests;
