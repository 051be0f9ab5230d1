//! The few facts wanted of an ELF executable: its class, and what is in a section.

use std::fs::File;

use biopsy_elf::raw::ELFCLASS32;
use biopsy_elf::{FileHeader, Ident, Section, Source, read_up_to};

/// Sections looked at; the largest programs have some hundreds unless built with a section per function.
const MAX_SECTIONS: u64 = 4096;
/// Bytes read of the table of section names.
const MAX_NAMES: u64 = 256 * 1024;

/// An ELF file for 32-bit processors; not, when it cannot be read.
pub(crate) fn is_32_bit(file: &File) -> bool {
    let mut start = [0; 20];
    let read = file.read(0, &mut start).unwrap_or(0);
    Ident::of(&start[..read]).is_some_and(|ident| ident.class == ELFCLASS32.0)
}

/// Finds a section of a little-endian 64-bit file by name.
pub(crate) fn section(file: &File, wanted: &str) -> Option<Section> {
    let sections = FileHeader::read(file, 0).ok()?.read_sections(file, MAX_SECTIONS, MAX_NAMES).ok()?;
    sections.into_iter().find(|section| section.name == wanted)
}

/// Reads up to `limit` bytes of a section.
pub(crate) fn section_bytes(file: &File, name: &str, limit: u64) -> Option<Vec<u8>> {
    let section = section(file, name)?;
    read_up_to(file, section.offset, section.size.min(limit)).ok()
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
        let size = (end - at).min(PIECE + overlap);
        let piece = read_up_to(file, section.offset.checked_add(at)?, size).ok()?;
        if let Some(hit) = memchr::memmem::find(&piece, needle) {
            let after = piece.get(hit + needle.len()..)?;
            return after.get(..rest.min(after.len())).map(<[u8]>::to_vec);
        }
        if (piece.len() as u64) < size {
            break;
        }
        at += PIECE;
    }
    None
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;

    use biopsy_elf::raw::{SHT_PROGBITS, SectionFlags};
    use biopsy_elf::testing::ElfBuilder;
    use proptest::prelude::*;

    use super::*;

    fn file_of(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    pub(crate) fn with_section(name: &str, contents: &[u8]) -> Vec<u8> {
        ElfBuilder::new(0).section(name, SHT_PROGBITS, SectionFlags::default(), 0, contents).build()
    }

    #[test]
    fn sections_by_name() {
        let file = file_of(&with_section(".test", b"abc version v1.2 def"));
        assert!(!is_32_bit(&file));
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
        let is = |bytes: &[u8]| is_32_bit(&file_of(bytes));
        assert!(is(b"\x7fELF\x01\x01") && !is(b"\x7fELF\x02\x01") && !is(b"#!/bin/sh") && !is(b""));
    }

    proptest! {
        #[test]
        fn any_damage_is_survived(at in 0_usize..1200, byte in any::<u8>(), cut in 0_usize..1200) {
            let mut bytes = with_section(".test", b"abc");
            let length = bytes.len();
            bytes[at % length] = byte;
            bytes.truncate(cut);
            let file = file_of(&bytes);
            let _ = (is_32_bit(&file), section_bytes(&file, ".test", 10), find_in_section(&file, ".test", b"b", 2, 10));
        }
    }
}
