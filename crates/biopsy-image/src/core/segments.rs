//! Program headers: where the notes are and which memory is where in the file.

use biopsy_elf::raw::{PF_R, PF_W, PF_X, PT_LOAD, PT_NOTE};
use biopsy_elf::{FileHeader, Segment};
use biopsy_model::loss::Warning;
use biopsy_model::order::Order as _;

use crate::problem::OpenProblem;
use crate::storage::Storage;
use crate::{Limits, Protection};

/// A segment of memory. Segments are by address and do not overlap.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Behind the last byte that is in the file (or should be).
    pub(super) filled_to: u64,
    /// Where `start` is in the file.
    pub(super) offset: u64,
    pub(super) protection: Protection,
}

/// What the program headers say.
#[derive(Debug, Default)]
pub(super) struct Headers {
    pub(super) loads: Vec<Load>,
    /// Offset and size in the file.
    pub(super) notes: Vec<(u64, u64)>,
}

pub(super) fn read(
    storage: &dyn Storage,
    header: &FileHeader,
    limits: &Limits,
    warnings: &mut Vec<Warning>,
) -> Result<Headers, OpenProblem> {
    let count = header.segments.count;
    if count > limits.program_headers {
        return Err(OpenProblem::OverLimit {
            what: "program headers",
            found: count,
            limit: limits.program_headers,
        });
    }
    let read = header.read_segments(storage, count)?;
    if (read.len() as u64) < count {
        let have = read.len();
        warnings.push(Warning::new(
            "dump.truncated",
            format!("the core is cut off in its headers: {have} of {count} program headers are there"),
        ));
    }
    let mut headers = Headers::default();
    let mut odd = read.into_iter().map(|segment| u64::from(!entry_of(segment, &mut headers))).sum::<u64>();
    headers.loads.order_by_key(|load| load.start);
    odd += cut_overlaps(&mut headers.loads);
    if odd > 0 {
        warnings.push(Warning::new(
            "dump.odd-headers",
            format!(
                "{odd} program headers overlap others or contradict themselves; they were cut or left out"
            ),
        ));
    }
    Ok(headers)
}

/// Takes one program header; `false` when it contradicts itself.
fn entry_of(segment: Segment, headers: &mut Headers) -> bool {
    let Segment { kind, flags, offset, address: start, file_size: in_file, memory_size: in_memory, .. } =
        segment;
    match kind {
        PT_NOTE => headers.notes.push((offset, in_file)),
        PT_LOAD if in_memory > 0 || in_file > 0 => {
            // A writer that leaves the size in memory at zero means the bytes in the file.
            let size = if in_memory == 0 { in_file } else { in_memory };
            let (Some(end), Some(_)) = (start.checked_add(size), offset.checked_add(in_file)) else {
                return false;
            };
            let protection = Protection {
                read: flags.contains(PF_R),
                write: flags.contains(PF_W),
                execute: flags.contains(PF_X),
            };
            headers.loads.push(Load { start, end, filled_to: start + in_file.min(size), offset, protection });
            return in_file <= size;
        }
        _ => {}
    }
    true
}

/// Makes what is sorted by start not overlap: a later one loses its beginning, or is dropped. Returns how many did.
fn cut_overlaps(loads: &mut Vec<Load>) -> u64 {
    let mut odd = 0;
    let mut free_from = 0u64;
    loads.retain_mut(|load| {
        if load.start < free_from {
            odd += 1;
            if load.end <= free_from {
                return false;
            }
            let lost = free_from - load.start;
            load.offset = load.offset.saturating_add(lost);
            load.start = free_from;
            load.filled_to = load.filled_to.max(free_from);
        }
        free_from = load.end;
        true
    });
    odd
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Where the byte at an address is in the file, and whether the file should have it.
    fn place(load: &Load, address: u64) -> (u64, bool) {
        (load.offset + (address - load.start), address < load.filled_to)
    }

    proptest! {
        /// Against a list of which segment each address belongs to.
        #[test]
        fn of_segments_that_overlap_the_first_keeps_its_addresses(
            rows in prop::collection::vec((0..40_u64, 1..9_u64, 0..9_u64), 0..10),
        ) {
            let load = |(number, (start, length, filled)): (u64, (u64, u64, u64))| Load {
                start,
                end: start + length,
                filled_to: start + filled.min(length),
                offset: 1_000 * number,
                protection: Protection::default(),
            };
            let mut told: Vec<Load> = (1..).zip(rows).map(load).collect();
            told.sort_by_key(|load| load.start);
            let mut cut = told.clone();
            let odd = cut_overlaps(&mut cut);
            prop_assert_eq!(odd == 0, told.windows(2).all(|two| two[0].end <= two[1].start));
            prop_assert!(cut.windows(2).all(|two| two[0].end <= two[1].start), "{:?}", cut);
            prop_assert!(cut.iter().all(|one| one.start < one.end && one.filled_to >= one.start), "{:?}", cut);
            let holder = |loads: &[Load], address| {
                let found = loads.iter().find(|load| (load.start..load.end).contains(&address));
                found.map(|load| place(load, address))
            };
            for address in 0..48 {
                prop_assert_eq!(holder(&cut, address), holder(&told, address), "address {}", address);
            }
        }
    }
}
