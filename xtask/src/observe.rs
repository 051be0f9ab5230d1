//! What is seen of a process from outside, after something happened to it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

const WITHIN: Duration = Duration::from_secs(20);

/// Waits until it is so; `false`: it took too long.
pub(crate) fn until(is: impl FnMut() -> bool) -> bool {
    until_within(WITHIN, is)
}

/// Waits until it is so, for this time.
pub(crate) fn until_within(time: Duration, mut is: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + time;
    while !is() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    true
}

fn tasks(pid: u32) -> impl Iterator<Item = PathBuf> {
    let folder = std::fs::read_dir(format!("/proc/{pid}/task"));
    folder.into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Whether anybody traces one of its threads.
pub(crate) fn is_traced(pid: u32) -> bool {
    tasks(pid).any(|task| {
        let status = std::fs::read_to_string(task.join("status")).unwrap_or_default();
        let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
        tracer.is_some_and(|tracer| tracer.trim() != "0")
    })
}

/// Its children, dead or alive.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for task in tasks(pid) {
        let children = std::fs::read_to_string(task.join("children")).unwrap_or_default();
        found.extend(children.split_ascii_whitespace().filter_map(|word| word.parse::<u32>().ok()));
    }
    found
}
