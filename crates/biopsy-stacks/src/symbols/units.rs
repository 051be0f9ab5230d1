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
    AttributeValue, DebugAbbrev, DebugAbbrevOffset, DebugAddrBase, DebugInfoOffset, DebugLineOffset, Dwarf,
    EndianSlice, LittleEndian, RangeListsOffset, Reader as _, UnitHeader, UnitType,
};
use rustc_hash::FxHashMap;

/// Debug information that is looked at where it was read to.
type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// Bytes of the header that a row of units gets; a shorter row stays.
const HEADER: usize = 24;
/// Bytes of abbreviations that are gone over, for each that there is: all tables are, for their roots and for how they lead elsewhere. More is
/// needed where tables overlap, which no compiler writes.
const TIMES_OVER: usize = 4;
/// Forms that lead to other units; one that is told by each entry itself may be any.
const ELSEWHERE: [gimli::DwForm; 2] = [gimli::DW_FORM_ref_addr, gimli::DW_FORM_indirect];

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
    let mut tables = Tables::of(dwarf);
    let mut parts = Vec::new();
    let mut headers = dwarf.units();
    while let Some(header) = headers.next().ok()? {
        let DebugInfoOffset(start) = header.debug_info_offset()?;
        let bytes = start..start.checked_add(header.length_including_self())?;
        let stays = match header.type_() {
            // Read where another one refers to it.
            UnitType::Type { .. } | UnitType::SplitType { .. } | UnitType::Partial => false,
            UnitType::Compilation | UnitType::Skeleton(_) | UnitType::SplitCompilation(_) => {
                holds(dwarf, &mut tables, &header, wanted).unwrap_or(true)
            }
        };
        parts.push(Part { bytes, header, stays });
    }
    let mut open: Vec<usize> =
        parts.iter().enumerate().filter_map(|(at, part)| part.stays.then_some(at)).collect();
    while let Some(at) = open.pop() {
        let header = &parts.get(at)?.header;
        if !tables.leads_elsewhere(header.debug_abbrev_offset()) {
            continue;
        }
        let targets = references(dwarf, header).ok()?;
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
fn holds<'a>(
    dwarf: &Dwarf<Slice<'a>>,
    tables: &mut Tables<'a>,
    header: &UnitHeader<Slice<'a>>,
    wanted: &[u64],
) -> Option<bool> {
    let table = tables.of_root(header)?;
    let abbreviations = DebugAbbrev::new(&table, LittleEndian).abbreviations(DebugAbbrevOffset(0)).ok()?;
    let mut entries = header.entries_raw(&abbreviations, None).ok()?;
    let root = entries.read_abbreviation().ok()??;
    let (mut low, mut high, mut size, mut list, mut base) = (None, None, None, None, DebugAddrBase(0));
    let mut lines = None;
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
            (gimli::DW_AT_stmt_list, AttributeValue::DebugLineRef(offset)) => lines = Some(offset),
            // By an index, or in a form that is not known here.
            (
                gimli::DW_AT_low_pc | gimli::DW_AT_high_pc | gimli::DW_AT_ranges | gimli::DW_AT_stmt_list,
                _,
            ) => return None,
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
    if is_any {
        return Some(is_here);
    }
    // One that names no code is told by its lines; where there are none, it has none.
    match lines {
        None => Some(false),
        Some(lines) => is_without_lines(dwarf, lines)?.then_some(false),
    }
}

/// Whether nothing stands behind the header of a line program (DWARF 5, section 6.2.4).
fn is_without_lines(dwarf: &Dwarf<Slice<'_>>, DebugLineOffset(start): DebugLineOffset) -> Option<bool> {
    let mut rest = *gimli::Section::reader(&dwarf.debug_line);
    rest.skip(start).ok()?;
    let (length, format) = rest.read_initial_length().ok()?;
    let mut program = rest.split(length).ok()?;
    if program.read_u16().ok()? >= 5 {
        // Sizes of an address and of a segment.
        program.skip(2).ok()?;
    }
    let header = program.read_length(format).ok()?;
    program.skip(header).ok()?;
    Some(program.is_empty())
}

/// Tables of abbreviations, gone over without being kept: of 2,000 units of glibc a dozen are needed.
struct Tables<'a> {
    all: Slice<'a>,
    /// By the offset of a table and the code of a root in it: a table with nothing but that abbreviation.
    roots: FxHashMap<(usize, u64), Option<Vec<u8>>>,
    elsewhere: FxHashMap<usize, bool>,
    /// Bytes that may still be gone over.
    left: usize,
}

