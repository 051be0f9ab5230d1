//! The folder of results: a folder for each rule, and in it what was made.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use biopsy_model::Pid;
use biopsy_recording::Limits;
use biopsy_watch::Settings;
use biopsy_watch::keep::{Clocks, Kept, Policy, WallClock, to_remove};

use crate::journal::{JournalFolder, now};
use crate::report;

/// What results are called, and what is left of one that was not finished.
const ENDINGS: [&str; 2] = [".biopsy.zip", ".recording"];
/// Deepest folder of a recording that is measured.
const DEEPEST: u32 = 8;

/// Where results go.
pub fn folder(settings: &Settings, journal: &JournalFolder) -> PathBuf {
    settings.folder.clone().unwrap_or_else(|| journal.path().join("watch"))
}

/// A result, and where it is.
#[derive(Debug)]
pub struct Result {
    /// Where.
    pub path: PathBuf,
    /// What decides how long it is kept.
    pub kept: Kept,
    /// What its name says.
    pub stem: Stem,
}

/// What a name says that [`name`] gives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stem {
    /// The process.
    pub title: String,
    /// Its id.
    pub pid: Pid,
    /// When its recording began, in the zone of the watcher.
    pub begun: jiff::civil::DateTime,
}

impl Result {
    /// Titles of its findings, the first is the most important; none: it has no report.
    #[must_use]
    pub fn findings(&self) -> Vec<String> {
        biopsy_recording::read_report(&self.path, &Limits::default())
            .map(|report| report::titles(&report))
            .unwrap_or_default()
    }

    /// It is a recording that was not finished.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.path.extension().is_none_or(|ending| ending != "zip")
    }
}

/// Reads a name without its ending: `TITLE-PID-DATE-TIME`, perhaps with a number behind it. Any other is of a bundle that somebody else put
/// there, and is not ours to remove.
fn read_stem(stem: &str) -> Option<Stem> {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let of = |stem: &str| {
        let mut parts = stem.rsplitn(4, '-');
        let (time, date, pid) = (parts.next()?, parts.next()?, parts.next()?);
        let title = parts.next()?.to_owned();
        let is_exact =
            is_number(time) && is_number(date) && is_number(pid) && time.len() == 6 && date.len() == 8;
        let begun = jiff::civil::DateTime::strptime("%Y%m%d%H%M%S", format!("{date}{time}")).ok()?;
        is_exact.then_some(Stem { title, pid: Pid(pid.parse().ok()?), begun })
    };
    let without_number =
        || stem.rsplit_once('-').filter(|(_, number)| is_number(number)).and_then(|(stem, _)| of(stem));
    of(stem).or_else(without_number)
}

/// Both clocks now.
pub(crate) fn clocks() -> Clocks {
    Clocks { moment: now(), wall: unix(SystemTime::now()) }
}

