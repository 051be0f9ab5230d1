//! The file header.
//!
//! ```text
//! 0    4   5   6        16     18         32      40                54  56    58  60    62
//! 7fELF cls enc ver .... type   machine .. phoff   shoff flags ehsz  phentsz phnum shentsz shnum shstrndx
//! ```

use object::elf::{
    ELFCLASS64, ELFDATA2LSB, ELFMAG, ELFOSABI_SYSV, EM_X86_64, EV_CURRENT, FileFlags, FileHeader64, FileType,
    Machine, PN_XNUM, ProgramHeader64, SHN_XINDEX, SectionHeader64, SymbolSection,
};
use object::pod::Pod;

use crate::source::{STEP, read_up_to, rows};
use crate::{LE, LittleEndian, Problem, Source};

/// The first bytes of a file: enough to tell which kind of ELF it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ident {
    /// `EI_CLASS`: 1 for 32-bit, 2 for 64-bit.
    pub class: u8,
    /// `EI_DATA`: 1 for little-endian, 2 for big-endian.
    pub encoding: u8,
    /// `e_machine`; 0 where the file ends before.
    pub machine: u16,
}

impl Ident {
    /// Of the file that begins with these bytes; `None` when it is no ELF file.
    #[must_use]
    pub fn of(start: &[u8]) -> Option<Self> {
        let &[class, encoding, ref rest @ ..] = start.strip_prefix(&ELFMAG)? else { return None };
        let machine =
            rest.get(12..14).and_then(|two| two.first_chunk()).map_or(0, |two| u16::from_le_bytes(*two));
        Some(Self { class, encoding, machine })
    }

    /// 64-bit little-endian, which is what is read.
    #[must_use]
    pub fn is_read(self) -> bool {
        self.class == ELFCLASS64.0 && self.encoding == ELFDATA2LSB.0
    }
}

/// Where a table is, as the header says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Table {
    /// Offset in the file, or address where the header was read from memory.
    pub at: u64,
    /// Size in bytes of a row.
    pub row: u16,
    /// How many rows it claims.
    pub count: u64,
}

/// What is needed of the file header, with the numbers that do not fit it resolved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileHeader {
    /// `e_type`.
    pub kind: FileType,
    /// `e_machine`.
    pub machine: Machine,
    /// Program headers.
    pub segments: Table,
    /// Section headers.
    pub sections: Table,
    /// Number of the section that holds the names of sections.
    pub names: u32,
}

impl FileHeader {
    /// Size of the header in bytes.
    pub const SIZE: u64 = size_of::<FileHeader64<LittleEndian>>() as u64;

    /// Reads the header of the file that begins at `start`: 0, or where it is mapped.
    ///
    /// # Errors
    /// When it is no ELF file, is not 64-bit little-endian, or is cut off; and what the source says.
    pub fn read<S: Source + ?Sized>(source: &S, start: u64) -> Result<Self, Problem<S::Error>> {
        let bytes = read_up_to(source, start, Self::SIZE).map_err(Problem::Source)?;
        if !bytes.starts_with(&ELFMAG) {
            return Err(Problem::NotElf);
        }
        let found = bytes.len() as u64;
        let cut = Problem::CutShort { what: "the file header", at: start, size: Self::SIZE, found };
        let Some(ident) = Ident::of(&bytes) else { return Err(cut) };
        let Ident { class, encoding, machine } = ident;
        if !ident.is_read() {
            return Err(Problem::Unsupported { class, encoding, machine });
        }
        let [raw] = rows::<FileHeader64<LittleEndian>>(&bytes) else { return Err(cut) };
        let table = |offset: u64, row: u16, count: u16| Table {
            at: start.wrapping_add(offset),
            row,
            count: count.into(),
        };
        let mut header = Self {
            kind: raw.e_type.get(LE),
            machine: raw.e_machine.get(LE),
            segments: table(raw.e_phoff.get(LE), raw.e_phentsize.get(LE), raw.e_phnum.get(LE)),
            sections: table(raw.e_shoff.get(LE), raw.e_shentsize.get(LE), raw.e_shnum.get(LE)),
            names: raw.e_shstrndx.get(LE).0.into(),
        };
        if raw.e_shoff.get(LE) == 0 {
            header.sections = Table::default();
        }
        header.resolve(source, start.wrapping_add(raw.e_shoff.get(LE)))?;
        Ok(header)
    }

