//! Inlined functions, files and lines from DWARF, through `addr2line`.

use std::cell::{Cell, OnceCell};
use std::convert::Infallible;
use std::sync::Arc;

use addr2line::Context;
use biopsy_model::Svma;
use biopsy_model::symbol::Function;
use gimli::{Dwarf, EndianArcSlice, EndianSlice, LittleEndian, SectionId};

use super::nesting::{Nesting, Reader};
use super::{demangle, units};
use crate::elf::{ElfError, ElfFile};

/// Inlined calls of one frame that are kept; deeper ones are noise of template libraries.
const MAX_INLINED: usize = 64;

/// Unpacked size of `.debug_line`, in bytes: one byte of it can become a row of 24 in memory.
const LINE_BYTES: u64 = 64 << 20;

/// Bytes of `.debug_info` from which on a second thread is worth starting.
const WORTH_A_THREAD: u64 = 1 << 20;

/// Sections that names and lines need; locations of variables, the largest of the others, are not read.
/// `.debug_aranges` neither: roots of units have the same ranges, and [`Nesting`] must know all that `addr2line` does.
const SECTIONS: [SectionId; 9] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
];

/// DWARF of one file.
pub(crate) struct DebugInfo {
    dwarf: Arc<Dwarf<Reader>>,
    context: Context<Reader>,
    nesting: OnceCell<Nesting>,
    /// Whether something was nested too deep to be read, and whether that was told.
    refused: Cell<Option<Told>>,
    size: u64,
}

impl std::fmt::Debug for DebugInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DebugInfo").field("size", &self.size).finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Told(bool);

/// What DWARF says of one address.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Innermost first; names may be missing.
    pub(crate) functions: Vec<(Option<String>, Option<String>, Option<u32>)>,
}

impl DebugInfo {
    /// Unpacked bytes that loading would take; zero: there is no debug information.
    pub(crate) fn claimed_size(file: &ElfFile) -> u64 {
        if file.section(".debug_info").or_else(|| file.section(".zdebug_info")).is_none() {
            return 0;
        }
        SECTIONS.iter().fold(0, |sum, id| sum.saturating_add(file.unpacked_size(id.name())))
    }

    /// Loads the sections of `file`, and of its `dwz` supplement. `budget`, in bytes, holds for both together. `only`: no other addresses
    /// will be asked for.
    pub(crate) fn read(
        file: &ElfFile,
        supplement: Option<&ElfFile>,
        budget: u64,
        only: Option<&[Svma]>,
    ) -> Result<Self, ElfError> {
        let mut left = budget;
        let mut sections = match only {
            Some(_) => read_sections_at_once(file, &mut left)?,
            None => read_sections(file, &mut left)?,
        };
        if let Some(only) = only {
            let only: Vec<u64> = only.iter().map(|svma| svma.0).collect();
            let rows = units::not_needed(&borrowed(&sections), &only);
            if let Some((_, info)) = sections.iter_mut().find(|(id, _)| *id == SectionId::DebugInfo) {
                units::put_away(info, &rows);
            }
        }
        let mut dwarf = owned(sections);
        if let Some(supplement) = supplement {
            dwarf.set_sup(owned(read_sections(supplement, &mut left)?));
        }
        Self::of(dwarf, budget - left).map_err(|_| ElfError::DebugInfo { path: file.path().to_owned() })
    }

    /// `size`: bytes of its sections.
    fn of(dwarf: Dwarf<Reader>, size: u64) -> Result<Self, gimli::Error> {
        let dwarf = Arc::new(dwarf);
        let context = Context::from_arc_dwarf(Arc::clone(&dwarf))?;
        Ok(Self { dwarf, context, nesting: OnceCell::new(), refused: Cell::new(None), size })
    }

    /// Whether inlined calls were nested too deep at an address that was asked for. True once.
    pub(crate) fn take_refused(&self) -> bool {
        self.refused.get().is_some_and(|_| self.refused.replace(Some(Told(true))) == Some(Told(false)))
    }

