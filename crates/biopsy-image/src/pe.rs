//! Headers of PE files, which is what .NET assemblies are, on disk or in memory: the crate `object` reads them, within limits.
//!
//! They are the same at the beginning of a file and at the beginning of an image; where their addresses lead differs, and is
//! asked by address or by offset ([`PeHeaders::offset_of`]).

use object::LittleEndian as LE;
use object::pe::{IMAGE_NT_OPTIONAL_HDR64_MAGIC, ImageDosHeader, ImageNtHeaders32, ImageNtHeaders64};
use object::read::pe::{ImageNtHeaders, ImageOptionalHeader, optional_header_magic};

/// Structures and constants of `winnt.h`.
pub use object::pe as raw;

/// Sections that are taken; the format allows 65,535, real files have less than 10.
const SECTIONS: usize = 96;
/// Data directories.
const DIRECTORIES: usize = 16;

/// A section.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PeSection {
    /// Relative virtual address.
    pub rva: u32,
    /// Bytes in memory.
    pub memory_bytes: u32,
    /// Where it is in the file.
    pub file_offset: u32,
    /// Bytes in the file.
    pub file_bytes: u32,
}

/// The headers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeHeaders {
    /// `SizeOfImage`: bytes in memory.
    pub image_bytes: u32,
    /// `SizeOfHeaders`.
    pub header_bytes: u32,
    /// The sections.
    pub sections: Vec<PeSection>,
    directories: [(u32, u32); DIRECTORIES],
}

/// Why there are no headers.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("it is no PE file that can be read: {0}")]
pub struct NotPe(String);

impl PeHeaders {
    /// Bytes of a file or image in which all headers are; real ones have less than 1 KiB.
    pub const HEAD: usize = 4096;

    /// Of the file or image that begins with these bytes.
    ///
    /// # Errors
    /// When it is no PE file, or the headers are not all in these bytes.
    pub fn parse(head: &[u8]) -> Result<Self, NotPe> {
        let parsed = optional_header_magic(head).and_then(|magic| match magic {
            IMAGE_NT_OPTIONAL_HDR64_MAGIC => Self::of::<ImageNtHeaders64>(head),
            _ => Self::of::<ImageNtHeaders32>(head),
        });
        parsed.map_err(|error| NotPe(error.to_string()))
    }

    fn of<Pe: ImageNtHeaders>(head: &[u8]) -> object::Result<Self> {
        let mut at = ImageDosHeader::parse(head)?.nt_headers_offset().into();
        let (headers, directories) = Pe::parse(head, &mut at)?;
        let sections = headers.sections(head, at)?;
        let section = |one: &object::pe::ImageSectionHeader| PeSection {
            rva: one.virtual_address.get(LE),
            memory_bytes: one.virtual_size.get(LE),
            file_offset: one.pointer_to_raw_data.get(LE),
            file_bytes: one.size_of_raw_data.get(LE),
        };
        let mut found = Self {
            image_bytes: headers.optional_header().size_of_image(),
            header_bytes: headers.optional_header().size_of_headers(),
            sections: sections.iter().take(SECTIONS).map(section).collect(),
            directories: [(0, 0); DIRECTORIES],
        };
        for (slot, directory) in found.directories.iter_mut().zip(directories.iter()) {
            *slot = directory.address_range();
        }
        Ok(found)
    }

    /// Relative virtual address and bytes of a data directory, `IMAGE_DIRECTORY_ENTRY_*`; `None` when it is empty.
    #[must_use]
    pub fn directory(&self, number: usize) -> Option<(u32, u32)> {
        self.directories.get(number).copied().filter(|(rva, size)| *rva != 0 && *size != 0)
    }

    /// Where a relative virtual address is in the file.
    #[must_use]
    pub fn offset_of(&self, rva: u32) -> Option<u64> {
        self.sections.iter().find_map(|section| {
            let into = rva.checked_sub(section.rva)?;
            let is_in = into < section.memory_bytes.max(section.file_bytes);
            is_in.then(|| u64::from(section.file_offset) + u64::from(into))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Headers of one section at 0x2000, 0x100 bytes in memory and 0x80 at 0x400 in the file; `wide`: of PE32+.
    fn headers(wide: bool) -> Vec<u8> {
        let mut out = vec![0; 0x400];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, b"MZ");
        put(0x3c, &0x80u32.to_le_bytes());
        put(0x80, b"PE\0\0\x64\x86\x01\0");
        let (magic, fixed) = if wide { (0x20b_u16, 112_u16) } else { (0x10b, 96) };
        put(0x94, &(fixed + 16 * 8).to_le_bytes());
        put(0x98, &magic.to_le_bytes());
        put(0x98 + 56, &0x4000u32.to_le_bytes());
        put(0x98 + 60, &0x400u32.to_le_bytes());
        let directories = 0x98 + usize::from(fixed);
        put(directories - 4, &16u32.to_le_bytes());
        put(directories + 14 * 8, &[0x2000u32, 72].map(u32::to_le_bytes).concat());
        let section = directories + 16 * 8;
        put(section + 8, &[0x100u32, 0x2000, 0x80, 0x400].map(u32::to_le_bytes).concat());
        out
    }

    #[test]
    fn headers_of_both_widths_are_read() {
        for wide in [false, true] {
            let read = PeHeaders::parse(&headers(wide)).unwrap();
            assert_eq!((read.image_bytes, read.header_bytes), (0x4000, 0x400));
            let section =
                PeSection { rva: 0x2000, memory_bytes: 0x100, file_offset: 0x400, file_bytes: 0x80 };
            assert_eq!(read.sections, [section]);
            assert_eq!(
                (read.directory(14), read.directory(6), read.directory(99)),
                (Some((0x2000, 72)), None, None)
            );
            assert_eq!(
                (read.offset_of(0x2010), read.offset_of(0x2100), read.offset_of(0)),
                (Some(0x410), None, None)
            );
        }
    }

    #[test]
    fn what_is_cut_or_something_else_is_refused() {
        assert_eq!(
            PeHeaders::parse(b"\x7fELF").unwrap_err().to_string(),
            "it is no PE file that can be read: Invalid DOS header size or alignment"
        );
        for wide in [false, true] {
            let whole = headers(wide);
            let end = if wide { 0x98 + 240 + 40 } else { 0x98 + 224 + 40 };
            for length in 0..end {
                assert!(PeHeaders::parse(&whole[..length]).is_err(), "{length}");
            }
            assert!(PeHeaders::parse(&whole[..end]).is_ok());
            for at in (0..end).step_by(2) {
                for worst in [0_u16, 0x8000, u16::MAX] {
                    let mut bytes = whole.clone();
                    bytes[at..at + 2].copy_from_slice(&worst.to_le_bytes());
                    let read = PeHeaders::parse(&bytes);
                    assert!(read.is_ok_and(|read| read.sections.len() <= SECTIONS) || at < end);
                }
            }
        }
    }
}
