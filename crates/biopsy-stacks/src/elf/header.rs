//! Headers of an ELF file (System V gABI, chapters 4 and 5), 64-bit little-endian.
//!
//! ```text
//! 0    4   5   6        16     18         32      40                54  56    58  60    62
//! 7fELF cls enc ver .... type   machine .. phoff   shoff flags ehsz  phentsz phnum shentsz shnum shstrndx
//! ```

use super::bytes::Bytes;
use super::{ElfError, Limits};

/// `e_machine` of x86-64.
pub const EM_X86_64: u16 = 62;
/// `e_machine` of aarch64.
pub const EM_AARCH64: u16 = 183;

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_NOTE: u32 = 4;
const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
const PF_X: u32 = 1;
const SHT_NOBITS: u32 = 8;
const SHF_EXECINSTR: u64 = 4;
const SHF_COMPRESSED: u64 = 0x800;

pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    bytes.get(offset..)?.first_chunk().map(|chunk| u16::from_le_bytes(*chunk))
}

pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().map(|chunk| u32::from_le_bytes(*chunk))
}

pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    bytes.get(offset..)?.first_chunk().map(|chunk| u64::from_le_bytes(*chunk))
}

/// A program header that is of use here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) kind: SegmentKind,
    pub(crate) executable: bool,
    pub(crate) offset: u64,
    pub(crate) svma: u64,
    pub(crate) file_size: u64,
    pub(crate) memory_size: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SegmentKind {
    Load,
    Dynamic,
    Note,
    EhFrameHeader,
}

/// A section header.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub(crate) name: String,
    pub(crate) kind: u32,
    pub(crate) compressed: bool,
    pub(crate) executable: bool,
    pub(crate) svma: u64,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) link: u32,
}

impl Section {
    /// The section has bytes in this file (debug files keep headers of sections whose bytes they left out).
    pub(crate) fn has_bytes(&self) -> bool {
        self.kind != SHT_NOBITS && self.size > 0
    }
}

#[derive(Debug)]
pub(crate) struct Headers {
    pub(crate) machine: u16,
    pub(crate) segments: Vec<Segment>,
    pub(crate) sections: Vec<Section>,
}

pub(crate) fn parse(bytes: &Bytes, limits: &Limits) -> Result<Headers, ElfError> {
    let not_elf = || ElfError::NotElf { path: bytes.label().to_owned() };
    let header = bytes.read_up_to("file header", 0, 64)?;
    if !header.starts_with(b"\x7fELF") || header.len() < 64 {
        return Err(not_elf());
    }
    let field16 = |offset| u16_at(&header, offset).unwrap_or(0);
    let field64 = |offset| u64_at(&header, offset).unwrap_or(0);
    let (class, encoding, machine) = (header[4], header[5], field16(18));
    if class != 2 || encoding != 1 {
        return Err(ElfError::Unsupported { path: bytes.label().to_owned(), class, encoding, machine });
    }
    let segments = parse_segments(bytes, field64(32), field16(54), field16(56), limits)?;
    // A running program needs no section headers: without them there is still unwind information, found through
    // the program headers. So a damaged section table is not an error of the file.
    let sections =
        parse_sections(bytes, field64(40), field16(58), field16(60), field16(62), limits).unwrap_or_default();
    Ok(Headers { machine, segments, sections })
}

fn parse_segments(
    bytes: &Bytes,
    offset: u64,
    entry: u16,
    count: u16,
    limits: &Limits,
) -> Result<Vec<Segment>, ElfError> {
    if count == 0 || entry < 56 {
        return Ok(Vec::new());
    }
    let size = u64::from(entry) * u64::from(count);
    let table = bytes.read("program headers", offset, size, limits.segments * 64)?;
    let parsed = table.chunks_exact(usize::from(entry)).filter_map(|raw| {
        let kind = match u32_at(raw, 0)? {
            PT_LOAD => SegmentKind::Load,
            PT_DYNAMIC => SegmentKind::Dynamic,
            PT_NOTE => SegmentKind::Note,
            PT_GNU_EH_FRAME => SegmentKind::EhFrameHeader,
            _ => return None,
        };
        Some(Segment {
            kind,
            executable: u32_at(raw, 4)? & PF_X != 0,
            offset: u64_at(raw, 8)?,
            svma: u64_at(raw, 16)?,
            file_size: u64_at(raw, 32)?,
            memory_size: u64_at(raw, 40)?,
        })
    });
    Ok(parsed.collect())
}

fn parse_sections(
    bytes: &Bytes,
    offset: u64,
    entry: u16,
    count: u16,
    names: u16,
    limits: &Limits,
) -> Result<Vec<Section>, ElfError> {
    if offset == 0 || entry < 64 {
        return Ok(Vec::new());
    }
    // Files with 0xff00 sections and more keep the numbers in the first header (gABI, "Sections").
    let first = bytes.read("first section header", offset, 64, 64)?;
    let count = if count == 0 { u64_at(&first, 32).unwrap_or(0) } else { u64::from(count) };
    let names = if names == 0xffff { u32_at(&first, 40).unwrap_or(0) } else { u32::from(names) };
    let size = u64::from(entry).saturating_mul(count);
    let table = bytes.read("section headers", offset, size, limits.sections * 64)?;
    let rows: Vec<&[u8]> = table.chunks_exact(usize::from(entry)).collect();
    let name_bytes = match rows.get(names as usize) {
        Some(row) => {
            let (offset, size) = (u64_at(row, 24).unwrap_or(0), u64_at(row, 32).unwrap_or(0));
            bytes.read("section names", offset, size, limits.section_names)?
        }
        None => Vec::new(),
    };
    let parsed = rows.iter().filter_map(|row| {
        Some(Section {
            name: name_at(&name_bytes, u32_at(row, 0)? as usize),
            kind: u32_at(row, 4)?,
            compressed: u64_at(row, 8)? & SHF_COMPRESSED != 0,
            executable: u64_at(row, 8)? & SHF_EXECINSTR != 0,
            svma: u64_at(row, 16)?,
            offset: u64_at(row, 24)?,
            size: u64_at(row, 32)?,
            link: u32_at(row, 40)?,
        })
    });
    Ok(parsed.collect())
}

/// The NUL-terminated name at `offset`, cut at 64 bytes: longer than any section that is looked for.
fn name_at(names: &[u8], offset: usize) -> String {
    let tail = names.get(offset..).unwrap_or(&[]);
    let end = tail.iter().take(64).position(|byte| *byte == 0).unwrap_or(tail.len().min(64));
    String::from_utf8_lossy(&tail[..end]).into_owned()
}
