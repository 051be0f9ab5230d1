//! The mappings of a process, each with what of it is in memory and what it is for.

use std::ops::Range;

use biopsy_image::{Backing, Image, Mapping, mapping};
use biopsy_model::footprint::MemoryKind;

/// Every mapping that holds memory.
pub(crate) struct Parts<'i> {
    parts: Vec<Part<'i>>,
    /// What managed runtimes have for their heaps, by address.
    pub(crate) managed: Vec<Range<u64>>,
    pub(crate) warnings: Vec<String>,
}

/// One mapping.
pub(crate) struct Part<'i> {
    pub(crate) mapping: &'i Mapping,
    /// What of it is in memory, by address.
    pub(crate) runs: Vec<Range<u64>>,
    pub(crate) kind: MemoryKind,
}

impl Part<'_> {
    pub(crate) fn resident(&self) -> u64 {
        length(&self.runs)
    }
}

impl<'i> Parts<'i> {
    pub(crate) fn of(image: &'i dyn Image, managed: &[Range<u64>]) -> Self {
        // Nobody has seen to it that what a runtime's own structures say does not overlap.
        let managed = merged(managed.to_vec());
        let mut parts = Self { parts: Vec::new(), managed, warnings: Vec::new() };
        let mut stacks: Vec<u64> =
            image.threads().iter().filter_map(|thread| Some(thread.registers?.rsp)).collect();
        stacks.sort_unstable();
        for mapping in image.mappings() {
            let Some(kind) = kind_of(mapping, &stacks) else { continue };
            let mut runs = Vec::new();
            let asked = if mapping.shared {
                image.populated(mapping.range(), &mut runs)
            } else {
                image.written(mapping.range(), &mut runs)
            };
            if let Err(error) = asked {
                parts
                    .warnings
                    .push(format!("what is in memory at 0x{:x} is not known: {error}", mapping.start));
            }
            parts.parts.push(Part { mapping, runs, kind });
        }
        parts
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Part<'i>> {
        self.parts.iter()
    }

    /// Bytes of this range that are in memory.
    pub(crate) fn resident(&self, range: &Range<u64>) -> u64 {
        let from = self.parts.partition_point(|part| part.mapping.end <= range.start);
        let within = self.parts.iter().skip(from).take_while(|part| part.mapping.start < range.end);
        within.map(|part| overlap(std::slice::from_ref(range), &part.runs)).fold(0, u64::saturating_add)
    }

    /// Bytes of this range that are addresses of the process.
    pub(crate) fn reserved(&self, range: &Range<u64>) -> u64 {
        let from = self.parts.partition_point(|part| part.mapping.end <= range.start);
        let within = self.parts.iter().skip(from).take_while(|part| part.mapping.start < range.end);
        let common = |part: &Part<'_>| {
            part.mapping.end.min(range.end).saturating_sub(part.mapping.start.max(range.start))
        };
        within.map(common).fold(0, u64::saturating_add)
    }

    /// Anonymous memory that may hold blocks of an allocator: no stacks, no code, not managed, and not in `known`, which is by address. Memory
    /// side by side may be one mapping, so that what is left of one is pieces.
    pub(crate) fn unexplained(&self, known: &[Range<u64>]) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for part in self.iter().filter(|part| part.kind == MemoryKind::Unaccounted) {
            let of_nobody = without(&[part.mapping.range()], &self.managed);
            for range in without(&of_nobody, known) {
                let cut = |run: &Range<u64>| run.start.max(range.start)..run.end.min(range.end);
                let runs = part.runs.iter().map(cut).filter(|run| run.start < run.end).collect();
                pieces.push(Piece { range, runs });
            }
        }
        pieces
    }
}

/// A piece of a mapping.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    pub(crate) range: Range<u64>,
    /// What of it is in memory, by address.
    pub(crate) runs: Vec<Range<u64>>,
}

/// What a mapping is for, before anybody has looked into it; `None`: it holds no memory of the process's own. `stacks`: pointers of all threads,
/// by address.
fn kind_of(one: &Mapping, stacks: &[u64]) -> Option<MemoryKind> {
    match &one.backing {
        Backing::Kernel { .. } => None,
        Backing::File { path, .. } if one.shared && !mapping::is_memory_file(path) => None,
        _ if one.protection.execute && !is_of_a_file(one) => Some(MemoryKind::CompiledCode),
        Backing::File { .. } if one.shared => Some(MemoryKind::Shared),
        Backing::File { .. } => Some(MemoryKind::ChangedFiles),
        Backing::Anonymous { label } if label.starts_with("[stack") => Some(MemoryKind::Stacks),
        _ if has_one(stacks, one) => Some(MemoryKind::Stacks),
        _ if one.shared => Some(MemoryKind::Shared),
        _ => Some(MemoryKind::Unaccounted),
    }
}

