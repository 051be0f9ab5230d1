//! Ranges that a core has whatever its kind, collected in any order.

use std::ops::Range;

use super::super::Class;
use crate::PAGE_SIZE;

/// Ranges nearer to each other than this are one: a program header costs as much as a little memory.
const JOIN_BELOW: u64 = 16 * 1024;

/// Most bytes of parts of modules, and most ranges. A process can map files that claim anything; an honest one of a thousand libraries
/// has some hundred megabytes.
const MOST_OF_MODULES: u64 = 1024 * 1024 * 1024;
const MOST_RANGES: usize = 1 << 20;

/// Collects ranges.
#[derive(Default, Debug)]
pub(super) struct Wanted {
    ranges: Vec<(Range<u64>, Class)>,
    of_modules: u64,
}

impl Wanted {
    /// Adds the pages of a range. Empty and impossible ones are ignored.
    pub(super) fn add(&mut self, start: u64, length: u64, class: Class) {
        let Some(end) = start.checked_add(length).and_then(|end| end.checked_next_multiple_of(PAGE_SIZE))
        else {
            return;
        };
        if length == 0 {
            return;
        }
        if class == Class::Modules {
            let of_modules = self.of_modules.saturating_add(length);
            if of_modules > MOST_OF_MODULES || self.is_full() {
                return;
            }
            self.of_modules = of_modules;
        }
        self.ranges.push((start / PAGE_SIZE * PAGE_SIZE..end, class));
    }

    /// No more modules need be looked at.
    pub(super) fn is_full(&self) -> bool {
        self.of_modules >= MOST_OF_MODULES / 2 || self.ranges.len() >= MOST_RANGES
    }

    /// The ranges by address, not overlapping. Where two overlap, the more important one has it.
    pub(super) fn finish(self) -> Vec<(Range<u64>, Class)> {
        let mut taken: Vec<(Range<u64>, Class)> = Vec::new();
        for class in [Class::Stacks, Class::Modules] {
            let mut of_class: Vec<_> =
                self.ranges.iter().filter(|(_, of)| *of == class).map(|(range, _)| range.clone()).collect();
            of_class.sort_unstable_by_key(|range| range.start);
            let mut joined: Vec<Range<u64>> = Vec::new();
            for range in of_class {
                match joined.last_mut() {
                    Some(last) if range.start < last.end.saturating_add(JOIN_BELOW) => {
                        last.end = last.end.max(range.end);
                    }
                    _ => joined.push(range),
                }
            }
            let free: Vec<_> = joined.into_iter().flat_map(|range| without(range, &taken)).collect();
            taken.extend(free.into_iter().map(|range| (range, class)));
            taken.sort_unstable_by_key(|(range, _)| range.start);
        }
        taken
    }
}

/// `range` without what is taken already (by address).
fn without(range: Range<u64>, taken: &[(Range<u64>, Class)]) -> Vec<Range<u64>> {
    let mut free = Vec::new();
    let mut at = range.start;
    let from = taken.partition_point(|(one, _)| one.end <= range.start);
    for (one, _) in taken.get(from..).unwrap_or_default() {
        if one.start >= range.end {
            break;
        }
        if at < one.start {
            free.push(at..one.start);
        }
        at = at.max(one.end);
    }
    if at < range.end {
        free.push(at..range.end);
    }
    free
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_ranges_go_to_the_more_important_and_neighbours_are_joined() {
        let mut wanted = Wanted::default();
        wanted.add(0x10_0010, 0x20, Class::Modules);
        wanted.add(0x10_2000, 0x1000, Class::Modules);
        wanted.add(0x10_1800, 8, Class::Stacks);
        wanted.add(0x90_0000, 0, Class::Modules);
        wanted.add(u64::MAX - 8, 64, Class::Modules);
        assert_eq!(
            wanted.finish(),
            [
                (0x10_0000..0x10_1000, Class::Modules),
                (0x10_1000..0x10_2000, Class::Stacks),
                (0x10_2000..0x10_3000, Class::Modules),
            ]
        );
    }
}
