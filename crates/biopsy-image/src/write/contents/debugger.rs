//! The dynamic linker's list of modules, which debuggers follow: `r_debug` and the `link_map` chain (`<link.h>`).

use std::collections::HashSet;

use super::super::Class;
use super::wanted::Wanted;
use crate::process::auxiliary;
use crate::{Image, MemoryExt};

/// `DT_DEBUG` of the dynamic section (`<elf.h>`).
const DT_DEBUG: u64 = 21;
/// `PT_DYNAMIC` and `PT_PHDR` of a program header.
const PT_DYNAMIC: u32 = 2;
const PT_PHDR: u32 = 6;
/// Size of a program header, and of an entry of the dynamic section.
const PROGRAM_HEADER: u64 = 56;
const DYNAMIC_ENTRY: u64 = 16;
/// Libraries in a chain, entries in a dynamic section, program headers: more is nonsense.
const MOST_LIBRARIES: usize = 65_536;
const MOST_DYNAMIC: u64 = 1024;
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
    let entries = (size / DYNAMIC_ENTRY).min(MOST_DYNAMIC);
    let debug = (0..entries).find_map(|at| {
        let entry = dynamic.checked_add(at * DYNAMIC_ENTRY)?;
        (image.read_u64(entry).ok()? == DT_DEBUG).then(|| image.read_u64(entry + 8).ok())?
    });
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
    wanted.add(headers, count * PROGRAM_HEADER, Class::Modules);
    let mut bias = 0;
    let mut dynamic = None;
    for at in 0..count {
        let header = headers.checked_add(at * PROGRAM_HEADER)?;
        let address = image.read_u64(header.checked_add(16)?).ok()?;
        match image.read_u32(header).ok()? {
            PT_PHDR => bias = headers.wrapping_sub(address),
            PT_DYNAMIC => {
                let size = image.read_u64(header.checked_add(40)?).ok()?;
                dynamic = Some((address, size.min(MOST_DYNAMIC * DYNAMIC_ENTRY)));
            }
            _ => {}
        }
    }
    dynamic.map(|(address, size)| (address.wrapping_add(bias), size))
}
