//! Two instructions that are already in the process: `syscall; ret`, and `mov $15, %eax; syscall` (rt_sigreturn).
//!
//! They are looked for in the *files* that are mapped as code, so that no page of the process is touched, and are compared
//! with its memory afterwards, twice: when they are found and again when everything stands still.
//!
//! A program without them (static musl has no rt_sigreturn unless it sets signal handlers) gets a stub of 32 bytes, written
//! into the slack between the end of its code and the end of the last page of it. Nothing executes or reads that; the bytes
//! there, zeros, are put back afterwards.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

use biopsy_elf::FileHeader;
use biopsy_image::Mapping;
use biopsy_model::Pid;

use super::FreezeError;
use super::frame::Entry;
use crate::address_space::{ProcessMemory, locate_mapped};
use crate::process::proc_root::ProcRoot;

const SYSCALL_RET: &[u8] = b"\x0f\x05\xc3";
/// `mov $15, %rax; syscall` and `mov $15, %eax; syscall`.
const RESTORERS: [&[u8]; 2] = [b"\x48\xc7\xc0\x0f\0\0\0\x0f\x05", b"\xb8\x0f\0\0\0\x0f\x05"];
/// What is written where a program has none: both, with breakpoints between and behind.
const STUB: [u8; 32] = *b"\x0f\x05\xc3\xcc\xcc\xcc\xcc\xcc\x48\xc7\xc0\x0f\0\0\0\x0f\x05\
    \xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc";
/// Where the restorer is in it.
const STUB_RESTORER: u64 = 8;
/// Bytes of one file that are searched. What is wanted is near the start of small libraries.
const MOST_BYTES: u64 = 256 << 20;
/// Program headers of one file; real ones have about a dozen.
const MOST_HEADERS: u64 = 1024;
/// Bytes at a time, with an overlap of a pattern.
const PIECE: usize = 1 << 20;

/// The instructions that were found.
#[derive(Debug)]
pub(super) struct Gadgets {
    /// Where they are.
    pub(super) entry: Entry,
    restorer: &'static [u8],
    /// Where the stub was written, if one was.
    pub(super) stub: Option<u64>,
}

/// Finds them, or writes the stub. The process runs.
pub(super) fn find(pid: Pid, mappings: &[Mapping], memory: &ProcessMemory) -> Result<Gadgets, FreezeError> {
    let mut syscall = None;
    let mut restorer = None;
    for mapping in candidates(mappings) {
        let Ok(file) = open_mapped(memory.tid(), mapping) else { continue };
        search(&file, mapping, |at, bytes| {
            let found = |pattern: &[u8]| {
                memchr::memmem::find_iter(bytes, pattern)
                    .map(|offset| at + offset as u64)
                    .find(|&address| holds(memory, address, pattern))
            };
            if syscall.is_none() {
                syscall = found(SYSCALL_RET);
            }
            if restorer.is_none() {
                restorer = RESTORERS
                    .into_iter()
                    .find_map(|pattern| found(pattern).map(|address| (address, pattern)));
            }
            syscall.is_none() || restorer.is_none()
        });
        if let (Some(syscall), Some((restorer, pattern))) = (syscall, restorer) {
            return Ok(Gadgets { entry: Entry { syscall, restorer }, restorer: pattern, stub: None });
        }
    }
    let mut why = "no file is mapped as code".to_owned();
    for mapping in candidates(mappings) {
        match write_stub(mapping, memory) {
            Ok(address) => {
                let entry = Entry { syscall: address, restorer: address + STUB_RESTORER };
                return Ok(Gadgets { entry, restorer: RESTORERS[0], stub: Some(address) });
            }
            Err(error) => why = error.to_string(),
        }
    }
    Err(FreezeError::NoGadget { pid, why })
}

impl Gadgets {
    /// Whether the process still has them where they were. Asked again when everything stands still: a library may have been
    /// unloaded, or the process may have executed another program.
    ///
    /// Only pages that are in memory are looked at: in the place of the library there may be a file of a file system that does
    /// not answer (FUSE, a dead server), and reading a page of it would never end, with everything stopped.
    pub(super) fn are_there(&self, memory: &ProcessMemory) -> bool {
        let are = |address: u64, bytes: &[u8]| {
            let last = address.saturating_add(bytes.len() as u64 - 1);
            memory.is_present(address) && memory.is_present(last) && holds(memory, address, bytes)
        };
        are(self.entry.syscall, SYSCALL_RET) && are(self.entry.restorer, self.restorer)
    }

    /// Puts back the zeros where a stub was written. The process runs, and no thread may be in the stub.
    pub(super) fn remove_stub(&mut self, memory: &ProcessMemory) -> io::Result<()> {
        let Some(address) = self.stub.take() else { return Ok(()) };
        if holds(memory, address, &STUB) {
            writable_memory(memory.tid())?.write_all_at(&[0; STUB.len()], address)?;
        }
        Ok(())
    }
}

