//! ELF files as far as unwinding and symbols need them, read by position and within limits.

pub(crate) mod bytes;
mod cache;
mod call_frames;
mod error;
mod limits;
mod mapped;
mod section;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use biopsy_elf::raw::{Machine, PF_W, PT_LOAD, PT_NOTE, ProgramType, SHT_NOTE, Sym64};
use biopsy_elf::{FileHeader, LittleEndian, Section, Segment, place_of};
use biopsy_files::Links;
use biopsy_model::{FileOffset, Svma};

pub use bytes::FileIdentity;
pub use cache::ElfCache;
pub use error::ElfError;
pub use limits::Limits;
pub(crate) use mapped::Parts;

use crate::unwind::UnwindTable;
use bytes::Bytes;

/// Notes of a program are a few hundred bytes; only this much of each is looked at.
const NOTE_BYTES: u64 = 64 << 10;

/// Bytes of one row of a symbol table.
pub(crate) const SYMBOL_BYTES: u64 = size_of::<Sym64<LittleEndian>>() as u64;

/// One ELF file: its headers in memory, the rest read when asked for. Shared by all processes that map it.
#[derive(Debug)]
pub struct ElfFile {
    bytes: Bytes,
    machine: Machine,
    segments: Vec<Segment>,
    sections: Vec<Section>,
    limits: Limits,
    unwind: OnceLock<UnwindTable>,
    build_id: OnceLock<Option<Vec<u8>>>,
}

impl ElfFile {
    /// Opens a regular file and reads its headers.
    pub fn open(path: &Path, links: Links, limits: &Limits) -> Result<Self, ElfError> {
        Self::new(Bytes::open(path, links)?, limits)
    }

    /// A file that is open already. `label` appears in errors only.
    pub fn from_file(label: &Path, file: File, limits: &Limits) -> Result<Self, ElfError> {
        Self::new(Bytes::from_file(label, file)?, limits)
    }

    /// An image that is in memory, as the vdso is. `label` appears in errors only.
    pub fn from_bytes(label: &str, bytes: impl Into<Arc<[u8]>>, limits: &Limits) -> Result<Self, ElfError> {
        Self::new(Bytes::from_memory(label, bytes.into()), limits)
    }

    fn new(bytes: Bytes, limits: &Limits) -> Result<Self, ElfError> {
        let problem = |problem| bytes.problem(problem);
        let header = FileHeader::read(&bytes, 0).map_err(problem)?;
        let segments = header.read_segments(&bytes, limits.segments).map_err(problem)?;
        check_whole(&bytes, &header, &segments, limits)?;
        // A running program needs no section headers: without them there is still unwind information, found through
        // the program headers. So a damaged section table is not an error of the file.
        let sections = header.read_sections(&bytes, limits.sections, limits.section_names);
        let sections = sections.ok().filter(|read| read.len() as u64 == header.sections.count);
        Ok(Self::with_headers(bytes, header.machine, segments, sections.unwrap_or_default(), limits))
    }

    fn with_headers(
        bytes: Bytes,
        machine: Machine,
        segments: Vec<Segment>,
        sections: Vec<Section>,
        limits: &Limits,
    ) -> Self {
        let (unwind, build_id) = (OnceLock::new(), OnceLock::new());
        Self { bytes, machine, segments, sections, limits: *limits, unwind, build_id }
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        self.bytes.label()
    }

    /// `e_machine`.
    pub fn machine(&self) -> Machine {
        self.machine
    }

    /// Which contents these are; `None` for an image in memory.
    pub fn identity(&self) -> Option<FileIdentity> {
        self.bytes.identity()
    }

    /// Inode number; `None` for an image in memory.
    pub fn inode(&self) -> Option<u64> {
        self.bytes.identity().map(FileIdentity::inode)
    }

    /// GNU build id, 1 to 64 bytes.
    pub fn build_id(&self) -> Option<&[u8]> {
        self.build_id.get_or_init(|| self.find_build_id()).as_deref()
    }

    fn find_build_id(&self) -> Option<Vec<u8>> {
        // Sections first: a separate debug file keeps the program headers of the original, whose offsets do not
        // hold in it.
        let sections = self.sections.iter().filter(|section| section.kind == SHT_NOTE && section.has_bytes());
        let segments = self.segment(PT_NOTE).map(|segment| (segment.offset, segment.file_size));
        sections.map(|section| (section.offset, section.size)).chain(segments).find_map(|(offset, size)| {
            let notes = self.read_up_to("notes", offset, size.min(NOTE_BYTES)).ok()?;
            biopsy_elf::build_id(&notes).map(<[u8]>::to_vec)
        })
    }

