//! What the runtime keeps of its heap, outside of it, as far as it can be proven: everything else of it stays unaccounted for.
//!
//! ```text
//! runtime.persistentChunks ─► chunk ─► chunk ...      256 KiB each, in which all spans lie
//! mheap.pages.summary      five slices of 2^14, 2^17, 2^20, 2^23, 2^26 words; behind them 2^13 pointers to 1 MiB of bitmaps each
//! ```

use std::ops::Range;

use super::span::Span;
use crate::Memory;

/// Bytes that `persistentalloc` takes from the system at once, and from which it hands out.
const CHUNK: u64 = 256 << 10;
/// A chain of chunks is longer in no program that fits into memory.
const CHUNKS: usize = 1 << 16;
/// Words of each level of the summary of pages.
const SUMMARY: [u64; 5] = [1 << 14, 1 << 17, 1 << 20, 1 << 23, 1 << 26];
/// Pointers to bitmaps of pages, and the bytes of each.
const BITMAPS: u64 = 1 << 13;
const BITMAP: u64 = 1 << 20;
/// Bytes of a page of the system.
const PAGE: u64 = 4096;
/// Spans that must be in a chunk.
const ASKED: usize = 24;
/// Chunks that are followed in all, for all words that may lead to a first one.
const STEPS: usize = 1 << 20;

/// All of it that is found.
pub(super) fn find(
    memory: &Memory<'_>,
    variables: &[Range<u64>],
    spans: &[Span],
    most: u64,
) -> Vec<Range<u64>> {
    let mut books = Vec::new();
    if let Some(chunks) = chunks(memory, variables, spans, most) {
        books.extend(chunks.into_iter().map(|start| start..start.saturating_add(CHUNK)));
    }
    books.extend(summary(memory, variables, most));
    for span in spans {
        // The pages that the bits of its objects are in.
        let bytes = span.places.div_ceil(64).saturating_mul(8);
        for bits in span.bitmaps.into_iter().filter(|bits| *bits != 0 && span.places > 0) {
            let start = bits - bits % PAGE;
            let end = bits.saturating_add(bytes).div_ceil(PAGE).saturating_mul(PAGE);
            match books.last_mut() {
                Some(last) if last.start == start && last.end == end => {}
                _ => books.push(start..end),
            }
        }
    }
    books
}

/// The chain of chunks in which spans lie, by a variable that leads to the first.
fn chunks(memory: &Memory<'_>, variables: &[Range<u64>], spans: &[Span], most: u64) -> Option<Vec<u64>> {
    let asked: Vec<u64> =
        spans.iter().step_by((spans.len() / ASKED).max(1)).map(|span| span.at).take(ASKED * 2).collect();
    let mut steps = STEPS;
    variables.iter().find_map(|range| {
        memory.search(range.clone(), 8, most, |_, piece| {
            piece.as_chunks::<8>().0.iter().find_map(|word| {
                let first = u64::from_le_bytes(*word);
                if first == 0 || first % PAGE != 0 || first >= 1 << 47 {
                    return None;
                }
                let mut chunks = chain(memory, first, &mut steps)?;
                chunks.sort_unstable();
                let is_in = |at: &u64| {
                    let place = chunks.partition_point(|start| start <= at);
                    place > 0 && chunks.get(place - 1).is_some_and(|start| at - start < CHUNK)
                };
                (!asked.is_empty() && asked.iter().all(is_in)).then_some(chunks)
            })
        })
    })
}

/// Each chunk's first word leads to the next one; that of the last is 0.
fn chain(memory: &Memory<'_>, first: u64, steps: &mut usize) -> Option<Vec<u64>> {
    let mut chunks = vec![first];
    let mut at = first;
    while let Some(next) = memory.u64(at).filter(|next| *next != 0) {
        *steps = steps.checked_sub(1)?;
        if next % PAGE != 0 || next >= 1 << 47 || chunks.len() >= CHUNKS {
            return None;
        }
        chunks.push(next);
        at = next;
    }
    // A chain that ends because it leads nowhere is none.
    (memory.u64(at) == Some(0)).then_some(chunks)
}

/// The summary of which pages are in use, and the bitmaps that it sums up.
fn summary(memory: &Memory<'_>, variables: &[Range<u64>], most: u64) -> Vec<Range<u64>> {
    const WORDS: usize = SUMMARY.len() * 3;
    let is_slice = |three: &[[u8; 8]], words: u64| match three {
        [list, _, capacity] => {
            u64::from_le_bytes(*capacity) == words && u64::from_le_bytes(*list) % PAGE == 0
        }
        _ => false,
    };
    let found = variables.iter().find_map(|range| {
        memory.search(range.clone(), WORDS * 8, most, |start, piece| {
            let words = piece.as_chunks::<8>().0;
            words
                .windows(WORDS)
                .position(|window| window.chunks(3).zip(SUMMARY).all(|(three, words)| is_slice(three, words)))
                .map(|place| start + place as u64 * 8)
        })
    });
    let Some(found) = found else { return Vec::new() };
    let mut books = Vec::new();
    for (level, words) in SUMMARY.into_iter().enumerate() {
        let list = memory.pointer(found.saturating_add(level as u64 * 24));
        books.extend(list.map(|list| list..list.saturating_add(words * 8)));
    }
    let bitmaps = found.saturating_add(WORDS as u64 * 8);
    for number in 0..BITMAPS {
        let bitmap = memory.pointer(bitmaps.saturating_add(number * 8)).filter(|at| at % PAGE == 0);
        books.extend(bitmap.map(|at| at..at.saturating_add(BITMAP)));
    }
    books
}
