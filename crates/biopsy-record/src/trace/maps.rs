//! Executable mappings of a process, from `/proc/PID/maps` (proc_pid_maps(5)) and mmap records.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use biopsy_model::module::ModuleKind;
use biopsy_model::{Avma, Pid};

/// The library that counts allocations, which `--allocations=full` puts into a program.
const COUNTING: &[u8] = b"/memfd:biopsy-preload";
/// A process has at most 65,530 mappings by default (`vm.max_map_count`), about 100 bytes each.
const MAPS_LIMIT: u64 = 64 << 20;
/// The vdso has two pages; nobody's has more than this.
const VDSO_LIMIT: u64 = 256 << 10;
const DELETED: &[u8] = b" (deleted)";

/// One executable mapping.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct MapsEntry {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) offset: u64,
    /// As the kernel writes it, without ` (deleted)`.
    pub(crate) path: Vec<u8>,
    pub(crate) deleted: bool,
}

impl MapsEntry {
    pub(crate) fn new(start: u64, end: u64, offset: u64, path: &[u8]) -> Self {
        let (path, deleted) = match path.strip_suffix(DELETED) {
            Some(path) => (path, true),
            None => (path, false),
        };
        Self { start, end, offset, path: unescape(path), deleted }
    }

    /// It is the library that counts allocations.
    pub(crate) fn is_ours(&self) -> bool {
        self.path == COUNTING
    }

    pub(crate) fn kind(&self) -> ModuleKind {
        let path = self.path.as_slice();
        if path == b"[vdso]" {
            ModuleKind::Vdso
        } else if path == COUNTING {
            ModuleKind::Elf
        } else if path.is_empty()
            || path.starts_with(b"[")
            || path.starts_with(b"//anon")
            || path.starts_with(b"/anon_hugepage")
            || path.starts_with(b"/memfd:")
            || path.starts_with(b"/dev/zero")
            || path.starts_with(b"/SYSV")
        {
            // .NET maps its code from a memfd ("doublemapper") to have it writable elsewhere.
            ModuleKind::Jit
        } else {
            ModuleKind::Elf
        }
    }

    pub(crate) fn display_path(&self) -> String {
        String::from_utf8_lossy(&self.path).into_owned()
    }
}

/// The executable mappings of a process now.
pub(crate) fn read(pid: u32) -> io::Result<Vec<MapsEntry>> {
    let mut bytes = Vec::new();
    biopsy_files::open_kernels(format!("/proc/{pid}/maps"))?.take(MAPS_LIMIT).read_to_end(&mut bytes)?;
    Ok(parse(&bytes))
}

/// The end of the mapping that holds an address of a stack: no frame of the thread lies beyond.
pub(crate) fn mapping_end(pid: u32, address: u64) -> Option<u64> {
    let mut bytes = Vec::new();
    biopsy_files::open_kernels(format!("/proc/{pid}/maps"))
        .ok()?
        .take(MAPS_LIMIT)
        .read_to_end(&mut bytes)
        .ok()?;
    bytes.split(|&byte| byte == b'\n').find_map(|line| {
        let range = line.split(|&byte| byte == b' ').next()?;
        let (start, end) = std::str::from_utf8(range).ok()?.split_once('-')?;
        let hex = |text| u64::from_str_radix(text, 16).ok();
        let (start, end) = (hex(start)?, hex(end)?);
        (start <= address && address < end).then_some(end)
    })
}

fn parse(bytes: &[u8]) -> Vec<MapsEntry> {
    bytes.split(|&byte| byte == b'\n').filter_map(parse_line).collect()
}

/// `55d0c8a00000-55d0c8a21000 r-xp 00002000 fe:00 1234   /usr/bin/name with spaces`
fn parse_line(line: &[u8]) -> Option<MapsEntry> {
    let mut rest = line;
    let mut field = || {
        let end = rest.iter().position(|&byte| byte == b' ').unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after.strip_prefix(b" ").unwrap_or(after);
        std::str::from_utf8(word).ok()
    };
    let (start, end) = field()?.split_once('-')?;
    let permissions = field()?;
    let offset = field()?;
    let (_device, _inode) = (field()?, field()?);
    if permissions.as_bytes().get(2) != Some(&b'x') {
        return None;
    }
    let skip = rest.iter().position(|&byte| byte != b' ').unwrap_or(rest.len());
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let (start, end) = (hex(start)?, hex(end)?);
    let entry = MapsEntry::new(start, end, hex(offset)?, &rest[skip..]);
    // The vsyscall page is not memory that anybody can read.
    (start < end && entry.path != b"[vsyscall]").then_some(entry)
}

