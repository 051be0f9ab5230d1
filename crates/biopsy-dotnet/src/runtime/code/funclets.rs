//! Which pieces of code compiled ahead are handlers of which method: the tables of exception handling of an image.
//!
//! Format: `ReadyToRunSectionType.ExceptionInfo` of `docs/design/coreclr/botr/readytorun-format.md` in dotnet/runtime. A sorted
//! table of {start of method, place of clauses} ends with an entry that is no method; a clause has 24 bytes, and says by offsets
//! from the start of the method where its handler and its filter begin. Those are the only pieces of code that are no method's
//! beginning, besides the cold parts of split methods.

use super::super::module::FromAddress;
use super::super::{Memory, RuntimeError};
use crate::metadata::{PeFile, PeLayout};

/// `RTR\0`.
const MAGIC: u32 = 0x0052_5452;
/// The image is a part of a composite one, which has the tables.
const COMPONENT: u32 = 0x20;
/// `ReadyToRunSectionType.ExceptionInfo`.
const EXCEPTION_INFO: u32 = 104;
/// Sections of a header; there are some twenty kinds.
const SECTIONS: u32 = 256;
/// Bytes of the table and of the clauses: System.Private.CoreLib has less than 1 MiB.
const BYTES: u32 = 64 << 20;
const CLAUSE: usize = 24;
/// `COR_ILEXCEPTION_CLAUSE_FILTER`.
const FILTER: u32 = 1;

/// The handlers of an image: relative start, and relative start of the method it belongs to, by start. `None` when the image
/// does not say (parts of composite images, damaged headers).
pub(super) fn read(memory: &Memory<'_>, base: u64) -> Option<Vec<(u32, u32)>> {
    let pe = PeFile::parse(&FromAddress { memory, base }, PeLayout::Mapped).ok()?;
    let (header, _) = pe.ready_to_run();
    let at = base.checked_add(header.into()).filter(|_| header != 0)?;
    if memory.u32(at).ok()? != MAGIC || memory.u32(at.wrapping_add(8)).ok()? & COMPONENT != 0 {
        return None;
    }
    let sections = memory.u32(at.wrapping_add(12)).ok()?.min(SECTIONS);
    for number in 0..u64::from(sections) {
        let section = at.wrapping_add(16 + number * 12);
        if memory.u32(section).ok()? == EXCEPTION_INFO {
            let (rva, size) =
                (memory.u32(section.wrapping_add(4)).ok()?, memory.u32(section.wrapping_add(8)).ok()?);
            return read_table(memory, base, rva, size).ok()?;
        }
    }
    // Nothing is caught in it.
    Some(Vec::new())
}

fn read_table(
    memory: &Memory<'_>,
    base: u64,
    rva: u32,
    size: u32,
) -> Result<Option<Vec<(u32, u32)>>, RuntimeError> {
    let bytes = |rva: u32, size: u32| -> Result<Option<Vec<u8>>, RuntimeError> {
        if size > BYTES {
            return Ok(None);
        }
        let mut bytes = vec![0; size as usize];
        memory.read_bulk(base.wrapping_add(rva.into()), &mut bytes)?;
        Ok(Some(bytes))
    };
    let Some(table) = bytes(rva, size)? else { return Ok(None) };
    let entries: Vec<(u32, u32)> = table
        .as_chunks::<8>()
        .0
        .iter()
        .map(|&[a, b, c, d, e, f, g, h]| (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])))
        .collect();
    let (Some(&(_, first)), Some(&(_, last))) = (entries.first(), entries.last()) else {
        return Ok(Some(Vec::new()));
    };
    let Some(clauses) = last.checked_sub(first) else { return Ok(None) };
    let Some(clauses) = bytes(first, clauses)? else { return Ok(None) };
    Ok(Some(funclets(&entries, first, &clauses)))
}

/// `clauses` begin at relative address `first`.
fn funclets(entries: &[(u32, u32)], first: u32, clauses: &[u8]) -> Vec<(u32, u32)> {
    let mut found = Vec::new();
    for two in entries.windows(2) {
        let &[(method, start), (_, end)] = two else { continue };
        let range = start.checked_sub(first).zip(end.checked_sub(first));
        let part = range.and_then(|(start, end)| clauses.get(start as usize..end as usize));
        for clause in part.unwrap_or_default().as_chunks::<CLAUSE>().0 {
            let word = |number: usize| {
                clause
                    .get(number * 4..)
                    .and_then(|rest| rest.first_chunk::<4>())
                    .map(|four| u32::from_le_bytes(*four))
            };
            let handler = word(3);
            let filter = if word(0) == Some(FILTER) { word(5) } else { None };
            found.extend(
                [handler, filter]
                    .into_iter()
                    .flatten()
                    .filter_map(|offset| Some((method.checked_add(offset)?, method))),
            );
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clause(flags: u32, handler: u32, filter: u32) -> Vec<u8> {
        [flags, 0x10, 0x20, handler, handler.wrapping_add(8), filter]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect()
    }

    #[test]
    fn handlers_and_filters_belong_to_the_method_whose_clauses_name_them() {
        let bytes = [clause(0, 0x40, 0x0200_0001), clause(1, 0x60, 0x50), clause(2, 0x30, 0)].concat();
        let entries = [(0x1000, 0x500), (0x2000, 0x530), (u32::MAX, 0x548)];
        assert_eq!(
            funclets(&entries, 0x500, &bytes),
            [(0x1040, 0x1000), (0x1050, 0x1000), (0x1060, 0x1000), (0x2030, 0x2000)]
        );
    }

    #[test]
    fn a_table_that_lies_is_no_harm() {
        let bytes = clause(0, u32::MAX, 0);
        for entries in [
            vec![(0x1000, 0x500), (0x2000, 0x400)],
            vec![(0x1000, 0x500), (0x2000, u32::MAX)],
            vec![(u32::MAX, 0x500), (0x2000, 0x518)],
            vec![(0x1000, 0x500)],
        ] {
            assert_eq!(funclets(&entries, 0x500, &bytes), []);
        }
    }
}
