//! Areas that a fork does not carry over as they are: MADV_DONTFORK leaves them out, MADV_WIPEONFORK turns them into zeros.
//!
//! They are read from the process itself, later than the rest, and are marked so ([`Mapping::not_frozen`]).

use std::io;

use biopsy_image::{Mapping, mapping};
use biopsy_model::Pid;

use crate::address_space::{ProcessMemory, read_area_flags, read_mappings};

/// Mappings of the frozen child, and those that the process had before and has still, and that the child lacks.
pub(super) fn of_child(
    pid: Pid,
    live: &ProcessMemory,
    child: Pid,
    memory: &ProcessMemory,
    before: &[Mapping],
) -> io::Result<Vec<Mapping>> {
    let mut mappings = read_mappings(child)?;
    mark_wiped(live, child, memory, &mut mappings);
    let overlaps = |one: &Mapping| {
        let next = mappings.partition_point(|other| other.end <= one.start);
        mappings.get(next).is_some_and(|other| other.start < one.end)
    };
    let absent: Vec<&Mapping> = before.iter().filter(|one| !overlaps(one)).collect();
    if !absent.is_empty() {
        // Gone or unmapped meanwhile: then it is not known whether it was there in the window.
        let after = read_mappings(pid).unwrap_or_default();
        let left_out: Vec<Mapping> = absent
            .into_iter()
            .filter(|one| {
                mapping::find(&after, one.start)
                    .is_some_and(|now| now.range() == one.range() && now.backing == one.backing)
            })
            .map(|one| Mapping { not_frozen: true, ..one.clone() })
            .collect();
        mappings.extend(left_out);
        mappings.sort_unstable_by_key(|one| one.start);
    }
    Ok(mappings)
}

/// `smaps` is costly, and only it tells. So it is asked (of the child, which that does not hurt) only if there is something
/// that looks wiped: no page in the child, some in the process.
fn mark_wiped(live: &ProcessMemory, child: Pid, memory: &ProcessMemory, mappings: &mut [Mapping]) {
    let looks_wiped = |one: &Mapping| {
        one.is_anonymous()
            && !one.shared
            && one.protection.write
            && !has_pages(memory, one)
            && has_pages(live, one)
    };
    if !mappings.iter().any(looks_wiped) {
        return;
    }
    for area in read_area_flags(child).unwrap_or_default().iter().filter(|area| area.wipe_on_fork) {
        let first = mappings.partition_point(|one| one.end <= area.start);
        for one in mappings.iter_mut().skip(first).take_while(|one| one.start < area.end) {
            one.not_frozen = true;
        }
    }
}

/// Whether any page of it was written. Looks at growing parts: most have one near the start.
fn has_pages(memory: &ProcessMemory, one: &Mapping) -> bool {
    let mut runs = Vec::new();
    let mut at = one.start;
    let mut length = 1 << 20;
    while at < one.end {
        let end = at.saturating_add(length).min(one.end);
        // An error is a process that is gone: nothing can be read from it then.
        if memory.written(one, at..end, &mut runs).is_err() {
            return false;
        }
        if !runs.is_empty() {
            return true;
        }
        at = end;
        length *= 16;
    }
    false
}
