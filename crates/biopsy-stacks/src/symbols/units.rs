//! Which units of debug information some addresses need, and the others out of the way.
//!
//! `addr2line` reads the abbreviations and the root of every unit before it answers anything: of glibc 1,700 units for a dozen addresses
//! of a dump. Where all addresses of a file are known beforehand, the units that have none of them are found here by their ranges alone,
//! and each row of such units becomes one type unit, which nobody reads: offsets stay as they are.
//!
//! ```text
//! type unit, version 5: 0 length  4 version  6 type 2  7 size of an address  8 abbreviations  12 signature  20 offset of the type  24
//! ```
//!
//! A unit stays where that is not certain: its ranges cannot be told, or it has none; a unit that stays refers to it.

use std::ops::Range;

use gimli::{
    AttributeValue, DebugAbbrev, DebugAbbrevOffset, DebugAddrBase, DebugInfoOffset, Dwarf, EndianSlice,
    LittleEndian, RangeListsOffset, Reader as _, UnitHeader, UnitType,
};

/// Debug information that is looked at where it was read to.
type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// Bytes of the header that a row of units gets; a shorter row stays.
const HEADER: usize = 24;
/// Abbreviations that are gone over for the one of a root, which is the first of them.
const ABBREVIATIONS: usize = 32;
/// Attributes of a root; compilers write a dozen.
const ATTRIBUTES: usize = 64;

/// A unit: its bytes, and whether it stays.
struct Part<'a> {
    bytes: Range<usize>,
    header: UnitHeader<Slice<'a>>,
    stays: bool,
}

/// The rows of units in `.debug_info` that nobody needs who asks for names and lines of `addresses`. Empty: everything stays.
pub(super) fn not_needed(dwarf: &Dwarf<Slice<'_>>, addresses: &[u64]) -> Vec<Range<usize>> {
    let mut wanted = addresses.to_vec();
    wanted.sort_unstable();
    find(dwarf, &wanted).unwrap_or_default()
}

/// `None`: it cannot be told.
fn find(dwarf: &Dwarf<Slice<'_>>, wanted: &[u64]) -> Option<Vec<Range<usize>>> {
    let mut parts = Vec::new();
    let mut headers = dwarf.units();
    while let Some(header) = headers.next().ok()? {
        let DebugInfoOffset(start) = header.debug_info_offset()?;
        let bytes = start..start.checked_add(header.length_including_self())?;
        let stays = match header.type_() {
            // Read where another one refers to it.
            UnitType::Type { .. } | UnitType::SplitType { .. } | UnitType::Partial => false,
            UnitType::Compilation | UnitType::Skeleton(_) | UnitType::SplitCompilation(_) => {
                holds(dwarf, &header, wanted).unwrap_or(true)
            }
        };
        parts.push(Part { bytes, header, stays });
    }
    let mut open: Vec<usize> =
        parts.iter().enumerate().filter_map(|(at, part)| part.stays.then_some(at)).collect();
    while let Some(at) = open.pop() {
        let targets = parts.get(at).map(|part| references(dwarf, &part.header))?.ok()?;
        for target in targets {
            let after = parts.partition_point(|part| part.bytes.start <= target);
            let Some(at) = after.checked_sub(1) else { continue };
            let part = parts.get_mut(at)?;
            if !std::mem::replace(&mut part.stays, true) {
                open.push(at);
            }
        }
    }
    let mut rows: Vec<Range<usize>> = Vec::new();
    for part in parts.iter().filter(|part| !part.stays) {
        match rows.last_mut().filter(|row| row.end == part.bytes.start) {
            Some(row) => row.end = part.bytes.end,
            None => rows.push(part.bytes.clone()),
        }
    }
    rows.retain(|row| {
        row.len() >= HEADER && u32::try_from(row.len()).is_ok_and(|length| length < 0xffff_0000)
    });
    Some(rows)
}

/// Makes each of these rows one unit that nobody reads.
pub(super) fn put_away(info: &mut [u8], rows: &[Range<usize>]) {
    for row in rows {
        let Ok(length) = u32::try_from(row.len().saturating_sub(4)) else { continue };
        let mut header = [0; HEADER];
        header[..4].copy_from_slice(&length.to_le_bytes());
        header[4..8].copy_from_slice(&[5, 0, gimli::DW_UT_type.0, 8]);
        header[20..].copy_from_slice(&(HEADER as u32).to_le_bytes());
        if let Some(place) = info.get_mut(row.clone()).and_then(|row| row.first_chunk_mut()) {
            *place = header;
        }
    }
}