fn has_one(stacks: &[u64], mapping: &Mapping) -> bool {
    let first = stacks.partition_point(|&pointer| pointer < mapping.start);
    stacks.get(first).is_some_and(|&pointer| mapping.contains(pointer))
}

/// A file on a disk is behind it.
fn is_of_a_file(one: &Mapping) -> bool {
    one.path().is_some_and(|path| !mapping::is_memory_file(path))
}

fn length(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end.saturating_sub(range.start)).fold(0, u64::saturating_add)
}

/// Bytes that two lists of ranges, each by address and not overlapping, have in common. A long list is asked for each mapping of a process, so
/// what lies before the other one is jumped over.
pub(crate) fn overlap(some: &[Range<u64>], others: &[Range<u64>]) -> u64 {
    let (Some(first), Some(other)) = (some.first(), others.first()) else { return 0 };
    let mut left = some.partition_point(|range| range.end <= other.start);
    let mut right = others.partition_point(|range| range.end <= first.start);
    let mut common = 0;
    while let Some((one, other)) = some.get(left).zip(others.get(right)) {
        // Ranges of a hostile dump may overlap after all.
        let both = one.end.min(other.end).saturating_sub(one.start.max(other.start));
        common = u64::saturating_add(common, both);
        if one.end <= other.end {
            left += 1;
        } else {
            right += 1;
        }
    }
    common
}

/// The same memory, by address, in as few ranges as there are pieces.
pub(crate) fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.retain(|range| range.start < range.end);
    ranges.sort_unstable_by_key(|range| range.start);
    let mut list: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match list.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => list.push(range),
        }
    }
    list
}

