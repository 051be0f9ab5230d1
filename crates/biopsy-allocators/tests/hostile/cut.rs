//! Memory of which parts are missing, or that comes in small pieces: the answer is the same, or less and says so; and no answer takes
//! more reads than there is memory.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use biopsy_allocators::fuzz::{MadeImage, MadeJemalloc, MadeProcess};
use biopsy_allocators::{NativeMemory, with_blocks};
use biopsy_image::{Absence, Image, ImageModule, Mapping, ProcessFacts, ReadError, Thread};
use proptest::prelude::*;

use crate::made::{Block, Made};
use crate::processes::{HEAP, HEAP_BYTES, SECOND, any_blocks, total, two_arenas};

const PAGE: u64 = 4096;
/// Blocks that are asked for.
const MOST: usize = 1 << 16;

/// Another image, of which a read gives few bytes and some pages are missing.
struct Cut<'i> {
    image: &'i dyn Image,
    missing: BTreeSet<u64>,
    most: usize,
    reads: AtomicU64,
    bytes: AtomicU64,
}

impl<'i> Cut<'i> {
    fn new(image: &'i dyn Image) -> Self {
        Self {
            image,
            missing: BTreeSet::new(),
            most: usize::MAX,
            reads: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    fn pieces(image: &'i dyn Image, most: usize) -> Self {
        Self { most, ..Self::new(image) }
    }

    fn without(image: &'i dyn Image, missing: impl IntoIterator<Item = u64>) -> Self {
        Self { missing: missing.into_iter().collect(), ..Self::new(image) }
    }
}

impl Image for Cut<'_> {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let page = address / PAGE * PAGE;
        if self.missing.contains(&page) {
            return Err(ReadError::Missing { address, why: Absence::Truncated });
        }
        let end = self.missing.range(page..).next().map_or(u64::MAX, |end| *end);
        let there = usize::try_from(end - address).unwrap_or(usize::MAX);
        let length = buffer.len().min(there).min(self.most);
        let read = self.image.read(address, &mut buffer[..length])?;
        self.bytes.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }

    fn mappings(&self) -> &[Mapping] {
        self.image.mappings()
    }

    fn threads(&self) -> &[Thread] {
        self.image.threads()
    }

    fn modules(&self) -> &[ImageModule] {
        self.image.modules()
    }

    fn process(&self) -> &ProcessFacts {
        self.image.process()
    }

    fn written(&self, range: Range<u64>, runs: &mut Vec<Range<u64>>) -> Result<(), ReadError> {
        self.image.written(range, runs)
    }
}

/// Two arenas with something of all kinds.
fn glibc() -> Made {
    let some: &[Block] = &[
        Block::Used(64),
        Block::Free(4096),
        Block::Fast(32),
        Block::Used(0x3000),
        Block::Fast(48),
        Block::Fast(32),
        Block::Free(512),
        Block::Used(0x290),
    ];
    two_arenas([some, some, some])
}

/// One process for each reader and layout.
fn each(mut check: impl FnMut(&str, &dyn Image)) {
    check("glibc, two arenas", &glibc());
    check("glibc with a cache", &MadeProcess::new());
    check("musl", &MadeProcess::of_musl());
    check("jemalloc 5.3", &MadeJemalloc::new(true));
    check("jemalloc 5.2", &MadeJemalloc::new(false));
    check("mimalloc 2.2", &MadeImage::of_mimalloc(0));
    check("mimalloc 2.0.9, encoded", &MadeImage::of_mimalloc(9));
    check("mimalloc 3.4", &MadeImage::of_mimalloc_3(0));
    check("mimalloc 3.1, encoded", &MadeImage::of_mimalloc_3(5));
    check("tcmalloc", &MadeImage::of_tcmalloc());
}

/// Bytes that are in memory, mapping by mapping.
fn resident(image: &dyn Image) -> u64 {
    pages(image).len() as u64 * PAGE
}

/// Pages that are in memory.
fn pages(image: &dyn Image) -> Vec<u64> {
    let mut runs = Vec::new();
    for mapping in image.mappings() {
        image.written(mapping.range(), &mut runs).expect("it can be asked");
    }
    runs.into_iter().flat_map(|run| (run.start..run.end).step_by(PAGE as usize)).collect()
}

/// What is true of every answer, however broken the process is.
#[track_caller]
fn holds_together(what: &str, image: &dyn Image, memory: &NativeMemory) {
    assert_eq!(total(&memory.footprint), resident(image), "{what}: {:#?}", memory.footprint);
    let blocks = memory.blocks.as_deref().unwrap_or_default();
    for block in blocks {
        let last = block.start.0 + block.size.saturating_sub(1);
        let there = memory.areas.iter().any(|area| area.contains(&block.start.0) && last < area.end);
        assert!(there, "{what}: {block:x?} is in none of {:x?}", memory.areas);
    }
    for pair in blocks.windows(2) {
        assert!(pair[0].start.0 + pair[0].size <= pair[1].start.0, "{what}: {pair:x?}");
    }
    assert!(memory.areas.is_sorted_by_key(|area| area.start), "{what}: {:x?}", memory.areas);
}

fn same(one: &NativeMemory, other: &NativeMemory) -> bool {
    one.footprint == other.footprint && one.blocks == other.blocks && one.areas == other.areas
}

