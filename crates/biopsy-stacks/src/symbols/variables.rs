//! Symbols of data in a file: variables, tables, and variables of threads.

use std::sync::Arc;

use biopsy_elf::raw::{
    SHF_TLS, SHF_WRITE, SHN_LORESERVE, SHN_UNDEF, SHT_DYNSYM, SHT_SYMTAB, STB_GLOBAL, STT_OBJECT, STT_TLS,
    Sym64,
};
use biopsy_elf::{LE, LittleEndian, rows};

use super::table::{SymbolTable, TableKind};
use crate::elf::{ElfFile, SYMBOL_BYTES};

/// Bytes of names of one file: Chrome with symbols has 100 MB.
const NAMES: u64 = 256 << 20;
/// Longest name, in bytes.
const NAME: usize = 8 << 10;

/// A variable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DataSymbol {
    /// Its stated address; of a thread's variable, from the beginning of the module's part of a thread's memory.
    pub(crate) svma: u64,
    /// Bytes.
    pub(crate) size: u64,
    /// As it stands in the file.
    pub(crate) name: String,
}

/// Variables that can be written, or could until the loader was done, and those of threads, by address; what is exported where the file
/// has no other table. What cannot be read is not there.
pub(crate) fn data_symbols(file: &ElfFile) -> (Vec<DataSymbol>, Vec<DataSymbol>) {
    let of_kind = [SHT_SYMTAB, SHT_DYNSYM]
        .into_iter()
        .find_map(|kind| file.sections().iter().find(|section| section.kind == kind && section.has_bytes()));
    let read = of_kind.and_then(|table| {
        let names = file.section_at(table.link)?;
        let count = (table.size / SYMBOL_BYTES).min(file.limits().symbols);
        let raw = file.read_up_to("symbol table", table.offset, count * SYMBOL_BYTES).ok()?;
        let names = file.read_up_to("symbol names", names.offset, names.size.min(NAMES)).ok()?;
        Some((raw, names))
    });
    let Some((raw, names)) = read else { return (Vec::new(), Vec::new()) };
    let (mut data, mut thread) = (Vec::new(), Vec::new());
    for symbol in rows::<Sym64<LittleEndian>>(&raw) {
        let is_thread = symbol.st_type() == STT_TLS;
        let section = symbol.st_shndx.get(LE);
        if !is_thread && symbol.st_type() != STT_OBJECT || section == SHN_UNDEF || section.0 >= SHN_LORESERVE
        {
            continue;
        }
        let is_data = file.sections().get(usize::from(section.0)).is_none_or(|section| {
            section.flags.contains(SHF_WRITE) || is_thread && section.flags.contains(SHF_TLS)
        });
        let Some(name) = is_data.then(|| name_at(&names, symbol.st_name.get(LE))).flatten() else { continue };
        let one = DataSymbol { svma: symbol.st_value.get(LE), size: symbol.st_size.get(LE), name };
        // Of several names for one place the exported one comes last, and is found.
        let rank = symbol.st_bind() == STB_GLOBAL;
        if is_thread { thread.push((rank, one)) } else { data.push((rank, one)) }
    }
    let sorted = |mut list: Vec<(bool, DataSymbol)>| {
        list.sort_by(|(rank, one), (other_rank, other)| {
            (one.svma, rank, &one.name).cmp(&(other.svma, other_rank, &other.name))
        });
        list.into_iter().map(|(_, one)| one).collect()
    };
    (sorted(data), sorted(thread))
}

fn name_at(names: &[u8], at: u32) -> Option<String> {
    let rest = names.get(at as usize..)?;
    let end = rest.iter().take(NAME).position(|byte| *byte == 0)?;
    (end > 0).then(|| String::from_utf8_lossy(rest.get(..end).unwrap_or_default()).into_owned())
}

/// It has a table of all its symbols, not only of those that it exports.
pub(crate) fn has_all_symbols(file: &ElfFile) -> bool {
    file.sections().iter().any(|section| section.kind == SHT_SYMTAB && section.has_bytes())
}

/// The functions of a file: all of them, or those that it exports.
pub(crate) fn full_or_dynamic(file: &Arc<ElfFile>) -> Option<SymbolTable> {
    [TableKind::Full, TableKind::Dynamic]
        .into_iter()
        .find_map(|kind| SymbolTable::read(file, kind).ok().flatten())
}