/// What of some ranges is in none of the others; both are by address and do not overlap.
pub(crate) fn without(some: &[Range<u64>], others: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut left = Vec::new();
    for range in some {
        let mut at = range.start;
        let from = others.partition_point(|other| other.end <= range.start);
        for other in others.iter().skip(from).take_while(|other| other.start < range.end) {
            if at < other.start {
                left.push(at..other.start);
            }
            at = at.max(other.end);
        }
        if at < range.end {
            left.push(at..range.end);
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use biopsy_image::Protection;
    use proptest::prelude::*;

    use super::*;

    fn anonymous(label: &str) -> Backing {
        Backing::Anonymous { label: label.to_owned() }
    }

    fn file(path: &str) -> Backing {
        Backing::File { path: path.into(), offset: 0, deleted: false, identity: (1, 2) }
    }

    fn mapping(range: Range<u64>, backing: Backing, shared: bool, execute: bool) -> Mapping {
        let protection = Protection { read: true, write: !execute, execute };
        Mapping { start: range.start, end: range.end, protection, shared, backing, not_frozen: false }
    }

    #[test]
    fn each_mapping_is_for_one_thing() {
        use MemoryKind as Kind;
        let (private, shared, code) = ((false, false), (true, false), (false, true));
        for (backing, (is_shared, execute), wanted) in [
            (anonymous(""), private, Some(Kind::Unaccounted)),
            (anonymous("[heap]"), private, Some(Kind::Unaccounted)),
            (anonymous("[stack]"), private, Some(Kind::Stacks)),
            (anonymous("[stack:7]"), private, Some(Kind::Stacks)),
            (anonymous(""), shared, Some(Kind::Shared)),
            (anonymous(""), code, Some(Kind::CompiledCode)),
            (file("/lib/libc.so.6"), private, Some(Kind::ChangedFiles)),
            (file("/lib/libc.so.6"), code, Some(Kind::ChangedFiles)),
            (file("/var/data"), shared, None),
            (file("/dev/shm/queue"), shared, Some(Kind::Shared)),
            (file("/memfd:doublemapper"), (true, true), Some(Kind::CompiledCode)),
            (file("/memfd:doublemapper"), code, Some(Kind::CompiledCode)),
        ] {
            let text = format!("{backing:?} shared: {is_shared} execute: {execute}");
            assert_eq!(kind_of(&mapping(0x1000..0x2000, backing, is_shared, execute), &[]), wanted, "{text}");
        }
        // A thread stands on it, at its first byte and not behind its last.
        for (pointer, wanted) in [
            (0x1000, Kind::Stacks),
            (0x1fff, Kind::Stacks),
            (0x2000, Kind::Unaccounted),
            (0xfff, Kind::Unaccounted),
        ] {
            let one = mapping(0x1000..0x2000, anonymous(""), false, false);
            assert_eq!(kind_of(&one, &[0, pointer]), Some(wanted), "{pointer:#x}");
        }
    }

    #[test]
    fn what_nobody_has_of_a_mapping_is_looked_at_in_pieces() {
        let anonymous = |range| mapping(range, anonymous(""), false, false);
        let mappings = [anonymous(0x1000..0x9000), anonymous(0xa000..0xb000), anonymous(0xb000..0xc000)];
        let part = |mapping, runs, kind| Part { mapping, runs, kind };
        let parts = Parts {
            parts: vec![
                part(&mappings[0], vec![0x1000..0x2000, 0x3000..0x6000], MemoryKind::Unaccounted),
                part(&mappings[1], vec![0xa000..0xb000; 1], MemoryKind::Stacks),
                part(&mappings[2], vec![0xb000..0xc000; 1], MemoryKind::Unaccounted),
            ],
            managed: vec![0x1000..0x2000, 0xb000..0xc000],
            warnings: Vec::new(),
        };
        let piece = |range, runs| Piece { range, runs };
        for (known, pieces) in [
            (vec![], vec![piece(0x2000..0x9000, vec![0x3000..0x6000; 1])]),
            (vec![0x2000..0x9000; 1], vec![]),
            (vec![0..u64::MAX; 1], vec![]),
            (
                vec![0x4000..0x5000; 1],
                vec![
                    piece(0x2000..0x4000, vec![0x3000..0x4000; 1]),
                    piece(0x5000..0x9000, vec![0x5000..0x6000; 1]),
                ],
            ),
            (vec![0x2000..0x8000; 1], vec![piece(0x8000..0x9000, vec![])]),
        ] {
            assert_eq!(parts.unexplained(&known), pieces, "without {known:x?}");
        }
    }

    #[test]
    fn ranges_that_overlap_are_no_panic() {
        let hostile = vec![0..u64::MAX, 0..u64::MAX, std::ops::Range { start: 5, end: 3 }, 0..u64::MAX];
        assert_eq!(overlap(&hostile, &[0..u64::MAX, 0..u64::MAX]), u64::MAX);
    }

    /// Ranges by address, from gaps and lengths.
    fn ranges(rows: Vec<(u64, u64)>) -> Vec<Range<u64>> {
        let mut end = 0;
        let next = |(gap, length)| {
            let start = end + gap;
            end = start + length;
            start..end
        };
        rows.into_iter().map(next).collect()
    }

    proptest! {
        #[test]
        fn what_two_lists_have_in_common_is_counted_byte_by_byte(
            some in prop::collection::vec((0..5_u64, 1..7_u64), 0..9),
            others in prop::collection::vec((0..5_u64, 1..7_u64), 0..9),
        ) {
            let (some, others) = (ranges(some), ranges(others));
            let is_in = |ranges: &[Range<u64>], at: u64| ranges.iter().any(|range| range.contains(&at));
            let common = (0..200).filter(|&at| is_in(&some, at) && is_in(&others, at)).count() as u64;
            prop_assert_eq!(overlap(&some, &others), common);
        }

        #[test]
        fn ranges_in_any_order_are_merged_and_cut_byte_by_byte(
            some in prop::collection::vec((0..60_u64, 0..12_u64), 0..9),
            others in prop::collection::vec((0..60_u64, 0..12_u64), 0..9),
        ) {
            let ranges = |rows: &[(u64, u64)]| -> Vec<Range<u64>> {
                rows.iter().map(|(start, length)| *start..start + length).collect()
            };
            let is_in = |ranges: &[Range<u64>], at: u64| ranges.iter().any(|range| range.contains(&at));
            let (some, others) = (ranges(&some), ranges(&others));
            let (one, other) = (merged(some.clone()), merged(others.clone()));
            // As few as there are: by address, none empty, and something between any two.
            prop_assert!(one.iter().all(|range| range.start < range.end));
            prop_assert!(one.windows(2).all(|pair| pair[0].end < pair[1].start));
            let left = without(&one, &other);
            prop_assert!(left.windows(2).all(|pair| pair[0].end <= pair[1].start));
            for at in 0..80 {
                prop_assert_eq!(is_in(&one, at), is_in(&some, at), "merged, at {}", at);
                prop_assert_eq!(is_in(&left, at), is_in(&some, at) && !is_in(&others, at), "cut, at {}", at);
            }
            prop_assert_eq!(length(&left) + overlap(&one, &other), length(&one));
        }

        #[test]
        fn what_is_in_memory_of_a_range_is_counted_over_all_mappings(
            rows in prop::collection::vec((0..5_u64, 1..7_u64), 0..9),
            start in 0..90_u64,
            length in 0..40_u64,
        ) {
            let mappings: Vec<Mapping> =
                ranges(rows).into_iter().map(|range| mapping(range, anonymous(""), false, false)).collect();
            // The first byte of each is not in memory.
            let part = |mapping| {
                let range: Range<u64> = Mapping::range(mapping);
                Part { mapping, runs: vec![range.start + 1..range.end; 1], kind: MemoryKind::Stacks }
            };
            let parts = Parts { parts: mappings.iter().map(part).collect(), managed: Vec::new(), warnings: Vec::new() };
            let is_there = |at: &u64| mappings.iter().any(|one| one.contains(*at) && one.start != *at);
            let wanted = (start..start + length).filter(is_there).count() as u64;
            prop_assert_eq!(parts.resident(&(start..start + length)), wanted);
        }
    }
}
