//! The dynamic linker's list of modules, which debuggers follow: `r_debug` and the `link_map` chain (`<link.h>`).

use std::collections::HashSet;

use biopsy_elf::raw::{DT_DEBUG, PT_DYNAMIC, PT_PHDR};
use biopsy_elf::{Dynamic, Memory, Segment, Table, segments_at};

use super::super::Class;
use super::wanted::Wanted;
use crate::process::auxiliary;
use crate::{Image, MemoryExt};

/// Libraries in a chain, program headers: more is nonsense.
const MOST_LIBRARIES: usize = 65_536;
const MOST_HEADERS: u64 = 1024;
/// gdb reads the fields of `struct link_map` of `<link.h>`, libthread_db those behind it; the structure is 1,200 bytes in
/// glibc.
const LINK_MAP: u64 = 1280;
/// A path in the chain.
const NAME: u64 = 4096;

/// Adds the memory that a debugger reads to list modules. Does nothing for static programs.
pub(super) fn find(image: &dyn Image, wanted: &mut Wanted) {
    let Some((dynamic, size)) = dynamic_section(image, wanted) else { return };
    wanted.add(dynamic, size, Class::Modules);
    let entries = image.read_up_to(dynamic, size as usize).unwrap_or_default();
    let debug = Dynamic::parse(&entries).value(DT_DEBUG);
    let Some(r_debug) = debug.filter(|&address| address != 0) else { return };
    wanted.add(r_debug, 64, Class::Modules);
    let mut seen = HashSet::new();
    let mut next = r_debug.checked_add(8).and_then(|head| image.read_u64(head).ok()).unwrap_or(0);
    while next != 0 && seen.len() < MOST_LIBRARIES && seen.insert(next) {
        wanted.add(next, LINK_MAP, Class::Modules);
        // l_addr, l_name, l_ld, l_next
        let mut words = [0; 32];
        if image.read_exact(next, &mut words).is_err() {
            break;
        }
        let word = |at: usize| words.as_chunks::<8>().0.get(at).map_or(0, |eight| u64::from_le_bytes(*eight));
        if let Ok(name) = image.read_c_string(word(1), NAME as usize) {
            wanted.add(word(1), name.len() as u64 + 1, Class::Modules);
        }
        wanted.add(word(2), 1, Class::Modules);
        next = word(3);
    }
}

/// Address and size of the executable's dynamic section, by its program headers in memory.
fn dynamic_section(image: &dyn Image, wanted: &mut Wanted) -> Option<(u64, u64)> {
    let value =
        |kind| image.process().auxiliary.iter().find(|(key, _)| *key == kind).map(|(_, value)| *value);
    let headers = value(auxiliary::PHDR)?;
    let count = value(auxiliary::PHNUM)?.min(MOST_HEADERS);
    let table = Table { at: headers, row: Segment::HEADER_SIZE as u16, count };
    wanted.add(headers, count * Segment::HEADER_SIZE, Class::Modules);
    let read = |at, buffer: &mut [u8]| image.read_available(at, buffer);
    let segments = segments_at(&Memory(read), table, count).ok()?;
    let of = |kind| segments.iter().rfind(|one| one.kind == kind);
    let bias = of(PT_PHDR).map_or(0, |phdr| headers.wrapping_sub(phdr.address));
    let dynamic = of(PT_DYNAMIC)?;
    Some((dynamic.address.wrapping_add(bias), dynamic.memory_size.min(Dynamic::MOST)))
}