    /// Bytes of it that are held in memory: zero for a file.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.bytes.held()
    }

    /// The two have the same headers: entry point, segments. What tells files without a build id apart.
    pub(crate) fn same_headers(&self, other: &Self) -> bool {
        let head = |file: &Self| file.bytes.read_up_to("headers", 0, FileHeader::SIZE).unwrap_or_default();
        let ours = head(self);
        ours.len() as u64 == FileHeader::SIZE && ours == head(other) && self.segments == other.segments
    }

    /// The stated address of the byte at `offset` of the file: through the executable segment that holds it, or
    /// else any loaded segment. This is where files whose `p_vaddr` differs from `p_offset` (lld, mold, Go,
    /// prelink) go wrong when the difference is taken to be zero.
    pub fn svma_of_offset(&self, offset: FileOffset) -> Option<Svma> {
        let holds = |segment: &&Segment| {
            // The kernel maps whole pages: a mapping may begin up to a page before the segment does.
            let page_start = segment.offset & !0xfff;
            page_start <= offset.0 && offset.0 < segment.offset.saturating_add(segment.file_size.max(1))
        };
        let mut loads = self.loads().filter(holds);
        let segment = loads.clone().find(|segment| segment.is_executable()).or_else(|| loads.next())?;
        Some(Svma(segment.address.wrapping_add(offset.0.wrapping_sub(segment.offset))))
    }

    /// The address lies in an executable segment. Debug files keep the segments of their program, but not the bytes.
    pub(crate) fn is_code(&self, svma: Svma) -> bool {
        // The last address of all belongs to nobody, and adding to it overflows.
        svma.0 != u64::MAX
            && self
                .loads()
                .any(|load| load.is_executable() && svma.0.wrapping_sub(load.address) < load.memory_size)
    }

    /// Up to `size` bytes of code at a stated address.
    pub(crate) fn code_at(&self, svma: u64, size: u64) -> Option<Vec<u8>> {
        let code: Vec<Segment> = self.loads().filter(|load| load.is_executable()).copied().collect();
        let (offset, room) = place_of(&code, svma)?;
        self.read_up_to("code", offset, size.min(room)).ok()
    }

    /// Where in the file the code at a stated address is.
    pub(crate) fn offset_of_code(&self, svma: u64) -> Option<u64> {
        let code: Vec<Segment> = self.loads().filter(|load| load.is_executable()).copied().collect();
        place_of(&code, svma).map(|(offset, _)| offset)
    }

    /// Up to `size` bytes at a stated address that no running program changes.
    pub(crate) fn constant_at(&self, svma: u64, size: u64) -> Option<Vec<u8>> {
        let constant: Vec<Segment> =
            self.loads().filter(|load| !load.flags.contains(PF_W)).copied().collect();
        let (offset, room) = place_of(&constant, svma)?;
        self.read_up_to("constants", offset, size.min(room)).ok()
    }

    /// The file's DWARF unwind information, read on first use.
    pub(crate) fn unwind_table(&self) -> &UnwindTable {
        self.unwind.get_or_init(|| self.read_unwind_table())
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn loads(&self) -> impl Iterator<Item = &Segment> + Clone {
        self.segments.iter().filter(|segment| segment.kind == PT_LOAD)
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    pub(crate) fn segment(&self, kind: ProgramType) -> impl Iterator<Item = &Segment> {
        self.segments.iter().filter(move |segment| segment.kind == kind)
    }

    pub(crate) fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// The first section of this name that has bytes here.
    pub(crate) fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.name == name && section.has_bytes())
    }

    /// CRC-32 of the whole file, as `.gnu_debuglink` has it; `None` above `limit` bytes.
    pub(crate) fn checksum(&self, limit: u64) -> Option<u32> {
        const CHUNK: u64 = 1 << 20;
        if self.bytes.len() > limit {
            return None;
        }
        let mut hasher = crc32fast::Hasher::new();
        let mut offset = 0;
        while offset < self.bytes.len() {
            let chunk = self.bytes.read_up_to("file", offset, CHUNK).ok()?;
            hasher.update(&chunk);
            offset += chunk.len() as u64;
        }
        Some(hasher.finalize())
    }

    pub(crate) fn read(
        &self,
        what: &'static str,
        offset: u64,
        size: u64,
        limit: u64,
    ) -> Result<Vec<u8>, ElfError> {
        self.bytes.read(what, offset, size, limit)
    }

    pub(crate) fn read_up_to(&self, what: &'static str, offset: u64, size: u64) -> Result<Vec<u8>, ElfError> {
        self.bytes.read_up_to(what, offset, size)
    }
}

/// All program headers are needed: with some of them missing, addresses would be taken for those of other segments.
fn check_whole(
    bytes: &Bytes,
    header: &FileHeader,
    segments: &[Segment],
    limits: &Limits,
) -> Result<(), ElfError> {
    let count = header.segments.count;
    if segments.len() as u64 == count {
        return Ok(());
    }
    let (path, what) = (bytes.label().to_owned(), "program headers");
    let size = count.saturating_mul(header.segments.row.into());
    if count > limits.segments {
        let limit = limits.segments * Segment::HEADER_SIZE;
        return Err(ElfError::TooLarge { path, what, size, limit });
    }
    Err(ElfError::CutShort { path, what, offset: header.segments.at, size, available: bytes.len() })
}

/// GNU build id of an open file; `Ok(None)` when it has none. `path` appears in errors only.
pub fn build_id(path: &Path, file: File) -> Result<Option<Vec<u8>>, ElfError> {
    Ok(ElfFile::from_file(path, file, &Limits::default())?.build_id().map(<[u8]>::to_vec))
}

/// The first of `candidates` that opens as ELF.
pub(crate) fn open_first(
    label: &str,
    candidates: &[PathBuf],
    links: Links,
    limits: &Limits,
) -> Result<ElfFile, ElfError> {
    let mut last = None;
    for path in candidates {
        match ElfFile::open(path, links, limits) {
            Ok(file) => return Ok(file),
            Err(error) => last = Some(Box::new(error)),
        }
    }
    Err(ElfError::NoCandidate { label: label.to_owned(), count: candidates.len(), last })
}