    /// Numbers that do not fit 16 bits are in the first section header (gABI, "Sections"; `PN_XNUM` in `elf(5)`), which
    /// is at `at`. Without it there are no sections; but how many program headers there are must be known.
    fn resolve<S: Source + ?Sized>(&mut self, source: &S, at: u64) -> Result<(), Problem<S::Error>> {
        const SIZE: u64 = size_of::<SectionHeader64<LittleEndian>>() as u64;
        let many_segments = self.segments.count == u64::from(PN_XNUM);
        let many_sections = self.sections.at != 0 && self.sections.count == 0;
        let far_names = self.sections.at != 0 && self.names == u32::from(SHN_XINDEX.0);
        if !(many_segments || many_sections || far_names) {
            return Ok(());
        }
        let bytes = read_up_to(source, at, SIZE).map_err(Problem::Source)?;
        let [first] = rows::<SectionHeader64<LittleEndian>>(&bytes) else {
            self.sections = Table::default();
            let (what, found) = ("the first section header", bytes.len() as u64);
            let cut = Problem::CutShort { what, at, size: SIZE, found };
            return if many_segments { Err(cut) } else { Ok(()) };
        };
        if many_segments {
            self.segments.count = first.sh_info.get(LE).into();
        }
        if many_sections {
            self.sections.count = first.sh_size.get(LE);
        }
        if far_names {
            self.names = first.sh_link.get(LE);
        }
        Ok(())
    }
}

/// The header of a file for x86-64 whose program headers follow it. `sections`: where section headers are and how many; `names`: the
/// number of the one with their names.
#[must_use]
pub fn file_header(
    kind: FileType,
    segments: u16,
    sections: (u64, u16),
    names: u16,
) -> FileHeader64<LittleEndian> {
    let row = if sections.1 == 0 { 0 } else { size_of::<SectionHeader64<LittleEndian>>() as u16 };
    FileHeader64 {
        e_ident: object::elf::Ident {
            magic: ELFMAG,
            class: ELFCLASS64,
            data: ELFDATA2LSB,
            version: EV_CURRENT,
            os_abi: ELFOSABI_SYSV,
            abi_version: 0,
            padding: [0; 7],
        },
        e_type: kind.into(),
        e_machine: EM_X86_64.into(),
        e_version: u32::from(EV_CURRENT.0).into(),
        e_entry: 0.into(),
        e_phoff: FileHeader::SIZE.into(),
        e_shoff: sections.0.into(),
        e_flags: FileFlags::default().into(),
        e_ehsize: (FileHeader::SIZE as u16).into(),
        e_phentsize: (size_of::<ProgramHeader64<LittleEndian>>() as u16).into(),
        e_phnum: segments.into(),
        e_shentsize: row.into(),
        e_shnum: sections.1.into(),
        e_shstrndx: SymbolSection(names).into(),
    }
}

impl Table {
    /// The rows that are there, at most `most`, each as `of` takes it.
    pub(crate) fn read<S: Source + ?Sized, T: Pod, R>(
        &self,
        source: &S,
        what: &'static str,
        most: u64,
        of: impl Fn(&T) -> R,
    ) -> Result<Vec<R>, Problem<S::Error>> {
        let (row, size) = (u64::from(self.row), size_of::<T>());
        let count = self.count.min(most);
        if count > 0 && !(size as u64..=LARGEST_ROW).contains(&row) {
            return Err(Problem::RowSize { what, size: self.row });
        }
        let mut found = Vec::new();
        while (found.len() as u64) < count {
            let step = (count - found.len() as u64).min(STEP / row);
            let at = self.at.saturating_add((found.len() as u64).saturating_mul(row));
            let bytes = read_up_to(source, at, step * row).map_err(Problem::Source)?;
            if found.is_empty() && (bytes.len() as u64) < row {
                return Err(Problem::CutShort { what, at, size: row, found: bytes.len() as u64 });
            }
            let of_row = |bytes: &[u8]| rows::<T>(bytes).first().map(&of);
            found.extend(bytes.chunks_exact(row as usize).filter_map(of_row));
            if (bytes.len() as u64) < step * row {
                break;
            }
        }
        Ok(found)
    }
}

/// Largest row in bytes that is believed; no writer has more than the structures of `elf.h`.
const LARGEST_ROW: u64 = 256;
