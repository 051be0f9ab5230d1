//! A builder of small ELF files: right ones, for tests to damage.

use object::elf::{
    DT_GNU_HASH, DT_HASH, DT_NULL, DT_STRSZ, DT_STRTAB, DT_SYMTAB, Dyn64, DynamicTag, ET_DYN, PF_R, PF_W,
    PF_X, PT_DYNAMIC, PT_LOAD, ProgramType, SHT_NULL, SHT_STRTAB, SectionFlags, SectionHeader64, SectionType,
    Sym64, SymbolInfo, SymbolOther, SymbolSection, gnu_hash,
};

use crate::{FileHeader, LittleEndian, Segment, bytes_of, file_header};

/// Room for program headers.
const SEGMENTS: usize = 12;
const CONTENTS: usize = FileHeader::SIZE as usize + SEGMENTS * Segment::HEADER_SIZE as usize;

/// Builds a file for x86-64 of one segment that is loaded, all of it, at a stated address.
#[derive(Clone, Debug)]
pub struct ElfBuilder {
    base: u64,
    contents: Vec<u8>,
    segments: Vec<(ProgramType, u64, u64)>,
    sections: Vec<(String, SectionHeader64<LittleEndian>)>,
}

/// How symbols are found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hash {
    /// `DT_GNU_HASH`.
    Gnu,
    /// `DT_HASH`.
    Old,
    /// Not at all.
    None,
}

impl ElfBuilder {
    /// A file whose first byte is stated to be at `base`.
    #[must_use]
    pub fn new(base: u64) -> Self {
        let mut built =
            Self { base, contents: vec![0; CONTENTS], segments: Vec::new(), sections: Vec::new() };
        built.header("", SHT_NULL, SectionFlags::default(), (0, 0), 0);
        built
    }

    /// Appends bytes and gives their offset.
    pub fn append(&mut self, bytes: &[u8]) -> u64 {
        self.contents.resize(self.contents.len().next_multiple_of(8), 0);
        let at = self.contents.len() as u64;
        self.contents.extend_from_slice(bytes);
        at
    }

    /// The stated address of an offset.
    #[must_use]
    pub fn address(&self, offset: u64) -> u64 {
        self.base.wrapping_add(offset)
    }

    /// Adds a segment that is not loaded by itself, as notes are.
    #[must_use]
    pub fn segment(mut self, kind: ProgramType, bytes: &[u8]) -> Self {
        let at = self.append(bytes);
        self.segments.push((kind, at, bytes.len() as u64));
        self
    }

    /// Adds a section; `link` is the number of another one, the first added has 1.
    #[must_use]
    pub fn section(
        mut self,
        name: &str,
        kind: SectionType,
        flags: SectionFlags,
        link: u32,
        bytes: &[u8],
    ) -> Self {
        let at = self.append(bytes);
        self.header(name, kind, flags, (at, bytes.len() as u64), link);
        self
    }

    fn header(&mut self, name: &str, kind: SectionType, flags: SectionFlags, at: (u64, u64), link: u32) {
        let header = SectionHeader64 {
            sh_name: 0.into(),
            sh_type: kind.into(),
            sh_flags: flags.into(),
            sh_addr: if at.0 == 0 { 0 } else { self.address(at.0) }.into(),
            sh_offset: at.0.into(),
            sh_size: at.1.into(),
            sh_link: link.into(),
            sh_info: 0.into(),
            sh_addralign: 8.into(),
            sh_entsize: 0.into(),
        };
        self.sections.push((name.to_owned(), header));
    }

    /// Adds a dynamic section of these entries and the one that ends it.
    #[must_use]
    pub fn dynamic(self, entries: &[(DynamicTag, u64)]) -> Self {
        let entries = entries.iter().chain([&(DT_NULL, 0)]);
        let entry = |&(tag, value): &(DynamicTag, u64)| Dyn64::<LittleEndian> {
            d_tag: tag.into(),
            d_val: value.into(),
        };
        let bytes: Vec<u8> = entries.flat_map(|one| bytes_of(&entry(one)).to_vec()).collect();
        self.segment(PT_DYNAMIC, &bytes)
    }

