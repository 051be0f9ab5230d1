//! Bookkeeping of which any words are others: what is told may be less, and it agrees with itself.

use biopsy_allocators::fuzz::{MadeImage, MadeJemalloc, MadeProcess};
use biopsy_allocators::{NativeMemory, with_blocks};
use biopsy_image::{Image, Mapping};
use biopsy_model::footprint::{AllocatorFacts, ArenaFacts, Blocks, SizeClass};
use proptest::prelude::*;

use crate::processes::total;

/// A word somewhere: in which mapping, in which of its pages that are in memory, which word of that.
type Place = (usize, usize, u64);

/// Addresses of words in pages that are in memory.
fn address(image: &dyn Image, (mapping, page, word): Place) -> u64 {
    let pages = pages(image);
    let mappings = image.mappings();
    let one = &mappings[mapping % mappings.len()];
    let own: Vec<u64> = pages.into_iter().filter(|page| one.contains(*page)).collect();
    own.get(page % own.len().max(1)).map_or(one.start, |page| page + word % 512 * 8)
}

fn pages(image: &dyn Image) -> Vec<u64> {
    let mut runs = Vec::new();
    for mapping in image.mappings() {
        image.written(mapping.range(), &mut runs).expect("it can be asked");
    }
    runs.into_iter().flat_map(|run| (run.start..run.end).step_by(4096)).collect()
}

/// What is put there: an address of something, one nearly at it, a small number, one near the largest, any.
fn any_word() -> impl Strategy<Value = (u8, Place, u64)> {
    let place = (0..5_usize, 0..64_usize, 0..512_u64);
    (0..6_u8, place, any::<u64>())
}

fn any_place() -> impl Strategy<Value = Place> {
    // Structures are at the beginnings of pages more often than not.
    (0..5_usize, 0..64_usize, prop_oneof![0..24_u64, 0..512_u64])
}

fn word(image: &dyn Image, (kind, place, number): (u8, Place, u64)) -> u64 {
    match kind {
        0 | 1 => address(image, place),
        2 => address(image, place) ^ (number % 64),
        3 => number % 4096,
        4 => u64::MAX - number % 64,
        _ => number,
    }
}

fn sum(facts: &AllocatorFacts, of: fn(&ArenaFacts) -> u64) -> u64 {
    facts.arenas.iter().map(of).fold(0, u64::saturating_add)
}

fn by_size(facts: &AllocatorFacts, of: fn(&SizeClass) -> Blocks) -> Blocks {
    let mut blocks = Blocks::default();
    for class in facts.classes.iter().map(of) {
        blocks.count += class.count;
        blocks.bytes += class.bytes;
    }
    blocks
}

/// What one allocator has agrees with itself, in all the ways in which it is told.
fn agrees(facts: &AllocatorFacts) -> Result<(), TestCaseError> {
    let used = by_size(facts, |class| class.used);
    let free = by_size(facts, |class| class.free);
    let count = |of: fn(&ArenaFacts) -> Blocks| Blocks {
        count: facts.arenas.iter().map(|arena| of(arena).count).sum(),
        bytes: facts.arenas.iter().map(|arena| of(arena).bytes).sum(),
    };
    let (in_arenas, in_bins, fast) =
        (count(|arena| arena.used), count(|arena| arena.free), count(|arena| arena.fast));
    prop_assert_eq!(
        used.count + facts.cached.count,
        in_arenas.count + facts.mapped.count,
        "in use: {:#?}",
        facts
    );
    prop_assert_eq!(
        used.bytes + facts.cached.bytes,
        in_arenas.bytes + facts.mapped.bytes,
        "in use: {:#?}",
        facts
    );
    prop_assert_eq!(free.count, in_bins.count + fast.count + facts.cached.count, "free: {:#?}", facts);
    prop_assert_eq!(free.bytes, in_bins.bytes + fast.bytes + facts.cached.bytes, "free: {:#?}", facts);
    prop_assert!(facts.classes.windows(2).all(|pair| pair[0].up_to < pair[1].up_to));
    prop_assert!(
        facts.classes.iter().all(|class| class.used.bytes <= class.used.count.saturating_mul(class.up_to))
    );
    Ok(())
}

