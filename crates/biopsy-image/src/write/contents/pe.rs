//! The parts of mapped PE files, which is what .NET assemblies are, that a debugger needs to walk stacks and heaps and to name
//! methods and types where the files are not at hand: headers, metadata, and the unwind data of ReadyToRun code.
//!
//! Found by trying on .NET 10 with the files moved away: without metadata the runtime's data access gives up altogether; without
//! unwind data frames of precompiled methods are lost; without the debug section of ReadyToRun there are no IL offsets, so no line
//! numbers. Nothing else of ReadyToRun is read.

use std::collections::HashSet;
use std::ops::Range;

use biopsy_bytes::Cursor;
use biopsy_elf::{LE, rows};

use super::super::{Class, CoreKind};
use super::place::Place;
use super::wanted::Wanted;
use crate::pe::PeHeaders;
use crate::pe::raw::{
    IMAGE_DIRECTORY_ENTRY_COM_DESCRIPTOR, IMAGE_DIRECTORY_ENTRY_DEBUG, IMAGE_DIRECTORY_ENTRY_EXCEPTION,
    IMAGE_DOS_SIGNATURE as MAGIC, ImageDebugDirectory,
};
use crate::{Backing, Image, MemoryExt};

/// The header of the runtime (`IMAGE_DIRECTORY_ENTRY_COM_DESCRIPTOR`).
const RUNTIME_HEADER: usize = IMAGE_DIRECTORY_ENTRY_COM_DESCRIPTOR;
/// Most bytes of headers.
const MOST_HEADERS: u32 = 64 * 1024;
/// Most bytes of one part.
const MOST_PART: u32 = 64 * 1024 * 1024;
/// Size of the header of ReadyToRun with as many sections as there are kinds of, and more.
const READY_TO_RUN_HEADER: u32 = 16 + 64 * 12;
/// `RTR` and a zero.
const READY_TO_RUN: u32 = 0x0052_5452;
/// Sections that are read (`ReadyToRunSectionType` in the runtime's `readytorun.h`): how code maps to IL, types by name, and names
/// of other assemblies.
const SECTIONS_READ: [u32; 3] = [105, 108, 112];

/// A PE file in memory.
struct PeFile<'a> {
    image: &'a dyn Image,
    base: u64,
    /// Mapped as it is in the file, not section by section.
    flat: bool,
    headers: PeHeaders,
    size_of_headers: u32,
}

/// Adds these parts of every mapped PE file.
pub(super) fn find(image: &dyn Image, kind: CoreKind, wanted: &mut Wanted) {
    let files = || {
        image.mappings().iter().filter_map(|mapping| {
            let at_start = matches!(&mapping.backing, Backing::File { offset: 0, .. });
            let path = mapping.path().filter(|_| at_start && Place::of(mapping) == Place::File)?;
            Some((path, PeFile::open(image, mapping.range())?))
        })
    };
    // The runtime maps an assembly as it is in the file to read its metadata, and section by section to run it. Once both are
    // there, the second is what debuggers read.
    let loaded: HashSet<&[u8]> = files().filter(|(_, file)| !file.flat).map(|(path, _)| path).collect();
    for (path, file) in files() {
        if wanted.is_full() {
            break;
        }
        let twice = file.flat && loaded.contains(path);
        file.find(kind == CoreKind::Stacks || twice, wanted);
    }
}

impl<'a> PeFile<'a> {
    fn open(image: &'a dyn Image, range: Range<u64>) -> Option<Self> {
        let mut magic = [0; 2];
        image.read_exact(range.start, &mut magic).ok().filter(|()| u16::from_le_bytes(magic) == MAGIC)?;
        let head = image.read_up_to(range.start, PeHeaders::HEAD).ok()?;
        let headers = PeHeaders::parse(&head).ok()?;
        let ends = headers.sections.iter().map(|one| u64::from(one.file_offset) + u64::from(one.file_bytes));
        let file_end = ends.max()?;
        let mapped = range.end - range.start;
        let flat = mapped >= file_end;
        let size_of_headers = headers.header_bytes.min(MOST_HEADERS);
        // A section whose contents begin in the first page of the file is mapped from offset 0 too: no start of an image.
        if !flat && mapped > u64::from(size_of_headers).next_multiple_of(4096) {
            return None;
        }
        Some(Self { image, base: range.start, flat, headers, size_of_headers })
    }

