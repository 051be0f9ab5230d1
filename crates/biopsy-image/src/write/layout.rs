//! Where everything is in the file.

use std::ops::Range;

use super::contents::{Contents, Piece, Source, State};
use super::{Class, ClassBytes, CoreError, CoreOptions, notes};
use crate::vendor::{END_NOTE_SIZE, MissingRange};
use crate::{Image, PAGE_SIZE, Protection};

/// Bytes that are read, compressed and written at once, and the contents of one frame.
pub(super) const BLOCK: u64 = 1024 * 1024;

/// Sizes of ELF structures (`<elf.h>`).
const ELF_HEADER: u64 = 64;
const PROGRAM_HEADER: u64 = 56;
const SECTION_HEADER: u64 = 64;
/// `e_phnum` that says "look into the first section header".
const PN_XNUM: usize = 0xffff;
const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
const PF_R: u32 = 4;

/// Memory at its place in the file.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    /// In the file.
    pub(super) offset: u64,
    pub(super) address: u64,
    pub(super) length: u64,
    pub(super) source: Source,
}

/// The file: headers and notes as bytes, memory by reference, then the end note.
#[derive(Debug)]
pub(super) struct Layout {
    header: Vec<u8>,
    /// By offset.
    body: Vec<Placed>,
    end_note: u64,
    /// End in the file of what must be read from the frozen process.
    frozen_end: u64,
    classes: ClassBytes,
    left_out: Vec<MissingRange>,
    segments: usize,
}

impl Layout {
    pub(super) fn new(
        image: &dyn Image,
        options: &CoreOptions,
        contents: Contents,
    ) -> Result<Self, CoreError> {
        let pieces = contents.pieces;
        let left_out = left_out(&pieces);
        let segments = pieces.len() + 2;
        if u32::try_from(segments).is_err() {
            return Err(CoreError::TooManySegments { count: segments });
        }
        let many = segments >= PN_XNUM;
        let headers = ELF_HEADER + PROGRAM_HEADER * segments as u64 + if many { SECTION_HEADER } else { 0 };
        let notes_size = notes::build(image, options, &left_out, 0).len() as u64;
        let body_start = (headers + notes_size).next_multiple_of(PAGE_SIZE);

        let (offsets, end_note, frozen_end, classes) = place(&pieces, body_start);
        let notes = notes::build(image, options, &left_out, end_note);

        let mut header = Vec::with_capacity(usize::try_from(body_start).unwrap_or(0));
        elf_header(&mut header, segments, many);
        program_header(&mut header, PT_NOTE, PF_R, headers, 0, notes_size, 0, 4);
        for (piece, &offset) in pieces.iter().zip(&offsets) {
            let in_file = if matches!(piece.state, State::Present(..)) { piece.size() } else { 0 };
            let flags = flags(piece.protection);
            program_header(
                &mut header,
                PT_LOAD,
                flags,
                offset,
                piece.range.start,
                in_file,
                piece.size(),
                PAGE_SIZE,
            );
        }
        program_header(&mut header, PT_NOTE, PF_R, end_note, 0, END_NOTE_SIZE, 0, 4);
        if many {
            section_header(&mut header, segments);
        }
        header.extend_from_slice(&notes);

        let mut body: Vec<Placed> = pieces
            .iter()
            .zip(&offsets)
            .filter_map(|(piece, &offset)| match piece.state {
                State::Present(_, source) => {
                    Some(Placed { offset, address: piece.range.start, length: piece.size(), source })
                }
                State::Absent(_) => None,
            })
            .collect();
        body.sort_unstable_by_key(|placed| placed.offset);
        Ok(Self { header, body, end_note, frozen_end, classes, left_out, segments })
    }

    /// Size of the uncompressed file in bytes.
    pub(super) fn file_size(&self) -> u64 {
        self.end_note + END_NOTE_SIZE
    }

    /// Where the end note is: behind all memory.
    pub(super) fn end_note(&self) -> u64 {
        self.end_note
    }

    pub(super) fn class_bytes(&self) -> ClassBytes {
        self.classes
    }

    pub(super) fn segments(&self) -> usize {
        self.segments
    }

    pub(super) fn left_out(&self) -> &[MissingRange] {
        &self.left_out
    }

    /// Blocks before the end note.
    pub(super) fn blocks(&self) -> u64 {
        self.end_note.div_ceil(BLOCK)
    }

    /// Blocks, the first ones, that hold memory of the frozen process.
    pub(super) fn frozen_blocks(&self) -> u64 {
        self.frozen_end.div_ceil(BLOCK)
    }

