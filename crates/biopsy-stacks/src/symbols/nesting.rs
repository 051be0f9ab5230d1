//! How deep inlined calls are nested in debug information, found without recursion.
//!
//! `addr2line` (0.27, `Function::parse_children`) reads the inlined calls of a function by recursion, one level for each
//! nested DIE. A DIE without attributes takes one byte: 400,000 nested ones, in half a megabyte, overflowed the stack of
//! whoever asked for a name in them. So each unit is walked once before `addr2line` reads functions in it, and a unit that
//! is nested deeper than any compiler nests is not asked.
//!
//! Which units `addr2line` reads for an address: those whose root DIE has a range that holds it (`.debug_aranges` is not
//! handed to it), and those whose root has no range at all, by their lines. The latter are all walked at once.

use std::cell::RefCell;

use gimli::{AttributeValue, Dwarf, EndianArcSlice, LittleEndian, Unit, UnitHeader, UnitType};
use rustc_hash::FxHashMap;

/// How the bytes of debug information are held.
pub(super) type Reader = EndianArcSlice<LittleEndian>;

/// Inlined calls in one another. Compilers give up after some dozens; a recursion of this depth takes a quarter of a megabyte.
const DEEPEST: usize = 256;

/// The units of a file by the addresses that they have code at.
pub(super) struct Nesting {
    units: Vec<UnitHeader<Reader>>,
    /// Begin, end, number of the unit; by begin. With the highest end of all up to there.
    ranges: Vec<(u64, u64, usize)>,
    ends: Vec<u64>,
    /// A unit that addresses cannot be told of is too deep.
    is_too_deep: bool,
    /// Whether a unit is too deep, as far as it was asked for.
    known: RefCell<FxHashMap<usize, bool>>,
}

impl Nesting {
    pub(super) fn read(dwarf: &Dwarf<Reader>) -> Self {
        let (mut units, mut ranges, mut is_too_deep) = (Vec::new(), Vec::new(), false);
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            // Of these, `addr2line` reads names only.
            if matches!(
                header.type_(),
                UnitType::Type { .. } | UnitType::SplitType { .. } | UnitType::Partial
            ) {
                continue;
            }
            let Ok(unit) = dwarf.unit(header.clone()) else { continue };
            let before = ranges.len();
            // An error here makes `addr2line` refuse the file.
            let _ = each_range(dwarf, &unit, |range| ranges.push((range.begin, range.end, units.len())));
            if ranges.len() == before {
                is_too_deep |= is_unit_too_deep(&unit);
            } else {
                units.push(header);
            }
        }
        ranges.sort_unstable();
        let ends = ranges
            .iter()
            .scan(0, |highest: &mut u64, (_, end, _)| {
                *highest = (*highest).max(*end);
                Some(*highest)
            })
            .collect();
        Self { units, ranges, ends, is_too_deep, known: RefCell::default() }
    }

    /// Whether a unit that may have code at the address is nested too deep to be read.
    pub(super) fn is_too_deep(&self, dwarf: &Dwarf<Reader>, svma: u64) -> bool {
        let behind = self.ranges.partition_point(|(begin, ..)| *begin <= svma);
        let here = self.ranges.iter().zip(&self.ends).take(behind).rev();
        let mut units = here
            .take_while(|(_, highest)| **highest > svma)
            .filter_map(|((_, end, unit), _)| (*end > svma).then_some(*unit));
        self.is_too_deep || units.any(|unit| self.is_unit_too_deep(dwarf, unit))
    }

    fn is_unit_too_deep(&self, dwarf: &Dwarf<Reader>, number: usize) -> bool {
        *self.known.borrow_mut().entry(number).or_insert_with(|| {
            let unit = self.units.get(number).map(|header| dwarf.unit(header.clone()));
            unit.and_then(Result::ok).is_some_and(|unit| is_unit_too_deep(&unit))
        })
    }
}

/// The ranges of a unit's root DIE in the reading of `addr2line`: of attributes that come twice, the last counts.
fn each_range(
    dwarf: &Dwarf<Reader>,
    unit: &Unit<Reader>,
    mut found: impl FnMut(gimli::Range),
) -> Result<(), gimli::Error> {
    let mut entries = unit.entries_raw(None)?;
    let Some(root) = entries.read_abbreviation()? else { return Ok(()) };
    let (mut low, mut high, mut size, mut list) = (None, None, None, None);
    for specification in root.attributes() {
        let attribute = entries.read_attribute(*specification)?;
        match (attribute.name(), attribute.value()) {
            (gimli::DW_AT_low_pc, AttributeValue::Addr(address)) => low = Some(address),
            (gimli::DW_AT_low_pc, AttributeValue::DebugAddrIndex(index)) => {
                low = Some(dwarf.address(unit, index)?);
            }
            (gimli::DW_AT_high_pc, AttributeValue::Addr(address)) => high = Some(address),
            (gimli::DW_AT_high_pc, AttributeValue::DebugAddrIndex(index)) => {
                high = Some(dwarf.address(unit, index)?);
            }
            (gimli::DW_AT_high_pc, AttributeValue::Udata(bytes)) => size = Some(bytes),
            (gimli::DW_AT_ranges, value) => list = dwarf.attr_ranges_offset(unit, value)?,
            _ => {}
        }
    }
    let mut add = |range: gimli::Range| {
        if range.begin < range.end {
            found(range);
        }
    };
    match (list, low, high, size) {
        (Some(list), ..) => {
            let mut ranges = dwarf.ranges(unit, list)?;
            while let Some(range) = ranges.next()? {
                add(range);
            }
        }
        (None, Some(begin), Some(end), _) => add(gimli::Range { begin, end }),
        (None, Some(begin), None, Some(size)) => add(gimli::Range { begin, end: begin.wrapping_add(size) }),
        (None, ..) => {}
    }
    Ok(())
}

/// Where the walk ends with an error, `addr2line` gives up too, and before it looks at any function.
fn is_unit_too_deep(unit: &Unit<Reader>) -> bool {
    let Ok(mut entries) = unit.entries_raw(None) else { return false };
    // Depths of the inlined calls that hold the current entry.
    let mut open: Vec<isize> = Vec::new();
    while !entries.is_empty() {
        let depth = entries.next_depth();
        let Ok(abbreviation) = entries.read_abbreviation() else { return false };
        let Some(abbreviation) = abbreviation else { continue };
        while open.last().is_some_and(|last| *last >= depth) {
            open.pop();
        }
        if abbreviation.tag() == gimli::DW_TAG_inlined_subroutine {
            open.push(depth);
            if open.len() > DEEPEST {
                return true;
            }
        }
        if entries.skip_attributes(abbreviation.attributes()).is_err() {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests;
