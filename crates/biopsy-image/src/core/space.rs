//! The address space as far as the file has it: which range is where in the file, known to be zero, or missing and why.

use biopsy_model::order::Order as _;
use std::ops::Range;

use super::segments::Load;
use crate::vendor::MissingRange;
use crate::{Absence, Mapping};

/// What is known about a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Content {
    /// In the file, from this offset on.
    File(u64),
    /// Zeros, and not in the file.
    Zero,
    /// Not in the file.
    Missing(Absence),
}

/// A range with one kind of content. Regions are by address and do not overlap; outside of them nothing is mapped.
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) content: Content,
}

impl Region {
    /// The part of it from `start` to `end`, both inside.
    fn part(&self, start: u64, end: u64) -> Self {
        let content = match self.content {
            Content::File(offset) => Content::File(offset.saturating_add(start.saturating_sub(self.start))),
            other => other,
        };
        Self { start, end, content }
    }
}

/// What the space is made of, each by address and not overlapping (but for `left_out` and `missing`, which are sorted here).
pub(super) struct Parts<'a> {
    pub(super) loads: &'a [Load],
    pub(super) mappings: &'a [Mapping],
    /// What the writer says it left out.
    pub(super) left_out: &'a [MissingRange],
    /// What the writer says it could not read although there is a place for it in the file.
    pub(super) missing: &'a [MissingRange],
    /// Anonymous memory that has a segment but no bytes is zeros.
    pub(super) zeros: bool,
    /// Where the file ends.
    pub(super) file_len: u64,
}

/// The space, and how many bytes the file is too short for.
pub(super) struct Space {
    pub(super) regions: Vec<Region>,
    pub(super) truncated_bytes: u64,
}

/// Lays the parts over each other: mappings, segments, what was left out, what could not be read, the end of the file.
/// Each step is one walk over two sorted lists, so a million mappings cost what a million program headers cost.
pub(super) fn build(parts: &Parts<'_>) -> Space {
    let mapped: Vec<Region> = parts
        .mappings
        .iter()
        .map(|mapping| Region {
            start: mapping.start,
            end: mapping.end,
            content: Content::Missing(absence_of(mapping)),
        })
        .collect();
    let filled: Vec<Region> = parts
        .loads
        .iter()
        .filter(|load| load.start < load.filled_to)
        .map(|load| Region { start: load.start, end: load.filled_to, content: Content::File(load.offset) })
        .collect();
    let mut space = mapped;
    if parts.zeros {
        space = overlay(space, &unfilled_anonymous(parts));
    }
    // Where the writer says why, that counts; it cannot take away bytes that are there.
    space = overlay(space, &told(parts.left_out));
    space = overlay(space, &filled);
    space = overlay(space, &told(parts.missing));
    cut_at(space, parts.file_len)
}

fn absence_of(mapping: &Mapping) -> Absence {
    let protection = mapping.protection;
    if protection.read || protection.write || protection.execute {
        Absence::LeftOut
    } else {
        Absence::Unreadable
    }
}

/// Tails of segments without bytes that lie in anonymous mappings.
fn unfilled_anonymous(parts: &Parts<'_>) -> Vec<Region> {
    let mut zeros = Vec::new();
    let mut mappings = parts.mappings.iter().peekable();
    for load in parts.loads {
        while mappings.next_if(|mapping| mapping.end <= load.filled_to).is_some() {}
        // The last mapping of this segment may also be the first of the next one.
        while let Some(mapping) = mappings.peek().filter(|mapping| mapping.start < load.end) {
            let (start, end) = (mapping.start.max(load.filled_to), mapping.end.min(load.end));
            if mapping.is_anonymous() && start < end {
                zeros.push(Region { start, end, content: Content::Zero });
            }
            if mapping.end > load.end {
                break;
            }
            mappings.next();
        }
    }
    zeros
}

/// Regions of ranges that a note gives reasons for.
fn told(ranges: &[MissingRange]) -> Vec<Region> {
    let mut regions: Vec<Region> = ranges
        .iter()
        .map(|one| Region {
            start: one.range.start,
            end: one.range.end,
            content: Absence::of(one.reason).map_or(Content::Zero, Content::Missing),
        })
        .collect();
    regions.order_by_key(|region| region.start);
    let mut free_from = 0;
    regions.retain_mut(|region| {
        region.start = region.start.max(free_from);
        free_from = free_from.max(region.end);
        region.start < region.end
    });
    regions
}

/// Puts `top` over `base`: where both are, `top` counts.
fn overlay(base: Vec<Region>, top: &[Region]) -> Vec<Region> {
    if top.is_empty() {
        return base;
    }
    let mut result = Vec::with_capacity(base.len().saturating_add(top.len()));
    let mut above = top.iter().peekable();
    for below in base {
        let mut from = below.start;
        while let Some(over) = above.peek().filter(|over| over.start < below.end) {
            if from < over.start {
                result.push(below.part(from, over.start));
            }
            from = from.max(over.end);
            if over.end > below.end {
                break; // It may also cover the next one.
            }
            result.push((*over).clone());
            above.next();
        }
        if from < below.end {
            result.push(below.part(from, below.end));
        }
    }
    result.extend(above.cloned());
    result
}