fn holds_together(image: &dyn Image, memory: &NativeMemory) -> Result<(), TestCaseError> {
    let NativeMemory { footprint, blocks, areas } = memory;
    prop_assert_eq!(total(footprint), pages(image).len() as u64 * 4096, "{:#?}", footprint);
    for facts in &footprint.allocators {
        agrees(facts)?;
        let known = sum(facts, |arena| arena.used.bytes + arena.free.bytes + arena.fast.bytes + arena.top);
        let all: u64 = areas.iter().map(|area| area.end - area.start).sum();
        prop_assert!(known <= all, "{} in {}: {:#?}", known, all, facts);
    }
    for pair in blocks.iter().flat_map(|blocks| blocks.windows(2)) {
        prop_assert!(pair[0].start.0 + pair[0].size <= pair[1].start.0, "{:x?}", pair);
    }
    for block in blocks.iter().flatten() {
        let end = block.start.0.checked_add(block.size);
        let area = areas.iter().find(|area| area.contains(&block.start.0));
        prop_assert!(area.zip(end).is_some_and(|(area, end)| end <= area.end), "{:x?} {:x?}", block, areas);
    }
    Ok(())
}

/// How many there are.
const KINDS: u8 = 9;

/// Each kind that can be written to.
#[derive(Debug)]
enum Made {
    Process(MadeProcess),
    Jemalloc(MadeJemalloc),
    Image(MadeImage),
}

impl Made {
    fn new(which: u8) -> Self {
        match which {
            0 => Self::Process(MadeProcess::new()),
            1 => Self::Process(MadeProcess::of_musl()),
            2 => Self::Jemalloc(MadeJemalloc::new(true)),
            3 => Self::Jemalloc(MadeJemalloc::new(false)),
            4 => Self::Image(MadeImage::of_mimalloc(0)),
            5 => Self::Image(MadeImage::of_mimalloc(9)),
            6 => Self::Image(MadeImage::of_mimalloc_3(0)),
            7 => Self::Image(MadeImage::of_mimalloc_3(5)),
            _ => Self::Image(MadeImage::of_tcmalloc()),
        }
    }

    fn image(&self) -> &dyn Image {
        match self {
            Self::Process(made) => made,
            Self::Jemalloc(made) => made,
            Self::Image(made) => made,
        }
    }

    fn write(&mut self, address: u64, word: u64) {
        match self {
            Self::Process(made) => made.word(address, word),
            Self::Jemalloc(made) => made.word(address, word),
            Self::Image(made) => made.word(address, word),
        }
    }
}

#[test]
fn what_was_made_whole_agrees_with_itself() {
    for which in 0..KINDS {
        let made = Made::new(which);
        let memory = with_blocks(made.image(), &[], 1 << 16);
        holds_together(made.image(), &memory).unwrap_or_else(|error| panic!("{which}: {error}"));
        let facts = memory.footprint.allocators.first().expect("it is known");
        let listed = memory.blocks.expect("they are few").len() as u64;
        assert_eq!(listed, by_size(facts, |class| class.used).count, "{facts:#?}");
        assert!(made.image().mappings().is_sorted_by_key(|one: &Mapping| one.start));
    }
}

proptest! {
    #[test]
    fn whatever_words_say_what_is_told_agrees_with_itself(
        which in 0..KINDS,
        changes in prop::collection::vec((any_place(), any_word()), 1..6),
    ) {
        let mut made = Made::new(which);
        for (place, value) in changes {
            let (address, word) = (address(made.image(), place), word(made.image(), value));
            made.write(address, word);
        }
        let memory = with_blocks(made.image(), &[], 1 << 16);
        holds_together(made.image(), &memory)?;
    }
}
