//! An ELF symbol table as a sorted index: 16 bytes a function. Names stay in the file until one is asked for.
//!
//! ```text
//! Elf64_Sym:  0 name  4 info (binding << 4 | type)  5 other  6 section  8 value  16 size  24
//! ```

use std::sync::Arc;

use biopsy_elf::raw::{
    SHN_LORESERVE, SHN_UNDEF, SHT_DYNSYM, SHT_SYMTAB, STB_GLOBAL, STB_GNU_UNIQUE, STB_WEAK, STT_FUNC,
    STT_GNU_IFUNC, STT_NOTYPE, Sym64,
};
use biopsy_elf::{LE, LittleEndian, Section, rows};

use crate::elf::{ElfError, ElfFile, SYMBOL_BYTES};

/// Read this many symbols at a time.
const CHUNK: u64 = 1 << 15;
/// Longest name read, in bytes. C++ names of several kilobytes exist.
const NAME_BYTES: u64 = 8 << 10;

/// How many symbols that begin before an address are looked at for one that reaches over it.
const NESTED: usize = 16;
/// How many names of one address are compared.
const ALIASES: usize = 8;
/// A symbol without a size in a table that lists exported symbols only: how far it is believed to reach, in bytes.
const UNSIZED_EXPORT: u64 = 4096;

/// Which of the two tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TableKind {
    /// All symbols, for debugging; `strip` removes it.
    Full,
    /// What dynamic linking needs.
    Dynamic,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    svma: u64,
    name: u32,
    /// Size in the lower 30 bits; above them the rank of the binding: 0 global, 1 weak, 2 local.
    size_and_rank: u32,
}

const SIZE_MASK: u32 = (1 << 30) - 1;

impl Entry {
    fn size(&self) -> u64 {
        u64::from(self.size_and_rank & SIZE_MASK)
    }

    fn rank(&self) -> u32 {
        self.size_and_rank >> 30
    }
}

/// Functions of one symbol table.
#[derive(Debug)]
pub(crate) struct SymbolTable {
    file: Arc<ElfFile>,
    kind: TableKind,
    entries: Vec<Entry>,
    names_offset: u64,
    names_size: u64,
    /// Executable sections, sorted: a symbol without size ends with its section.
    code: Vec<(u64, u64)>,
}

impl SymbolTable {
    /// `Ok(None)`: the file has no such table.
    pub(crate) fn read(file: &Arc<ElfFile>, kind: TableKind) -> Result<Option<Self>, ElfError> {
        let wanted = match kind {
            TableKind::Full => SHT_SYMTAB,
            TableKind::Dynamic => SHT_DYNSYM,
        };
        let table = file.sections().iter().find(|section| section.kind == wanted && section.has_bytes());
        let Some(table) = table else { return Ok(None) };
        let Some(names) = file.section_at(table.link) else { return Ok(None) };
        let count = table.size / SYMBOL_BYTES;
        if count > file.limits().symbols {
            return Err(ElfError::TooLarge {
                path: file.path().to_owned(),
                what: "symbol table (entries)",
                size: count,
                limit: file.limits().symbols,
            });
        }
        let mut code: Vec<(u64, u64)> = file
            .sections()
            .iter()
            .filter(|section| section.is_executable())
            .map(|section| (section.address, section.address.saturating_add(section.size)))
            .collect();
        code.sort_unstable();
        let mut entries = Vec::new();
        let mut next = 0;
        while next < count {
            let chunk = CHUNK.min(count - next);
            let offset = table.offset.saturating_add(next * SYMBOL_BYTES);
            let size = chunk * SYMBOL_BYTES;
            let raw = file.read("symbol table", offset, size, size)?;
            entries.extend(rows(&raw).iter().filter_map(|raw| entry(raw, file.sections())));
            next += chunk;
        }
        entries.sort_unstable_by_key(|entry| (entry.svma, entry.rank()));
        entries.shrink_to_fit();
        let (names_offset, names_size) = (names.offset, names.size);
        Ok(Some(Self { file: Arc::clone(file), kind, entries, names_offset, names_size, code }))
    }

    /// The name of the function at `svma`, as it stands in the table.
    pub(crate) fn find(&self, svma: u64) -> Option<String> {
        let after = self.entries.partition_point(|entry| entry.svma <= svma);
        let mut last = after;
        for _ in 0..NESTED {
            let candidate = self.entries.get(last.checked_sub(1)?)?;
            let first = self.entries[..last].partition_point(|entry| entry.svma < candidate.svma);
            let group = &self.entries[first..last];
            let reaching: Vec<&Entry> =
                group.iter().filter(|entry| self.reaches(entry, svma, after)).take(ALIASES).collect();
            // Only labels begin here: the function around them is meant.
            if let Some(name) = self.best_name(&reaching) {
                return Some(name);
            }
            last = first;
        }
        None
    }