    /// Adds symbols for dynamic linking (name, stated address, size), their names, and what they are found by. `shift` is what a
    /// loader has added to the addresses of the dynamic section.
    #[must_use]
    pub fn symbols(mut self, symbols: &[(&str, u64, u64)], hash: Hash, shift: u64) -> Self {
        let mut names = vec![0];
        let mut table = vec![0; size_of::<Sym64<LittleEndian>>()];
        for (name, address, size) in symbols {
            let symbol = Sym64::<LittleEndian> {
                st_name: (names.len() as u32).into(),
                st_info: SymbolInfo(0x12),
                st_other: SymbolOther(0),
                st_shndx: SymbolSection(1).into(),
                st_value: (*address).into(),
                st_size: (*size).into(),
            };
            table.extend_from_slice(bytes_of(&symbol));
            names.extend_from_slice(name.as_bytes());
            names.push(0);
        }
        let count = symbols.len() as u32 + 1;
        let (tag, words) = match hash {
            // One bucket, so that all are in one chain; nothing in the filter, which is not asked.
            Hash::Gnu => {
                let last = symbols.len().saturating_sub(1);
                let chain = |(index, one): (usize, &(&str, u64, u64))| {
                    gnu_hash(one.0.as_bytes()) & !1 | u32::from(index == last)
                };
                let chain = symbols.iter().enumerate().map(chain);
                (Some(DT_GNU_HASH), [1, 1, 1, 6, 0, 0, 1].into_iter().chain(chain).collect::<Vec<u32>>())
            }
            Hash::Old => (Some(DT_HASH), vec![1, count]),
            Hash::None => (None, Vec::new()),
        };
        let hash: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let hash = self.append(&hash);
        let (table, size) = (self.append(&table), names.len() as u64);
        let names = self.append(&names);
        let mut entries = vec![(DT_SYMTAB, table), (DT_STRTAB, names)];
        entries.extend(tag.map(|tag| (tag, hash)));
        for (_, value) in &mut entries {
            *value = self.address(*value).wrapping_add(shift);
        }
        entries.push((DT_STRSZ, size));
        self.dynamic(&entries)
    }

    /// The bytes of the file.
    ///
    /// # Panics
    /// When there are more segments than there is room for.
    #[must_use]
    pub fn build(mut self) -> Vec<u8> {
        assert!(self.segments.len() < SEGMENTS, "too many segments");
        let mut names = vec![0];
        self.header(".shstrtab", SHT_STRTAB, SectionFlags::default(), (0, 0), 0);
        for (name, header) in &mut self.sections {
            header.sh_name = (names.len() as u32).into();
            names.extend_from_slice(name.as_bytes());
            names.push(0);
        }
        let at = self.append(&names);
        if let Some((_, header)) = self.sections.last_mut() {
            (header.sh_offset, header.sh_size) = (at.into(), (names.len() as u64).into());
        }
        let headers: Vec<u8> = self.sections.iter().flat_map(|(_, one)| bytes_of(one).to_vec()).collect();
        let sections = self.append(&headers);
        let size = self.contents.len() as u64;
        self.segments.insert(0, (PT_LOAD, 0, size));
        let count = self.sections.len() as u16;
        let header = file_header(ET_DYN, self.segments.len() as u16, (sections, count), count - 1);
        let mut head = bytes_of(&header).to_vec();
        for &(kind, offset, size) in &self.segments {
            let flags = PF_R | PF_W | PF_X;
            let address = self.base.wrapping_add(offset);
            let segment =
                Segment { kind, flags, offset, address, file_size: size, memory_size: size, alignment: 8 };
            head.extend_from_slice(bytes_of(&segment.to_raw()));
        }
        self.contents[..head.len()].copy_from_slice(&head);
        self.contents
    }
}
