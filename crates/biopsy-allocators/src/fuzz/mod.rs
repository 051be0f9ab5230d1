//! A process made by hand, and what becomes of it when any of its bytes change. For tests and for fuzzing.

mod image;
mod jemalloc;

use biopsy_image::{
    Absence, Backing, Image, ImageModule, Mapping, ProcessFacts, Protection, ReadError, Thread,
};

pub use self::image::MadeImage;
pub use self::jemalloc::MadeJemalloc;

/// Data of the C library, with the main arena in it.
pub(crate) const DATA: u64 = 0x7f00_0000_0000;
const DATA_BYTES: usize = 0x2000;
/// The main arena in the layout of 2.27 to 2.42.
const ARENA: u64 = DATA + 0x400;
const TOP: u64 = ARENA + 96;
const BINS: u64 = ARENA + 112;
const NEXT: u64 = BINS + 127 * 16 + 16;
/// Memory that the data segment grew by.
pub(crate) const HEAP: u64 = 0x5500_0000_0000;
const HEAP_BYTES: usize = 0x4000;

/// A process with one arena: the cache of a thread that keeps one block, a block in use, a free one, one in a fast bin, the end.
#[derive(Debug)]
pub struct MadeProcess {
    mappings: [Mapping; 2],
    bytes: [Vec<u8>; 2],
    process: ProcessFacts,
}

impl MadeProcess {
    /// Whole.
    #[must_use]
    pub fn new() -> Self {
        Self::with_blocks(&[]).0
    }

    /// With blocks of these sizes in use besides, each with its header and a multiple of 16 bytes; gives what the program sees of them. There
    /// is room for 14 KiB.
    #[must_use]
    pub fn with_blocks(more: &[u64]) -> (Self, Vec<u64>) {
        let mut made = Self::empty();
        made.arena();
        let more = made.blocks(more);
        (made, more)
    }

    /// Its mappings, with nothing in them.
    pub(crate) fn empty() -> Self {
        let mapping = |start, bytes: usize, backing| Mapping {
            start,
            end: start + bytes as u64,
            protection: Protection { read: true, write: true, execute: false },
            shared: false,
            backing,
            not_frozen: false,
        };
        let path = b"/lib/libc.so.6".to_vec();
        let file = Backing::File { path, offset: 0, deleted: false, identity: (1, 2) };
        Self {
            mappings: [
                mapping(HEAP, HEAP_BYTES, Backing::Anonymous { label: "[heap]".to_owned() }),
                mapping(DATA, DATA_BYTES, file),
            ],
            bytes: [vec![0; HEAP_BYTES], vec![0; DATA_BYTES]],
            process: ProcessFacts::default(),
        }
    }

    fn arena(&mut self) {
        for bin in (0..127).map(|number| BINS + number * 16) {
            self.word(bin, bin - 16);
            self.word(bin + 8, bin - 16);
        }
        self.word(NEXT, ARENA);
        self.word(NEXT + 24, HEAP_BYTES as u64);
        // `malloc_par`: no mappings, at most 65536; where the data segment began.
        self.word(DATA + 0x40, 65536 << 32);
        self.word(DATA + 0x60, HEAP);
    }

    fn blocks(&mut self, more: &[u64]) -> Vec<u64> {
        let sizes = [0x290, 0x50, 0x100, 0x20, 0x20, 0x40];
        let mut at = HEAP;
        let mut blocks = Vec::new();
        for (number, size) in sizes.iter().chain(more).copied().enumerate() {
            // The fourth follows a free one.
            self.word(at + 8, size | u64::from(number != 3));
            blocks.push(at);
            at += size;
        }
        self.word(at + 8, (HEAP + HEAP_BYTES as u64 - at) | 1);
        self.word(TOP, at);
        let [cache, _, free, fast, cached, _, ref more @ ..] = blocks[..] else { return Vec::new() };
        // The third block is alone in the unsorted bin.
        self.word(free + 16, BINS - 16);
        self.word(free + 24, BINS - 16);
        self.word(BINS, free);
        self.word(BINS + 8, free);
        // Ends of lists since 2.32: an address mixed with 0.
        self.word(ARENA + 16, fast);
        self.word(fast + 16, (fast + 16) >> 12);
        self.word(cache + 16, 1);
        self.word(cache + 16 + 128, cached + 16);
        self.word(cached + 16, (cached + 16) >> 12);
        more.iter().map(|chunk| chunk + 16).collect()
    }

