//! What a kill left behind.

use std::path::{Path, PathBuf};

use crate::observe::children;

/// Exit code of a copy that had to end by itself, as `stat` has it.
const EXIT_MARK: &str = "45312";

/// Children, dead or alive, that are not among those that were known.
pub(crate) fn new_children(pids: &[u32], known: &[u32]) -> Vec<u32> {
    pids.iter().flat_map(|&pid| children(pid)).filter(|child| !known.contains(child)).collect()
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
