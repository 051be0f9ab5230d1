//! Mappings of a minidump: what the system said about the address space, else the memory that is there.

use ::minidump::format::{MINIDUMP_STREAM_TYPE, MemoryState, MemoryType};
use ::minidump::{MinidumpMemoryInfo, MinidumpMemoryInfoList};
use biopsy_model::loss::Warning;

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
    told.sort_by_key(|mapping| mapping.start);
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
