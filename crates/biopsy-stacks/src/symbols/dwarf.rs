//! Inlined functions, files and lines from DWARF, through `addr2line`.

use std::sync::Arc;

use addr2line::Context;
use biopsy_model::symbol::Function;
use gimli::{Dwarf, EndianArcSlice, LittleEndian, SectionId};

use super::demangle;
use crate::elf::{ElfError, ElfFile};

type Reader = EndianArcSlice<LittleEndian>;

/// Inlined calls of one frame that are kept; deeper ones are noise of template libraries.
const MAX_INLINED: usize = 64;

/// Unpacked size of `.debug_line`, in bytes: one byte of it can become a row of 24 in memory.
const LINE_BYTES: u64 = 64 << 20;

/// Sections that names and lines need; locations of variables, the largest of the others, are not read.
const SECTIONS: [SectionId; 10] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugAranges,
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
    context: Context<Reader>,
    size: u64,
}

impl std::fmt::Debug for DebugInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DebugInfo").field("size", &self.size).finish_non_exhaustive()
    }
}

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

    /// Loads the sections of `file`, and of its `dwz` supplement. `budget`, in bytes, holds for both together.
    pub(crate) fn read(file: &ElfFile, supplement: Option<&ElfFile>, budget: u64) -> Result<Self, ElfError> {
        let mut left = budget;
        let mut dwarf = Dwarf::load(|id| section(file, id, &mut left))?;
        if let Some(supplement) = supplement {
            dwarf.load_sup(|id| section(supplement, id, &mut left))?;
        }
        let context =
            Context::from_dwarf(dwarf).map_err(|_| ElfError::DebugInfo { path: file.path().to_owned() })?;
        Ok(Self { context, size: budget - left })
    }

    /// Bytes of sections held in memory.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn find(&self, svma: u64, inlines: bool, lines: bool) -> Found {
        let mut found = Found::default();
        let Ok(mut frames) = self.context.find_frames(svma).skip_all_loads() else { return found };
        while let Ok(Some(frame)) = frames.next() {
            let name = frame.function.as_ref().and_then(|function| function.raw_name().ok());
            let location = frame.location.as_ref().filter(|_| lines);
            found.functions.push((
                name.map(|name| demangle(&name)),
                location.and_then(|location| location.file).map(str::to_owned),
                location.and_then(|location| location.line),
            ));
            if found.functions.len() > MAX_INLINED {
                break;
            }
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

fn section(file: &ElfFile, id: SectionId, left: &mut u64) -> Result<Reader, ElfError> {
    let limit = if id == SectionId::DebugLine { LINE_BYTES.min(*left) } else { *left };
    let bytes = if SECTIONS.contains(&id) { file.section_bytes(id.name(), limit)? } else { None };
    let bytes = bytes.unwrap_or_default();
    *left = left.saturating_sub(bytes.len() as u64);
    Ok(EndianArcSlice::new(Arc::from(bytes), LittleEndian))
}
