//! The parts of mapped ELF files that name them and say how to unwind them: headers, notes with the build id, the dynamic
//! section, exported symbols, `.eh_frame_hdr` and `.eh_frame`.

use std::ops::Range;

use biopsy_bytes::Cursor;

use super::super::Class;
use super::place::Place;
use super::wanted::Wanted;
use crate::{Backing, Image, MemoryExt};

/// Types of program headers (`<elf.h>`).
const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const PT_NOTE: u32 = 4;
const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
/// Tags of the dynamic section.
const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_STRSZ: u64 = 10;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
/// Most bytes of unwind rules of one module: Chromium's are 20 MB.
const MOST_UNWIND: u64 = 32 * 1024 * 1024;
/// Most bytes of exported symbols of one module; libc's are 0.1 MB, and what is larger is a program with `-rdynamic`.
const MOST_SYMBOLS: u64 = 2 * 1024 * 1024;
/// Most bytes of a note or dynamic section.
const MOST_SMALL: u64 = 64 * 1024;
/// Most program headers of one file.
const MOST_HEADERS: u16 = 1024;
/// Unwind rules are read in steps of this many bytes to find their end.
const STEP: usize = 64 * 1024;

/// A program header, its address already that in memory.
#[derive(Clone, Copy, Debug)]
struct Header {
    kind: u32,
    address: u64,
    in_file: u64,
}

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
            find_in_one(image, mapping.range(), wanted);
        }
    }
}

fn find_in_one(image: &dyn Image, range: Range<u64>, wanted: &mut Wanted) {
    let Some(headers) = read_headers(image, &range, wanted) else { return };
    for header in &headers {
        match header.kind {
            PT_NOTE | PT_INTERP => wanted.add(header.address, header.in_file.min(MOST_SMALL), Class::Modules),
            PT_DYNAMIC => {
                let size = header.in_file.min(MOST_SMALL);
                wanted.add(header.address, size, Class::Modules);
                if let Some(symbols) = symbols(image, range.start, header.address, size) {
                    wanted.add(symbols.start, symbols.end - symbols.start, Class::Modules);
                }
            }
            PT_GNU_EH_FRAME => {
                wanted.add(header.address, header.in_file.min(MOST_UNWIND), Class::Modules);
                if let Some(rules) = unwind_rules(image, header.address, &headers) {
                    wanted.add(rules.start, rules.end - rules.start, Class::Modules);
                }
            }
            _ => {}
        }
    }
}

/// The program headers of the ELF file whose first byte is mapped at the start of `range`; `None` when it is none.
fn read_headers(image: &dyn Image, range: &Range<u64>, wanted: &mut Wanted) -> Option<Vec<Header>> {
    let mut start = [0; 64];
    image.read_exact(range.start, &mut start).ok()?;
    if !start.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let mut cursor = Cursor::new(start.get(32..)?);
    let offset = cursor.u64("e_phoff").ok()?;
    cursor.skip("to e_phentsize", 14).ok()?;
    let size = cursor.u16("e_phentsize").ok()?;
    let count = cursor.u16("e_phnum").ok()?;
    if size != 56 || count > MOST_HEADERS {
        return None;
    }
    let length = u64::from(count) * u64::from(size);
    wanted.add(range.start, 1, Class::Modules);
    let table = range.start.checked_add(offset)?;
    wanted.add(table, length, Class::Modules);
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    image.read_exact(table, &mut bytes).ok()?;
    let mut headers = Vec::with_capacity(usize::from(count));
    let mut bias = None;
    let mut cursor = Cursor::new(&bytes);
    for _ in 0..count {
        let kind = cursor.u32("p_type").ok()?;
        cursor.skip("p_flags", 4).ok()?;
        let offset = cursor.u64("p_offset").ok()?;
        let address = cursor.u64("p_vaddr").ok()?;
        cursor.skip("p_paddr", 8).ok()?;
        let in_file = cursor.u64("p_filesz").ok()?;
        cursor.skip("p_memsz, p_align", 16).ok()?;
        if kind == PT_LOAD && offset < 4096 && bias.is_none() {
            bias = Some(range.start.wrapping_sub(address.wrapping_sub(offset)));
        }
        headers.push(Header { kind, address, in_file });
    }
    let bias = bias?;
    for header in &mut headers {
        header.address = header.address.wrapping_add(bias);
    }
    Some(headers)
}

/// Where `.eh_frame` is, by its header (LSB core, `.eh_frame_hdr`) and the lengths of its entries.
fn unwind_rules(image: &dyn Image, header: u64, headers: &[Header]) -> Option<Range<u64>> {
    /// Four bytes, signed, relative to where they are.
    const PC_RELATIVE: u8 = 0x1b;
    let mut start = [0; 8];
    image.read_exact(header, &mut start).ok()?;
    let [1, PC_RELATIVE, _, _, offset @ ..] = start else { return None };
    let begin = header.checked_add(4)?.checked_add_signed(i64::from(i32::from_le_bytes(offset)))?;
    let segment = headers.iter().find(|one| {
        one.kind == PT_LOAD && begin.checked_sub(one.address).is_some_and(|inside| inside < one.in_file)
    })?;
    let limit = segment.address.checked_add(segment.in_file)?.min(begin.checked_add(MOST_UNWIND)?);
    Some(begin..end_of_entries(image, begin, limit))
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
fn symbols(image: &dyn Image, base: u64, dynamic: u64, size: u64) -> Option<Range<u64>> {
    let bytes = image.read_up_to(dynamic, usize::try_from(size).ok()?).ok()?;
    let (mut first, mut names, mut length) = (None::<u64>, None, None);
    for entry in bytes.as_chunks::<16>().0 {
        let mut cursor = Cursor::new(entry);
        let tag = cursor.u64("d_tag").ok()?;
        let value = cursor.u64("d_val").ok()?;
        // glibc relocates these in place, musl and the vdso do not.
        let address = if value < base { value.checked_add(base)? } else { value };
        match tag {
            0 => break,
            DT_HASH | DT_GNU_HASH | DT_SYMTAB => first = Some(first.map_or(address, |one| one.min(address))),
            DT_STRTAB => names = Some(address),
            DT_STRSZ => length = Some(value),
            _ => {}
        }
    }
    let range = first?..names?.checked_add(length?)?;
    (range.start < range.end && range.end - range.start <= MOST_SYMBOLS).then_some(range)
}
