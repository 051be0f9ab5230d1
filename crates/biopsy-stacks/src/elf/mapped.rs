//! An ELF file put together from the memory of a process that maps it: headers, notes, unwind information and the symbols
//! for dynamic linking. Code and data are not copied. Section headers are not mapped; the two that are of use here
//! are made from `PT_DYNAMIC`.

use biopsy_elf::raw::{
    DT_STRSZ, DT_STRTAB, DT_SYMTAB, PT_GNU_EH_FRAME, PT_NOTE, SHT_DYNSYM, SHT_STRTAB, SectionFlags,
    SectionType,
};
use biopsy_elf::{MappedElf, ReadMemory, Section, place_of};
use gimli::{BaseAddresses, EhFrameHdr, LittleEndian};

use super::bytes::Bytes;
use super::{ElfError, ElfFile, Limits, SYMBOL_BYTES, check_whole};

/// The file header and the program headers behind it: real files need about a kilobyte.
const HEADERS: usize = 4096;
/// Notes are a few hundred bytes.
const NOTES: u64 = 64 << 10;
/// Symbols for dynamic linking of one file with their names, in bytes: libLLVM, the largest met, has 8 MB.
const SYMBOLS: u64 = 64 << 20;

/// How much is copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Parts {
    /// Headers and notes.
    Identity,
    /// Unwind information and symbols too.
    All,
}

impl ElfFile {
    /// The file whose first byte is mapped at `start`. `label` appears in errors only. `parts`: with unwind information and
    /// symbols, or only what tells which file it is.
    pub(crate) fn from_mapped(
        label: &str,
        start: u64,
        read: &ReadMemory<'_>,
        limits: &Limits,
        parts: Parts,
    ) -> Result<Self, ElfError> {
        let mut first = vec![0; HEADERS];
        let there = read(start, &mut first);
        first.truncate(there);
        let head = Bytes::from_pieces(label, vec![(0, first.clone())]);
        let file =
            MappedElf::read(read, start, limits.segments).map_err(|problem| head.problem(problem.widen()))?;
        check_whole(&head, &file.header, &file.segments, limits)?;
        let mut copy = Copy { file, limits, pieces: vec![(0, first)] };
        copy.notes();
        let mut sections = Vec::new();
        if parts == Parts::All {
            copy.unwind_information();
            sections = copy.symbols().unwrap_or_default();
        }
        let Copy { file: MappedElf { header, segments, .. }, pieces, .. } = copy;
        Ok(Self::with_headers(Bytes::from_pieces(label, pieces), header.machine, segments, sections, limits))
    }
}

struct Copy<'a> {
    file: MappedElf<'a>,
    limits: &'a Limits,
    pieces: Vec<(u64, Vec<u8>)>,
}

impl Copy<'_> {
    /// Keeps a piece; says where it lies in the file.
    fn keep(&mut self, svma: u64, size: u64) -> Option<(u64, u64)> {
        let (offset, _) = place_of(&self.file.segments, svma)?;
        let bytes = self.file.bytes(svma, size);
        let kept = bytes.len() as u64;
        self.pieces.push((offset, bytes));
        Some((offset, kept))
    }

    fn notes(&mut self) {
        let notes: Vec<_> =
            self.file.of(PT_NOTE).map(|note| (note.address, note.file_size)).take(16).collect();
        for (svma, size) in notes {
            self.keep(svma, size.min(NOTES));
        }
    }

    /// The index and what it points to, up to the end of the segment: its length is not stated.
    fn unwind_information(&mut self) {
        let Some(index) = self.file.of(PT_GNU_EH_FRAME).next().copied() else { return };
        if index.file_size > self.limits.unwind {
            return;
        }
        self.keep(index.address, index.file_size);
        let header = self.file.bytes(index.address, index.file_size);
        let bases = BaseAddresses::default().set_eh_frame_hdr(index.address);
        let parsed = EhFrameHdr::new(&header, LittleEndian).parse(&bases, 8);
        let Some(frames) = parsed.ok().and_then(|parsed| parsed.eh_frame_ptr().direct().ok()) else { return };
        self.keep(frames, self.limits.unwind);
    }

    fn symbols(&mut self) -> Option<Vec<Section>> {
        let dynamic = self.file.dynamic()?;
        let svma = |tag| self.file.stated(dynamic.value(tag)?);
        let (symbols, names) = (svma(DT_SYMTAB)?, svma(DT_STRTAB)?);
        let (names_size, count) = (dynamic.value(DT_STRSZ)?, self.file.symbol_count(&dynamic)?);
        let size = count.min(self.limits.symbols).saturating_mul(SYMBOL_BYTES);
        if size > SYMBOLS || names_size > SYMBOLS {
            return None;
        }
        let (table, strings) = (self.keep(symbols, size)?, self.keep(names, names_size)?);
        let section = |name: &str, kind, address, (offset, size), link| Section {
            name: name.to_owned(),
            kind,
            flags: SectionFlags::default(),
            address,
            offset,
            size,
            link,
        };
        Some(vec![
            section("", SectionType::default(), 0, (0, 0), 0),
            section(".dynsym", SHT_DYNSYM, symbols, (table.0, table.1 / SYMBOL_BYTES * SYMBOL_BYTES), 2),
            section(".dynstr", SHT_STRTAB, names, strings, 0),
        ])
    }
}
