//! The parts of mapped ELF files that name them and say how to unwind them: headers, notes with the build id, the dynamic
//! section, exported symbols, `.eh_frame_hdr` and `.eh_frame`.

use std::ops::Range;

use biopsy_elf::raw::{
    DT_GNU_HASH, DT_HASH, DT_STRSZ, DT_STRTAB, DT_SYMTAB, PT_DYNAMIC, PT_GNU_EH_FRAME, PT_INTERP, PT_NOTE,
};
use biopsy_elf::{MappedElf, place_of};

use super::super::Class;
use super::place::Place;
use super::wanted::Wanted;
use crate::{Backing, Image, MemoryExt};

/// Most bytes of unwind rules of one module: Chromium's are 20 MB.
const MOST_UNWIND: u64 = 32 * 1024 * 1024;
/// Most bytes of exported symbols of one module; libc's are 0.1 MB, and what is larger is a program with `-rdynamic`.
const MOST_SYMBOLS: u64 = 2 * 1024 * 1024;
/// Most bytes of a note or dynamic section.
const MOST_SMALL: u64 = 64 * 1024;
/// Most program headers of one file.
const MOST_HEADERS: u64 = 1024;
/// Unwind rules are read in steps of this many bytes to find their end.
const STEP: usize = 64 * 1024;

/// Adds these parts of every mapped ELF file. Shared memory that holds one is not looked at: reading a page of it that nobody
/// has touched would make it.
pub(super) fn find(image: &dyn Image, wanted: &mut Wanted) {
    for mapping in image.mappings() {
        let at_start = matches!(&mapping.backing, Backing::File { offset: 0, .. });
        let safe = match Place::of(mapping) {
            Place::File => true,
            Place::MemoryFile => !mapping.shared,
            Place::Memory | Place::Kernel | Place::Device | Place::Unreadable => false,
        };
        if at_start && safe && !wanted.is_full() {
            find_in_one(image, mapping.start, wanted);
        }
    }
}

fn find_in_one(image: &dyn Image, start: u64, wanted: &mut Wanted) {
    let read = |at, buffer: &mut [u8]| image.read_available(at, buffer);
    let Ok(file) = MappedElf::read(&read, start, MOST_HEADERS) else { return };
    let table = file.header.segments;
    if table.count > MOST_HEADERS {
        return;
    }
    wanted.add(start, 1, Class::Modules);
    wanted.add(table.at, table.count * u64::from(table.row), Class::Modules);
    if !file.is_whole() || file.bias.is_none() {
        return;
    }
    for segment in &file.segments {
        let mut add =
            |most| wanted.add(file.actual(segment.address), segment.file_size.min(most), Class::Modules);
        let part = match segment.kind {
            PT_NOTE | PT_INTERP => {
                add(MOST_SMALL);
                None
            }
            PT_DYNAMIC => {
                add(MOST_SMALL);
                symbols(&file)
            }
            PT_GNU_EH_FRAME => {
                add(MOST_UNWIND);
                unwind_rules(image, &file, segment.address)
            }
            _ => None,
        };
        if let Some(part) = part {
            wanted.add(part.start, part.end - part.start, Class::Modules);
        }
    }
}

/// Where `.eh_frame` is, by its header (LSB core, `.eh_frame_hdr`) and the lengths of its entries.
fn unwind_rules(image: &dyn Image, file: &MappedElf<'_>, header: u64) -> Option<Range<u64>> {
    /// Four bytes, signed, relative to where they are.
    const PC_RELATIVE: u8 = 0x1b;
    let start: [u8; 8] = file.bytes(header, 8).try_into().ok()?;
    let [1, PC_RELATIVE, _, _, offset @ ..] = start else { return None };
    let begin = header.checked_add(4)?.checked_add_signed(i64::from(i32::from_le_bytes(offset)))?;
    let (_, room) = place_of(&file.segments, begin)?;
    let begin = file.actual(begin);
    Some(begin..end_of_entries(image, begin, begin.checked_add(room.min(MOST_UNWIND))?))
}

/// Walks entries by their lengths until the one of length 0, or `limit`.
fn end_of_entries(image: &dyn Image, begin: u64, limit: u64) -> u64 {
    let mut at = begin;
    let mut buffer_at = begin;
    let mut buffer: Vec<u8> = Vec::new();
    while at.checked_add(4).is_some_and(|end| end <= limit) {
        let inside = usize::try_from(at - buffer_at).unwrap_or(usize::MAX);
        let word = buffer.get(inside..).and_then(|rest| rest.first_chunk::<4>());
        let Some(word) = word else {
            match image.read_up_to(at, STEP) {
                Ok(bytes) if bytes.len() >= 4 => {
                    buffer = bytes;
                    buffer_at = at;
                    continue;
                }
                _ => return at,
            }
        };
        match u32::from_le_bytes(*word) {
            0 => return at + 4,
            // 64-bit lengths are not used in .eh_frame by any compiler that was seen.
            u32::MAX => return at,
            length => match at.checked_add(4 + u64::from(length)) {
                Some(next) => at = next,
                None => return limit,
            },
        }
    }
    limit
}

/// From the first of hash tables and symbols to the end of their names, when that is one small range as linkers make it.
fn symbols(file: &MappedElf<'_>) -> Option<Range<u64>> {
    let dynamic = file.dynamic()?;
    let address = |tag| Some(file.actual(file.stated(dynamic.value(tag)?)?));
    let first = [DT_HASH, DT_GNU_HASH, DT_SYMTAB].into_iter().filter_map(address).min()?;
    let range = first..address(DT_STRTAB)?.checked_add(dynamic.value(DT_STRSZ)?)?;
    (range.start < range.end && range.end - range.start <= MOST_SYMBOLS).then_some(range)
}
