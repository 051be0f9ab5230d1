//! The first stage: where one of many short texts may start, in ASCII and in UTF-16 of both orders, in one pass.
//!
//! Like Teddy of the `aho-corasick` crate, which looks bytes up by halves in tables of 16 bytes, 16 to 64 lookups at a
//! time, and lets each bit of the result stand for a group of texts. Two things are different. The lookups of a byte
//! serve both its reading as ASCII (neighbours at 1, 2, 3) and as half of a UTF-16 character (neighbours at 2, 4, 6),
//! so UTF-16 costs little more; and letters match in both cases, so one text stands for all its spellings. Teddy over
//! the same texts in three encodings and three spellings is beyond its limit of patterns, and ran at half the speed
//! (docs/design/08-scrubbing.md).

use std::ops::Range;

use fearless_simd::prelude::*;
use fearless_simd::{Level, Simd, dispatch, u8x16};

use super::gram::{self, GRAM, Gram, RUN, Tables, Text, in_run};

/// Bits of the table of hashes of grams, as a power of two: it fits the nearest cache beside what is looked at.
const HASH_BITS: u32 = 16;
/// The same of grams of three bytes, which are few.
const SHORT_BITS: u32 = 13;
/// Bytes that a place is decided by, from its start on: four characters of UTF-16, without the last half.
const REACH: usize = 2 * GRAM - 1;
/// Memory is tested for zeros in steps of this many bytes.
const PAGE: usize = 4096;

/// A set of texts to look for.
#[derive(Debug)]
pub(super) struct Filter {
    /// Of anchors that begin a run.
    of_runs: Tables,
    /// Of the others.
    others: [Tables; 2],
    /// Bits by hash of a whole gram, and by hash of one of three bytes.
    whole: Box<[u64; 1 << (HASH_BITS - 6)]>,
    short: Box<[u64; 1 << (SHORT_BITS - 6)]>,
    /// Anchors by these hashes.
    by_whole: Slots,
    by_short: Slots,
    level: Level,
}

/// Anchors by the hash of their grams.
#[derive(Debug)]
struct Slots {
    /// Where in the list each hash begins, and the end of the last one.
    starts: Box<[u32]>,
    entries: Vec<Entry>,
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
    /// A filter for `anchors`, each of at least three bytes.
    pub(super) fn new(anchors: &[Text<'_>]) -> Self {
        // Those that begin a run, and the others.
        let begins_run = |text: &&Text<'_>| text.run >= RUN;
        let mut chosen =
            gram::choose(&anchors.iter().filter(begins_run).copied().collect::<Vec<_>>()).into_iter();
        let mut others =
            gram::choose(&anchors.iter().filter(|text| !begins_run(text)).copied().collect::<Vec<_>>())
                .into_iter();
        let [runs, names] = [&chosen, &others].map(|of_set| of_set.clone().map(|(_, gram)| gram).collect());
        let [of_runs] = Tables::new(&runs);
        let chosen =
            anchors.iter().filter_map(|text| if begins_run(&text) { chosen.next() } else { others.next() });
        let mut whole = Box::new([0; 1 << (HASH_BITS - 6)]);
        let mut short = Box::new([0; 1 << (SHORT_BITS - 6)]);
        let (mut wholes, mut shorts) = (Vec::new(), Vec::new());
        for (anchor, (offset, gram)) in chosen.enumerate() {
            let bytes = u32::from_le_bytes(gram.bytes.map(|byte| byte.unwrap_or_default()));
            let entry = Entry { anchor, offset, gram };
            if gram.bytes[GRAM - 1].is_none() {
                let hash = hash_short(bytes);
                short[hash >> 6] |= 1 << (hash & 63);
                shorts.push((hash, entry));
            } else {
                let hash = hash(bytes);
                whole[hash >> 6] |= 1 << (hash & 63);
                wholes.push((hash, entry));
            }
        }
        Self {
            of_runs,
            others: Tables::new(&names),
            whole,
            short,
            by_whole: Slots::new(wholes, HASH_BITS),
            by_short: Slots::new(shorts, SHORT_BITS),
            level: Level::new(),
        }
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
                let same_whole = self.by_whole.at(hash(gram));
                for entry in same_whole.iter().chain(self.by_short.at(hash_short(gram))) {
                    if let Some(start) = at.checked_sub(entry.offset * stride).filter(|_| entry.is(gram)) {
                        found(Candidate { start, anchor: entry.anchor, stride });
                    }
                }
            }
        }
    }

    /// Whether the hash of a gram is that of an anchor.
    #[inline(always)]
    fn knows(&self, gram: u32) -> bool {
        let (whole, short) = (hash(gram), hash_short(gram));
        // Without a branch: which of them it is cannot be foreseen.
        ((self.whole[whole >> 6] >> (whole & 63)) | (self.short[short >> 6] >> (short & 63))) & 1 == 1
    }

    /// Whether the eight bytes from a place on begin with the gram of an anchor, in either reading.
    #[inline(always)]
    fn knows_either(&self, bytes: u64) -> bool {
        self.knows(bytes as u32) || (bytes & BETWEEN == 0 && self.knows(every_other(bytes)))
    }
}