    /// Bytes of sections held in memory.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn find(&self, svma: u64, inlines: bool, lines: bool) -> Found {
        let mut found = Found::default();
        // The end of a range that has this address does not exist; addr2line asks for it.
        if svma == u64::MAX {
            return found;
        }
        let nesting = self.nesting.get_or_init(|| Nesting::read(&self.dwarf));
        if nesting.is_too_deep(&self.dwarf, svma) {
            self.refused.set(self.refused.get().or(Some(Told(false))));
            return found;
        }
        let Ok(mut frames) = self.context.find_frames(svma).skip_all_loads() else { return found };
        while let Ok(Some(frame)) = frames.next() {
            let name = frame.function.as_ref().and_then(|function| function.raw_name().ok());
            let location = frame.location.as_ref().filter(|_| lines);
            // The outermost is the function itself: it stays, whatever is between.
            if found.functions.len() > MAX_INLINED {
                found.functions.pop();
            }
            found.functions.push((
                name.map(|name| demangle(&name)),
                location.and_then(|location| location.file).map(str::to_owned),
                location.and_then(|location| location.line),
            ));
        }
        if !inlines && found.functions.len() > 1 {
            found.functions.drain(..found.functions.len() - 1);
        }
        found
    }
}

impl Found {
    /// The functions, with `real` as the name of the outermost where DWARF has none. Empty when nothing is named.
    pub(crate) fn named(self, real: Option<&str>) -> Vec<Function> {
        let last = self.functions.len().saturating_sub(1);
        let named = self.functions.into_iter().enumerate().filter_map(|(at, (name, file, line))| {
            let real = real.filter(|_| at == last).map(str::to_owned);
            // The symbol table's name is linked with more of its scope than a C++ name without linkage name.
            Some(Function { name: real.or(name)?, file, line })
        });
        named.collect()
    }
}

/// Sections with their bytes, unpacked.
type Sections = Vec<(SectionId, Vec<u8>)>;

fn read_sections(file: &ElfFile, left: &mut u64) -> Result<Sections, ElfError> {
    SECTIONS.into_iter().map(|id| read_section(file, id, left)).collect()
}

/// The same on two processors: of what is packed, `.debug_info` takes as long to unpack as all others together, and more.
fn read_sections_at_once(file: &ElfFile, left: &mut u64) -> Result<Sections, ElfError> {
    let info = SectionId::DebugInfo;
    let claimed = file.unpacked_size(info.name());
    if !(WORTH_A_THREAD..=*left).contains(&claimed) {
        return read_sections(file, left);
    }
    // It unpacks to no more than it claims, and the others have what is left.
    let (whole, mut rest) = (*left, *left - claimed);
    let (first, others) = std::thread::scope(|scope| {
        let first = scope.spawn(|| file.section_bytes(info.name(), whole));
        let others = SECTIONS.into_iter().filter(|id| *id != info);
        let others: Result<Sections, ElfError> = others.map(|id| read_section(file, id, &mut rest)).collect();
        (first.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), others)
    });
    let mut sections = others?;
    sections.push((info, first?.unwrap_or_default()));
    *left = rest;
    Ok(sections)
}

fn read_section(file: &ElfFile, id: SectionId, left: &mut u64) -> Result<(SectionId, Vec<u8>), ElfError> {
    let limit = if id == SectionId::DebugLine { LINE_BYTES.min(*left) } else { *left };
    let bytes = file.section_bytes(id.name(), limit)?.unwrap_or_default();
    *left = left.saturating_sub(bytes.len() as u64);
    Ok((id, bytes))
}

fn owned(mut sections: Sections) -> Dwarf<Reader> {
    let section = |id| {
        let found = sections.iter_mut().find(|(known, _)| *known == id);
        let bytes = found.map(|(_, bytes)| std::mem::take(bytes)).unwrap_or_default();
        Ok::<_, Infallible>(EndianArcSlice::new(Arc::from(bytes), LittleEndian))
    };
    match Dwarf::load(section) {
        Ok(dwarf) => dwarf,
        Err(never) => match never {},
    }
}

fn borrowed(sections: &Sections) -> Dwarf<EndianSlice<'_, LittleEndian>> {
    let section = |id| {
        let found = sections.iter().find(|(known, _)| *known == id);
        let bytes = found.map_or(&[][..], |(_, bytes)| bytes);
        Ok::<_, Infallible>(EndianSlice::new(bytes, LittleEndian))
    };
    match Dwarf::load(section) {
        Ok(dwarf) => dwarf,
        Err(never) => match never {},
    }
}

