//! Program headers: which part of a file goes where in memory.

use object::elf::{PF_X, PT_LOAD, ProgramFlags, ProgramHeader64, ProgramType};

use crate::{FileHeader, LE, LittleEndian, Problem, Source, Table};

/// A program header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// `p_type`.
    pub kind: ProgramType,
    /// `p_flags`.
    pub flags: ProgramFlags,
    /// Where it is in the file.
    pub offset: u64,
    /// Stated address.
    pub address: u64,
    /// Bytes in the file.
    pub file_size: u64,
    /// Bytes in memory.
    pub memory_size: u64,
    /// `p_align`: its addresses are multiples of it, as far as its place in the file allows; 0 and 1: of nothing.
    pub alignment: u64,
}

impl Segment {
    /// Size in bytes of a program header.
    pub const HEADER_SIZE: u64 = size_of::<ProgramHeader64<LittleEndian>>() as u64;

    fn of(raw: &ProgramHeader64<LittleEndian>) -> Self {
        Self {
            kind: raw.p_type.get(LE),
            flags: raw.p_flags.get(LE),
            offset: raw.p_offset.get(LE),
            address: raw.p_vaddr.get(LE),
            file_size: raw.p_filesz.get(LE),
            memory_size: raw.p_memsz.get(LE),
            alignment: raw.p_align.get(LE),
        }
    }

    /// As it is in a file.
    #[must_use]
    pub fn to_raw(&self) -> ProgramHeader64<LittleEndian> {
        ProgramHeader64 {
            p_type: self.kind.into(),
            p_flags: self.flags.into(),
            p_offset: self.offset.into(),
            p_vaddr: self.address.into(),
            p_paddr: 0.into(),
            p_filesz: self.file_size.into(),
            p_memsz: self.memory_size.into(),
            p_align: self.alignment.into(),
        }
    }

    /// It is loaded into memory.
    #[must_use]
    pub fn is_load(&self) -> bool {
        self.kind == PT_LOAD
    }

    /// It is code.
    #[must_use]
    pub fn is_executable(&self) -> bool {
        self.flags.contains(PF_X)
    }
}

impl FileHeader {
    /// The program headers that are there, at most `most`: fewer than `self.segments.count` where the file is cut off.
    ///
    /// # Errors
    /// When not even one of them is there, or their size is wrong; and what the source says.
    pub fn read_segments<S: Source + ?Sized>(
        &self,
        source: &S,
        most: u64,
    ) -> Result<Vec<Segment>, Problem<S::Error>> {
        segments_at(source, self.segments, most)
    }
}

/// Program headers that somebody else says the place of, as the kernel does in the auxiliary vector.
///
/// # Errors
/// As [`FileHeader::read_segments`].
pub fn segments_at<S: Source + ?Sized>(
    source: &S,
    table: Table,
    most: u64,
) -> Result<Vec<Segment>, Problem<S::Error>> {
    table.read(source, "the program headers", most, Segment::of)
}

/// Where the file has the byte of a stated address, and how many more of its segment follow it, itself included.
#[must_use]
pub fn place_of(segments: &[Segment], address: u64) -> Option<(u64, u64)> {
    let into = |load: &Segment| address.wrapping_sub(load.address);
    let load = segments.iter().find(|one| one.is_load() && into(one) < one.file_size)?;
    Some((load.offset.checked_add(into(load))?, load.file_size - into(load)))
}
