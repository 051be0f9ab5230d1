//! A Go process by hand that has a heap: a span of small objects, one of stacks, a large object, a free page, and what leads to them.

use super::{MadeImage, go_image};
use crate::go::heap::arenas::Arenas;
use crate::go::heap::span::{Holds, Span, SpanLayout};

const VARIABLES: u64 = 0x40_5000;
const HEAP: u64 = 0xc0_0000_0000;
const PAGE: u64 = 8192;
/// Number of the arena that begins there.
const ARENA: u64 = (HEAP + 0x8000_0000_0000) >> 26;
const LIST: u64 = 0x7f00_0000_0000;
const CHUNK: u64 = 0x7f00_0010_0000;
const MAP: u64 = 0x7f00_0100_0000;
const RECORD: u64 = 0x7f00_0400_0000;
/// Bytes of a span, and more.
const SPAN: u64 = 0xa0;

/// The process, of this minor version.
///
/// # Panics
/// When the version is none whose layout is known.
#[must_use]
pub fn go_heap_image(minor: u32) -> MadeImage {
    let mut image = go_image(minor);
    let entry = MAP + ARENA * 8;
    let spans_at = RECORD + Arenas::spans_at(minor);
    for (start, size) in [(LIST, 0x1000), (CHUNK, 0x2000), (entry, 0x100), (spans_at, 0x100)] {
        image.map(start, size);
    }
    let layout = SpanLayout::of(minor);
    let span = |number: u64, holds, class, size, places, count| Span {
        at: CHUNK + 0x100 + number * SPAN,
        range: HEAP + number * PAGE..HEAP + (number + 1) * PAGE,
        holds,
        class,
        size,
        places,
        count,
        bitmaps: [CHUNK + 0x1000, CHUNK + 0x1040],
    };
    let spans = [
        span(0, Holds::Objects, 5, 48, 170, 3),
        span(1, Holds::Stacks, 0, 2048, 0, 0),
        span(2, Holds::Objects, 0, PAGE, 1, 1),
    ];
    for (number, span) in spans.iter().enumerate() {
        let number = number as u64;
        image.put(span.at, &layout.write(span, 1));
        image.word(LIST + number * 8, span.at);
        image.word(spans_at + number * 8, span.at);
    }
    // One that was given back.
    image.word(LIST + 24, CHUNK + 0x800);
    let map = VARIABLES + 0x100 + if minor < 22 { 80 } else { 144 };
    let words = [
        (VARIABLES + 0x100, LIST),
        (VARIABLES + 0x108, 4),
        (VARIABLES + 0x110, 8192),
        (map, MAP),
        (map + 88, CHUNK + 0x1800),
        (map + 96, 1),
        (map + 104, 1),
        (CHUNK + 0x1800, ARENA),
        (entry, RECORD),
        (VARIABLES + 0x400, CHUNK),
    ];
    for (at, word) in words {
        image.word(at, word);
    }
    for (level, words) in [1 << 14, 1 << 17, 1 << 20, 1 << 23, 1 << 26].into_iter().enumerate() {
        let at = VARIABLES + 0x500 + level as u64 * 24;
        image.word(at, RECORD + 0x1000_0000 * (level as u64 + 1));
        image.word(at + 16, words);
    }
    image
}