/// An abbreviation: its code, its bytes, and whether it has a form that leads to other units.
struct Abbreviation<'a> {
    code: u64,
    bytes: &'a [u8],
    leads_elsewhere: bool,
}

impl<'a> Tables<'a> {
    fn of(dwarf: &Dwarf<Slice<'a>>) -> Self {
        let all = *gimli::Section::reader(&dwarf.debug_abbrev);
        let left = all.len().saturating_mul(TIMES_OVER);
        Self { all, roots: FxHashMap::default(), elsewhere: FxHashMap::default(), left }
    }

    /// A table with nothing but the abbreviation of a unit's root, which may be anywhere in its own: GCC sorts them by how often they are used.
    fn of_root(&mut self, header: &UnitHeader<Slice<'_>>) -> Option<Vec<u8>> {
        let root = header.range_from(header.root_offset()..).ok()?.read_uleb128().ok()?;
        let key = (header.debug_abbrev_offset().0, root);
        if let Some(known) = self.roots.get(&key) {
            return known.clone();
        }
        let found = self.find(header.debug_abbrev_offset(), |one| one.code == root);
        let table = found.flatten().map(|one| [one.bytes, &[0]].concat());
        self.roots.insert(key, table.clone());
        table
    }

    /// Whether entries of this table may lead to other units; also where that cannot be told.
    fn leads_elsewhere(&mut self, table: DebugAbbrevOffset) -> bool {
        if let Some(known) = self.elsewhere.get(&table.0) {
            return *known;
        }
        let found = self.find(table, |one| one.leads_elsewhere).is_none_or(|found| found.is_some());
        self.elsewhere.insert(table.0, found);
        found
    }

    /// The first abbreviation of a table that fits. `None`: the table is damaged, or enough was gone over.
    fn find(
        &mut self,
        DebugAbbrevOffset(start): DebugAbbrevOffset,
        fits: impl Fn(&Abbreviation<'a>) -> bool,
    ) -> Option<Option<Abbreviation<'a>>> {
        let mut rest = self.all;
        rest.skip(start).ok()?;
        loop {
            let from = rest;
            let one = abbreviation(&mut rest)?;
            self.left = self.left.checked_sub(from.len() - rest.len())?;
            match one {
                None => return Some(None),
                Some(one) if fits(&one) => return Some(Some(one)),
                Some(_) => {}
            }
        }
    }
}

/// The next abbreviation (DWARF 5, section 7.5.3). `None`: it is damaged; `Some(None)`: the table ends.
fn abbreviation<'a>(rest: &mut Slice<'a>) -> Option<Option<Abbreviation<'a>>> {
    let from = *rest;
    let code = rest.read_uleb128().ok()?;
    if code == 0 {
        return Some(None);
    }
    // Its tag, and whether it has children.
    rest.read_uleb128().ok()?;
    rest.read_u8().ok()?;
    let mut leads_elsewhere = false;
    loop {
        let (name, form) = (rest.read_uleb128().ok()?, rest.read_uleb128().ok()?);
        leads_elsewhere |= ELSEWHERE.into_iter().any(|elsewhere| form == u64::from(elsewhere.0));
        if form == u64::from(gimli::DW_FORM_implicit_const.0) {
            rest.read_sleb128().ok()?;
        }
        if (name, form) == (0, 0) {
            let bytes = from.slice().get(..from.len().checked_sub(rest.len())?)?;
            return Some(Some(Abbreviation { code, bytes, leads_elsewhere }));
        }
    }
}

/// Where in `.debug_info` other units say what functions of this one are called.
fn references(dwarf: &Dwarf<Slice<'_>>, header: &UnitHeader<Slice<'_>>) -> gimli::Result<Vec<usize>> {
    let abbreviations = header.abbreviations(&dwarf.debug_abbrev)?;
    let mut entries = header.entries_raw(&abbreviations, None)?;
    let mut found = Vec::new();
    while !entries.is_empty() {
        let Some(abbreviation) = entries.read_abbreviation()? else { continue };
        let elsewhere =
            |specification: &gimli::AttributeSpecification| ELSEWHERE.contains(&specification.form());
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