    /// The bytes of the file that are block `index`.
    pub(super) fn block(&self, index: u64) -> Range<u64> {
        let start = index.saturating_mul(BLOCK).min(self.end_note);
        start..start.saturating_add(BLOCK).min(self.end_note)
    }

    /// Headers and notes.
    pub(super) fn header(&self) -> &[u8] {
        &self.header
    }

    /// Memory in a range of the file: parts cut to it, by offset.
    pub(super) fn memory_in(&self, range: Range<u64>) -> impl Iterator<Item = Placed> + '_ {
        let first = self.body.partition_point(|placed| placed.offset + placed.length <= range.start);
        let rest = self.body.get(first..).unwrap_or_default();
        let end = range.end;
        rest.iter().take_while(move |placed| placed.offset < end).map(move |placed| {
            let from = placed.offset.max(range.start);
            let to = (placed.offset + placed.length).min(range.end);
            Placed {
                offset: from,
                address: placed.address + (from - placed.offset),
                length: to - from,
                source: placed.source,
            }
        })
    }
}

/// Offsets of the pieces in the file, by importance; then where memory ends, where that of the frozen process ends, and how
/// much there is of each class. Absent pieces have the offset of the first byte of memory.
fn place(pieces: &[Piece], start: u64) -> (Vec<u64>, u64, u64, ClassBytes) {
    let mut offsets = vec![start; pieces.len()];
    let mut classes = ClassBytes::default();
    let mut at = start;
    let mut frozen_end = start;
    for class in Class::ALL {
        for (piece, offset) in pieces.iter().zip(&mut offsets) {
            if matches!(piece.state, State::Present(of, _) if of == class) {
                *offset = at;
                at += piece.size();
                classes.add(class, piece.size());
                if class.needs_freeze() {
                    frozen_end = at;
                }
            }
        }
    }
    (offsets, at, frozen_end, classes)
}

/// Absent pieces, neighbours with one reason joined.
pub(super) fn left_out(pieces: &[Piece]) -> Vec<MissingRange> {
    let mut ranges: Vec<MissingRange> = Vec::new();
    for piece in pieces {
        let State::Absent(reason) = piece.state else { continue };
        match ranges.last_mut() {
            Some(last) if last.reason == reason && last.range.end == piece.range.start => {
                last.range.end = piece.range.end;
            }
            _ => ranges.push(MissingRange { range: piece.range.clone(), reason }),
        }
    }
    ranges
}

fn flags(protection: Protection) -> u32 {
    u32::from(protection.read) << 2 | u32::from(protection.write) << 1 | u32::from(protection.execute)
}

/// `Elf64_Ehdr` of a core for x86-64.
fn elf_header(out: &mut Vec<u8>, segments: usize, many: bool) {
    out.extend_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    let section_headers = if many { ELF_HEADER + PROGRAM_HEADER * segments as u64 } else { 0 };
    let count = if many { PN_XNUM } else { segments } as u16;
    out.extend_from_slice(&4u16.to_le_bytes()); // ET_CORE
    out.extend_from_slice(&62u16.to_le_bytes()); // EM_X86_64
    out.extend_from_slice(&1u32.to_le_bytes());
    for word in [0, ELF_HEADER, section_headers] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(&0u32.to_le_bytes());
    let (entry, number) = if many { (SECTION_HEADER as u16, 1) } else { (0, 0) };
    for half in [ELF_HEADER as u16, PROGRAM_HEADER as u16, count, entry, number, 0] {
        out.extend_from_slice(&half.to_le_bytes());
    }
}

#[expect(clippy::too_many_arguments, reason = "the fields of Elf64_Phdr")]
fn program_header(
    out: &mut Vec<u8>,
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    in_file: u64,
    in_memory: u64,
    align: u64,
) {
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&flags.to_le_bytes());
    for word in [offset, address, 0, in_file, in_memory, align] {
        out.extend_from_slice(&word.to_le_bytes());
    }
}

/// The one section header that says how many program headers there are (elf(5), PN_XNUM).
fn section_header(out: &mut Vec<u8>, segments: usize) {
    let count = u32::try_from(segments).unwrap_or(u32::MAX);
    out.extend_from_slice(&[0; 8]); // sh_name, SHT_NULL
    for word in [0u64, 0, 0, 1] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(&0u32.to_le_bytes());
    out.extend_from_slice(&count.to_le_bytes()); // sh_info
    out.extend_from_slice(&[0; 16]);
}
