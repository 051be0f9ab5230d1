//! A process made by hand that uses jemalloc.

use std::collections::BTreeMap;
use std::ops::Range;

use biopsy_image::{
    Absence, Backing, GeneralRegisters, Image, ImageModule, Mapping, ProcessFacts, Protection, ReadError,
    Thread,
};

/// Data of the library, and what follows it: the root of the tree.
const DATA: u64 = 0x7f10_0000_0000;
const ROOT: u64 = DATA + 0x1040;
const DATA_BYTES: u64 = 0x20_4000;
/// A block of bookkeeping: header, leaf, extents, and where a thread's cache has its list.
const BASE: u64 = 0x7f20_0000_0000;
const BASE_BYTES: u64 = 4 << 20;
const LEAF: u64 = BASE + 0x1000;
const EXTENTS: u64 = BASE + 0x20_2000;
const STACK: u64 = BASE + 0x20_3000;
const LEFT: u64 = BASE + 0x20_4000;
/// Memory that is handed out.
const HEAP: u64 = 0x7f30_0000_0000;
const HEAP_BYTES: u64 = 0x4_0000;
/// Variables of a thread, and its control block.
const VARIABLES: u64 = 0x7f40_0000_0000;
const VARIABLES_BYTES: u64 = 0x3000;
const SLOW: u64 = VARIABLES + 0x40;
const CACHE: u64 = VARIABLES + 0x400;
const BINS: u64 = 36;
const PAGE: u64 = 4096;

/// All that is there, by address.
const MEMORY: [Range<u64>; 5] = [
    DATA..DATA + 0x1000,
    DATA + 0x1000..DATA + DATA_BYTES,
    BASE..BASE + BASE_BYTES,
    HEAP..HEAP + HEAP_BYTES,
    VARIABLES..VARIABLES + VARIABLES_BYTES,
];

/// Places that words are put to when it is fuzzed: where structures are.
const PLACES: [Range<u64>; 7] = [
    ROOT + (HEAP >> 30) * 8..ROOT + (HEAP >> 30) * 8 + 64,
    BASE..BASE + 48,
    LEAF..LEAF + HEAP_BYTES / PAGE * 8,
    EXTENTS..EXTENTS + 8 * 128,
    STACK..STACK + 64,
    SLOW..SLOW + 64,
    CACHE..CACHE + (BINS + 4) * 24 + 128,
];

/// A process with an arena: two slabs, a large block, a free extent and one of addresses alone, and the cache of a thread that keeps
/// two blocks.
#[derive(Debug)]
pub struct MadeJemalloc {
    mappings: Vec<Mapping>,
    threads: Vec<Thread>,
    words: BTreeMap<u64, u64>,
    process: ProcessFacts,
}

impl MadeJemalloc {
    /// Of 5.3, or of 5.2.
    #[must_use]
    pub fn new(is_newer: bool) -> Self {
        let mapping = |range: &Range<u64>| Mapping {
            start: range.start,
            end: range.end,
            protection: Protection { read: true, write: true, execute: false },
            shared: false,
            backing: match range.start {
                DATA => {
                    let path = b"/lib/libjemalloc.so.2".to_vec();
                    Backing::File { path, offset: 0, deleted: false, identity: (1, 2) }
                }
                _ => Backing::Anonymous { label: String::new() },
            },
            not_frozen: false,
        };
        let registers = GeneralRegisters { fs_base: VARIABLES + 0x2000, ..GeneralRegisters::default() };
        let mut made = Self {
            mappings: MEMORY.iter().map(mapping).collect(),
            threads: vec![Thread { registers: Some(registers), ..Thread::default() }],
            words: BTreeMap::new(),
            process: ProcessFacts::default(),
        };
        made.word(ROOT + (HEAP >> 30) * 8, LEAF);
        for (at, word) in (BASE..).step_by(8).zip([BASE_BYTES, 0, 0, LEFT, BASE + BASE_BYTES - LEFT]) {
            made.word(at, word);
        }
        made.extents(is_newer);
        made.caches(is_newer);
        made
    }

    /// A slab of 64 bytes (the first three regions free), one of 48 (none free), a block of four pages, free pages, addresses.
    fn extents(&mut self, is_newer: bool) {
        let shifts = if is_newer { [17, 20, 28] } else { [16, 18, 26] };
        let none = 232;
        let rows = [
            (0, 1, 0, 4, 1, 3, 0),
            (1, 3, 0, 3, 1, 0, 0),
            (4, 5, 0, 36, 0, 0, 0x80),
            (9, 8, 1, none, 0, 0, 0),
            (17, 16, 3, none, 0, 0, 0),
        ];
        for (number, (page, pages, state, class, slab, free, into)) in (0..).zip(rows) {
            let extent = EXTENTS + number * 128;
            let [states, classes, frees] = shifts;
            self.word(extent, slab << 12 | state << states | class << classes | free << frees);
            self.word(extent + 8, HEAP + page * PAGE + into);
            self.word(extent + 16, pages * PAGE + number);
            if slab == 1 {
                self.word(extent + 64, (1 << free) - 1);
            }
            let element = class << 48 | extent | slab | if is_newer { state << 2 } else { 0 };
            for page in page..page + pages {
                self.word(LEAF + page * 8, element);
            }
        }
    }

