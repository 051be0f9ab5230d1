//! `/proc/PID/maps`: the mappings of a process.

use std::io::{self, BufRead, BufReader, Read};

use biopsy_image::{Backing, Mapping, Protection};
use biopsy_model::Pid;

use crate::process::proc_root::ProcRoot;

/// Most mappings. The kernel's default limit is 65,530 (`vm.max_map_count`); databases raise it to some 262,144.
const MAPPINGS: usize = 4 << 20;
/// Longest line: a path of 4096 bytes, each of which may be escaped as four.
const LINE: u64 = 17 << 10;
/// Threads that are tried when the first thread has ended before the others.
const THREADS: usize = 64;

/// The mappings of a process, by address, not overlapping. Empty for a kernel thread and for a zombie.
///
/// The kernel gives the list out page by page: what the process maps meanwhile may be missing. Never read of a process
/// that must not wait: the lock of the address space is held for each page of text.
///
/// # Errors
/// `NotFound` or ESRCH when the process has ended, `PermissionDenied` when it belongs to somebody else,
/// `InvalidData` for text that is not a list of mappings.
pub fn read_mappings(pid: Pid) -> io::Result<Vec<Mapping>> {
    read_mappings_in(&ProcRoot::live(), pid)
}

/// As [`read_mappings`], below any root.
///
/// # Errors
/// As [`read_mappings`].
pub fn read_mappings_in(root: &ProcRoot, pid: Pid) -> io::Result<Vec<Mapping>> {
    let process = root.process(pid)?;
    let mappings = parse(BufReader::with_capacity(1 << 16, process.file("maps")?))?;
    if !mappings.is_empty() {
        return Ok(mappings);
    }
    // The first thread of a process may end before the others: its own list is empty then, theirs is not.
    for tid in process.tids(THREADS)?.into_iter().filter(|&tid| tid != pid.into()) {
        let Ok(file) = process.file(&format!("task/{tid}/maps")) else { continue };
        let mappings = parse(BufReader::with_capacity(1 << 16, file))?;
        if !mappings.is_empty() {
            return Ok(mappings);
        }
    }
    Ok(mappings)
}

pub(super) fn parse(mut text: impl BufRead) -> io::Result<Vec<Mapping>> {
    let mut mappings: Vec<Mapping> = Vec::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        if text.by_ref().take(LINE).read_until(b'\n', &mut line)? == 0 {
            return Ok(mappings);
        }
        if mappings.len() >= MAPPINGS {
            return Err(invalid(format!("the process has more than {MAPPINGS} mappings")));
        }
        let mut mapping = parse_line(line.strip_suffix(b"\n").unwrap_or(&line)).ok_or_else(|| {
            invalid(format!("not a line of `maps`: `{}`", String::from_utf8_lossy(&line).escape_debug()))
        })?;
        // The list changes while it is read: what was merged meanwhile may begin before the end of what was told.
        let behind = mappings.last().map_or(0, |last| last.end);
        if mapping.end <= behind {
            continue;
        }
        if mapping.start < behind {
            if let Backing::File { offset, .. } = &mut mapping.backing {
                *offset = offset.saturating_add(behind - mapping.start);
            }
            mapping.start = behind;
        }
        mappings.push(mapping);
    }
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// `start-end rwxp offset major:minor inode   name` (proc_pid_maps(5)).
pub(super) fn parse_line(line: &[u8]) -> Option<Mapping> {
    let mut rest = line;
    let mut field = || {
        let end = rest.iter().position(|&byte| byte == b' ').unwrap_or(rest.len());
        let (field, after) = rest.split_at(end);
        rest = after.strip_prefix(b" ").unwrap_or(after);
        std::str::from_utf8(field).ok()
    };
    let (start, end) = field()?.split_once('-')?;
    let (start, end) = (hex(start)?, hex(end)?);
    let permissions = field()?.as_bytes();
    let offset = hex(field()?)?;
    let (major, minor) = field()?.split_once(':')?;
    let device =
        rustix::fs::makedev(u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?);
    let inode: u64 = field()?.parse().ok()?;
    let name = rest.trim_ascii_start();
    let [read, write, execute, sharing, ..] = *permissions else { return None };
    (start < end).then(|| Mapping {
        start,
        end,
        protection: Protection { read: read == b'r', write: write == b'w', execute: execute == b'x' },
        shared: sharing == b's',
        backing: backing(name, offset, (device, inode)),
        not_frozen: false,
    })
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

fn backing(name: &[u8], offset: u64, identity: (u64, u64)) -> Backing {
    /// Private memory in huge pages of `MAP_HUGETLB` has a file for the kernel's own use that nobody else can see.
    const HUGE: &[u8] = b"/anon_hugepage (deleted)";
    let label = || String::from_utf8_lossy(name).into_owned();
    let has_inode = identity.1 != 0;
    match name {
        [] if !has_inode => Backing::Anonymous { label: String::new() },
        [b'[', ..] if !has_inode => {
            let memory = name == b"[heap]" || name.starts_with(b"[stack") || name.starts_with(b"[anon");
            if memory { Backing::Anonymous { label: label() } } else { Backing::Kernel { label: label() } }
        }
        HUGE => Backing::Anonymous { label: "[anon_hugepage]".to_owned() },
        _ => {
            let (path, deleted) = match name.strip_suffix(b" (deleted)") {
                Some(path) => (path, true),
                None => (name, false),
            };
            Backing::File { path: unescaped(path), offset, deleted, identity }
        }
    }
}

/// The kernel writes a newline in a path as `\012` and escapes nothing else, not even the backslash
/// (`show_map_vma` in `fs/proc/task_mmu.c`).
fn unescaped(path: &[u8]) -> Vec<u8> {
    const NEWLINE: &[u8] = b"\\012";
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&first, after)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(NEWLINE) {
            bytes.push(b'\n');
            rest = after;
        } else {
            bytes.push(first);
            rest = after;
        }
    }
    bytes
}
