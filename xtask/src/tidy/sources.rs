//! Rules about files: module lines, unsafe, lists, machine paths.

use std::path::Path;
use std::process::Command;

use crate::run::{Outcome, output_of, root};

/// Longer than this a file is listed, so that somebody looks for a seam.
const LONG_FILE_LINES: usize = 700;

/// Places that exist on one machine only. Written in parts, so that this file does not violate its own rule.
const MACHINE_PATHS: &[&[&str]] = &[
    &["/work", "/main"],
    &["/work", "/shared"],
    &["/home", "/user"],
    &["/root", "/.cargo"],
    &["/tmp", "/target-"],
];

/// Every file of the repository that is, or is about to be, under version control.
pub(crate) fn tracked_files() -> Outcome<Vec<String>> {
    let mut git = Command::new("git");
    // CI may have checked out as another user than the one who runs this; listing names is harmless.
    git.args(["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root());
    let mut files: Vec<String> = output_of(&mut git)?.split('\0').map(str::to_owned).collect();
    files.retain(|file| root().join(file).is_file());
    files.sort();
    files.dedup();
    Ok(files)
}

/// What is wrong with them.
pub(crate) fn violations(files: &[String]) -> Outcome<Vec<String>> {
    let mut found = Vec::new();
    for file in files {
        let Some(text) = text_of(file)? else { continue };
        if file.ends_with(".rs") && !starts_with_module_line(&text) {
            found.push(format!("`{file}` does not start with a `//!` line"));
        }
        if is_crate_root(file)
            && !file.starts_with("crates/biopsy-sys/")
            && !text.contains("#![forbid(unsafe_code)]")
        {
            found.push(format!(
                "`{file}` lacks `#![forbid(unsafe_code)]`: unsafe code is in `biopsy-sys` only"
            ));
        }
        for path in MACHINE_PATHS.iter().map(|parts| parts.concat()) {
            if let Some(line) = text.lines().position(|line| line.contains(&path)) {
                found.push(format!("`{file}` line {} names `{path}`, a path of one machine", line + 1));
            }
        }
        if !file.starts_with("crates/biopsy-testkit/") && file.ends_with(".rs") && skips_by_itself(&text) {
            found.push(format!(
                "`{file}` skips by itself: `require` and its like in `biopsy-testkit` fail where CI demands it"
            ));
        }
        if file.ends_with("Cargo.lock") {
            found.extend(foreign_registries(file, &text));
        }
    }
    found.extend(crate_list_violations(files)?);
    Ok(found)
}

/// Files in which to look for a seam.
pub(crate) fn long_files(files: &[String]) -> Outcome<Vec<String>> {
    let mut notes = Vec::new();
    for file in files.iter().filter(|file| file.ends_with(".rs")) {
        let lines = text_of(file)?.map_or(0, |text| text.lines().count());
        if lines > LONG_FILE_LINES {
            notes.push(format!("`{file}` has {lines} lines; is there a seam?"));
        }
    }
    Ok(notes)
}

/// The text of a file; `None`: it is not text.
fn text_of(file: &str) -> Outcome<Option<String>> {
    let bytes = std::fs::read(root().join(file)).map_err(|error| format!("cannot read `{file}`: {error}"))?;
    Ok(String::from_utf8(bytes).ok())
}

/// Build-independent attributes and cargo's `#!` of scripts may not come before it: the first line is the purpose.
fn starts_with_module_line(text: &str) -> bool {
    text.lines().next().is_some_and(|line| line.starts_with("//! ") && line.len() > 8)
}

/// Says on the terminal that something is skipped, which nobody reads.
fn skips_by_itself(text: &str) -> bool {
    ["skipped", "not tried"].iter().any(|word| text.contains(&format!("eprintln!(\"{word}")))
}

fn is_crate_root(file: &str) -> bool {
    (file.starts_with("crates/") || file.starts_with("xtask/"))
        && (file.ends_with("/src/lib.rs") || file.ends_with("/src/main.rs"))
}

fn foreign_registries(file: &str, text: &str) -> Vec<String> {
    text.lines()
        .filter_map(|line| line.strip_prefix("source = "))
        .filter(|source| *source != "\"registry+https://github.com/rust-lang/crates.io-index\"")
        .map(|source| format!("`{file}` has the source {source}"))
        .collect()
}

/// crates/README.md lists each crate once, and no crate that does not exist.
fn crate_list_violations(files: &[String]) -> Outcome<Vec<String>> {
    let list = Path::new("crates").join("README.md");
    let text = std::fs::read_to_string(root().join(&list))
        .map_err(|error| format!("`{}`: {error}", list.display()))?;
    let listed: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(name, _)| name)
        .collect();
    let mut existing: Vec<&str> = files
        .iter()
        .filter_map(|file| file.strip_prefix("crates/")?.strip_suffix("/Cargo.toml"))
        .filter(|name| !name.contains('/'))
        .collect();
    existing.sort_unstable();
    let mut found = Vec::new();
    for name in &existing {
        let times = listed.iter().filter(|one| *one == name).count();
        if times != 1 {
            found.push(format!("`crates/README.md` lists `{name}` {times} times"));
        }
    }
    for name in listed.iter().filter(|name| !existing.contains(name)) {
        found.push(format!("`crates/README.md` lists `{name}`, which does not exist"));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::{foreign_registries, is_crate_root, skips_by_itself, starts_with_module_line};

    #[test]
    fn a_module_line_says_something() {
        assert!(starts_with_module_line("//! Reads things.\nuse x;"));
        assert!(!starts_with_module_line("//!\nuse x;"));
        assert!(!starts_with_module_line("// Reads things.\n"));
        assert!(!starts_with_module_line("\n//! Reads things.\n"));
    }

    #[test]
    fn skipping_is_for_the_testkit() {
        assert!(skips_by_itself(&["eprintln!(", "\"skipped: no gdb\");"].concat()));
        assert!(!skips_by_itself("if !require(Privilege::Gdb) { return; }"));
    }

    #[test]
    fn crate_roots() {
        assert!(is_crate_root("crates/biopsy/src/main.rs"));
        assert!(is_crate_root("xtask/src/main.rs"));
        assert!(!is_crate_root("crates/biopsy-stacks/src/unwind/lib.rs"));
        assert!(!is_crate_root("fuzz/src/lib.rs"));
    }

    #[test]
    fn a_lock_file_names_one_registry() {
        let good = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";
        assert!(foreign_registries("Cargo.lock", good).is_empty());
        assert_eq!(foreign_registries("Cargo.lock", "source = \"registry+https://mirror.example\"").len(), 1);
    }
}