fn unix(time: SystemTime) -> Duration {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// All results, by the clock of the wall.
pub fn all(folder: &Path) -> Vec<Result> {
    list(folder, &HashSet::new(), &WallClock::begin(clocks()))
}

/// All results but those that are being made. What has another name was put there by somebody else, and is not looked at.
fn list(folder: &Path, being_made: &HashSet<PathBuf>, clock: &WallClock) -> Vec<Result> {
    let now = clocks();
    let mut results = Vec::new();
    for rule in entries(folder).into_iter().filter(|path| is_folder(path)) {
        for path in entries(&rule) {
            let name = name_of(&path);
            let stem = ENDINGS.iter().find_map(|ending| name.strip_suffix(ending));
            let Some((stem, read)) = stem.and_then(|stem| Some((stem, read_stem(stem)?))) else { continue };
            if being_made.contains(&path) {
                continue;
            }
            let Ok(meta) = path.symlink_metadata() else { continue };
            if meta.file_type().is_symlink() {
                continue;
            }
            let age = meta.modified().map(|time| clock.age(now, unix(time)));
            let is_marked = ["", ".biopsy.zip"]
                .iter()
                .any(|ending| path.with_file_name(format!("{stem}{ending}.keep")).symlink_metadata().is_ok());
            let bytes = size(&path, DEEPEST);
            let kept = Kept { rule: name_of(&rule), name, age: age.unwrap_or_default(), bytes, is_marked };
            results.push(Result { path, kept, stem: read });
        }
    }
    results
}

/// Removes what the policy does not keep; says what.
pub(crate) fn clean(
    folder: &Path,
    policy: &Policy,
    missing: u64,
    being_made: &HashSet<PathBuf>,
    clock: &WallClock,
) -> Vec<Kept> {
    let results = list(folder, being_made, clock);
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
pub(crate) fn free(folder: &Path) -> u64 {
    rustix::fs::statvfs(folder).map_or(u64::MAX, |disk| disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Where the result of a command goes: nothing is there yet, and nothing that is being made will be.
pub(crate) fn name(
    folder: &Path,
    rule: &str,
    title: &str,
    pid: u32,
    is_taken: impl Fn(&Path) -> bool,
) -> PathBuf {
    let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' };
    let title: String = title.chars().map(safe).take(60).collect();
    let time = jiff::Zoned::now().strftime("%Y%m%d-%H%M%S");
    let stem = format!("{title}-{pid}-{time}");
    let path = |number: u32| {
        let number = if number == 0 { String::new() } else { format!("-{number}") };
        folder.join(rule).join(format!("{stem}{number}.biopsy.zip"))
    };
    let is_free = |path: &PathBuf| path.symlink_metadata().is_err() && !is_taken(path);
    (0..1000).map(path).find(is_free).unwrap_or_else(|| path(1000))
}

/// The folder that a bundle is made from.
pub(crate) fn draft_of(bundle: &Path) -> PathBuf {
    let name = name_of(bundle);
    bundle.with_file_name(format!("{}.recording", name.strip_suffix(".biopsy.zip").unwrap_or(&name)))
}

/// How long ago a result was made.
pub(crate) fn ages(folder: &Path) -> Vec<(String, Duration)> {
    all(folder).into_iter().map(|result| (result.kept.rule, result.kept.age)).collect()
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
        for name in [
            "a-7-20261123-192401.biopsy.zip",
            "b-7-20261123-192401.biopsy.zip",
            "c-7-20261123-192401.biopsy.zip",
            "notes.txt",
            "own.biopsy.zip",
            "b-7-20261123-192401.biopsy.zip.keep",
            "d-7-20261123-192401.biopsy.zip",
        ] {
            fs::write(rule.join(name), [0; 100]).unwrap();
        }
        fs::create_dir(rule.join("e-7-20261123-192401-2.recording")).unwrap();
        fs::write(rule.join("e-7-20261123-192401-2.recording/timeline"), [0; 50]).unwrap();
        fs::write(folder.path().join("f.biopsy.zip"), "").unwrap();
        let long_ago = SystemTime::now() - Duration::from_secs(1000);
        for (name, ago) in [
            ("a-7-20261123-192401.biopsy.zip", 50),
            ("b-7-20261123-192401.biopsy.zip", 100),
            ("e-7-20261123-192401-2.recording", 20),
        ] {
            let file = fs::File::open(rule.join(name)).unwrap();
            file.set_modified(long_ago - Duration::from_secs(ago)).unwrap();
        }
        let being_made = HashSet::from([rule.join("d-7-20261123-192401.biopsy.zip")]);
        let policy = Policy { age: Duration::from_secs(500), ..Policy::default() };
        let removed = clean(folder.path(), &policy, 0, &being_made, &WallClock::begin(clocks()));
        let names: Vec<&str> = removed.iter().map(|kept| kept.name.as_str()).collect();
        assert_eq!(names.len(), 2, "{names:?}");
        assert!(
            removed.iter().any(|kept| kept.name == "e-7-20261123-192401-2.recording" && kept.bytes == 50)
        );
        for (name, there) in [
            ("slow/a-7-20261123-192401.biopsy.zip", false),
            ("slow/b-7-20261123-192401.biopsy.zip", true),
            ("slow/c-7-20261123-192401.biopsy.zip", true),
            ("slow/d-7-20261123-192401.biopsy.zip", true),
            ("slow/notes.txt", true),
            ("slow/own.biopsy.zip", true),
            ("f.biopsy.zip", true),
        ] {
            assert_eq!(folder.path().join(name).exists(), there, "{name}");
        }
    }

    #[test]
    fn only_names_of_ours_are_results() {
        for (stem, wanted) in [
            ("shop-7-20261123-192401", Some(("shop", 7))),
            ("my-shop-7-20261123-192401-3", Some(("my-shop", 7))),
            ("-7-20261123-192401", Some(("", 7))),
            ("7-20261123-192401", None),
            ("shop-20261123-192401", None),
            ("case-4711", None),
            ("shop", None),
            ("shop-7-2026-192401", None),
            ("shop-x-20261123-192401", None),
            ("shop-7-20269923-192401", None),
            ("shop-99999999999-20261123-192401", None),
            ("", None),
        ] {
            let read = read_stem(stem);
            assert_eq!(read.as_ref().map(|read| (read.title.as_str(), read.pid.0)), wanted, "{stem}");
            let begun = read.map(|read| read.begun.to_string());
            assert!(begun.is_none_or(|begun| begun == "2026-11-23T19:24:01"), "{stem}");
        }
    }

    #[test]
    fn names_are_harmless_and_new() {
        let folder = tempfile::tempdir().unwrap();
        let first = name(folder.path(), "slow", "../x y\n", 7, |_| false);
        // One that waits has no file yet.
        assert_ne!(name(folder.path(), "slow", "../x y\n", 7, |path| path == first), first);
        assert!(
            first.starts_with(folder.path().join("slow")) && first.to_string_lossy().contains(".._x_y_-7-")
        );
        fs::create_dir(folder.path().join("slow")).unwrap();
        fs::write(&first, "").unwrap();
        assert_ne!(name(folder.path(), "slow", "../x y\n", 7, |_| false), first);
        assert_eq!(draft_of(Path::new("/r/a-1.biopsy.zip")), Path::new("/r/a-1.recording"));
    }
}
