//! Modules that may hold a runtime: files mapped as code, with their mappings.

use std::ops::Range;

use biopsy_elf::MappedElf;
use biopsy_elf::raw::PT_NOTE;
use biopsy_image::{Image, ImageModule, Mapping};

use crate::Memory;

/// Program headers of a module; real files have about a dozen.
const PROGRAM_HEADERS: u64 = 256;
/// Bytes of a note segment that are read.
const NOTES: u64 = 64 << 10;

/// A module with the mappings that lie inside of it, its data behind the file's end included.
#[derive(Clone, Debug)]
pub struct Module<'i> {
    /// What the image says of it.
    pub module: &'i ImageModule,
    mappings: &'i [Mapping],
}

impl<'i> Module<'i> {
    /// All ELF modules of the image, by address.
    pub fn all(image: &'i dyn Image) -> impl Iterator<Item = Self> {
        let mappings = image.mappings();
        image.modules().iter().filter(|module| module.is_elf).map(move |module| {
            let first = mappings.partition_point(|one| one.end <= module.start);
            let mut last = mappings.partition_point(|one| one.start < module.end);
            // What the loader adds behind the file for `.bss` has no file, and follows without a gap.
            let mut end = module.end;
            while let Some(next) = mappings.get(last).filter(|next| {
                next.start == end && next.protection.write && next.path().is_none() && !is_heap(next)
            }) {
                end = next.end;
                last += 1;
            }
            Self { module, mappings: mappings.get(first..last).unwrap_or_default() }
        })
    }

    /// File name of the module.
    #[must_use]
    pub fn file_name(&self) -> &'i [u8] {
        self.module.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
    }

    /// Ranges that the process may write: data and `.bss`.
    pub fn writable(&self) -> impl Iterator<Item = Range<u64>> {
        self.mappings.iter().filter(|one| one.protection.write).map(Mapping::range)
    }

    /// Ranges that it may only read or execute.
    pub fn constant(&self) -> impl Iterator<Item = Range<u64>> {
        self.mappings.iter().filter(|one| !one.protection.write && one.protection.read).map(Mapping::range)
    }

    /// Whether it has a note of this owner.
    #[must_use]
    pub fn has_note(&self, memory: &Memory<'_>, owner: &[u8]) -> bool {
        let read = |address, buffer: &mut [u8]| memory.read_available(address, buffer);
        let Ok(elf) = MappedElf::read(&read, self.module.start, PROGRAM_HEADERS) else { return false };
        elf.of(PT_NOTE).any(|segment| {
            let bytes = elf.bytes(segment.address, segment.file_size.min(NOTES));
            biopsy_elf::notes(&bytes).any(|note| note.owner == owner)
        })
    }
}

fn is_heap(mapping: &Mapping) -> bool {
    matches!(&mapping.backing, biopsy_image::Backing::Anonymous { label } if label == "[heap]")
}
