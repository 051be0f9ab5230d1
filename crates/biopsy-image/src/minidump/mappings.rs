//! Mappings of a minidump: what the system said about the address space, else the memory that is there.

use ::minidump::format::{MINIDUMP_STREAM_TYPE, MemoryState, MemoryType};
use ::minidump::{MinidumpMemoryInfo, MinidumpMemoryInfoList};
use biopsy_model::loss::Warning;
use biopsy_model::order::Order as _;

use super::facts::Facts;
use super::guard::Streams;
use super::linux_maps;
use super::memory::MemoryRange;
use crate::{Backing, ImageModule, Limits, Mapping, Protection};

/// The mappings, and whether the dump told them.
pub(super) fn build(
    dump: &Streams<'_>,
    facts: &Facts,
    ranges: &[MemoryRange],
    limits: &Limits,
    warnings: &mut Vec<Warning>,
) -> (Vec<Mapping>, bool) {
    let maps = dump.get_raw_stream(MINIDUMP_STREAM_TYPE::LinuxMaps as u32).map(linux_maps::parse);
    let mut told = maps.unwrap_or_default();
    if told.is_empty()
        && let Ok(list) = dump.get_stream::<MinidumpMemoryInfoList<'_>>()
    {
        told = list.iter().filter_map(|info| of_windows(info, &facts.modules)).collect();
    }
    if told.len() > limits.mappings {
        warnings.push(Warning::new(
            "dump.limit",
            format!("the minidump has {} mappings; only {} are read", told.len(), limits.mappings),
        ));
        told.truncate(limits.mappings);
    }
    told.order_by_key(|mapping| mapping.start);
    cut_overlaps(&mut told);
    let is_told = !told.is_empty();
    (with_unknown(told, ranges), is_told)
}

fn of_windows(info: &MinidumpMemoryInfo<'_>, modules: &[ImageModule]) -> Option<Mapping> {
    if !info.state.contains(MemoryState::MEM_COMMIT) {
        return None;
    }
    let start = info.raw.base_address;
    let end = start.checked_add(info.raw.region_size).filter(|end| *end > start)?;
    let module = || {
        let index = modules.partition_point(|module| module.start <= start).checked_sub(1)?;
        modules.get(index).filter(|module| start < module.end)
    };
    let backing = if info.ty.contains(MemoryType::MEM_PRIVATE) {
        Backing::Anonymous { label: String::new() }
    } else if let Some(module) = module() {
        // An image of Windows is not mapped page by page, so this is its offset in the image, not in the file.
        let offset = start - module.start;
        Backing::File { path: module.path.clone(), offset, deleted: false, identity: (0, 0) }
    } else {
        Backing::Unknown
    };
    let protection =
        Protection { read: info.is_readable(), write: info.is_writable(), execute: info.is_executable() };
    let shared = info.ty.contains(MemoryType::MEM_MAPPED);
    Some(Mapping { start, end, protection, shared, backing, not_frozen: false })
}

fn cut_overlaps(mappings: &mut Vec<Mapping>) {
    let mut free_from = 0u64;
    mappings.retain_mut(|mapping| {
        if mapping.start < free_from {
            if let Backing::File { offset, .. } = &mut mapping.backing {
                *offset = offset.saturating_add(free_from - mapping.start);
            }
            mapping.start = free_from;
        }
        free_from = free_from.max(mapping.end);
        mapping.start < mapping.end
    });
}

/// Adds mappings for memory that is there but was not told of. Both lists are by address and do not overlap.
fn with_unknown(told: Vec<Mapping>, ranges: &[MemoryRange]) -> Vec<Mapping> {
    let mut result = Vec::with_capacity(told.len().max(ranges.len()));
    let mut told = told.into_iter().peekable();
    for range in ranges {
        let mut at = range.start;
        while let Some(mapping) = told.peek().filter(|mapping| mapping.start < range.end) {
            if at < mapping.start {
                result.push(unknown(at, mapping.start));
            }
            at = at.max(mapping.end);
            if mapping.end > range.end {
                break;
            }
            result.extend(told.next());
        }
        if at < range.end {
            result.push(unknown(at, range.end));
        }
    }
    result.extend(told);
    result
}

fn unknown(start: u64, end: u64) -> Mapping {
    let protection = Protection { read: true, write: true, execute: false };
    Mapping { start, end, protection, shared: false, backing: Backing::Unknown, not_frozen: false }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SPACE: u64 = 48;

    /// A mapping of a file in which each address has an offset of its own.
    fn mapped((start, length, file): (u64, u64, u64)) -> Mapping {
        let path = file.to_le_bytes().to_vec();
        let backing = Backing::File { path, offset: 1_000 * file, deleted: false, identity: (0, 0) };
        Mapping { backing, ..unknown(start, start + length) }
    }

    /// What is at an address: of which file, and where in it; `None` for memory that nobody told of.
    fn at(mappings: &[Mapping], address: u64) -> Option<Option<(Vec<u8>, u64)>> {
        let found: Vec<&Mapping> = mappings.iter().filter(|one| one.contains(address)).collect();
        assert!(found.len() <= 1, "{address} is in {found:?}");
        found.first().map(|one| match &one.backing {
            Backing::File { path, offset, .. } => Some((path.clone(), offset + (address - one.start))),
            _ => None,
        })
    }

    fn told() -> impl Strategy<Value = Vec<Mapping>> {
        let rows = prop::collection::vec((0..40_u64, 0..9_u64), 0..10);
        rows.prop_map(|rows| {
            let mut told: Vec<Mapping> =
                (1..).zip(rows).map(|(file, (start, length))| mapped((start, length, file))).collect();
            told.sort_by_key(|mapping| mapping.start);
            told
        })
    }

    proptest! {
        #[test]
        fn of_mappings_that_overlap_the_one_that_starts_first_keeps_its_addresses(told in told()) {
            let mut cut = told.clone();
            cut_overlaps(&mut cut);
            prop_assert!(cut.iter().all(|one| one.start < one.end));
            prop_assert!(cut.windows(2).all(|two| two[0].end <= two[1].start));
            for address in 0..SPACE {
                let first = told.iter().find(|one| one.contains(address));
                let expected = first.and_then(|one| at(std::slice::from_ref(one), address));
                prop_assert_eq!(at(&cut, address), expected, "address {}", address);
            }
        }

        #[test]
        fn memory_that_nobody_told_of_is_added_and_nothing_else_changes(
            told in told(), pieces in prop::collection::vec((0..5_u64, 1..9_u64), 0..6),
        ) {
            let mut told = told;
            cut_overlaps(&mut told);
            let mut end = 0;
            let ranges: Vec<MemoryRange> = pieces.into_iter().map(|(gap, length)| {
                let start = end + gap;
                end = start + length;
                MemoryRange { start, end, filled_to: end, offset: 0 }
            }).collect();
            let all = with_unknown(told.clone(), &ranges);
            prop_assert!(all.windows(2).all(|two| two[0].end <= two[1].start), "{:?}", all);
            prop_assert!(all.iter().all(|one| one.start < one.end), "{:?}", all);
            for address in 0..SPACE + 40 {
                let is_there = ranges.iter().any(|range| (range.start..range.end).contains(&address));
                let expected = at(&told, address).or(is_there.then_some(None));
                prop_assert_eq!(at(&all, address), expected, "address {}", address);
            }
        }
    }
}
