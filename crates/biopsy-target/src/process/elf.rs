//! The few facts wanted of an ELF executable: its class, and where a section lies.
//!
//! Reads headers only, by position, with limits on everything: the file belongs to the target and is not trusted.
//! The full parser of symbols and unwind tables is in biopsy-stacks.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Sections looked at; the largest programs have some hundreds unless built with a section per function.
const MAX_SECTIONS: u64 = 4096;
/// Bytes read of the table of section names.
const MAX_NAMES: u64 = 256 * 1024;
const SECTION_HEADER: u64 = 64;

/// Width of addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    /// `ELFCLASS32`.
    Bits32,
    /// `ELFCLASS64`.
    Bits64,
}

/// Where a section lies in the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Section {
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

/// Class of an ELF file; `None`: not ELF, or cannot be read.
pub(crate) fn class(file: &File) -> Option<Class> {
    let header = bytes_at(file, 0, 5)?;
    match (header.starts_with(b"\x7fELF"), header.get(4)?) {
        (true, 1) => Some(Class::Bits32),
        (true, 2) => Some(Class::Bits64),
        _ => None,
    }
}

/// Finds a section of a little-endian 64-bit file by name (ELF-64 object file format, sections 2 and 4).
pub(crate) fn section(file: &File, wanted: &str) -> Option<Section> {
    let header = bytes_at(file, 0, 64)?;
    if !header.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let table = u64_at(&header, 40)?;
    let entry = u64::from(u16_at(&header, 58)?);
    let count = u64::from(u16_at(&header, 60)?).min(MAX_SECTIONS);
    let names_index = u64::from(u16_at(&header, 62)?);
    if entry != SECTION_HEADER || names_index >= count {
        return None;
    }
    let headers = bytes_at(file, table, count * SECTION_HEADER)?;
    let nth = |index: u64| {
        let start = usize::try_from(index * SECTION_HEADER).ok()?;
        headers.get(start..start + 64)
    };
    let place = |header: &[u8]| Some(Section { offset: u64_at(header, 24)?, size: u64_at(header, 32)? });
    let names = place(nth(names_index)?)?;
    let names = bytes_at(file, names.offset, names.size.min(MAX_NAMES))?;
    (0..count).filter_map(nth).find_map(|header| {
        let name = names.get(usize::try_from(u32_at(header, 0)?).ok()?..)?;
        let is_wanted = name.strip_prefix(wanted.as_bytes())?.first() == Some(&0);
        if is_wanted { place(header) } else { None }
    })
}

/// Reads up to `limit` bytes of a section.
pub(crate) fn section_bytes(file: &File, name: &str, limit: u64) -> Option<Vec<u8>> {
    let section = section(file, name)?;
    bytes_at(file, section.offset, section.size.min(limit))
}

/// Looks for `needle` in the first `limit` bytes of a section and returns what follows it, up to `rest` bytes.
/// The file is read in pieces, so memory does not grow with it.
pub(crate) fn find_in_section(
    file: &File,
    name: &str,
    needle: &[u8],
    rest: usize,
    limit: u64,
) -> Option<Vec<u8>> {
    const PIECE: u64 = 1 << 20;
    let section = section(file, name)?;
    let overlap = u64::try_from(needle.len() + rest).ok()?;
    let end = section.size.min(limit);
    let mut at = 0;
    while at < end {
        let piece = bytes_at(file, section.offset.checked_add(at)?, (end - at).min(PIECE + overlap))?;
        let first = *needle.first()?;
        let mut from = 0;
        while let Some(hit) = piece.get(from..)?.iter().position(|&byte| byte == first) {
            let tail = piece.get(from + hit..)?;
            if let Some(after) = tail.strip_prefix(needle) {
                return Some(after.get(..rest.min(after.len()))?.to_vec());
            }
            from += hit + 1;
        }
        at += PIECE;
    }
    None
}

/// Exactly `length` bytes; the caller has bounded `length`.
fn bytes_at(file: &File, offset: u64, length: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    file.read_exact_at(&mut bytes, offset).ok()?;
    Some(bytes)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    fn file_of(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    /// A 64-bit little-endian file with one section besides the names.
    pub(crate) fn with_section(name: &str, contents: &[u8]) -> Vec<u8> {
        let names = format!("\0.shstrtab\0{name}\0");
        let contents_at = 64 + names.len();
        let headers_at = contents_at + contents.len();
        let mut out = vec![0; 64];
        out[..6].copy_from_slice(b"\x7fELF\x02\x01");
        out[40..48].copy_from_slice(&(headers_at as u64).to_le_bytes());
        out[58..60].copy_from_slice(&64_u16.to_le_bytes());
        out[60..62].copy_from_slice(&3_u16.to_le_bytes());
        out[62..64].copy_from_slice(&1_u16.to_le_bytes());
        out.extend_from_slice(names.as_bytes());
        out.extend_from_slice(contents);
        for (name, offset, size) in [(0, 0, 0), (1, 64, names.len()), (11, contents_at, contents.len())] {
            let mut header = [0; 64];
            header[..4].copy_from_slice(&u32::to_le_bytes(name));
            header[24..32].copy_from_slice(&(offset as u64).to_le_bytes());
            header[32..40].copy_from_slice(&(size as u64).to_le_bytes());
            out.extend_from_slice(&header);
        }
        out
    }

    #[test]
    fn sections_by_name() {
        let file = file_of(&with_section(".test", b"abc version v1.2 def"));
        assert_eq!(class(&file), Some(Class::Bits64));
        assert_eq!(section_bytes(&file, ".test", 3).unwrap(), b"abc");
        assert_eq!(section(&file, ".tes"), None);
        assert_eq!(find_in_section(&file, ".test", b"version v", 3, 100).unwrap(), b"1.2");
        assert_eq!(find_in_section(&file, ".test", b"version x", 3, 100), None);
    }

    #[test]
    fn needles_across_pieces_are_found() {
        let mut contents = vec![b'v'; (1 << 20) - 2];
        contents.extend_from_slice(b"v-needle:7");
        let file = file_of(&with_section(".big", &contents));
        assert_eq!(find_in_section(&file, ".big", b"-needle:", 4, 1 << 30).unwrap(), b"7");
        assert_eq!(find_in_section(&file, ".big", b"-needle:", 4, 1000), None);
    }

    #[test]
    fn classes() {
        assert_eq!(class(&file_of(b"\x7fELF\x01\x01")), Some(Class::Bits32));
        assert_eq!(class(&file_of(b"#!/bin/sh")), None);
        assert_eq!(class(&file_of(b"")), None);
    }

    proptest! {
        #[test]
        fn any_damage_is_survived(at in 0_usize..300, byte in any::<u8>(), cut in 0_usize..400) {
            let mut bytes = with_section(".test", b"abc");
            let length = bytes.len();
            bytes[at % length] = byte;
            bytes.truncate(cut);
            let file = file_of(&bytes);
            let _ = (class(&file), section_bytes(&file, ".test", 10), find_in_section(&file, ".test", b"b", 2, 10));
        }
    }
}
