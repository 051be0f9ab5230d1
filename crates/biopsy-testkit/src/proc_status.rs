//! The few facts of `/proc/PID` that the guards and the survival check compare.

use std::path::{Path, PathBuf};

/// One field of `/proc/PID/status`, trimmed. The process's own name cannot fake a field: the kernel escapes newlines there.
pub(crate) fn field(pid: u32, name: &str) -> Option<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/status")).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(name)?.strip_prefix(':')?;
        Some(rest.trim().to_owned())
    })
}

/// State letter and start time (clock ticks since boot) of `/proc/PID/stat`, parsed behind the last parenthesis because
/// the name before it may hold anything.
pub(crate) fn state_and_start(pid: u32) -> Option<(char, u64)> {
    let bytes = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let close = bytes.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(bytes.get(close + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    // Field 22 of the line; the state just taken was field 3.
    let start = fields.nth(22 - 4)?.parse().ok()?;
    Some((state, start))
}

/// Parent of `pid`.
fn parent(pid: u32) -> Option<u32> {
    field(pid, "PPid")?.parse().ok()
}

/// The pid that `pid` has in its own, innermost pid namespace.
fn innermost_pid(pid: u32) -> Option<u32> {
    field(pid, "NSpid")?.split_ascii_whitespace().last()?.parse().ok()
}

/// `root` or one of its descendants that calls itself `announced` in its own pid namespace.
pub(crate) fn find_announced(root: u32, announced: u32) -> Option<u32> {
    if innermost_pid(root) == Some(announced) {
        return Some(root);
    }
    let entries = std::fs::read_dir("/proc").ok()?;
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .find(|pid| innermost_pid(*pid) == Some(announced) && is_descendant(*pid, root))
}

fn is_descendant(pid: u32, root: u32) -> bool {
    let mut current = pid;
    // A chain of parents ends at pid 1; the bound is for a chain that changes while it is walked.
    for _ in 0..64 {
        match parent(current) {
            Some(above) if above == root => return true,
            Some(above) if above > 1 => current = above,
            _ => return false,
        }
    }
    false
}

/// Where each open file descriptor of `pid` leads, sorted.
pub(crate) fn open_files(pid: u32) -> Vec<PathBuf> {
    let mut links: Vec<PathBuf> = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .map(|entries| entries.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok()).collect())
        .unwrap_or_default();
    links.sort();
    links
}

/// The files mapped by `pid`, sorted and each once: an injected library would be one more.
pub(crate) fn mapped_files(pid: u32) -> Vec<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let mut files: Vec<String> = text
        .lines()
        .filter_map(|line| line.find('/').map(|at| line[at..].to_owned()))
        .filter(|path| Path::new(path).is_absolute())
        .collect();
    files.sort();
    files.dedup();
    files
}