/// Bytes behind the end of the file are missing.
fn cut_at(space: Vec<Region>, file_len: u64) -> Space {
    let mut truncated_bytes = 0u64;
    let mut regions = Vec::with_capacity(space.len());
    for region in space {
        let Content::File(offset) = region.content else {
            regions.push(region);
            continue;
        };
        let there = file_len.saturating_sub(offset).min(region.end - region.start);
        let cut = region.start + there;
        if cut > region.start {
            regions.push(region.part(region.start, cut));
        }
        if cut < region.end {
            truncated_bytes = truncated_bytes.saturating_add(region.end - cut);
            regions.push(Region {
                start: cut,
                end: region.end,
                content: Content::Missing(Absence::Truncated),
            });
        }
    }
    Space { regions, truncated_bytes }
}

/// The index of the region that holds `address`.
pub(super) fn find(regions: &[Region], address: u64) -> Option<usize> {
    let index = regions.partition_point(|region| region.start <= address).checked_sub(1)?;
    regions.get(index).filter(|region| address < region.end).map(|_| index)
}

/// The regions that have something of `range`.
pub(super) fn within(regions: &[Region], range: Range<u64>) -> &[Region] {
    let first = regions.partition_point(|region| region.end <= range.start);
    let behind = regions.partition_point(|region| region.start < range.end);
    regions.get(first..behind).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Backing, Protection};
    use biopsy_model::dump::Reason;

    const END: u64 = 96;

    /// Ranges by address that do not overlap, some of them touching.
    fn apart() -> impl Strategy<Value = Vec<(u64, u64)>> {
        proptest::collection::vec((0u64..5, 1u64..9), 0..12).prop_map(|steps| {
            let mut at = 0;
            let ranges = steps.into_iter().map(|(gap, length)| {
                let start = at + gap;
                at = start + length;
                (start, at)
            });
            ranges.filter(|(_, end)| *end <= END).collect()
        })
    }

    fn missing() -> impl Strategy<Value = Vec<MissingRange>> {
        let one = (0u64..END, 1u64..20, 0usize..3).prop_map(|(start, length, reason)| MissingRange {
            range: start..start + length,
            reason: [Reason::Zero, Reason::Kind, Reason::Unreadable][reason],
        });
        proptest::collection::vec(one, 0..4)
    }

    fn at(regions: &[Region], address: u64) -> Option<Content> {
        let region = &regions[find(regions, address)?];
        Some(region.part(address, address + 1).content)
    }

    /// The first of ranges that may overlap: the one that starts first, then the one that was first.
    fn told_at(ranges: &[MissingRange], address: u64) -> Option<Content> {
        let mut sorted: Vec<&MissingRange> = ranges.iter().collect();
        sorted.sort_by_key(|one| one.range.start);
        let one = sorted.into_iter().find(|one| one.range.contains(&address))?;
        Some(Absence::of(one.reason).map_or(Content::Zero, Content::Missing))
    }

    proptest! {
        /// Against the same rules, byte by byte.
        #[test]
        fn every_byte_is_what_the_topmost_layer_says(
            maps in apart(),
            segments in apart(),
            fills in proptest::collection::vec(0u64..9, 12),
            anonymous in any::<u16>(),
            left_out in missing(),
            unread in missing(),
            zeros: bool,
            file_len in 0u64..2000,
        ) {
            let mappings: Vec<Mapping> = maps.iter().enumerate().map(|(index, &(start, end))| Mapping {
                start,
                end,
                protection: Protection { read: index % 3 > 0, ..Protection::default() },
                shared: false,
                backing: if anonymous >> index & 1 == 1 { Backing::Anonymous { label: String::new() } } else { Backing::Unknown },
                not_frozen: false,
            }).collect();
            let loads: Vec<Load> = segments.iter().zip(&fills).map(|(&(start, end), fill)| Load {
                start,
                end,
                filled_to: end.min(start + fill),
                offset: 1000 + start * 7,
                protection: Protection::default(),
            }).collect();
            let parts = Parts { loads: &loads, mappings: &mappings, left_out: &left_out, missing: &unread, zeros, file_len };
            let space = build(&parts);
            for two in space.regions.windows(2) {
                prop_assert!(two[0].end <= two[1].start, "{:?}", two);
            }
            let mut truncated = 0;
            for address in 0..END + 20 {
                let mapping = mappings.iter().find(|one| one.contains(address));
                let load = loads.iter().find(|one| one.start <= address && address < one.end);
                let mut expected = mapping.map(|one| Content::Missing(absence_of(one)));
                if zeros && mapping.is_some_and(Mapping::is_anonymous) && load.is_some_and(|one| one.filled_to <= address) {
                    expected = Some(Content::Zero);
                }
                expected = told_at(&left_out, address).or(expected);
                if let Some(load) = load.filter(|one| address < one.filled_to) {
                    expected = Some(Content::File(load.offset + address - load.start));
                }
                expected = told_at(&unread, address).or(expected);
                if let Some(Content::File(offset)) = expected && offset >= file_len {
                    expected = Some(Content::Missing(Absence::Truncated));
                    truncated += 1;
                }
                prop_assert_eq!(at(&space.regions, address), expected, "at {}", address);
            }
            prop_assert_eq!(space.truncated_bytes, truncated);
        }
    }
}
