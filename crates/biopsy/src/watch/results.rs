//! The folder of results: a folder for each rule, and in it what was made.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use biopsy_watch::keep::{Kept, Policy, to_remove};

/// What results are called, and what is left of one that was not finished.
const ENDINGS: [&str; 2] = [".biopsy.zip", ".recording"];
/// Deepest folder of a recording that is measured.
const DEEPEST: u32 = 8;

/// A result, and where it is.
pub(super) struct Result {
    pub(super) path: PathBuf,
    pub(super) kept: Kept,
}

/// All results but those that are being made. What has another name was put there by somebody else, and is not looked at.
pub(super) fn list(folder: &Path, being_made: &HashSet<PathBuf>) -> Vec<Result> {
    let mut results = Vec::new();
    for rule in entries(folder).into_iter().filter(|path| is_folder(path)) {
        for path in entries(&rule) {
            let name = name_of(&path);
            let stem = ENDINGS.iter().find_map(|ending| name.strip_suffix(ending));
            let Some(stem) = stem.filter(|_| !being_made.contains(&path)) else { continue };
            let Ok(meta) = path.symlink_metadata() else { continue };
            if meta.file_type().is_symlink() {
                continue;
            }
            // From the future: it counts as made now.
            let age = meta.modified().ok().and_then(|time| SystemTime::now().duration_since(time).ok());
            let is_marked = ["", ".biopsy.zip"]
                .iter()
                .any(|ending| path.with_file_name(format!("{stem}{ending}.keep")).symlink_metadata().is_ok());
            let bytes = size(&path, DEEPEST);
            let kept = Kept { rule: name_of(&rule), name, age: age.unwrap_or_default(), bytes, is_marked };
            results.push(Result { path, kept });
        }
    }
    results
}

/// Removes what the policy does not keep; says what.
pub(super) fn clean(
    folder: &Path,
    policy: &Policy,
    missing: u64,
    being_made: &HashSet<PathBuf>,
) -> Vec<Kept> {
    let results = list(folder, being_made);
    let kept: Vec<Kept> = results.iter().map(|result| result.kept.clone()).collect();
    let gone: BTreeSet<usize> = to_remove(&kept, policy, missing);
    let remove = |index: &usize| {
        let path = &results[*index].path;
        let removed = if is_folder(path) { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        removed.is_ok().then(|| kept[*index].clone())
    };
    gone.iter().filter_map(remove).collect()
}

/// Free bytes where results go; all that there can be where nobody can tell.
pub(super) fn free(folder: &Path) -> u64 {
    rustix::fs::statvfs(folder).map_or(u64::MAX, |disk| disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Where the result of a command goes: nothing is there yet.
pub(super) fn name(folder: &Path, rule: &str, title: &str, pid: u32) -> PathBuf {
    let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' };
    let title: String = title.chars().map(safe).take(60).collect();
    let time = jiff::Zoned::now().strftime("%Y%m%d-%H%M%S");
    let stem = format!("{title}-{pid}-{time}");
    let path = |number: u32| {
        let number = if number == 0 { String::new() } else { format!("-{number}") };
        folder.join(rule).join(format!("{stem}{number}.biopsy.zip"))
    };
    (0..1000).map(path).find(|path| path.symlink_metadata().is_err()).unwrap_or_else(|| path(1000))
}

/// The folder that a bundle is made from.
pub(super) fn draft_of(bundle: &Path) -> PathBuf {
    let name = name_of(bundle);
    bundle.with_file_name(format!("{}.recording", name.strip_suffix(".biopsy.zip").unwrap_or(&name)))
}

/// How long ago a result was made.
pub(super) fn ages(folder: &Path) -> Vec<(String, Duration)> {
    list(folder, &HashSet::new()).into_iter().map(|result| (result.kept.rule, result.kept.age)).collect()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn is_folder(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|meta| meta.is_dir())
}

fn size(path: &Path, depth: u32) -> u64 {
    let Ok(meta) = path.symlink_metadata() else { return 0 };
    if !meta.is_dir() {
        return meta.len();
    }
    let Some(depth) = depth.checked_sub(1) else { return 0 };
    entries(path).iter().map(|path| size(path, depth)).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_results_are_counted_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let rule = folder.path().join("slow");
        fs::create_dir(&rule).unwrap();
        for name in
            ["a.biopsy.zip", "b.biopsy.zip", "c.biopsy.zip", "notes.txt", "b.biopsy.zip.keep", "d.biopsy.zip"]
        {
            fs::write(rule.join(name), [0; 100]).unwrap();
        }
        fs::create_dir(rule.join("e.recording")).unwrap();
        fs::write(rule.join("e.recording/timeline"), [0; 50]).unwrap();
        fs::write(folder.path().join("f.biopsy.zip"), "").unwrap();
        let long_ago = SystemTime::now() - Duration::from_secs(1000);
        for (name, ago) in [("a.biopsy.zip", 50), ("b.biopsy.zip", 100), ("e.recording", 20)] {
            let file = fs::File::open(rule.join(name)).unwrap();
            file.set_modified(long_ago - Duration::from_secs(ago)).unwrap();
        }
        let being_made = HashSet::from([rule.join("d.biopsy.zip")]);
        let policy = Policy { age: Duration::from_secs(500), ..Policy::default() };
        let removed = clean(folder.path(), &policy, 0, &being_made);
        let names: Vec<&str> = removed.iter().map(|kept| kept.name.as_str()).collect();
        assert_eq!(names.len(), 2, "{names:?}");
        assert!(removed.iter().any(|kept| kept.name == "e.recording" && kept.bytes == 50));
        for (name, there) in [
            ("slow/a.biopsy.zip", false),
            ("slow/b.biopsy.zip", true),
            ("slow/c.biopsy.zip", true),
            ("slow/d.biopsy.zip", true),
            ("slow/notes.txt", true),
            ("f.biopsy.zip", true),
        ] {
            assert_eq!(folder.path().join(name).exists(), there, "{name}");
        }
    }

    #[test]
    fn names_are_harmless_and_new() {
        let folder = tempfile::tempdir().unwrap();
        let first = name(folder.path(), "slow", "../x y\n", 7);
        assert!(
            first.starts_with(folder.path().join("slow")) && first.to_string_lossy().contains(".._x_y_-7-")
        );
        fs::create_dir(folder.path().join("slow")).unwrap();
        fs::write(&first, "").unwrap();
        assert_ne!(name(folder.path(), "slow", "../x y\n", 7), first);
        assert_eq!(draft_of(Path::new("/r/a-1.biopsy.zip")), Path::new("/r/a-1.recording"));
    }
}