/// Whether a unit has code at one of the addresses. `None`: its root does not say.
fn holds(dwarf: &Dwarf<Slice<'_>>, header: &UnitHeader<Slice<'_>>, wanted: &[u64]) -> Option<bool> {
    let table = root_abbreviation(dwarf, header)?;
    let abbreviations = DebugAbbrev::new(&table, LittleEndian).abbreviations(DebugAbbrevOffset(0)).ok()?;
    let mut entries = header.entries_raw(&abbreviations, None).ok()?;
    let root = entries.read_abbreviation().ok()??;
    let (mut low, mut high, mut size, mut list, mut base) = (None, None, None, None, DebugAddrBase(0));
    for specification in root.attributes() {
        let attribute = entries.read_attribute(*specification).ok()?;
        match (attribute.name(), attribute.value()) {
            (gimli::DW_AT_low_pc, AttributeValue::Addr(address)) => low = Some(address),
            (gimli::DW_AT_high_pc, AttributeValue::Addr(address)) => high = Some(address),
            (gimli::DW_AT_high_pc, AttributeValue::Udata(bytes)) => size = Some(bytes),
            (gimli::DW_AT_ranges, AttributeValue::RangeListsRef(offset)) => {
                list = Some(RangeListsOffset(offset.0));
            }
            (gimli::DW_AT_addr_base, AttributeValue::DebugAddrBase(offset)) => base = offset,
            // By an index, or in a form that is not known here.
            (gimli::DW_AT_low_pc | gimli::DW_AT_high_pc | gimli::DW_AT_ranges, _) => return None,
            _ => {}
        }
    }
    let (mut is_any, mut is_here) = (false, false);
    let mut add = |begin: u64, end: u64| {
        is_any |= begin < end;
        let first = wanted.partition_point(|address| *address < begin);
        is_here |= wanted.get(first).is_some_and(|address| *address < end);
    };
    match (list, low, high, size) {
        (Some(list), ..) => {
            let from = low.unwrap_or(0);
            let mut ranges =
                dwarf.ranges.ranges(list, header.encoding(), from, &dwarf.debug_addr, base).ok()?;
            while let Some(range) = ranges.next().ok()? {
                add(range.begin, range.end);
            }
        }
        (None, Some(begin), Some(end), _) => add(begin, end),
        (None, Some(begin), None, Some(size)) => add(begin, begin.wrapping_add(size)),
        (None, ..) => {}
    }
    // One that names no code is told by its lines.
    is_any.then_some(is_here)
}

/// A table of abbreviations with nothing but the one of a unit's root.
fn root_abbreviation(dwarf: &Dwarf<Slice<'_>>, header: &UnitHeader<Slice<'_>>) -> Option<Vec<u8>> {
    let root = header.range_from(header.root_offset()..).ok()?.read_uleb128().ok()?;
    let mut table = *gimli::Section::reader(&dwarf.debug_abbrev);
    table.skip(header.debug_abbrev_offset().0).ok()?;
    for _ in 0..ABBREVIATIONS {
        let start = table;
        let code = table.read_uleb128().ok().filter(|code| *code != 0)?;
        // Its tag, and whether it has children.
        table.read_uleb128().ok()?;
        table.read_u8().ok()?;
        for _ in 0..ATTRIBUTES {
            let (name, form) = (table.read_uleb128().ok()?, table.read_uleb128().ok()?);
            if form == u64::from(gimli::DW_FORM_implicit_const.0) {
                table.read_sleb128().ok()?;
            }
            if (name, form) == (0, 0) {
                if code != root {
                    break;
                }
                let length = start.len().checked_sub(table.len())?;
                let mut only = start.slice().get(..length)?.to_vec();
                only.push(0);
                return Some(only);
            }
        }
    }
    None
}

/// Where in `.debug_info` other units say what functions of this one are called.
fn references(dwarf: &Dwarf<Slice<'_>>, header: &UnitHeader<Slice<'_>>) -> gimli::Result<Vec<usize>> {
    let abbreviations = header.abbreviations(&dwarf.debug_abbrev)?;
    let mut entries = header.entries_raw(&abbreviations, None)?;
    let mut found = Vec::new();
    while !entries.is_empty() {
        let Some(abbreviation) = entries.read_abbreviation()? else { continue };
        let elsewhere = |specification: &gimli::AttributeSpecification| {
            // A form that is told by each entry itself may be any.
            matches!(specification.form(), gimli::DW_FORM_ref_addr | gimli::DW_FORM_indirect)
        };
        if !abbreviation.attributes().iter().any(elsewhere) {
            entries.skip_attributes(abbreviation.attributes())?;
            continue;
        }
        for specification in abbreviation.attributes() {
            let attribute = entries.read_attribute(*specification)?;
            if let (
                gimli::DW_AT_abstract_origin | gimli::DW_AT_specification,
                AttributeValue::DebugInfoRef(DebugInfoOffset(target)),
            ) = (attribute.name(), attribute.value())
                && found.last() != Some(&target)
            {
                found.push(target);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