    /// Two regions of 64 bytes are kept.
    fn caches(&mut self, is_newer: bool) {
        let kept = [HEAP + 5 * 64, HEAP + 9 * 64];
        for (at, block) in (STACK..).step_by(8).zip(kept) {
            self.word(at, block);
        }
        let end = STACK + 16;
        if is_newer {
            self.word(CACHE, SLOW);
            self.word(SLOW, SLOW);
            self.word(SLOW + 32, CACHE + 8);
            for class in 0..BINS {
                let bin = CACHE + 8 + class * 24;
                self.word(bin, if class == 4 { STACK } else { end });
                self.word(bin + 16, (end & 0xffff) << 32);
            }
        } else {
            let pointer = CACHE + BINS * 24 + 56;
            self.word(pointer, CACHE);
            self.word(pointer + 8, pointer + 64);
            self.word(pointer - 16, pointer - 16);
            for class in 0..BINS {
                let bin = CACHE + class * 24;
                self.word(bin, if class == 4 { 2 << 32 } else { 0 });
                self.word(bin + 16, end);
            }
        }
    }

    /// Writes a word, at a multiple of 8.
    pub fn word(&mut self, address: u64, word: u64) {
        self.words.insert(address & !7, word);
    }

    /// Bytes of all mappings.
    #[must_use]
    pub fn bytes() -> u64 {
        MEMORY.iter().map(|range| range.end - range.start).sum()
    }

    /// The place with this number, where structures are.
    fn place(number: u64) -> u64 {
        let all: u64 = PLACES.iter().map(|range| (range.end - range.start) / 8).sum();
        let mut rest = number % all;
        for place in PLACES {
            let words = (place.end - place.start) / 8;
            if rest < words {
                return place.start + rest * 8;
            }
            rest -= words;
        }
        BASE
    }
}

impl Image for MadeJemalloc {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        let there = self.mappings.iter().find(|one| one.contains(address));
        let there = there.ok_or(ReadError::Missing { address, why: Absence::Unmapped })?;
        let length = buffer.len().min(usize::try_from(there.end - address).unwrap_or(usize::MAX));
        let filled = &mut buffer[..length];
        filled.fill(0);
        let end = address + length as u64;
        for (&at, word) in self.words.range(address.saturating_sub(7)..end) {
            for (at, byte) in (at..).zip(word.to_le_bytes()) {
                let to = at.checked_sub(address).and_then(|at| usize::try_from(at).ok());
                if let Some(to) = to.and_then(|at| filled.get_mut(at)) {
                    *to = byte;
                }
            }
        }
        Ok(length)
    }

    fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    fn threads(&self) -> &[Thread] {
        &self.threads
    }

    fn modules(&self) -> &[ImageModule] {
        &[]
    }

    fn process(&self) -> &ProcessFacts {
        &self.process
    }

    /// Pages with words, and all of the heap.
    fn written(&self, range: Range<u64>, runs: &mut Vec<Range<u64>>) -> Result<(), ReadError> {
        let heap = range.start.max(HEAP)..range.end.min(HEAP + HEAP_BYTES);
        if heap.start < heap.end {
            runs.push(heap);
            return Ok(());
        }
        for (&at, _) in self.words.range(range.clone()) {
            let page = at / PAGE * PAGE;
            match runs.last_mut() {
                Some(last) if last.end >= page + PAGE => {}
                Some(last) if last.end == page => last.end = page + PAGE,
                _ => runs.push(page.max(range.start)..(page + PAGE).min(range.end)),
            }
        }
        Ok(())
    }
}

/// Each ten bytes are the number of a word of its structures and a word to put there; the first byte says which layout.
///
/// # Panics
/// When parts hold more than there is.
pub(super) fn fuzz(bytes: &[u8]) {
    let mut made = MadeJemalloc::new(bytes.first().is_none_or(|byte| byte % 2 == 0));
    for patch in bytes.as_chunks::<10>().0.iter().take(256) {
        let [low, high, word @ ..] = *patch;
        let place = MadeJemalloc::place(u16::from_le_bytes([low, high]).into());
        made.word(place, u64::from_le_bytes(word));
    }
    let memory = crate::with_blocks(&made, &[], 1 << 16);
    let all: u64 = memory.footprint.parts.iter().map(|part| part.resident).fold(0, u64::saturating_add);
    assert!(all <= MadeJemalloc::bytes(), "{:#?}", memory.footprint);
}

#[cfg(test)]
mod tests;
