//! The older parts of a log that was rotated: `x.log.1`, `x.log.2.gz`, `x-20261121.log`, `x.2026-11-21.log`.

use biopsy_model::order::Order as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::place::Place;

/// Older parts that are looked at for one log, the newest first.
const MOST_PARTS: usize = 20;

/// Entries of a folder that are looked at.
const MOST_ENTRIES: usize = 20_000;

/// Endings of compressed files.
const COMPRESSED: [&str; 7] = [".gz", ".zst", ".xz", ".bz2", ".Z", ".zip", ".lz4"];

/// Words that stand in for a number.
const WORDS: [&str; 4] = ["old", "bak", "prev", "previous"];

/// How a file is packed, by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Packing {
    Plain,
    Gzip,
    Zstd,
    /// Packed in a way that is not read.
    Other,
}

/// Tells the packing by the name.
pub(crate) fn packing(path: &Path) -> Packing {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("gz") => Packing::Gzip,
        Some("zst") => Packing::Zstd,
        Some("xz" | "bz2" | "Z" | "zip" | "lz4") => Packing::Other,
        _ => Packing::Plain,
    }
}

/// Older parts of `path` that were modified at `since` or later, the newest first.
pub(crate) fn find_parts(place: &Place, path: &Path, since: SystemTime) -> Vec<PathBuf> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Vec::new();
    };
    let Ok(entries) = place.entries(folder) else { return Vec::new() };
    // A file system may keep whole seconds only.
    let since = since.checked_sub(Duration::from_secs(2)).unwrap_or(since);
    let mut parts: Vec<(SystemTime, PathBuf)> = entries
        .take(MOST_ENTRIES)
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(|other| is_part_of(other, name)))
        .filter_map(|entry| {
            let modified = entry.metadata().ok().filter(fs::Metadata::is_file)?.modified().ok()?;
            (modified >= since).then(|| (modified, folder.join(entry.file_name())))
        })
        .collect();
    parts.order_by(|a, b| b.cmp(a));
    parts.truncate(MOST_PARTS);
    parts.into_iter().map(|(_, path)| path).collect()
}

/// Whether `other` is an older part of the log `name`.
fn is_part_of(other: &str, name: &str) -> bool {
    let other_plain = COMPRESSED.iter().find_map(|ending| other.strip_suffix(ending)).unwrap_or(other);
    if other == name {
        return false;
    }
    if other_plain == name {
        return true;
    }
    if let Some(rest) = other_plain.strip_prefix(name) {
        return is_number(rest);
    }
    // The number before the ending: `x-1.log`.
    let Some((stem, ending)) = name.rsplit_once('.') else { return false };
    let middle = other_plain.strip_prefix(stem).and_then(|rest| rest.strip_suffix(ending)?.strip_suffix('.'));
    middle.is_some_and(is_number)
}

/// `.1`, `-20261121`, `.2026-11-21T10:00:00`, `.old`.
fn is_number(text: &str) -> bool {
    let Some(rest) = text
        .strip_prefix(['.', '-', '_'])
        .or_else(|| text.starts_with(|c: char| c.is_ascii_digit()).then_some(text))
    else {
        return false;
    };
    let date = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '_' | ':' | 'T' | 'Z');
    WORDS.contains(&rest) || (rest.contains(|c: char| c.is_ascii_digit()) && rest.chars().all(date))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_from_other_logs() {
        for part in [
            "x.log.1",
            "x.log.2.gz",
            "x.log-20261121",
            "x.log-20261121.gz",
            "x.log.2026-11-21",
            "x-2026-11-21.log",
            "x.3.log.zst",
            "x20261121.log",
            "x.log.old",
            "x.log.gz",
            "x.log.2026-11-21T10:00:00Z",
        ] {
            assert!(is_part_of(part, "x.log"), "{part}");
        }
        for other in
            ["x.log", "y.log.1", "x-access.log", "x.log.swp", "x.log.d", "xx.log", "x", "x..log", "x.log."]
        {
            assert!(!is_part_of(other, "x.log"), "{other}");
        }
        assert!(is_part_of("syslog.1", "syslog"));
        assert!(!is_part_of("syslogger", "syslog"));
    }

    #[test]
    fn only_parts_that_may_reach_into_the_window() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        for (name, age) in [("x.log", 0), ("x.log.1", 10), ("x.log.2.gz", 3_000), ("x.log.3", 5)] {
            let file = fs::File::create(folder.path().join(name)).expect("create");
            file.set_modified(start + Duration::from_secs(1_000) - Duration::from_secs(age)).expect("times");
        }
        let parts = find_parts(&Place::Here, &folder.path().join("x.log"), start);
        let names: Vec<_> = parts.iter().filter_map(|path| path.file_name()?.to_str()).collect();
        assert_eq!(names, ["x.log.3", "x.log.1"]);
    }
}
