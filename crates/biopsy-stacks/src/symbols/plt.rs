//! Names of PLT stubs: `name@plt`, found by the GOT slot that the stub jumps through.
//!
//! ```text
//! f3 0f 1e fa        endbr64        (only with IBT)
//! [f2] ff 25 disp32  jmp *disp(%rip) ──► GOT slot ◄── Elf64_Rela { 0 offset  8 info (symbol << 32 | type)  16 addend }
//! ```

use biopsy_elf::raw::{EM_X86_64, R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT, Rela64, SHT_RELA};
use biopsy_elf::{LE, rows};

use crate::elf::ElfFile;
use crate::elf::bytes::u32_at;

/// Relocations of one file that are looked through, in bytes; Chrome has 20 MB.
const RELOCATION_BYTES: u64 = 64 << 20;
const CHUNK: u64 = 24 << 15;

/// GOT slots that dynamic linking fills, by address.
#[derive(Debug, Default)]
pub(crate) struct PltNames {
    /// (GOT slot, symbol number in the dynamic table), sorted.
    slots: Vec<(u64, u32)>,
    /// PLT sections: address, end.
    stubs: Vec<(u64, u64)>,
}

/// All slots, sorted.
fn slots(file: &ElfFile) -> Vec<(u64, u32)> {
    let mut slots = Vec::new();
    let mut budget = RELOCATION_BYTES;
    for section in file.sections().iter().filter(|section| section.kind == SHT_RELA && section.has_bytes()) {
        let mut done = 0;
        while done < section.size.min(budget) {
            let size = CHUNK.min(section.size - done);
            let Ok(raw) = file.read_up_to("relocations", section.offset.saturating_add(done), size) else {
                break;
            };
            slots.extend(rows::<Rela64<_>>(&raw).iter().filter_map(|row| {
                let named = matches!(row.r_type(LE, false), R_X86_64_GLOB_DAT | R_X86_64_JUMP_SLOT);
                named.then(|| (row.r_offset.get(LE), row.r_sym(LE, false)))
            }));
            if raw.len() as u64 != size {
                break;
            }
            done += size;
        }
        budget = budget.saturating_sub(section.size);
    }
    slots.sort_unstable();
    slots.shrink_to_fit();
    slots
}

impl PltNames {
    pub(crate) fn read(file: &ElfFile) -> Self {
        let stubs: Vec<(u64, u64)> = file
            .sections()
            .iter()
            .filter(|section| section.name == ".plt" || section.name.starts_with(".plt."))
            .map(|section| (section.address, section.address.saturating_add(section.size)))
            .collect();
        if stubs.is_empty() || file.machine() != EM_X86_64 {
            return Self::default();
        }
        Self { slots: slots(file), stubs }
    }

    /// Only the slots, of files whose calls go through them without stubs too.
    pub(crate) fn read_slots(file: &ElfFile) -> Self {
        let slots = if file.machine() == EM_X86_64 { slots(file) } else { Vec::new() };
        Self { slots, stubs: Vec::new() }
    }

    /// The number of the symbol whose address fills the slot.
    pub(crate) fn symbol_of_slot(&self, svma: u64) -> Option<u32> {
        let found = self.slots.partition_point(|(address, _)| *address < svma);
        self.slots.get(found).filter(|(address, _)| *address == svma).map(|(_, symbol)| *symbol)
    }

    pub(crate) fn holds(&self, svma: u64) -> bool {
        self.stubs.iter().any(|(start, end)| (*start..*end).contains(&svma))
    }

    /// The number of the symbol that the stub around `svma` jumps to.
    pub(crate) fn symbol(&self, file: &ElfFile, svma: u64) -> Option<u32> {
        let (start, end) = *self.stubs.iter().find(|(start, end)| (*start..*end).contains(&svma))?;
        // Stubs are 16 bytes, or 8 in `.plt.got` without IBT. The jump lies before or at the address, or after it
        // within the stub: the first one found from the stub's start is the stub's own.
        let stub = start + ((svma - start) & !7);
        [start + ((svma - start) & !15), stub].into_iter().find_map(|from| {
            let code = file.code_at(from, 16.min(end - from))?;
            let at = code.windows(2).position(|pair| pair == [0xff, 0x25])?;
            let displacement = u32_at(&code, at + 2)? as i32;
            let slot = from.wrapping_add(at as u64 + 6).wrapping_add_signed(i64::from(displacement));
            // With 8-byte stubs the 16 bytes from an odd one's neighbour hold that neighbour's jump.
            let own = from + at as u64 + 6 > svma || from == stub;
            self.symbol_of_slot(slot).filter(|_| own)
        })
    }
}
