//! What is looked at after a kill.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const WITHIN: Duration = Duration::from_secs(20);
/// Exit code of a copy that had to end by itself, as `stat` has it.
const EXIT_MARK: &str = "45312";

pub(crate) fn until(mut is: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + WITHIN;
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

pub(crate) fn is_traced(pid: u32) -> bool {
    tasks(pid).any(|task| {
        let status = std::fs::read_to_string(task.join("status")).unwrap_or_default();
        let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
        tracer.is_some_and(|tracer| tracer.trim() != "0")
    })
}

/// Children, dead or alive, that are not among those that were known.
pub(crate) fn new_children(pids: &[u32], known: &[u32]) -> Vec<u32> {
    let mut found = Vec::new();
    for task in pids.iter().flat_map(|&pid| tasks(pid)) {
        let children = std::fs::read_to_string(task.join("children")).unwrap_or_default();
        let children = children.split_ascii_whitespace().filter_map(|word| word.parse::<u32>().ok());
        found.extend(children.filter(|child| !known.contains(child)));
    }
    found
}

/// Zombies of copies anywhere on this machine: with the mark of those that had to end by themselves, or killed after they were
/// made the first to go when memory runs short.
pub(crate) fn dead_copies() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_one = |pid: &u32| {
        let text = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let stat = text("stat");
        let fields = stat.rsplit_once(") ").map_or("", |(_, rest)| rest.trim_end());
        let ended_with = |code: &str| fields.rsplit(' ').next() == Some(code);
        fields.starts_with('Z')
            && (ended_with(EXIT_MARK) || ended_with("9") && text("oom_score_adj").trim() == "1000")
    };
    pids.filter(is_one).collect()
}

/// What is in these folders.
pub(crate) fn strange_files(folders: &[&Path]) -> Vec<PathBuf> {
    let entries = folders.iter().flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten().flatten());
    entries.map(|entry| entry.path()).collect()
}

/// A file or a folder.
pub(crate) fn remove(path: &Path) {
    // Whatever cannot be removed is found once more.
    let _ = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
}
