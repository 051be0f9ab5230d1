//! Flags of mappings that only `smaps` tells.

use std::io::{self, BufRead, BufReader, Read};

use biopsy_model::Pid;

use super::mappings::parse_line;
use crate::process::proc_root::ProcRoot;

/// Longest line of `smaps`, as of `maps`.
const LINE: u64 = 17 << 10;

/// A mapping with the two-letter flags of `VmFlags` that matter to a copy (proc_pid_smaps(5)).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct AreaFlags {
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// `dc`: fork leaves it out (MADV_DONTFORK).
    pub dont_fork: bool,
    /// `wf`: fork gives the child zeros (MADV_WIPEONFORK).
    pub wipe_on_fork: bool,
    /// `io` or `pf`: memory of a device.
    pub device: bool,
    /// `gd`: a stack that grows.
    pub grows_down: bool,
    /// `ht`: pages of hugetlbfs.
    pub huge_tlb: bool,
    /// `ss`: a shadow stack.
    pub shadow_stack: bool,
    /// `um`: pages that are not there yet are somebody's to bring (userfaultfd(2)).
    pub served: bool,
    /// `dd`: the process does not want it in dumps (MADV_DONTDUMP).
    pub dont_dump: bool,
}

/// Reads the flags of all mappings, by address.
///
/// The kernel walks all page tables for it, under the lock of the address space. **For frozen copies only**: a fork
/// keeps the flags of what it has (areas that it left out are those that only the original has). A live process of
/// many gigabytes would be held up: one is asked only if it is small, and only before it is copied, for what a copy
/// cannot tell ([`AreaFlags::served`]).
///
/// # Errors
/// As [`super::read_mappings`].
pub fn read_area_flags(pid: Pid) -> io::Result<Vec<AreaFlags>> {
    let file = ProcRoot::live().process(pid)?.file("smaps")?;
    parse(BufReader::with_capacity(1 << 16, file))
}

fn parse(mut text: impl BufRead) -> io::Result<Vec<AreaFlags>> {
    let mut areas: Vec<AreaFlags> = Vec::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        if text.by_ref().take(LINE).read_until(b'\n', &mut line)? == 0 {
            return Ok(areas);
        }
        if let Some(flags) = line.strip_prefix(b"VmFlags:") {
            if let Some(area) = areas.last_mut() {
                set(area, flags);
            }
        } else if line.first().is_some_and(|first| first.is_ascii_hexdigit() && !first.is_ascii_uppercase())
            && let Some(mapping) = parse_line(line.trim_ascii_end())
        {
            areas.push(AreaFlags { start: mapping.start, end: mapping.end, ..AreaFlags::default() });
        }
    }
}

fn set(area: &mut AreaFlags, flags: &[u8]) {
    for flag in flags.split(u8::is_ascii_whitespace) {
        match flag {
            b"dc" => area.dont_fork = true,
            b"wf" => area.wipe_on_fork = true,
            b"io" | b"pf" => area.device = true,
            b"gd" => area.grows_down = true,
            b"ht" => area.huge_tlb = true,
            b"ss" => area.shadow_stack = true,
            b"um" => area.served = true,
            b"dd" => area.dont_dump = true,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_belong_to_the_mapping_above_them() {
        let text = b"7f00-7f10 rw-p 00000000 00:00 0\nSize: 4 kB\nVmFlags: rd wr mr mw me ac dc sd\n\
            7f10-7f20 rw-p 00000000 00:00 0    [anon:VmFlags: wf]\nAnonymous: 0 kB\nVmFlags: rd wf dd um\n";
        let areas = parse(&text[..]).unwrap();
        assert_eq!(areas.len(), 2);
        assert!(areas[0].dont_fork && !areas[0].wipe_on_fork);
        assert!(areas[1].wipe_on_fork && areas[1].dont_dump && !areas[1].dont_fork);
        assert!(areas[1].served && !areas[0].served);
        assert_eq!((areas[1].start, areas[1].end), (0x7f10, 0x7f20));
    }
}
