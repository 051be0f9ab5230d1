//! Finds the files that a pattern means, within limits of time and number.
//!
//! The patterns are those of the `glob` crate, the walk is ours: it must end on `/**` as well, follow no link
//! to a folder in `**`, and tell what it left out.

use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use glob::{MatchOptions, Pattern};

use super::place::Place;

/// Entries of folders that one pattern may look at, and how long.
const MOST_ENTRIES: usize = 200_000;
const LONGEST: Duration = Duration::from_secs(5);

/// Paths that one pattern may yield.
const MOST_PATHS: usize = 1_000;

/// Folders below `**`.
const DEEPEST: usize = 16;

const OPTIONS: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

/// What a pattern led to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Found {
    /// Paths in alphabetical order.
    pub(crate) paths: Vec<PathBuf>,
    /// Folders that could not be read.
    pub(crate) unreadable: Vec<PathBuf>,
    /// A limit ended the walk.
    pub(crate) limited: bool,
}

struct Walk<'a> {
    place: &'a Place,
    found: Found,
    entries: usize,
    until: Instant,
}

/// Finds what `pattern` matches, seen from `place`.
///
/// # Errors
/// What is wrong with the pattern.
pub(crate) fn find(place: &Place, pattern: &str) -> Result<Found, String> {
    // A name with brackets in it, as a shell hands it over.
    if place.has(Path::new(pattern)) {
        return Ok(Found { paths: vec![PathBuf::from(pattern)], ..Found::default() });
    }
    let mut base = PathBuf::new();
    let mut parts = Vec::new();
    for component in Path::new(pattern).components() {
        match component {
            Component::Normal(name) => {
                let name = name.to_string_lossy();
                if parts.is_empty() && !has_wildcard(&name) {
                    base.push(&*name);
                } else if name == "**" {
                    parts.push(Part::AnyFolders);
                } else {
                    parts.push(Part::Name(Pattern::new(&name).map_err(|error| error.msg.to_owned())?));
                }
            }
            // `..` after a wildcard has no clear meaning; before one it is part of the path.
            other if parts.is_empty() => base.push(other),
            _ => return Err("`..` after a wildcard".to_owned()),
        }
    }
    let until = Instant::now() + LONGEST;
    let mut walk = Walk { place, found: Found::default(), entries: 0, until };
    walk.run(base, &parts);
    walk.found.paths.sort();
    walk.found.paths.dedup();
    Ok(walk.found)
}

enum Part {
    Name(Pattern),
    AnyFolders,
}

fn has_wildcard(name: &str) -> bool {
    name.contains(['*', '?', '['])
}

impl Walk<'_> {
    fn run(&mut self, base: PathBuf, parts: &[Part]) {
        // A list of work instead of recursion: path, part, and how deep in `**`.
        let mut todo = vec![(base, 0_usize, 0_usize)];
        while let Some((path, index, depth)) = todo.pop() {
            match parts.get(index) {
                None => {
                    if self.place.has(&path) {
                        self.keep(path);
                    }
                }
                Some(part) => self.step(&path, part, index, depth, &mut todo),
            }
            if self.found.limited {
                return;
            }
        }
    }

    fn step(
        &mut self,
        folder: &Path,
        part: &Part,
        index: usize,
        depth: usize,
        todo: &mut Vec<(PathBuf, usize, usize)>,
    ) {
        if matches!(part, Part::AnyFolders) {
            // No folder at all is also any number of folders.
            todo.push((folder.to_owned(), index + 1, 0));
        }
        let mut unreadable = |error: &std::io::Error| {
            // What is not there, or is no folder, has nothing that could match.
            let nothing =
                matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory);
            if !nothing && self.found.unreadable.len() < 100 {
                self.found.unreadable.push(folder.to_owned());
            }
        };
        let entries = match self.place.entries(folder) {
            Ok(entries) => entries,
            Err(error) => return unreadable(&error),
        };
        for entry in entries {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => return unreadable(&error),
            };
            self.entries += 1;
            if self.entries > MOST_ENTRIES || Instant::now() > self.until {
                self.found.limited = true;
                return;
            }
            let name = entry.file_name();
            let kind = entry.file_type().ok();
            match part {
                Part::AnyFolders => {
                    let hidden = name.as_encoded_bytes().starts_with(b".");
                    if kind.is_some_and(|kind| kind.is_dir()) && !hidden && depth < DEEPEST {
                        todo.push((folder.join(&name), index, depth + 1));
                    }
                }
                Part::Name(pattern) => {
                    if pattern.matches_with(&name.to_string_lossy(), OPTIONS) {
                        todo.push((folder.join(&name), index + 1, 0));
                    }
                }
            }
        }
    }

    fn keep(&mut self, path: PathBuf) {
        if self.found.paths.len() >= MOST_PATHS {
            self.found.limited = true;
        } else {
            self.found.paths.push(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn tree() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for path in
            ["a/x.log", "a/y.txt", "a/b/z.log", "a/b/c/deep.log", "top.log", ".hidden/h.log", "[odd].log"]
        {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
            fs::write(path, "").expect("write");
        }
        std::os::unix::fs::symlink("..", folder.path().join("a/up")).expect("link");
        folder
    }

    #[track_caller]
    fn check(pattern: &str, expected: &[&str]) {
        let folder = tree();
        let found = find(&Place::Here, &format!("{}/{pattern}", folder.path().display())).expect("a pattern");
        let names: Vec<String> = found
            .paths
            .iter()
            .map(|path| path.strip_prefix(folder.path()).expect("below").display().to_string())
            .collect();
        assert_eq!(names, expected, "{pattern}");
        assert!(!found.limited);
    }

    #[test]
    fn patterns() {
        check("a/x.log", &["a/x.log"]);
        check("a/none.log", &[]);
        check("*.log", &["[odd].log", "top.log"]);
        check("*/*.log", &["a/x.log"]);
        check("a/?.[lt]*", &["a/x.log", "a/y.txt"]);
        check("**/*.log", &["[odd].log", "a/b/c/deep.log", "a/b/z.log", "a/x.log", "top.log"]);
        check("a/**/z.log", &["a/b/z.log"]);
        check("[[]odd].log", &["[odd].log"]);
        check("[odd].log", &["[odd].log"]);
    }

    #[test]
    fn wrong_patterns_are_told() {
        assert!(find(&Place::Here, "/a/***").is_err());
        assert!(find(&Place::Here, "/a/*/../b").is_err());
        assert!(find(&Place::Here, "/a/[").is_err());
    }

    #[test]
    fn too_many_paths_end_the_walk() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for number in 0..=MOST_PATHS {
            fs::write(folder.path().join(number.to_string()), "").expect("write");
        }
        let found = find(&Place::Here, &format!("{}/*", folder.path().display())).expect("a pattern");
        assert!(found.limited);
        assert_eq!(found.paths.len(), MOST_PATHS);
    }
}
