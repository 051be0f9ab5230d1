//! Where everything is in the file.

use std::ops::Range;

use biopsy_elf::raw::{
    ET_CORE, PF_R, PN_XNUM, PT_LOAD, PT_NOTE, ProgramFlags, SHT_NULL, SectionFlags, SectionHeader64,
};
use biopsy_elf::{FileHeader, LittleEndian, Segment, bytes_of, file_header};

use super::contents::{Contents, Piece, Source, State};
use super::{Class, ClassBytes, CoreError, CoreOptions, notes};
use crate::vendor::{END_NOTE_SIZE, MissingRange};
use crate::{Image, PAGE_SIZE, Protection};

/// Bytes that are read, compressed and written at once, and the contents of one frame.
pub(super) const BLOCK: u64 = 1024 * 1024;

type Section = SectionHeader64<LittleEndian>;

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
        let many = segments >= usize::from(PN_XNUM);
        let section_at = FileHeader::SIZE + Segment::HEADER_SIZE * segments as u64;
        let headers = section_at + if many { size_of::<Section>() as u64 } else { 0 };
        let notes_size = notes::build(image, options, &left_out, 0).len() as u64;
        let body_start = (headers + notes_size).next_multiple_of(PAGE_SIZE);

        let (offsets, end_note, frozen_end, classes) = place(&pieces, body_start);
        let notes = notes::build(image, options, &left_out, end_note);

        let mut header = Vec::with_capacity(usize::try_from(body_start).unwrap_or(0));
        let count = u16::try_from(segments).unwrap_or(PN_XNUM);
        let section = if many { (section_at, 1) } else { (0, 0) };
        header.extend_from_slice(bytes_of(&file_header(ET_CORE, count, section, 0)));
        let mut put = |segment: Segment| header.extend_from_slice(bytes_of(&segment.to_raw()));
        let note = |offset, file_size| Segment {
            kind: PT_NOTE,
            flags: PF_R,
            offset,
            address: 0,
            file_size,
            memory_size: 0,
            alignment: 4,
        };
        put(note(headers, notes_size));
        for (piece, &offset) in pieces.iter().zip(&offsets) {
            let load = Segment {
                kind: PT_LOAD,
                flags: flags(piece.protection),
                offset,
                address: piece.range.start,
                file_size: if matches!(piece.state, State::Present(..)) { piece.size() } else { 0 },
                memory_size: piece.size(),
                alignment: PAGE_SIZE,
            };
            put(load);
        }
        put(note(end_note, END_NOTE_SIZE));
        if many {
            header.extend_from_slice(bytes_of(&section_header(segments)));
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

fn flags(protection: Protection) -> ProgramFlags {
    let Protection { read, write, execute } = protection;
    ProgramFlags(u32::from(read) << 2 | u32::from(write) << 1 | u32::from(execute))
}

/// The one section header that says how many program headers there are (elf(5), PN_XNUM).
fn section_header(segments: usize) -> Section {
    Section {
        sh_name: 0.into(),
        sh_type: SHT_NULL.into(),
        sh_flags: SectionFlags::default().into(),
        sh_addr: 0.into(),
        sh_offset: 0.into(),
        sh_size: 1.into(),
        sh_link: 0.into(),
        sh_info: u32::try_from(segments).unwrap_or(u32::MAX).into(),
        sh_addralign: 0.into(),
        sh_entsize: 0.into(),
    }
}
