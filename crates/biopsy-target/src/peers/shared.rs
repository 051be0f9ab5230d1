//! Memory that processes share: which mapping an address is in, and who else has it.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use biopsy_model::Pid;

use crate::process::proc_root::{self, ProcRoot, ProcessDir, is_gone};

/// Bytes of a list of mappings.
const MAPS: usize = 8 << 20;
/// Processes that are looked at, and for how long at most.
const PROCESSES: usize = 4_000;
const LONGEST: Duration = Duration::from_secs(2);

/// What is mapped: device and inode, which memory without a name has too.
pub(super) type File = (String, u64);

/// A word in shared memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Word {
    pub(super) file: File,
    /// Where in it.
    pub(super) offset: u64,
    /// Its path; `None` for memory without a name.
    pub(super) path: Option<String>,
}

/// Who has which memory mapped to share it.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    by_file: BTreeMap<File, Vec<Pid>>,
    /// Processes whose mappings could not be read, or were not.
    pub(super) hidden: u32,
}

impl Sharing {
    pub(super) fn read(root: &ProcRoot) -> Self {
        let mut sharing = Self::default();
        let until = Instant::now() + LONGEST;
        let pids = root.pids().unwrap_or_default();
        // The first process of a machine starts others and has no memory in common with them; that of a container may be the server.
        let is_init = |pid: Pid| pid.0 == 1 && is_of_machine();
        for (index, pid) in pids.iter().enumerate() {
            if index >= PROCESSES || Instant::now() > until {
                sharing.hidden += u32::try_from(pids.len() - index).unwrap_or(u32::MAX);
                break;
            }
            let Ok(dir) = root.process(*pid) else { continue };
            let text = match dir.read("maps", MAPS) {
                Ok(text) => text,
                Err(error) if is_gone(&error) || is_init(*pid) => continue,
                Err(_) => {
                    sharing.hidden += 1;
                    continue;
                }
            };
            for (_, word) in String::from_utf8_lossy(&text).lines().filter_map(row) {
                let pids = sharing.by_file.entry(word.file).or_default();
                if pids.last() != Some(pid) {
                    pids.push(*pid);
                }
            }
        }
        sharing
    }

    pub(super) fn of(&self, file: &File) -> &[Pid] {
        self.by_file.get(file).map_or(&[], Vec::as_slice)
    }
}

/// Whether the pids that we see are those of the machine.
fn is_of_machine() -> bool {
    let own = std::fs::read_link("/proc/self/ns/pid");
    own.is_ok_and(|own| proc_root::is_of_machine(own.as_os_str().as_bytes()))
}

/// The word at an address of a process; `None`: its memory there is its own.
pub(super) fn word_at(dir: &ProcessDir, address: u64) -> Option<Word> {
    let text = dir.read("maps", MAPS).ok()?;
    let text = String::from_utf8_lossy(&text);
    let (range, word) = text.lines().filter_map(row).find(|(range, _)| range.contains(&address))?;
    Some(Word { offset: word.offset + (address - range.start), ..word })
}

/// `7f00-7f01 rw-s 00001000 00:01 1234   /dev/zero (deleted)`, of shared memory.
fn row(line: &str) -> Option<(std::ops::Range<u64>, Word)> {
    let mut words = line.splitn(6, ' ');
    let (range, flags, offset, device, inode) =
        (words.next()?, words.next()?, words.next()?, words.next()?, words.next()?);
    if flags.as_bytes().get(3) != Some(&b's') {
        return None;
    }
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end) = range.split_once('-')?;
    let path = words.next().unwrap_or_default().trim_start();
    // `/dev/zero (deleted)`, `/memfd:name (deleted)`, `/SYSV00000000 (deleted)`: nobody comes to these by a name.
    let path = Some(path).filter(|path| path.starts_with('/') && !path.ends_with(" (deleted)"));
    let word = Word {
        file: (device.to_owned(), inode.parse().ok()?),
        offset: hex(offset)?,
        path: path.map(str::to_owned),
    };
    Some((hex(start)?..hex(end)?, word))
}

#[cfg(test)]
mod tests {
    use super::row;

    #[test]
    fn shared_memory_is_told_from_a_processes_own() {
        let (range, word) =
            row("7f00-8f00 rw-s 00001000 00:01 1234                  /dev/zero (deleted)").unwrap();
        assert_eq!((range, word.offset, word.path), (0x7f00..0x8f00, 0x1000, None));
        assert_eq!(word.file, ("00:01".to_owned(), 1234));
        let (_, word) = row("7f00-8f00 rw-s 00000000 00:1a 5 /dev/shm/sem.gates").unwrap();
        assert_eq!(word.path.as_deref(), Some("/dev/shm/sem.gates"));
        for own in
            ["7f00-8f00 rw-p 00000000 00:00 0 ", "7f00-8f00 r-xp 00000000 08:01 9 /usr/bin/a", "", "x y s"]
        {
            assert!(row(own).is_none(), "{own}");
        }
    }
}
