//! Arenas: 64 MiB of addresses each, with a record (`runtime.heapArena`) that leads from a page to its span.
//!
//! ```text
//! mheap.arenas ─► map by address ─► record ─► at 0 (1.22), 1 MiB + 16 KiB (1.20, 1.21), 2 MiB (1.19): a span for each page
//! mheap.allArenas ─► numbers of all that there are
//! ```

use std::ops::Range;

use super::span::{PAGE, Span};
use crate::Memory;

/// Bytes of an arena.
const ARENA: u64 = 64 << 20;
/// How many there can be: 48 bits of addresses.
const ARENAS: u64 = 1 << 22;
/// More than any program has: 4 TiB.
const LISTED: u64 = 1 << 16;
/// What numbers of arenas count from, so that negative addresses come first.
const BASE: u64 = 0xffff_8000_0000_0000;
/// Bytes behind the list of spans in which the map and the list of arenas are: 80 to 144, and 80 to 88 from one to the other.
const BEHIND: u64 = 400;
/// Spans that must lead back to themselves before the map is believed.
const ASKED: usize = 24;
/// What a record has behind its spans: three or four bitmaps of pages and two words.
const RECORD_REST: u64 = 4 * 1024 + 16;

/// The map of all arenas.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Arenas {
    map: u64,
    /// Where in a record the spans begin.
    spans_at: u64,
    /// Numbers of those that there are, ascending.
    pub(super) numbers: Vec<u64>,
}

impl Arenas {
    /// Where spans begin in the record of a minor version.
    pub(crate) fn spans_at(minor: u32) -> u64 {
        match minor {
            ..=19 => 2 << 20,
            20 | 21 => (1 << 20) + (16 << 10),
            _ => 0,
        }
    }

    /// Finds it behind the list of spans, which is at `list`: the map by which `spans` lead back to themselves, and the list of arenas that the
    /// map has.
    pub(super) fn find(memory: &Memory<'_>, minor: u32, list: u64, spans: &[Span]) -> Option<Self> {
        let asked: Vec<&Span> = spans.iter().step_by((spans.len() / ASKED).max(1)).collect();
        if asked.is_empty() {
            return None;
        }
        let spans_at = Self::spans_at(minor);
        let start = list.checked_add(24)?;
        for at in (start..start.checked_add(BEHIND)?).step_by(8) {
            let Some(map) = memory.pointer(at) else { continue };
            let arenas = Self { map, spans_at, numbers: Vec::new() };
            let back = asked.iter().filter(|span| arenas.leads_to(memory, span)).count();
            if back * 4 >= asked.len() * 3 {
                let numbers = arenas.all(memory, at.checked_add(8)?)?;
                return Some(Self { numbers, ..arenas });
            }
        }
        None
    }

    /// The list of numbers: a slice behind the map all of whose numbers have a record.
    fn all(&self, memory: &Memory<'_>, behind: u64) -> Option<Vec<u64>> {
        for at in (behind..behind.checked_add(BEHIND)?).step_by(8) {
            let [list, length, capacity] = [0, 8, 16].map(|offset| memory.u64(at + offset));
            let (list, length, capacity) = (list?, length?, capacity?);
            if list == 0 || !(1..=capacity.min(LISTED)).contains(&length) || capacity > ARENAS {
                continue;
            }
            let number = |index: u64| {
                let number = memory.u64(list.checked_add(index * 8)?)?;
                self.record(memory, number).map(|_| number)
            };
            let numbers: Option<Vec<u64>> = (0..length).map(number).collect();
            if let Some(mut numbers) = numbers {
                numbers.sort_unstable();
                numbers.dedup();
                return Some(numbers);
            }
        }
        None
    }

    fn record(&self, memory: &Memory<'_>, number: u64) -> Option<u64> {
        (number < ARENAS).then_some(())?;
        memory.pointer(self.map.checked_add(number * 8)?)
    }

    /// Whether the first and the last page of a span have it as theirs.
    pub(super) fn leads_to(&self, memory: &Memory<'_>, span: &Span) -> bool {
        let leads = |page: u64| {
            let record = self.record(memory, page.wrapping_sub(BASE) / ARENA)?;
            let place = record.checked_add(self.spans_at)?.checked_add(page % ARENA / PAGE * 8)?;
            memory.u64(place).filter(|found| *found == span.at)
        };
        leads(span.range.start).is_some() && leads(span.range.end.saturating_sub(PAGE)).is_some()
    }

    /// Their addresses, ascending.
    pub(super) fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        let range = |number: &u64| {
            let start = number.wrapping_mul(ARENA).wrapping_add(BASE);
            start..start.saturating_add(ARENA)
        };
        self.numbers.iter().map(range)
    }

    /// The map itself and the records: bookkeeping.
    pub(super) fn books(&self, memory: &Memory<'_>) -> Vec<Range<u64>> {
        let spans = ARENA / PAGE * 8;
        let bytes = self.spans_at + spans + RECORD_REST;
        let records = self.numbers.iter().filter_map(|number| self.record(memory, *number));
        let records = records.map(|record| record..record.saturating_add(bytes));
        std::iter::once(self.map..self.map.saturating_add(ARENAS * 8)).chain(records).collect()
    }
}
