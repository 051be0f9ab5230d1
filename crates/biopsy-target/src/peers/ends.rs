//! Who has which descriptor open: the ends of pipes and sockets, by what their links say.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use biopsy_model::Pid;

use crate::process::proc_root::{ProcRoot, ProcessDir, SMALL};

/// Processes and descriptors that are looked at, and for how long at most: 50 processes take 3 ms.
const PROCESSES: usize = 4_000;
const DESCRIPTORS: usize = 200_000;
const LONGEST: Duration = Duration::from_millis(500);

/// Open descriptors of all processes that may be seen, by what their link says.
#[derive(Debug, Default)]
pub(super) struct Ends {
    by_link: BTreeMap<Vec<u8>, Vec<(Pid, u32)>>,
    /// Processes whose descriptors could not be read, or were not.
    pub(super) hidden: u32,
}

impl Ends {
    pub(super) fn read(root: &ProcRoot) -> Self {
        let mut ends = Self::default();
        let until = Instant::now() + LONGEST;
        let mut left = DESCRIPTORS;
        let pids = root.pids().unwrap_or_default();
        for (index, pid) in pids.iter().enumerate() {
            if index >= PROCESSES || left == 0 || Instant::now() > until {
                ends.hidden += u32::try_from(pids.len() - index).unwrap_or(u32::MAX);
                break;
            }
            let Ok(dir) = root.process(*pid) else { continue };
            let Some(numbers) = descriptors(&dir, left) else {
                ends.hidden += 1;
                continue;
            };
            left -= numbers.len();
            for number in numbers {
                let Ok(link) = dir.link(&format!("fd/{number}")) else { continue };
                if link.starts_with(b"pipe:") || link.starts_with(b"socket:") || link.starts_with(b"/") {
                    ends.by_link.entry(link).or_default().push((*pid, number));
                }
            }
        }
        ends
    }

    /// Who has it open.
    pub(super) fn of(&self, link: &[u8]) -> &[(Pid, u32)] {
        self.by_link.get(link).map_or(&[], Vec::as_slice)
    }
}

/// The numbers of open descriptors; `None`: may not be read. Kernel threads have none.
fn descriptors(dir: &ProcessDir, limit: usize) -> Option<Vec<u32>> {
    let folder = dir.locate("fd").ok()?;
    let mut numbers = Vec::new();
    let opened = rustix::fs::openat(
        folder.as_fd(),
        ".",
        rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )
    .ok()?;
    for entry in rustix::fs::Dir::read_from(&opened).ok()? {
        if numbers.len() >= limit {
            break;
        }
        let Ok(entry) = entry else { break };
        numbers.extend(entry.file_name().to_str().ok().and_then(|name| name.parse::<u32>().ok()));
    }
    Some(numbers)
}

/// What may be done with an open descriptor, by the lowest two bits of its flags (open(2)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    Read,
    Write,
    Both,
}

/// Of a descriptor of another process.
pub(super) fn mode(root: &ProcRoot, pid: Pid, number: u32) -> Option<Mode> {
    let text = root.process(pid).ok()?.read(&format!("fdinfo/{number}"), SMALL).ok()?;
    parse_mode(&text)
}

fn parse_mode(text: &[u8]) -> Option<Mode> {
    let text = String::from_utf8_lossy(text);
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"))?;
    match u32::from_str_radix(flags.trim(), 8).ok()? & 3 {
        0 => Some(Mode::Read),
        1 => Some(Mode::Write),
        _ => Some(Mode::Both),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_descriptors_say_which_end_it_is() {
        assert_eq!(parse_mode(b"pos:\t0\nflags:\t00\nmnt_id:\t15\n"), Some(Mode::Read));
        assert_eq!(parse_mode(b"pos:\t0\nflags:\t02000001\n"), Some(Mode::Write));
        assert_eq!(parse_mode(b"pos:\t0\nflags:\t0100002\n"), Some(Mode::Both));
        assert_eq!(parse_mode(b""), None);
    }
}
