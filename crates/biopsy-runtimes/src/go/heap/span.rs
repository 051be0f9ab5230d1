//! One span (`runtime.mspan`): pages of the heap side by side that hold objects of one size, or a stack.
//!
//! ```text
//! 24 address  32 pages  48 index of the next free place
//! 1.19 to 1.20   56 places (8 bytes)  72 and 80 bitmaps   96 places in use  98 class  99 state  104 bytes of a place
//! 1.21           56                   72 and 80          104               106       107       112
//! since 1.22     50 (2 bytes)         64 and 72           96                98        99       104
//! ```
//! (runtime/mheap.go of each). The class is that of the size, twice, and one more where objects have no pointers.

use std::ops::Range;

use crate::Memory;

/// Bytes of a page of the heap.
pub(super) const PAGE: u64 = 8192;
/// More than any program could have.
const PAGES: u64 = 1 << 34;
/// Bytes that are read of a span.
const BYTES: usize = 120;
/// Where a user's addresses end.
const END: u64 = 1 << 47;

/// Bytes of objects of each class (runtime/sizeclasses.go): the same from 1.17 to 1.26.
const SIZES: [u64; 68] = [
    0, 8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256, 288, 320, 352, 384,
    416, 448, 480, 512, 576, 640, 704, 768, 896, 1024, 1152, 1280, 1408, 1536, 1792, 2048, 2304, 2688, 3072,
    3200, 3456, 4096, 4864, 5376, 6144, 6528, 6784, 6912, 8192, 9472, 9728, 10240, 10880, 12288, 13568,
    14336, 16384, 18432, 19072, 20480, 21760, 24576, 27264, 28672, 32768,
];

/// Where it has what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SpanLayout {
    places: usize,
    places_are_words: bool,
    bitmaps: usize,
    count: usize,
}

impl SpanLayout {
    /// Of a minor version that is known.
    pub(crate) fn of(minor: u32) -> Self {
        match minor {
            ..=20 => Self { places: 56, places_are_words: true, bitmaps: 72, count: 96 },
            21 => Self { places: 56, places_are_words: true, bitmaps: 72, count: 104 },
            _ => Self { places: 50, places_are_words: false, bitmaps: 64, count: 96 },
        }
    }

    /// Writes one into bytes, for tests and fuzzing.
    pub(crate) fn write(&self, span: &Span, pages: u64) -> Vec<u8> {
        let mut bytes = vec![0; BYTES];
        let mut put = |at: usize, value: &[u8]| {
            if let Some(place) = bytes.get_mut(at..at + value.len()) {
                place.copy_from_slice(value);
            }
        };
        put(24, &span.range.start.to_le_bytes());
        put(32, &pages.to_le_bytes());
        let places = span.places.to_le_bytes();
        let places = places.get(..if self.places_are_words { 8 } else { 2 }).unwrap_or_default();
        put(self.places, places);
        put(self.bitmaps, &span.bitmaps[0].to_le_bytes());
        put(self.bitmaps + 8, &span.bitmaps[1].to_le_bytes());
        put(self.count, span.count.to_le_bytes().get(..2).unwrap_or_default());
        put(self.count + 2, &[span.class * 2, if span.holds == Holds::Objects { 1 } else { 2 }]);
        put(self.count + 8, &span.size.to_le_bytes());
        bytes
    }
}

/// What is in a span.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Holds {
    /// Objects of the program.
    Objects,
    /// Stacks of goroutines.
    Stacks,
    /// What the collector works with.
    Work,
}

/// A span that is in use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    /// Its own address.
    pub(crate) at: u64,
    /// Its pages.
    pub(crate) range: Range<u64>,
    pub(crate) holds: Holds,
    /// Number of its size; 0: one large object.
    pub(crate) class: u8,
    /// Bytes of an object.
    pub(crate) size: u64,
    /// How many objects have room.
    pub(crate) places: u64,
    /// How many are there.
    pub(crate) count: u64,
    /// Where the bits of its objects are.
    pub(crate) bitmaps: [u64; 2],
}

/// What is at an address that a list of spans has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Read {
    Live(Span),
    /// Given back: its memory is of nobody or of another span.
    Dead,
    /// It cannot be read, or what it says cannot be.
    Torn,
}

impl Span {
    pub(super) fn read(memory: &Memory<'_>, layout: &SpanLayout, at: u64) -> Read {
        let Some(bytes) = memory.array::<BYTES>(at) else { return Read::Torn };
        Self::parse(at, &bytes, layout).unwrap_or(Read::Torn)
    }