    fn find(&self, headers_only: bool, wanted: &mut Wanted) {
        wanted.add(self.base, u64::from(self.size_of_headers.max(1)), Class::Modules);
        // The entries that hold the id of the symbol file (CodeView), and the header of the runtime.
        for directory in [IMAGE_DIRECTORY_ENTRY_DEBUG, RUNTIME_HEADER] {
            self.add(self.headers.directory(directory), wanted);
        }
        self.add_symbol_id(wanted);
        if headers_only {
            return;
        }
        let Some(header) = self.headers.directory(RUNTIME_HEADER).and_then(|(rva, _)| self.read(rva, 72))
        else {
            return;
        };
        let pair = |at: usize| {
            let mut cursor = Cursor::new(header.get(at..)?);
            Some((cursor.u32("rva").ok()?, cursor.u32("size").ok()?))
        };
        self.add(pair(8), wanted);
        if let Some((native, size)) = pair(64).filter(|(rva, _)| *rva != 0) {
            self.add(Some((native, size.clamp(16, READY_TO_RUN_HEADER))), wanted);
            // The flat mapping has it too, but nobody runs the code there.
            if !self.flat {
                self.unwind_data(wanted);
                self.sections_read(native, size, wanted);
            }
        }
    }

    /// `READYTORUN_HEADER`: signature, version, flags, number of sections, then type, address and size of each.
    fn sections_read(&self, rva: u32, size: u32, wanted: &mut Wanted) -> Option<()> {
        let header = self.read(rva, size.min(READY_TO_RUN_HEADER) as usize)?;
        let mut cursor = Cursor::new(&header);
        if cursor.u32("signature").ok()? != READY_TO_RUN {
            return None;
        }
        cursor.skip("version and flags", 8).ok()?;
        for _ in 0..cursor.u32("number of sections").ok()? {
            let kind = cursor.u32("type").ok()?;
            let section = (cursor.u32("rva").ok()?, cursor.u32("size").ok()?);
            self.add(Some(section).filter(|_| SECTIONS_READ.contains(&kind)), wanted);
        }
        Some(())
    }

    /// The table of functions, and the unwind data it points to (which GC information follows).
    fn unwind_data(&self, wanted: &mut Wanted) {
        let Some((rva, size)) = self.headers.directory(IMAGE_DIRECTORY_ENTRY_EXCEPTION) else { return };
        self.add(Some((rva, size)), wanted);
        let Some(table) = self.read(rva, size.min(MOST_PART) as usize) else { return };
        let unwind = table.as_chunks::<12>().0.iter().filter_map(|entry| entry.last_chunk::<4>());
        let unwind = unwind.map(|word| u32::from_le_bytes(*word)).filter(|&rva| rva != 0);
        let (low, high) = unwind.fold((u32::MAX, 0), |(low, high), rva| (low.min(rva), high.max(rva)));
        if let Some(length) = high.checked_sub(low) {
            self.add(Some((low, length.saturating_add(1024))), wanted);
        }
    }

    /// What the debug directory points to.
    fn add_symbol_id(&self, wanted: &mut Wanted) {
        let Some((rva, size)) = self.headers.directory(IMAGE_DIRECTORY_ENTRY_DEBUG) else { return };
        let Some(entries) = self.read(rva, size.min(4096) as usize) else { return };
        for entry in rows::<ImageDebugDirectory>(&entries) {
            let (rva, size) = (entry.address_of_raw_data.get(LE), entry.size_of_data.get(LE));
            // Embedded symbols are as large as a file of them.
            self.add(Some((rva, size)).filter(|(rva, size)| *rva != 0 && *size <= 4096), wanted);
        }
    }

    fn add(&self, part: Option<(u32, u32)>, wanted: &mut Wanted) {
        if let Some((rva, size)) = part
            && let Some(address) = self.address(rva)
        {
            wanted.add(address, u64::from(size.min(MOST_PART)), Class::Modules);
        }
    }

    fn read(&self, rva: u32, length: usize) -> Option<Vec<u8>> {
        self.image.read_up_to(self.address(rva)?, length).ok()
    }

    /// Where an address of the image is in memory.
    fn address(&self, rva: u32) -> Option<u64> {
        let offset = if self.flat { self.headers.offset_of(rva)? } else { rva.into() };
        self.base.checked_add(offset)
    }
}
