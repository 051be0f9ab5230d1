//! Program headers: where the notes are and which memory is where in the file.

use biopsy_bytes::{Cursor, ReadError};
use biopsy_model::loss::Warning;

use super::header::{Header, PROGRAM_HEADER_SIZE};
use crate::open::{OpenProblem, warning};
use crate::storage::Storage;
use crate::{Limits, Protection};

const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
/// Program headers are read in pieces of about this many bytes.
const CHUNK: u64 = 1 << 20;

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
    header: &Header,
    limits: &Limits,
    warnings: &mut Vec<Warning>,
) -> Result<Headers, OpenProblem> {
    if header.program_headers > limits.program_headers {
        return Err(OpenProblem::OverLimit {
            what: "program headers",
            found: header.program_headers,
            limit: limits.program_headers,
        });
    }
    let mut headers = Headers::default();
    let mut odd = 0u64;
    let mut index = 0;
    let per_chunk = (CHUNK / header.program_header_size).max(1);
    while index < header.program_headers {
        let count = per_chunk.min(header.program_headers - index);
        let at = index
            .checked_mul(header.program_header_size)
            .and_then(|offset| header.program_headers_at.checked_add(offset));
        let (Some(at), Ok(size)) = (at, usize::try_from(count * header.program_header_size)) else {
            return Err(OpenProblem::Damaged {
                what: "the program headers lie outside of the file".to_owned(),
            });
        };
        let mut bytes = vec![0; size];
        let read = storage.read_full(at, &mut bytes)?;
        let whole = read / usize::try_from(header.program_header_size).unwrap_or(usize::MAX);
        for (entry, offset) in bytes[..read]
            .chunks_exact(usize::try_from(header.program_header_size).unwrap_or(56))
            .zip((at..).step_by(usize::try_from(header.program_header_size).unwrap_or(56)))
        {
            odd += u64::from(!entry_of(Cursor::at(entry, offset), &mut headers)?);
        }
        if (whole as u64) < count {
            let have = index + whole as u64;
            if have == 0 {
                return Err(OpenProblem::Damaged {
                    what: format!(
                        "the file ends before the program headers at {:#x}",
                        header.program_headers_at
                    ),
                });
            }
            warnings.push(warning(
                "dump.truncated",
                format!(
                    "the core is cut off in its headers: {have} of {} program headers are there",
                    header.program_headers
                ),
            ));
            break;
        }
        index += count;
    }
    headers.loads.sort_by_key(|load| load.start);
    odd += cut_overlaps(&mut headers.loads);
    if odd > 0 {
        warnings.push(warning(
            "dump.odd-headers",
            format!(
                "{odd} program headers overlap others or contradict themselves; they were cut or left out"
            ),
        ));
    }
    Ok(headers)
}

/// Takes one program header; `false` when it contradicts itself.
fn entry_of(mut cursor: Cursor<'_>, headers: &mut Headers) -> Result<bool, ReadError> {
    debug_assert!(cursor.remaining() as u64 >= PROGRAM_HEADER_SIZE);
    let kind = cursor.u32("p_type")?;
    let flags = cursor.u32("p_flags")?;
    let offset = cursor.u64("p_offset")?;
    let start = cursor.u64("p_vaddr")?;
    cursor.skip("p_paddr", 8)?;
    let in_file = cursor.u64("p_filesz")?;
    let in_memory = cursor.u64("p_memsz")?;
    match kind {
        PT_NOTE => headers.notes.push((offset, in_file)),
        PT_LOAD if in_memory > 0 || in_file > 0 => {
            // A writer that leaves the size in memory at zero means the bytes in the file.
            let size = if in_memory == 0 { in_file } else { in_memory };
            let (Some(end), Some(_)) = (start.checked_add(size), offset.checked_add(in_file)) else {
                return Ok(false);
            };
            let protection =
                Protection { read: flags & 4 != 0, write: flags & 2 != 0, execute: flags & 1 != 0 };
            headers.loads.push(Load { start, end, filled_to: start + in_file.min(size), offset, protection });
            return Ok(in_file <= size);
        }
        _ => {}
    }
    Ok(true)
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
