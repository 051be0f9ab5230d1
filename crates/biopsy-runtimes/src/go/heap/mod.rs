//! The heap of Go 1.19 to 1.26: which spans hold objects, of which size, how many; stacks of goroutines; what is free.
//!
//! ```text
//! module_data ─► variables ─► mheap_.allspans ─► spans ─┬─► arenas ─► back to the spans
//!                    └─► books: persistentChunks, summary of pages
//! ```
//! Nothing is believed that does not hold together: a span's objects have the size of its class and are not more than have room
//! (`span`), and the pages of each lead back to it (`arenas`).

pub(crate) mod arenas;
mod books;
pub(crate) mod span;
#[cfg(test)]
mod tests;

use std::ops::Range;

use arenas::Arenas;
use biopsy_model::footprint::{Blocks, MemoryKind, MemoryPool, RuntimeArea, RuntimeHeap, SizeClass};
use rustc_hash::FxHashMap;
use span::{Holds, Read, Span, SpanLayout};

use crate::areas::ordered;
use crate::{Limits, Memory};

/// Spans that may be in the middle of a change: more threads than that do not allocate at one moment.
const TORN: u64 = 64;
/// The first list of spans has room for so many.
const LEAST_ROOM: u64 = 8192;
/// More than any program could have in memory.
const MOST_ROOM: u64 = 1 << 28;
/// Elements that are looked at before a list is believed.
const ASKED: u64 = 64;
/// Lists that are looked at: what looks like one is rare.
const LISTS: u32 = 4096;
/// Bytes of a page of the system: the list begins at one.
const SYSTEM_PAGE: u64 = 4096;

const OBJECTS: usize = 0;
const STACKS: usize = 1;
const FREE: usize = 2;
const BOOKS: usize = 3;
/// The pools, by those numbers.
const POOLS: [(&str, MemoryKind); 4] = [
    ("objects", MemoryKind::ManagedHeap),
    ("stacks of goroutines", MemoryKind::Stacks),
    ("free pages", MemoryKind::ManagedFree),
    ("bookkeeping", MemoryKind::RuntimeData),
];

/// Reads it. `variables`: where the runtime's variables are.
pub(super) fn read(
    memory: &Memory<'_>,
    minor: u32,
    variables: &[Range<u64>],
    limits: &Limits,
) -> Result<RuntimeHeap, String> {
    let layout = SpanLayout::of(minor);
    let list = find_list(memory, &layout, variables, limits.searched_bytes)
        .ok_or("the list of its spans was not found")?;
    if list.length > limits.objects as u64 {
        return Err(format!("it has more than {} spans", limits.objects));
    }
    let (mut spans, mut torn) = (Vec::new(), 0_u64);
    for index in 0..list.length {
        match list.span(memory, &layout, index) {
            Read::Live(span) => spans.push(span),
            Read::Dead => {}
            Read::Torn => torn += 1,
        }
    }
    let arenas =
        Arenas::find(memory, minor, list.found_at, &spans).ok_or("the map of its arenas was not found")?;
    let all = spans.len() as u64 + torn;
    spans.retain(|span| arenas.leads_to(memory, span));
    spans.sort_unstable_by_key(|span| span.range.start);
    let mut end = 0;
    spans.retain(|span| {
        let is_apart = span.range.start >= end;
        end = end.max(span.range.end);
        is_apart
    });
    let torn = all - spans.len() as u64;
    if torn > TORN.min(all / 4).max(1) || spans.is_empty() {
        return Err(format!("{torn} of its {all} spans do not hold together"));
    }
    let mut heap = sums(&spans);
    let mut areas: Vec<RuntimeArea> = spans.iter().map(area).collect();
    areas.extend(free(&arenas, &spans));
    let mut books = arenas.books(memory);
    books.push(list.start..list.start.saturating_add(list.room.saturating_mul(8)));
    books.extend(books::find(memory, variables, &spans, limits.searched_bytes));
    areas.extend(outside(books, &arenas).map(|range| whole(range, BOOKS)));
    heap.areas = ordered(areas);
    for area in &heap.areas {
        // Objects and stacks are counted by span; much of the rest is addresses alone.
        if !matches!(area.pool, FREE | BOOKS) {
            continue;
        }
        let bytes = memory.writable(&area.range);
        if let Some(pool) = heap.memory.pools.get_mut(area.pool) {
            pool.committed = pool.committed.saturating_add(bytes);
        }
    }
    heap.memory.whole = torn == 0;
    if torn > 0 {
        heap.warnings
            .push(format!("{torn} of {all} spans of the Go heap do not hold together and count as free"));
    }
    Ok(heap)
}

/// `mheap_.allspans`.
struct List {
    start: u64,
    length: u64,
    room: u64,
    /// Where the slice is.
    found_at: u64,
}

impl List {
    fn span(&self, memory: &Memory<'_>, layout: &SpanLayout, index: u64) -> Read {
        let at = index.checked_mul(8).and_then(|offset| memory.u64(self.start.checked_add(offset)?));
        at.map_or(Read::Torn, |at| Span::read(memory, layout, at))
    }