    /// Writes a word; nothing where no memory is.
    pub fn word(&mut self, address: u64, word: u64) {
        for (mapping, bytes) in self.mappings.iter().zip(&mut self.bytes) {
            let at = address.checked_sub(mapping.start).and_then(|at| usize::try_from(at).ok());
            if let Some(to) = at.and_then(|at| bytes.get_mut(at..at.checked_add(8)?)) {
                to.copy_from_slice(&word.to_le_bytes());
            }
        }
    }
}

impl Default for MadeProcess {
    fn default() -> Self {
        Self::new()
    }
}

impl Image for MadeProcess {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        for (mapping, bytes) in self.mappings.iter().zip(&self.bytes) {
            let at = address.checked_sub(mapping.start).and_then(|at| usize::try_from(at).ok());
            if let Some(rest) = at.and_then(|at| bytes.get(at..)).filter(|rest| !rest.is_empty()) {
                let length = rest.len().min(buffer.len());
                buffer[..length].copy_from_slice(&rest[..length]);
                return Ok(length);
            }
        }
        Err(ReadError::Missing { address, why: Absence::Unmapped })
    }

    fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    fn threads(&self) -> &[Thread] {
        &[]
    }

    fn modules(&self) -> &[ImageModule] {
        &[]
    }

    fn process(&self) -> &ProcessFacts {
        &self.process
    }
}

/// Entry point for fuzzing: each ten bytes are a place in the process and a word to put there, in one that uses glibc's malloc and, as
/// long as they fit, in one that uses jemalloc. The parts never hold more than there is.
///
/// # Panics
/// When they do.
pub fn fuzz_footprint(bytes: &[u8]) {
    changed(MadeProcess::new(), bytes);
}

/// The same of a process that uses musl's malloc.
///
/// # Panics
/// As [`fuzz_footprint`].
pub fn fuzz_musl(bytes: &[u8]) {
    changed(MadeProcess::of_musl(), bytes);
}

/// The same of a process that uses mimalloc: each ten bytes are the number of a word that is there, or of one beside it, and another word; the
/// first byte says which layout.
///
/// # Panics
/// As [`fuzz_footprint`].
pub fn fuzz_mimalloc(bytes: &[u8]) {
    let layout = usize::from(bytes.first().copied().unwrap_or_default());
    let of_3 = layout.checked_sub(MadeImage::MIMALLOC);
    let mut made = of_3.map_or_else(|| MadeImage::of_mimalloc(layout), MadeImage::of_mimalloc_3);
    made.change(bytes);
    holds_together(&made);
}

/// The same of a process that uses tcmalloc of gperftools.
///
/// # Panics
/// As [`fuzz_footprint`].
pub fn fuzz_tcmalloc(bytes: &[u8]) {
    let mut made = MadeImage::of_tcmalloc();
    made.change(bytes);
    holds_together(&made);
}

fn holds_together(made: &MadeImage) {
    let memory = crate::with_blocks(made, &[], 1 << 16);
    let all: u64 = memory.footprint.parts.iter().map(|part| part.resident).fold(0, u64::saturating_add);
    assert!(all <= made.bytes(), "{:#?}", memory.footprint);
}

fn changed(mut made: MadeProcess, bytes: &[u8]) {
    for patch in bytes.as_chunks::<10>().0.iter().take(256) {
        let [low, high, word @ ..] = *patch;
        let place = u64::from(u16::from_le_bytes([low, high])) % (HEAP_BYTES + DATA_BYTES) as u64;
        let heap = HEAP_BYTES as u64;
        let address = if place < heap { HEAP + place } else { DATA + place - heap };
        made.word(address, u64::from_le_bytes(word));
    }
    let footprint = crate::footprint(&made, &[]);
    let all: u64 = footprint.parts.iter().map(|part| part.resident).fold(0, u64::saturating_add);
    assert!(all <= (HEAP_BYTES + DATA_BYTES) as u64, "{footprint:#?}");
    jemalloc::fuzz(bytes);
}