impl Slots {
    fn new(mut entries: Vec<(usize, Entry)>, bits: u32) -> Self {
        entries.sort_by_key(|(hash, _)| *hash);
        let starts = (0..=1 << bits).map(|slot| entries.partition_point(|(hash, _)| *hash < slot) as u32);
        Self { starts: starts.collect(), entries: entries.into_iter().map(|(_, entry)| entry).collect() }
    }

    fn at(&self, hash: usize) -> &[Entry] {
        &self.entries[self.starts[hash] as usize..self.starts[hash + 1] as usize]
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

/// The four bytes at `at`, which are there.
#[inline(always)]
fn four(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk::<4>()).map_or(0, |four| u32::from_le_bytes(*four))
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
    (((gram | 0x2020_2020) & 0x00ff_ffff).wrapping_mul(0x9e37_79b1) >> (32 - SHORT_BITS)) as usize
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

/// The table of [`in_run`], by halves of a byte.
struct RunClass<S: Simd> {
    low: S::u8s,
    high: S::u8s,
}

impl<S: Simd> RunClass<S> {
    #[inline(always)]
    fn new(simd: S) -> Self {
        // A bit for each high half of ASCII.
        let low: [u8; 16] = std::array::from_fn(|low| {
            (0..8).filter(|high| in_run(low as u8 | high << 4)).fold(0, |bits, high| bits | 1 << high)
        });
        let high: [u8; 16] = std::array::from_fn(|high| if high < 8 { 1 << high } else { 0 });
        Self { low: Lookup::table(simd, &low), high: Lookup::table(simd, &high) }
    }

    /// Which bytes are in the class.
    #[inline(always)]
    fn mask(&self, simd: S, bytes: &[u8]) -> u64 {
        let (low, high) = Lookup::halves(simd, bytes, 0);
        let both = self.low.swizzle_dyn_within_blocks(low) & self.high.swizzle_dyn_within_blocks(high);
        let mask = !both.simd_eq(S::u8s::splat(simd, 0)).to_bitmask();
        if S::u8s::LEN < 64 { mask & ((1 << (S::u8s::LEN & 63)) - 1) } else { mask }
    }
}

/// Where [`RUN`] bits in a row are set.
#[inline(always)]
fn begins_of_runs(bits: u128) -> u64 {
    const { assert!(RUN == 12, "the shifts below are for this many") };
    let two = bits & bits >> 1;
    let four = two & two >> 2;
    (four & four >> 4 & four >> 8) as u64
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
    let of_runs = Lookup::new(simd, &filter.of_runs);
    let [first, second] = &filter.others;
    let (first, second) = (Lookup::new(simd, first), Lookup::new(simd, second));
    let zero = S::u8s::splat(simd, 0);
    let all_lanes = if lanes < 64 { (1u64 << (lanes & 63)) - 1 } else { u64::MAX };
    let class = RunClass::new(simd);
    let mut at = run.start;
    let mut in_run = if at + lanes <= bytes.len() { class.mask(simd, &bytes[at..at + lanes]) } else { 0 };
    while at < run.end && at + 2 * lanes + REACH < bytes.len() {
        let window = &bytes[at..at + 2 * lanes + REACH + 1];
        let in_next = class.mask(simd, &window[lanes..2 * lanes]);
        let runs = begins_of_runs(u128::from(in_run) | u128::from(in_next) << lanes);
        in_run = in_next;
        let (start, two) = (Lookup::halves(simd, window, 0), Lookup::halves(simd, window, 2));
        let narrow = [start, Lookup::halves(simd, window, 1), two, Lookup::halves(simd, window, 3)];
        let mut lanes_left = !of_runs.buckets(narrow).simd_eq(zero).to_bitmask() & runs
            | !(first.buckets(narrow) | second.buckets(narrow)).simd_eq(zero).to_bitmask();
        // A text in UTF-16 has zeros between its characters. There are none in text that is not, nor in most of the rest.
        let spaced = all_lanes & zeros(simd, window, 1) & zeros(simd, window, 3) & zeros(simd, window, 5);
        if spaced != 0 {
            let wide = [start, two, Lookup::halves(simd, window, 4), Lookup::halves(simd, window, 6)];
            lanes_left |= !(first.buckets(wide) | second.buckets(wide) | of_runs.buckets(wide))
                .simd_eq(zero)
                .to_bitmask()
                & spaced;
        }
        lanes_left &= all_lanes;
        // Those of the last vector that are behind the run are not asked for.
        lanes_left &= u64::MAX >> (64 - (run.end - at).min(64));
        let mut kept = [0; 64];
        let mut count = 0;
        while lanes_left != 0 {
            let lane = lanes_left.trailing_zeros() as usize;
            lanes_left &= lanes_left - 1;
            // Kept without a branch.
            kept[count & 63] = at + lane;
            let known = if spaced == 0 {
                filter.knows(four(window, lane))
            } else {
                filter.knows_either(eight(bytes, at + lane))
            };
            count += usize::from(known);
        }
        places.extend_from_slice(&kept[..count]);
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