    /// How many of those looked at are spans that hold together; `None`: too few for a list of spans.
    fn fits(&self, memory: &Memory<'_>, layout: &SpanLayout) -> Option<u64> {
        let step = (self.length / ASKED).max(1);
        let (mut live, mut torn) = (0_u64, 0_u64);
        for index in (0..self.length).step_by(usize::try_from(step).ok()?) {
            match self.span(memory, layout, index) {
                Read::Live(_) => live += 1,
                Read::Dead => {}
                Read::Torn => torn += 1,
            }
        }
        (live > 0 && torn <= 1 + live / 4).then_some(live)
    }
}

/// The slice among the variables whose elements are spans.
fn find_list(memory: &Memory<'_>, layout: &SpanLayout, variables: &[Range<u64>], most: u64) -> Option<List> {
    let (mut best, mut lists): (Option<(u64, List)>, u32) = (None, 0);
    for range in variables {
        let _ = memory.search::<()>(range.clone(), 16, most, |piece_at, piece| {
            let words = piece.as_chunks::<8>().0;
            for (place, three) in words.windows(3).enumerate() {
                let [start, length, room] = [0, 1, 2].map(|at| u64::from_le_bytes(three[at]));
                let plausible = start % SYSTEM_PAGE == 0
                    && (0x1_0000..1 << 47).contains(&start)
                    && (LEAST_ROOM..MOST_ROOM).contains(&room)
                    && (1..=room).contains(&length);
                if !plausible || lists >= LISTS {
                    continue;
                }
                lists += 1;
                let list = List { start, length, room, found_at: piece_at.saturating_add(place as u64 * 8) };
                if let Some(live) = list.fits(memory, layout)
                    && best.as_ref().is_none_or(|(most, _)| live > *most)
                {
                    best = Some((live, list));
                }
            }
            None
        });
    }
    best.map(|(_, list)| list)
}

fn pool(span: &Span) -> usize {
    match span.holds {
        Holds::Objects => OBJECTS,
        Holds::Stacks => STACKS,
        Holds::Work => BOOKS,
    }
}

fn whole(range: Range<u64>, pool: usize) -> RuntimeArea {
    RuntimeArea { used: range.end.saturating_sub(range.start), range, pool }
}

fn area(span: &Span) -> RuntimeArea {
    match span.holds {
        Holds::Objects => RuntimeArea { range: span.range.clone(), pool: OBJECTS, used: span.used() },
        // Which of the stacks are free is not asked: the runtime's own count is of spans, too.
        Holds::Stacks | Holds::Work => whole(span.range.clone(), pool(span)),
    }
}

/// What of the arenas is in no span.
fn free(arenas: &Arenas, spans: &[Span]) -> Vec<RuntimeArea> {
    let mut free = Vec::new();
    for arena in arenas.ranges() {
        let mut at = arena.start;
        let first = spans.partition_point(|span| span.range.end <= arena.start);
        for span in spans.iter().skip(first).take_while(|span| span.range.start < arena.end) {
            free.push(RuntimeArea { range: at..span.range.start.max(at), pool: FREE, used: 0 });
            at = at.max(span.range.end);
        }
        free.push(RuntimeArea { range: at..arena.end.max(at), pool: FREE, used: 0 });
    }
    free
}

/// Ranges that have nothing of the arenas.
fn outside(books: Vec<Range<u64>>, arenas: &Arenas) -> impl Iterator<Item = Range<u64>> {
    let heap: Vec<Range<u64>> = arenas.ranges().collect();
    books.into_iter().filter(move |one| {
        let first = heap.partition_point(|arena| arena.end <= one.start);
        heap.get(first).is_none_or(|arena| arena.start >= one.end)
    })
}

/// Sums by pool and by size.
fn sums(spans: &[Span]) -> RuntimeHeap {
    let mut heap = RuntimeHeap::default();
    heap.memory.pools = POOLS
        .into_iter()
        .map(|(name, kind)| MemoryPool { name: name.to_owned(), kind, ..MemoryPool::default() })
        .collect();
    let mut classes: FxHashMap<u64, SizeClass> = FxHashMap::default();
    for span in spans {
        let Some(pool) = heap.memory.pools.get_mut(pool(span)) else { continue };
        let bytes = span.range.end - span.range.start;
        let objects = span.holds == Holds::Objects;
        if span.holds == Holds::Work {
            continue;
        }
        pool.committed = pool.committed.saturating_add(bytes);
        let used = if objects { span.used() } else { bytes };
        pool.used.bytes = pool.used.bytes.saturating_add(used);
        if !objects {
            continue;
        }
        pool.used.count = pool.used.count.saturating_add(span.count);
        // Each large object has a size of its own.
        let up_to = if span.class == 0 {
            span.size.checked_next_power_of_two().unwrap_or(u64::MAX)
        } else {
            span.size
        };
        let class = classes.entry(up_to).or_insert_with(|| SizeClass { up_to, ..SizeClass::default() });
        let places = span.places - span.count.min(span.places);
        for (blocks, count) in [(&mut class.used, span.count), (&mut class.free, places)] {
            add(blocks, count, count.saturating_mul(span.size));
        }
    }
    heap.memory.classes = classes.into_values().collect();
    heap.memory.classes.sort_unstable_by_key(|class| class.up_to);
    heap
}

fn add(blocks: &mut Blocks, count: u64, bytes: u64) {
    blocks.count = blocks.count.saturating_add(count);
    blocks.bytes = blocks.bytes.saturating_add(bytes);
}