#[cfg(test)]
mod tests {
    use biopsy_model::footprint::{Blocks, MemoryKind};
    use proptest::prelude::*;

    use super::*;
    use crate::footprint;

    #[test]
    fn a_made_process_is_counted() {
        let footprint = footprint(&MadeProcess::new(), &[]);
        let glibc = &footprint.allocators[0];
        assert!(glibc.whole && footprint.warnings.is_empty(), "{footprint:#?}");
        let arena = &glibc.arenas[0];
        assert_eq!(arena.used, Blocks { count: 4, bytes: 0x290 + 0x50 + 0x20 + 0x40 });
        assert_eq!(arena.free, Blocks { count: 1, bytes: 0x100 });
        assert_eq!(arena.fast, Blocks { count: 1, bytes: 0x20 });
        assert_eq!(glibc.cached, Blocks { count: 1, bytes: 0x20 });
        assert_eq!(footprint.resident(&MemoryKind::Allocated), 0x290 + 0x50 + 0x40);
    }

    /// Each line breaks one thing; what is told is less, and says so.
    #[test]
    fn what_is_broken_is_said() {
        let broken = |address, word| {
            let mut made = MadeProcess::new();
            made.word(address, word);
            footprint(&made, &[])
        };
        // A size that leads behind the end.
        let size = broken(HEAP + 0x298, 0x1234_5671);
        assert!(!size.allocators[0].whole && size.allocators[0].arenas[0].unknown > 0, "{size:#?}");
        // A fast bin that leads to no block; a list that is a circle.
        for circle in [broken(ARENA + 16, DATA), broken(HEAP + 0x3f0, (HEAP + 0x3e0) ^ (HEAP + 0x3f0) >> 12)]
        {
            assert!(!circle.warnings.is_empty(), "{circle:#?}");
        }
        // An arena that is in no ring is none.
        assert!(broken(NEXT, HEAP).allocators.is_empty());
    }

    proptest! {
        #[test]
        fn any_memory_is_read_to_an_end(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            fuzz_footprint(&bytes);
            fuzz_musl(&bytes);
            fuzz_mimalloc(&bytes);
            fuzz_tcmalloc(&bytes);
        }

        /// Words that lead somewhere go further than noise.
        #[test]
        fn any_pointers_are_followed_to_an_end(
            patches in prop::collection::vec((0..0x6000_u16, 0..0x6000_u64, any::<bool>()), 0..40),
        ) {
            let bytes: Vec<u8> = patches.into_iter().flat_map(|(place, to, heap)| {
                let word = if heap { HEAP + to } else { DATA + to };
                place.to_le_bytes().into_iter().chain(word.to_le_bytes()).collect::<Vec<u8>>()
            }).collect();
            fuzz_footprint(&bytes);
            fuzz_musl(&bytes);
        }

        /// The same of those that are made of words.
        #[test]
        fn any_pointers_of_large_images_are_followed_to_an_end(
            layout in 0..MadeImage::MIMALLOC,
            layout_3 in 0..MadeImage::MIMALLOC_3,
            patches in prop::collection::vec((any::<u16>(), any::<u16>(), 0..3_u64, 0..64_u64), 0..40),
        ) {
            let images =
                [MadeImage::of_tcmalloc(), MadeImage::of_mimalloc(layout), MadeImage::of_mimalloc_3(layout_3)];
            for mut made in images {
                let change = |(place, to, kind, offset): (u16, u16, u64, u64)| {
                    let word = match kind {
                        0 => made.address(to.into()),
                        1 => made.address(to.into()) + offset,
                        _ => u64::from(to) << offset,
                    };
                    place.to_le_bytes().into_iter().chain(word.to_le_bytes()).collect::<Vec<u8>>()
                };
                let bytes: Vec<u8> = patches.iter().copied().flat_map(change).collect();
                made.change(&bytes);
                holds_together(&made);
            }
        }
    }
}
