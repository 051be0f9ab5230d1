//! Where the call frame information of a file lies.
//!
//! The bytes come from `.eh_frame` with its sorted index `.eh_frame_hdr`; without section headers (vdso of old
//! kernels, `sstrip`) from the program header `PT_GNU_EH_FRAME`; without an index one is built; and where a
//! file has no `.eh_frame` at all (Go, code built with `-fno-asynchronous-unwind-tables`), from `.debug_frame`.

use biopsy_elf::raw::PT_GNU_EH_FRAME;
use biopsy_elf::{Section, place_of};
use gimli::{BaseAddresses, EhFrameHdr, LittleEndian};

use super::ElfFile;
use crate::unwind::{Kind, UnwindTable};

impl ElfFile {
    /// Reads the sections; damage or absence gives an empty table, and the file's frames are then walked by frame
    /// pointers.
    pub(super) fn read_unwind_table(&self) -> UnwindTable {
        let table = self.read_eh_frame().or_else(|| self.read_debug_frame()).unwrap_or_default();
        tracing::debug!(path = %self.path().display(), ?table, "unwind table");
        table
    }

    fn read_eh_frame(&self) -> Option<UnwindTable> {
        let address = |name: &str| {
            self.sections().iter().find(|section| section.name == name).map(|found| found.address)
        };
        let bases = BaseAddresses::default()
            .set_text(address(".text").unwrap_or(0))
            .set_got(address(".got").unwrap_or(0));
        let plain = |section: &&Section| !section.is_compressed();
        if let Some(section) = self.section(".eh_frame").filter(plain) {
            let bytes = self.read(".eh_frame", section.offset, section.size, self.limits().unwind).ok()?;
            let header = self.section(".eh_frame_hdr").filter(plain);
            let index = header.and_then(|header| {
                self.read(".eh_frame_hdr", header.offset, header.size, self.limits().unwind).ok()
            });
            let bases = bases
                .set_eh_frame(section.address)
                .set_eh_frame_hdr(header.map_or(0, |header| header.address));
            return Some(UnwindTable::new(Kind::EhFrame, bytes, index, bases));
        }
        let segment = self.segment(PT_GNU_EH_FRAME).next()?;
        let header =
            self.read("PT_GNU_EH_FRAME", segment.offset, segment.file_size, self.limits().unwind).ok()?;
        let bases = bases.set_eh_frame_hdr(segment.address);
        let parsed = EhFrameHdr::new(&header, LittleEndian).parse(&bases, 8).ok()?;
        let svma = parsed.eh_frame_ptr().direct().ok()?;
        // Its length is not stated: up to the end of the loaded bytes; a zero entry ends it before.
        let (offset, room) = place_of(self.segments(), svma)?;
        let bytes = self.read_up_to(".eh_frame", offset, room.min(self.limits().unwind)).ok()?;
        Some(UnwindTable::new(Kind::EhFrame, bytes, Some(header), bases.set_eh_frame(svma)))
    }

    fn read_debug_frame(&self) -> Option<UnwindTable> {
        let bytes = self.section_bytes(".debug_frame", self.limits().unwind).ok().flatten()?;
        Some(UnwindTable::new(Kind::DebugFrame, bytes, None, BaseAddresses::default()))
    }
}