    fn parse(at: u64, bytes: &[u8; BYTES], layout: &SpanLayout) -> Option<Read> {
        let word = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let half = |at: usize| Some(u64::from(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?)));
        let [class, state] = *bytes.get(layout.count + 2..)?.first_chunk()?;
        if state == 0 {
            return Some(Read::Dead);
        }
        let (start, pages) = (word(24)?, word(32)?);
        let end = start.checked_add(pages.checked_mul(PAGE)?)?;
        if start % PAGE != 0 || start == 0 || !(1..PAGES).contains(&pages) || end > END {
            return None;
        }
        let places = if layout.places_are_words { word(layout.places)? } else { half(layout.places)? };
        let span = Self {
            at,
            range: start..end,
            holds: Holds::Objects,
            class: class >> 1,
            size: word(layout.count + 8)?,
            places,
            count: half(layout.count)?,
            bitmaps: [word(layout.bitmaps)?, word(layout.bitmaps + 8)?],
        };
        match state {
            1 if span.holds_together() => Some(Read::Live(span)),
            // Of stacks the bytes of one are known; of work there is nothing to be known.
            2 if span.size == 0 => Some(Read::Live(Self { holds: Holds::Work, ..span })),
            2 if span.size <= pages * PAGE => Some(Read::Live(Self { holds: Holds::Stacks, ..span })),
            _ => None,
        }
    }

    /// Objects have the size of their class, have room, and are not more than have room.
    fn holds_together(&self) -> bool {
        let bytes = self.range.end - self.range.start;
        let fits = self.places.checked_mul(self.size).is_some_and(|all| all <= bytes);
        let size = match self.class {
            // A large one has all of its span, but what a chunk of objects with one life keeps at its end.
            0 => (self.places == 1).then_some(self.size),
            class => SIZES.get(usize::from(class)).copied(),
        };
        size == Some(self.size) && self.size > 0 && self.places > 0 && fits && self.count <= self.places
    }

    /// Bytes of objects.
    pub(super) fn used(&self) -> u64 {
        self.count.saturating_mul(self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Span {
        Span {
            at: 0x7000,
            range: 0xc0_0000_0000..0xc0_0000_2000,
            holds: Holds::Objects,
            class: 5,
            size: 48,
            places: 170,
            count: 3,
            bitmaps: [0x8000, 0x8040],
        }
    }

    fn read(layout: &SpanLayout, bytes: &[u8]) -> Read {
        Span::parse(0x7000, bytes.first_chunk().expect("as many as a span has"), layout).unwrap_or(Read::Torn)
    }

    #[test]
    fn what_is_written_is_read_in_each_layout() {
        for minor in 19..=26 {
            let layout = SpanLayout::of(minor);
            assert_eq!(read(&layout, &layout.write(&small(), 1)), Read::Live(small()), "1.{minor}");
            let stack = Span { holds: Holds::Stacks, class: 0, size: 2048, places: 0, count: 0, ..small() };
            assert_eq!(read(&layout, &layout.write(&stack, 1)), Read::Live(stack), "1.{minor}");
            let work = Span { holds: Holds::Work, class: 0, size: 0, places: 0, count: 0, ..small() };
            assert_eq!(read(&layout, &layout.write(&work, 1)), Read::Live(work), "1.{minor}");
            assert_eq!(read(&layout, &[0; BYTES]), Read::Dead, "1.{minor}");
        }
    }

    #[test]
    fn what_does_not_hold_together_is_not_believed() {
        let layout = SpanLayout::of(22);
        let torn = |span: Span, pages| {
            assert_eq!(read(&layout, &layout.write(&span, pages)), Read::Torn, "{span:?} {pages}");
        };
        torn(Span { size: 64, ..small() }, 1);
        torn(Span { class: 68, ..small() }, 1);
        torn(Span { class: 0, size: 8192, places: 2, ..small() }, 2);
        torn(Span { places: 171, ..small() }, 1);
        torn(Span { count: 171, ..small() }, 1);
        torn(Span { count: 0, places: 0, ..small() }, 1);
        torn(small(), 0);
        torn(small(), u64::MAX);
        torn(small(), 1 << 60);
        torn(Span { range: 0xc0_0000_0010..0xc0_0000_2010, ..small() }, 1);
        torn(Span { range: u64::MAX - 8191..u64::MAX, ..small() }, 1);
        torn(Span { holds: Holds::Stacks, size: 1 << 20, ..small() }, 1);
    }
}