/// The kernel writes a line feed in a path as `\012`.
fn unescape(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&byte, after)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(b"\\012") {
            out.push(b'\n');
            rest = after;
        } else {
            out.push(byte);
            rest = after;
        }
    }
    out
}

/// Where the mapped file may be opened, best first: by the mapping itself (right even when the file was replaced or
/// deleted, or lies in another mount namespace; needs privileges), then by its path below the process's root.
pub(crate) fn candidates(pid: u32, entry: &MapsEntry) -> Vec<PathBuf> {
    let mut candidates =
        vec![PathBuf::from(format!("/proc/{pid}/map_files/{:x}-{:x}", entry.start, entry.end))];
    if !entry.deleted {
        let path = Path::new(OsStr::from_bytes(&entry.path));
        if let Ok(relative) = path.strip_prefix("/") {
            candidates.push(Path::new(&format!("/proc/{pid}/root")).join(relative));
            candidates.push(path.to_owned());
        }
    }
    candidates
}

/// Whether the file can be read and is simply not ELF: assemblies of .NET are mapped executable, too.
pub(crate) fn is_another_format(candidates: &[PathBuf]) -> bool {
    let mut magic = [0; 4];
    let first = candidates.iter().find_map(|path| {
        let mut opened = biopsy_files::open(path, biopsy_files::Links::Follow).ok()?;
        opened.file.read_exact(&mut magic).ok()
    });
    first.is_some() && &magic != b"\x7fELF"
}

/// The vdso is in no file: its bytes are copied from the process.
pub(crate) fn read_vdso(pid: u32, entry: &MapsEntry) -> Option<Arc<[u8]>> {
    let len = entry.end.checked_sub(entry.start).filter(|&len| len <= VDSO_LIMIT)?;
    let mut bytes = vec![0; usize::try_from(len).ok()?];
    let got = biopsy_sys::memory::read(Pid(pid), Avma(entry.start), &mut bytes).ok()?;
    bytes.truncate(got);
    Some(bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let text = b"55d0-55e0 r-xp 00002000 fe:00 1234                  /usr/bin/a b (x)\n\
            55e0-55f0 rw-p 00003000 fe:00 1234                  /usr/bin/a\n\
            7f00-7f10 r-xp 00000000 00:01 99                    /memfd:doublemapper (deleted)\n\
            7f10-7f20 r-xp 00000000 00:01 98                    /memfd:biopsy-preload (deleted)\n\
            7f20-7f30 rwxp 00000000 00:00 0 \n\
            7f40-7f50 r-xp 00000000 fe:00 7                     /tmp/odd\\012name (deleted)\n\
            7f60-7f70 r-xp 00000000 00:00 0                     [vdso]\n\
            junk\n";
        let entries = parse(text);
        let kinds: Vec<_> =
            entries.iter().map(|entry| (entry.display_path(), entry.kind(), entry.deleted)).collect();
        assert_eq!(
            kinds,
            [
                ("/usr/bin/a b (x)".to_owned(), ModuleKind::Elf, false),
                ("/memfd:doublemapper".to_owned(), ModuleKind::Jit, true),
                ("/memfd:biopsy-preload".to_owned(), ModuleKind::Elf, true),
                (String::new(), ModuleKind::Jit, false),
                ("/tmp/odd\nname".to_owned(), ModuleKind::Elf, true),
                ("[vdso]".to_owned(), ModuleKind::Vdso, false),
            ]
        );
        assert_eq!((entries[0].start, entries[0].end, entries[0].offset), (0x55d0, 0x55e0, 0x2000));
    }

    #[test]
    fn a_stack_ends_above_its_frames() {
        let local = 0_u8;
        let address = std::ptr::from_ref(&local).addr() as u64;
        let end = mapping_end(std::process::id(), address).unwrap();
        assert!(end > address && end.is_multiple_of(4096));
        assert_eq!(mapping_end(std::process::id(), 8), None);
    }

    #[test]
    fn own_maps_name_this_program() {
        let entries = read(std::process::id()).unwrap();
        let exe = std::env::current_exe().unwrap();
        assert!(entries.iter().any(|entry| Path::new(OsStr::from_bytes(&entry.path)) == exe));
    }
}