    fn reaches(&self, entry: &Entry, svma: u64, after: usize) -> bool {
        if entry.size() > 0 {
            return svma - entry.svma < entry.size();
        }
        // Hand-written assembly often states no size: up to the next symbol or the end of the section.
        let next = self.entries.get(after).map_or(u64::MAX, |next| next.svma);
        let section = self.code.iter().find(|(start, end)| (*start..*end).contains(&entry.svma));
        let end = section.map_or(entry.svma, |(_, end)| *end).min(next);
        let known = match self.kind {
            TableKind::Full => end,
            // Functions that are not exported lie between those that are.
            TableKind::Dynamic => end.min(entry.svma.saturating_add(UNSIZED_EXPORT)),
        };
        let between = self.entries[..after].partition_point(|other| other.svma <= entry.svma) == after;
        between && svma < known
    }

    /// Of several names for one function (`write`, `__write`, `__GI___write`) the one that a program would use.
    fn best_name(&self, entries: &[&Entry]) -> Option<String> {
        let named = entries.iter().filter_map(|entry| Some((entry.rank(), self.name(entry.name)?)));
        let best = named.min_by_key(|(rank, name)| {
            let underscores = name.bytes().take_while(|byte| *byte == b'_').count();
            let mangled = name.starts_with("_Z") || name.starts_with("_R");
            (*rank, if mangled { 0 } else { underscores }, name.len(), name.clone())
        });
        best.map(|(_, name)| name)
    }

    fn name(&self, offset: u32) -> Option<String> {
        let offset = u64::from(offset);
        let rest = self.names_size.checked_sub(offset)?;
        let mut length = 128.min(rest);
        loop {
            let raw =
                self.file.read_up_to("symbol name", self.names_offset.checked_add(offset)?, length).ok()?;
            let end = raw.iter().position(|byte| *byte == 0);
            if end.is_none() && (raw.len() as u64) == length && length < NAME_BYTES.min(rest) {
                length = NAME_BYTES.min(rest);
                continue;
            }
            let name = String::from_utf8_lossy(&raw[..end.unwrap_or(raw.len())]).into_owned();
            // `$x`, `$d` mark code and data on ARM; `.L` are labels of the assembler.
            let label = name.is_empty() || name.starts_with('$') || name.starts_with(".L");
            return (!label).then_some(name);
        }
    }

    /// The name of the symbol of this number in the file's table, functions or not.
    pub(crate) fn name_by_index(&self, index: u32) -> Option<String> {
        let table = self.file.sections().iter().find(|section| match self.kind {
            TableKind::Full => section.kind == SHT_SYMTAB,
            TableKind::Dynamic => section.kind == SHT_DYNSYM,
        })?;
        let skip = u64::from(index) * SYMBOL_BYTES;
        if skip >= table.size {
            return None;
        }
        let at = table.offset.checked_add(skip)?;
        let raw = self.file.read_up_to("symbol", at, SYMBOL_BYTES).ok()?;
        self.name(rows::<Sym64<LittleEndian>>(&raw).first()?.st_name.get(LE))
    }
}

/// Stated address of an exported variable.
pub(crate) fn find_data(file: &ElfFile, name: &str) -> Option<u64> {
    let table = file.sections().iter().find(|section| section.kind == SHT_DYNSYM && section.has_bytes())?;
    let names = file.section_at(table.link)?;
    let limit = file.limits().symbols.saturating_mul(SYMBOL_BYTES);
    let strings = file.read("symbol names", names.offset, names.size, 64 << 20).ok()?;
    let raw = file.read("symbol table", table.offset, table.size, limit).ok()?;
    let symbol = rows::<Sym64<_>>(&raw).iter().find(|symbol| {
        let tail = strings.get(symbol.st_name.get(LE) as usize..).unwrap_or(&[]);
        tail.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
    })?;
    Some(symbol.st_value.get(LE)).filter(|svma| *svma != 0)
}

fn entry(raw: &Sym64<LittleEndian>, sections: &[Section]) -> Option<Entry> {
    let section = match raw.st_shndx.get(LE) {
        // Undefined here, or in one of the reserved "sections" (absolute, common).
        section if section == SHN_UNDEF || section.0 >= SHN_LORESERVE => return None,
        section => sections.get(usize::from(section.0)),
    };
    let code = match raw.st_type() {
        STT_FUNC | STT_GNU_IFUNC => true,
        STT_NOTYPE => section.is_some_and(|section| section.is_executable()),
        _ => false,
    };
    let (name, svma, size) = (raw.st_name.get(LE), raw.st_value.get(LE), raw.st_size.get(LE));
    if !code || name == 0 || svma == 0 {
        return None;
    }
    let rank = match raw.st_bind() {
        STB_GLOBAL | STB_GNU_UNIQUE => 0,
        STB_WEAK => 1,
        _ => 2,
    };
    let size = u32::try_from(size).unwrap_or(SIZE_MASK).min(SIZE_MASK);
    Some(Entry { svma, name, size_and_rank: rank << 30 | size })
}
