//! Open files: how many of which kind, and which.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::fd::AsRawFd;

use biopsy_recording::WriteError;

use super::members::{Members, count_lines, one_line};

/// Descriptors beyond this many are not looked at.
const MOST_COUNTED: usize = 50_000;

/// Descriptors that are listed one by one.
const MOST_LISTED: usize = 2_000;

/// Positions are read of this many files.
const MOST_POSITIONS: usize = 500;

/// Descriptors of sockets by inode number.
pub(super) type Sockets = BTreeMap<u64, Vec<u32>>;

/// Writes the list and returns the sockets in it.
pub(super) fn write(members: &mut Members<'_>) -> Result<Sockets, WriteError> {
    let listed = list(members);
    let Some(numbers) = members.note("fd", listed) else { return Ok(Sockets::new()) };
    let (mut kinds, mut sockets) = (BTreeMap::<&'static str, u64>::new(), Sockets::new());
    let (mut lines, mut positions) = (String::new(), 0);
    let more = numbers.len() >= MOST_COUNTED;
    for (index, number) in numbers.iter().enumerate() {
        let Ok(target) = members.dir.link(&format!("fd/{number}")) else { continue };
        let kind = kind_of(&target);
        *kinds.entry(kind).or_default() += 1;
        if let Some(inode) = inode_of(&target, b"socket:[") {
            sockets.entry(inode).or_default().push(*number);
        }
        if index >= MOST_LISTED {
            continue;
        }
        let _ = write!(lines, "{number:>6}  {kind:<10}  {}", one_line(&target));
        if kind == "file" && positions < MOST_POSITIONS {
            positions += 1;
            let info = members.dir.read(&format!("fdinfo/{number}"), 512).unwrap_or_default();
            if let Some(position) = position(&info) {
                let _ = write!(lines, "  at {position}");
            }
        }
        lines.push('\n');
    }
    let mut text = format!("{}{} open\n\n", numbers.len(), if more { " or more" } else { "" });
    text.push_str(&count_lines(kinds, 50));
    text.push('\n');
    text.push_str(&lines);
    if numbers.len() > MOST_LISTED {
        let _ = writeln!(text, "[... {} more]", numbers.len() - MOST_LISTED);
    }
    members.write("descriptors.txt", &text)?;
    Ok(sockets)
}

/// The numbers, ascending.
fn list(members: &Members<'_>) -> std::io::Result<Vec<u32>> {
    // Through the open folder of the process, so that it is this very process.
    let folder = members.dir.file("fd")?;
    let entries = std::fs::read_dir(format!("/proc/self/fd/{}", folder.as_raw_fd()))?;
    let named = |name: &std::ffi::OsStr| name.to_str().and_then(|name| name.parse().ok());
    let listed = entries.filter_map(|entry| entry.map(|entry| named(&entry.file_name())).transpose());
    let mut numbers = listed.take(MOST_COUNTED).collect::<std::io::Result<Vec<u32>>>()?;
    numbers.sort_unstable();
    Ok(numbers)
}

/// What a descriptor is, by its link.
fn kind_of(target: &[u8]) -> &'static str {
    let starts = |start: &str| target.starts_with(start.as_bytes());
    match () {
        () if starts("socket:") => "socket",
        () if starts("pipe:") => "pipe",
        () if starts("anon_inode:[eventpoll]") => "epoll",
        () if starts("anon_inode:[eventfd]") => "eventfd",
        () if starts("anon_inode:[timerfd]") => "timerfd",
        () if starts("anon_inode:[signalfd]") => "signalfd",
        () if starts("anon_inode:[io_uring]") => "io_uring",
        () if starts("anon_inode:inotify") || starts("anon_inode:[fanotify]") => "inotify",
        () if starts("anon_inode:[perf_event]") => "perf",
        () if starts("anon_inode:[pidfd]") || starts("pidfd:") => "pidfd",
        () if starts("anon_inode:") => "other",
        () if starts("/memfd:") => "memfd",
        () if starts("/dev/") => "device",
        () if starts("/") && target.ends_with(b" (deleted)") => "deleted",
        () if starts("/") => "file",
        () => "other",
    }
}

/// The number in `socket:[123]`.
fn inode_of(target: &[u8], start: &[u8]) -> Option<u64> {
    let number = target.strip_prefix(start)?.strip_suffix(b"]")?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

fn position(info: &[u8]) -> Option<u64> {
    let text = String::from_utf8_lossy(info);
    text.lines().find_map(|line| line.strip_prefix("pos:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_by_their_links() {
        for (target, kind) in [
            ("socket:[12]", "socket"),
            ("pipe:[3]", "pipe"),
            ("anon_inode:[eventpoll]", "epoll"),
            ("anon_inode:bpf-map", "other"),
            ("/memfd:doublemapper (deleted)", "memfd"),
            ("/dev/null", "device"),
            ("/var/lib/x (deleted)", "deleted"),
            ("/var/lib/x", "file"),
            ("", "other"),
        ] {
            assert_eq!(kind_of(target.as_bytes()), kind, "{target}");
        }
        assert_eq!(inode_of(b"socket:[4026531840]", b"socket:["), Some(4_026_531_840));
        assert_eq!(inode_of(b"socket:[x]", b"socket:["), None);
        assert_eq!(position(b"pos:\t42\nflags:\t0100002\n"), Some(42));
    }
}
