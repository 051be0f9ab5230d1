//! CPU time and memory of a process, from /proc.

/// Clock ticks a second; `sysconf(_SC_CLK_TCK)` is 100 on every Linux that Debian builds.
const TICKS: f64 = 100.0;

/// CPU seconds of a process and of its children that ended; 0 for one that is gone.
#[must_use]
pub fn cpu_seconds(pid: u32) -> f64 {
    let Ok(bytes) = std::fs::read(format!("/proc/{pid}/stat")) else { return 0.0 };
    // The name may hold anything, also parentheses: fields are counted behind the last one.
    let Some(close) = bytes.iter().rposition(|byte| *byte == b')') else { return 0.0 };
    let text = String::from_utf8_lossy(&bytes[close + 1..]);
    // utime, stime, cutime, cstime are fields 14 to 17 of the line; the first here is field 3.
    let ticks: f64 =
        text.split_ascii_whitespace().skip(11).take(4).filter_map(|word| word.parse::<f64>().ok()).sum();
    ticks / TICKS
}

/// The most memory it has had resident, in MB; 0 for one that is gone.
#[must_use]
pub fn peak_memory_mb(pid: u32) -> f64 {
    of_status(pid, "VmHWM:")
}

/// The memory it has resident, in MB; 0 for one that is gone.
#[must_use]
pub fn resident_mb(pid: u32) -> f64 {
    of_status(pid, "VmRSS:")
}

fn of_status(pid: u32, key: &str) -> f64 {
    let status = std::fs::read(format!("/proc/{pid}/status")).unwrap_or_default();
    String::from_utf8_lossy(&status)
        .lines()
        .find_map(|line| line.strip_prefix(key)?.split_ascii_whitespace().next()?.parse::<f64>().ok())
        .map_or(0.0, |kib| kib / 1024.0)
}

/// It has ended and nobody has waited for it yet: its times can still be read.
#[must_use]
pub fn is_zombie(pid: u32) -> bool {
    let bytes = std::fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    let close = bytes.iter().rposition(|byte| *byte == b')').unwrap_or(0);
    bytes.get(close + 2).is_none_or(|state| *state == b'Z')
}

/// Bytes of a file, or of all files below a folder.
#[must_use]
pub fn bytes_on_disk(path: &std::path::Path) -> u64 {
    let Ok(metadata) = path.symlink_metadata() else { return 0 };
    if !metadata.is_dir() {
        return metadata.len();
    }
    std::fs::read_dir(path)
        .map(|entries| entries.flatten().map(|entry| bytes_on_disk(&entry.path())).sum())
        .unwrap_or(0)
}