/// What is missing is said: in a warning, as unknown bytes, or because nothing was understood.
fn says_so(memory: &NativeMemory) -> bool {
    let footprint = &memory.footprint;
    let unknown = |facts: &biopsy_model::footprint::AllocatorFacts| {
        !facts.whole || facts.arenas.iter().any(|arena| arena.unknown > 0)
    };
    footprint.allocators.is_empty()
        || !footprint.warnings.is_empty()
        || footprint.allocators.iter().any(unknown)
}

#[test]
fn a_whole_process_holds_together() {
    each(|what, image| {
        let memory = with_blocks(image, &[], MOST);
        holds_together(what, image, &memory);
        assert!(
            memory.footprint.allocators.iter().all(|facts| facts.whole),
            "{what}: {:#?}",
            memory.footprint
        );
        assert!(memory.blocks.is_some_and(|blocks| !blocks.is_empty()), "{what}");
    });
}

/// A read may end anywhere, also in the middle of a word.
#[test]
fn memory_in_small_pieces_is_the_same_memory() {
    each(|what, image| {
        let whole = with_blocks(image, &[], MOST);
        for most in [5, 8, 100, 4096] {
            let pieces = with_blocks(&Cut::pieces(image, most), &[], MOST);
            assert!(same(&whole, &pieces), "{what}, {most} bytes at once: {whole:#?} {pieces:#?}");
        }
    });
}

#[test]
fn a_page_that_is_missing_is_counted_as_before_or_missed() {
    each(|what, image| {
        let whole = with_blocks(image, &[], MOST);
        for page in pages(image) {
            let what = format!("{what} without the page at {page:#x}");
            let memory = with_blocks(&Cut::without(image, [page]), &[], MOST);
            holds_together(&what, image, &memory);
            assert!(same(&whole, &memory) || says_so(&memory), "{what}: {:#?}", memory.footprint);
        }
    });
}

/// As a dump whose file ends there: all pages behind it are missing.
#[test]
fn a_process_that_is_cut_off_at_any_page_is_read_to_an_end() {
    each(|what, image| {
        let whole = with_blocks(image, &[], MOST);
        let pages = pages(image);
        for (number, page) in pages.iter().enumerate() {
            let what = format!("{what}, cut off at {page:#x}");
            let memory = with_blocks(&Cut::without(image, pages[number..].iter().copied()), &[], MOST);
            holds_together(&what, image, &memory);
            assert!(same(&whole, &memory) || says_so(&memory), "{what}: {:#?}", memory.footprint);
        }
    });
}

#[test]
fn a_process_of_which_nothing_can_be_read_has_memory_and_no_allocator() {
    each(|what, image| {
        let memory = with_blocks(&Cut::without(image, pages(image)), &[], MOST);
        assert!(memory.footprint.allocators.is_empty() && memory.blocks.is_none(), "{what}: {memory:#?}");
        holds_together(what, image, &memory);
    });
}

/// Each word of two arenas at its place, without going to it twice: lists lead anywhere, a header is read with what lies around it.
#[test]
fn a_process_is_read_with_fewer_reads_than_it_has_words() {
    each(|what, image| {
        let counted = Cut::new(image);
        let memory = with_blocks(&counted, &[], MOST);
        assert!(!memory.footprint.allocators.is_empty(), "{what}");
        let (reads, bytes) = (counted.reads.load(Ordering::Relaxed), counted.bytes.load(Ordering::Relaxed));
        let mapped: u64 = image.mappings().iter().map(Mapping::size).sum();
        assert!(reads * 8 <= resident(image), "{what}: {reads} reads of {} bytes", resident(image));
        assert!(bytes <= 16 * mapped, "{what}: {bytes} bytes of {mapped}");
    });
}

proptest! {
    /// Pages are missing here and there, and of what is left words were changed.
    #[test]
    fn whatever_is_missing_nothing_is_counted_twice(
        missing in prop::collection::vec(0..200_usize, 0..12),
        changes in prop::collection::vec((0..3_usize, 0..0x400_u64, 0..3_usize, 0..0x1000_u64, 0..8_u64), 0..6),
        blocks in any_blocks(),
    ) {
        let mut made = two_arenas([&blocks, &[Block::Used(64), Block::Fast(32)], &blocks]);
        let places = [HEAP, SECOND[0], SECOND[1]];
        for (at, word, to, offset, flags) in changes {
            made.word(places[at] + word * 8, places[to] + offset * 16 + flags);
        }
        let pages = pages(&made);
        let cut = Cut::without(&made, missing.into_iter().filter_map(|number| pages.get(number).copied()));
        let memory = with_blocks(&cut, &[], MOST);
        prop_assert_eq!(total(&memory.footprint), resident(&made));
        for arena in memory.footprint.allocators.iter().flat_map(|facts| &facts.arenas) {
            let known = [arena.used.bytes, arena.free.bytes, arena.fast.bytes, arena.top, arena.unknown];
            let bytes = arena.heaps * HEAP_BYTES;
            prop_assert!(known.iter().sum::<u64>() <= bytes, "{:#?}", arena);
        }
        // No list leads on for longer than there are blocks.
        let reads = cut.reads.load(Ordering::Relaxed);
        prop_assert!(reads * 8 <= resident(&made), "{} reads", reads);
    }
}