/// Private code of files that is not writable, the C library and the dynamic linker first. What a JIT writes may change at
/// any time; the vdso has no `syscall; ret`.
fn candidates(mappings: &[Mapping]) -> impl Iterator<Item = &Mapping> {
    let is_code = |one: &&Mapping| {
        one.path().is_some()
            && one.protection.execute
            && one.protection.read
            && !one.protection.write
            && !one.shared
    };
    let is_first = |one: &&Mapping| {
        let path = one.path().unwrap_or_default();
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        [&b"libc.so"[..], b"libc-", b"ld-", b"libpthread", b"ld.so"]
            .iter()
            .any(|start| name.starts_with(start))
    };
    let first = mappings.iter().filter(is_code).filter(is_first);
    first.chain(mappings.iter().filter(is_code).filter(move |one| !is_first(one)))
}

/// The very file that is mapped.
fn open_mapped(pid: Pid, mapping: &Mapping) -> io::Result<File> {
    let process = ProcRoot::live().process(pid)?;
    Ok(biopsy_files::open_handle(&locate_mapped(&process, mapping)?, &process.mounts())?)
}

fn offset_of(mapping: &Mapping) -> u64 {
    match &mapping.backing {
        biopsy_image::Backing::File { offset, .. } => *offset,
        _ => 0,
    }
}

/// Hands out the bytes of the mapping as the file has them, with their address in the process, until `each` says enough.
fn search(file: &File, mapping: &Mapping, mut each: impl FnMut(u64, &[u8]) -> bool) {
    let mut piece = vec![0; PIECE];
    let overlap = RESTORERS[0].len() as u64 - 1;
    let length = mapping.size().min(MOST_BYTES);
    let mut at = 0;
    while at < length {
        let wanted = usize::try_from(length - at).map_or(PIECE, |rest| rest.min(PIECE));
        let Some(offset) = offset_of(mapping).checked_add(at) else { return };
        let read = match file.read_at(&mut piece[..wanted], offset) {
            Ok(0) | Err(_) => return,
            Ok(read) => read,
        };
        if !each(mapping.start + at, &piece[..read]) || (read as u64) <= overlap {
            return;
        }
        at += read as u64 - overlap;
        if read < wanted || at + overlap >= length {
            return;
        }
    }
}

fn holds(memory: &ProcessMemory, address: u64, expected: &[u8]) -> bool {
    let mut bytes = [0; STUB.len()];
    let Some(bytes) = bytes.get_mut(..expected.len()) else { return false };
    matches!(memory.read(address, bytes), Ok(read) if read == expected.len()) && bytes == expected
}

#[expect(clippy::disallowed_methods, reason = "memory by way of proc, to be written")]
fn writable_memory(pid: Pid) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/mem"))
}

/// Writes the stub into the slack behind the code of this mapping.
fn write_stub(mapping: &Mapping, memory: &ProcessMemory) -> io::Result<u64> {
    let file = open_mapped(memory.tid(), mapping)?;
    let none = |what: &str| io::Error::new(io::ErrorKind::NotFound, what.to_owned());
    let code_end = code_end(&file, mapping).ok_or_else(|| none("the end of its code is not known"))?;
    let address = code_end.checked_next_multiple_of(16).ok_or_else(|| none("it has no slack"))?;
    if address.checked_add(STUB.len() as u64).is_none_or(|end| end > mapping.end) {
        return Err(none("the last page of its code is full"));
    }
    // A stub that a killed biopsy left behind is as good.
    if holds(memory, address, &STUB) {
        return Ok(address);
    }
    if !holds(memory, address, &[0; STUB.len()]) {
        return Err(none("the padding behind its code is not empty"));
    }
    writable_memory(memory.tid())?.write_all_at(&STUB, address)?;
    if holds(memory, address, &STUB) { Ok(address) } else { Err(none("the stub could not be written")) }
}

/// Address behind the last byte of the code segment that this mapping ends with, by the program headers of the file.
fn code_end(file: &File, mapping: &Mapping) -> Option<u64> {
    let segments = FileHeader::read(file, 0).ok()?.read_segments(file, MOST_HEADERS).ok()?;
    let mapped = offset_of(mapping)..offset_of(mapping).checked_add(mapping.size())?;
    segments.iter().find_map(|one| {
        let end = one.offset.checked_add(one.file_size)?;
        let is_this = one.is_load()
            && one.is_executable()
            && one.file_size == one.memory_size
            && end > mapped.start
            && end <= mapped.end
            && mapped.end - end < biopsy_image::PAGE_SIZE;
        is_this.then(|| mapping.start + (end - mapped.start))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_c_library_has_both() {
        let pid = Pid(std::process::id());
        let memory = ProcessMemory::open(pid).unwrap();
        let mappings = crate::address_space::read_mappings(pid).unwrap();
        let gadgets = find(pid, &mappings, &memory).unwrap();
        assert!(gadgets.are_there(&memory));
        assert_eq!(gadgets.stub, None);
    }

    #[test]
    fn the_stub_is_what_the_search_would_find() {
        assert_eq!(memchr::memmem::find(&STUB, SYSCALL_RET), Some(0));
        assert_eq!(memchr::memmem::find(&STUB, RESTORERS[0]), Some(8));
    }
}
