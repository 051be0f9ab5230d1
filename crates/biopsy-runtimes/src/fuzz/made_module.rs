//! A file that exports symbols, its data, and a stack: what the readers of HotSpot and of V8 begin with.

use biopsy_elf::raw::{
    DT_STRSZ, DT_STRTAB, DT_SYMTAB, PT_DYNAMIC, PT_LOAD, PT_TLS, SymbolInfo, SymbolOther, SymbolSection,
};
use biopsy_elf::raw::{Dyn64, ET_DYN, PF_R, Sym64};
use biopsy_elf::{FileHeader, LittleEndian, Segment, bytes_of, file_header};

use super::MadeImage;

/// Where the file is.
pub(crate) const FILE: u64 = 0x10_0000;
/// Where its data is.
pub(crate) const DATA: u64 = 0x20_0000;
/// Lowest address of the stack.
pub(crate) const STACK: u64 = 0x7000_0000;

/// Data that grows: words and texts with their addresses.
#[derive(Debug, Default)]
pub(crate) struct Data {
    bytes: Vec<u8>,
}

impl Data {
    fn aligned(&mut self) -> u64 {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        DATA + self.bytes.len() as u64
    }

    /// Where the next words will be.
    pub(crate) fn next(&mut self) -> u64 {
        self.aligned()
    }

    /// Appends words and gives the address of the first.
    pub(crate) fn words(&mut self, words: &[u64]) -> u64 {
        let at = self.aligned();
        self.bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        at
    }

    /// Appends bytes and a zero, and gives their address.
    pub(crate) fn text(&mut self, text: &[u8]) -> u64 {
        let at = self.aligned();
        self.bytes.extend_from_slice(text);
        self.bytes.push(0);
        at
    }

    /// Writes a word again.
    pub(crate) fn set(&mut self, address: u64, value: u64) {
        let at = (address - DATA) as usize;
        self.bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
}

/// The image of a file that exports these symbols (name, address), with its data and room for a stack.
pub(crate) fn image(path: &[u8], symbols: &[(String, u64)], data: &Data, stack: u64) -> MadeImage {
    let file = file(symbols);
    let mappings = [
        (FILE, file.len(), false),
        (DATA, data.bytes.len(), true),
        (STACK, usize::try_from(stack).unwrap_or(0), true),
    ];
    let mut image = MadeImage::new(path, &mappings);
    image.put(FILE, &file);
    image.put(DATA, &data.bytes);
    image
}

/// A file of one segment that is loaded, with a dynamic section, symbols, their names behind them, and 8 bytes for each thread.
fn file(symbols: &[(String, u64)]) -> Vec<u8> {
    const HEADERS: u64 = 3;
    let mut names = vec![0];
    let mut table = vec![0; size_of::<Sym64<LittleEndian>>()];
    for (name, address) in symbols {
        let symbol = Sym64::<LittleEndian> {
            st_name: (names.len() as u32).into(),
            st_info: SymbolInfo(0x11),
            st_other: SymbolOther(0),
            st_shndx: SymbolSection(1).into(),
            st_value: address.wrapping_sub(FILE).into(),
            st_size: 8.into(),
        };
        table.extend_from_slice(bytes_of(&symbol));
        names.extend_from_slice(name.as_bytes());
        names.push(0);
    }
    let dynamic_at = FileHeader::SIZE + HEADERS * Segment::HEADER_SIZE;
    let table_at = dynamic_at + 4 * size_of::<Dyn64<LittleEndian>>() as u64;
    let names_at = table_at + table.len() as u64;
    let end = names_at + names.len() as u64;
    let entries =
        [(DT_SYMTAB, FILE + table_at), (DT_STRTAB, FILE + names_at), (DT_STRSZ, names.len() as u64)];
    let mut dynamic: Vec<u8> = Vec::new();
    for (tag, value) in entries {
        dynamic
            .extend_from_slice(bytes_of(&Dyn64::<LittleEndian> { d_tag: tag.into(), d_val: value.into() }));
    }
    dynamic.resize(4 * size_of::<Dyn64<LittleEndian>>(), 0);
    let segment = |kind, at: u64, size: u64| Segment {
        kind,
        offset: at,
        address: at,
        file_size: size,
        memory_size: size,
        alignment: 8,
        flags: PF_R,
    };
    let segments = [
        segment(PT_LOAD, 0, end),
        segment(PT_DYNAMIC, dynamic_at, dynamic.len() as u64),
        segment(PT_TLS, dynamic_at, 8),
    ];
    let mut bytes = bytes_of(&file_header(ET_DYN, HEADERS as u16, (0, 0), 0)).to_vec();
    for segment in segments {
        bytes.extend_from_slice(bytes_of(&segment.to_raw()));
    }
    for part in [dynamic, table, names] {
        bytes.extend(part);
    }
    bytes
}