/// Reads the bytes as the sections `.debug_abbrev` (of the length that the first two say) and `.debug_info`.
pub(crate) fn fuzz(bytes: &[u8]) {
    let Some((length, rest)) = bytes.split_first_chunk() else { return };
    let (abbreviations, info) = rest.split_at(usize::from(u16::from_le_bytes(*length)).min(rest.len()));
    let sections =
        vec![(SectionId::DebugAbbrev, abbreviations.to_vec()), (SectionId::DebugInfo, info.to_vec())];
    let rows = units::not_needed(&borrowed(&sections), &[0x1000, 0x1100]);
    let mut less = info.to_vec();
    units::put_away(&mut less, &rows);
    let less = DebugInfo::of(dwarf_of(abbreviations, &less), 0);
    let Ok(debug) = DebugInfo::of(dwarf_of(abbreviations, info), 0) else { return };
    if let Ok(less) = less {
        assert!(less.find(0x1000, true, true).functions.len() <= MAX_INLINED + 1, "one more than is kept");
    }
    for svma in [0, 1, 0x1000, 0x1010, 0x1100, u64::MAX] {
        let found = debug.find(svma, true, true);
        assert!(found.functions.len() <= MAX_INLINED + 1, "one more than is kept");
    }
}

fn dwarf_of(abbreviations: &[u8], info: &[u8]) -> Dwarf<Reader> {
    let section = |id| {
        let bytes = match id {
            SectionId::DebugAbbrev => abbreviations,
            SectionId::DebugInfo => info,
            _ => &[],
        };
        Ok::<_, Infallible>(EndianArcSlice::new(Arc::from(bytes), LittleEndian))
    };
    match Dwarf::load(section) {
        Ok(dwarf) => dwarf,
        Err(never) => match never {},
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A function at 0x1000 with so many inlined calls in one another, all of its 256 bytes.
    fn nested(depth: usize, ranges: bool) -> DebugInfo {
        let abbreviations = [
            1, 0x11, 1, 0x11, 1, 0x12, 7, 0, 0, // a compile unit: low_pc, high_pc
            2, 0x2e, 1, 0x11, 1, 0x12, 7, 3, 8, 0, 0, // a subprogram: low_pc, high_pc, name
            3, 0x1d, 1, 0, 0, // an inlined call without anything
            4, 0x1d, 1, 0x11, 1, 0x12, 7, 3, 8, 0, 0, // one with low_pc, high_pc, name
            0,
        ];
        let place = [0x1000_u64.to_le_bytes(), 0x100_u64.to_le_bytes()].concat();
        let inlined = if ranges { [&[4], place.as_slice(), b"in\0"].concat() } else { vec![3] };
        let mut info = [&4_u16.to_le_bytes()[..], &[0, 0, 0, 0, 8]].concat();
        info.extend([&[1], place.as_slice(), &[2], &place, b"out\0"].concat());
        info.extend(inlined.repeat(depth));
        info.extend(std::iter::repeat_n(0, depth + 2));
        let info = [&(info.len() as u32).to_le_bytes()[..], &info].concat();
        DebugInfo::of(dwarf_of(&abbreviations, &info), 0).expect("it is well formed")
    }

    #[test]
    fn inlined_calls_are_read_as_deep_as_compilers_nest_them() {
        let found = nested(40, true).find(0x1010, true, false).functions;
        let names: Vec<&str> = found.iter().filter_map(|(name, ..)| name.as_deref()).collect();
        assert_eq!((names.len(), names[0], names[40]), (41, "in", "out"));
        for depth in [MAX_INLINED, MAX_INLINED + 1, 256] {
            let found = nested(depth, true).find(0x1010, true, false).functions;
            assert_eq!(found.len(), MAX_INLINED + 1, "of {depth}");
            assert_eq!(
                found.last().and_then(|(name, ..)| name.as_deref()),
                Some("out"),
                "the function itself"
            );
            let outermost = nested(depth, true).find(0x1010, false, false).functions;
            assert_eq!(outermost, found[MAX_INLINED..], "of {depth}, without inlined calls");
        }
    }

    /// Its recursion needed 60 MB of stack.
    #[test]
    fn debug_information_that_is_nested_without_end_is_refused() {
        for ranges in [false, true] {
            let hostile = nested(400_000, ranges);
            assert!(!hostile.take_refused());
            for _ in 0..2 {
                assert!(hostile.find(0x1010, true, true).functions.is_empty());
            }
            assert!(hostile.take_refused() && !hostile.take_refused(), "told once");
            assert!(hostile.find(0x9000, true, true).functions.is_empty() && !hostile.take_refused());
        }
    }
}
