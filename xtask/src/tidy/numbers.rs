//! Bare numbers that cross crates: public functions and fields whose name says address, process, thread, start or frame, and whose
//! type does not.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

use crate::run::{Outcome, root};

/// How many there are yet, by crate. `Avma`, `Svma`, `Pid`, `Tid` and the like of `biopsy-model` take their place: a number here only
/// falls, and a crate that is not here has none.
const LEFT: &[(&str, usize)] = &[];

/// Files whose numbers have no type, and why. One that needs it no longer is a violation.
const WITHOUT: &[(&str, &str)] = &[
    ("crates/biopsy-elf/src/header.rs", AS_THE_FILE_STATES),
    ("crates/biopsy-elf/src/mapped.rs", AS_THE_FILE_STATES),
    ("crates/biopsy-elf/src/section.rs", AS_THE_FILE_STATES),
    ("crates/biopsy-elf/src/segment.rs", AS_THE_FILE_STATES),
    ("crates/biopsy-image/src/mapping.rs", ONE_SPACE),
    ("crates/biopsy-image/src/module.rs", ONE_SPACE),
    ("crates/biopsy-runtimes/src/memory.rs", ONE_SPACE),
    ("crates/biopsy-target/src/address_space/files.rs", ONE_SPACE),
    ("crates/biopsy-target/src/address_space/flags.rs", ONE_SPACE),
    ("crates/biopsy-target/src/address_space/memory.rs", ONE_SPACE),
    ("crates/biopsy-testkit/src/asking.rs", OF_A_CHILD),
    ("crates/biopsy-testkit/src/cgroup.rs", OF_A_CHILD),
    ("crates/biopsy-testkit/src/kill.rs", OF_A_CHILD),
    ("crates/biopsy-testkit/src/proc_usage.rs", OF_A_CHILD),
    ("crates/biopsy-testkit/src/survival.rs", OF_A_CHILD),
];
/// `p_vaddr` is an Svma in a library, an Avma in a core, and an offset where a file is read as a file: who opens it knows, and says so by
/// type. `biopsy-elf` is below the model.
const AS_THE_FILE_STATES: &str = "the space depends on the file";
/// An image is one address space. Its ranges are added to, cut and compared, and the words in it are pointers and numbers alike: a type
/// for an address would be put on and taken off again in each call.
const ONE_SPACE: &str = "there is one space";
/// `std::process::Child::id` is a `u32`, and tests ask of their children.
const OF_A_CHILD: &str = "children of tests";
/// Folders that make files and images for tests and fuzzing, whose numbers are those that the bytes have.
const MAKERS: [&str; 3] = ["/src/testing/", "/src/fuzz/", "/src/fuzz.rs"];

/// Crates with more than are left, and those with fewer, so that this list falls with them.
pub(crate) fn violations(files: &[String]) -> Outcome<Vec<String>> {
    let counts = counts(files)?;
    let left: BTreeMap<&str, usize> = LEFT.iter().copied().collect();
    let mut found = Vec::new();
    for (name, (count, last)) in &counts {
        let left = left.get(name.as_str()).copied().unwrap_or_default();
        if *count > left {
            found.push(format!(
                "`{name}` has {count} public numbers without a type of `biopsy-model`, {left} are left: see `{last}`"
            ));
        }
    }
    for (name, left) in left {
        let count = counts.get(name).map_or(0, |(count, _)| *count);
        if count < left {
            found.push(format!(
                "`{name}` has {count} public numbers without a type: write that into `xtask/src/tidy/numbers.rs` instead of {left}"
            ));
        }
    }
    for (file, why) in WITHOUT {
        if !root().join(file).is_file() || bare_numbers_of(file)? == 0 {
            found.push(format!("`{file}` is excused ({why}) in `xtask/src/tidy/numbers.rs` and need not be"));
        }
    }
    Ok(found)
}

/// By crate: how many, and the last file with one.
fn counts(files: &[String]) -> Outcome<BTreeMap<String, (usize, String)>> {
    let mut counts: BTreeMap<String, (usize, String)> = BTreeMap::new();
    for file in files.iter().filter(|file| file.ends_with(".rs")) {
        let Some((name, _)) = file.strip_prefix("crates/").and_then(|rest| rest.split_once("/src/")) else {
            continue;
        };
        if WITHOUT.iter().any(|(without, _)| without == file)
            || MAKERS.iter().any(|maker| file.contains(maker))
        {
            continue;
        }
        let count = bare_numbers_of(file)?;
        if count > 0 {
            let (sum, last) = counts.entry(name.to_owned()).or_default();
            *sum += count;
            last.clone_from(file);
        }
    }
    Ok(counts)
}

fn bare_numbers_of(file: &str) -> Outcome<usize> {
    let text = std::fs::read_to_string(root().join(file))
        .map_err(|error| format!("cannot read `{file}`: {error}"))?;
    bare_numbers(&text)
}

/// How many there are in the text of a file. A plural with one number is a count (`frames: u64`), and fields of a format are numbers as
/// the format has them.
fn bare_numbers(text: &str) -> Outcome<usize> {
    static ITEM: LazyLock<Result<Regex, regex::Error>> =
        LazyLock::new(|| Regex::new(r"(?m)^\s*pub (?:(?:const )?fn \w+[^{;]*|\w+: [^,\n]*)"));
    static BARE: LazyLock<Result<Regex, regex::Error>> = LazyLock::new(|| {
        Regex::new(
            r"\b(?:(?:address|pid|tid|start|frame): (?:Option<|&)*|(?:addresses|pids|tids|starts|frames): (?:Option<|&|Vec<|\[)+)(?:u64|u32)\b",
        )
    });
    let (item, bare) = (ITEM.as_ref(), BARE.as_ref());
    let (item, bare) = item.and_then(|item| Ok((item, bare?))).map_err(|error| error.to_string())?;
    let counted = |item: regex::Match<'_>| {
        let is_field = !item.as_str().contains("fn ");
        if is_field && is_of_a_format(&text[..item.start()]) {
            0
        } else {
            bare.find_iter(item.as_str()).count()
        }
    };
    Ok(item.find_iter(text).map(counted).sum())
}

/// Whether the last structure that begins in the text is one of a format: it is serialised, or laid out for the kernel.
fn is_of_a_format(before: &str) -> bool {
    let Some(begin) = before.rfind("struct ") else { return false };
    let item = before[..begin].rsplit("\n\n").next().unwrap_or_default();
    let attributes = item.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    attributes.into_iter().any(|line| line.contains("Serialize") || line.contains("repr(C"))
}

#[cfg(test)]
mod tests {
    use super::bare_numbers;

    #[test]
    fn a_number_is_counted_where_its_name_says_what_it_is_and_its_type_does_not() {
        for (text, count) in [
            ("pub fn find(address: u64, tid: Option<u32>) -> bool {", 2),
            ("    pub const fn at(&self, start: u64,\n        pid: u32) {", 2),
            ("    pub addresses: Vec<u64>,", 1),
            ("pub fn find(address: Avma, pid: Pid) {", 0),
            ("pub(crate) fn find(address: u64) {", 0),
            ("fn find(address: u64) {", 0),
            ("    pub bytes: u64,", 0),
            ("pub fn find(bytes: u64) { let address: u64 = 1; }", 0),
            ("    pub frames: u64,", 0),
            ("    pub frames: Vec<u64>,", 1),
            ("pub fn find(starts: &[u64]) {", 1),
            ("#[derive(Debug)]\npub struct One {\n    pub pid: u32,\n}", 1),
            ("#[derive(Debug, Serialize)]\n#[serde(default)]\npub struct One {\n    pub pid: u32,\n}", 0),
            ("#[repr(C)]\npub struct One {\n    pub start: u64,\n}", 0),
            ("/// To Serialize.\npub struct One {\n    pub pid: u32,\n}", 1),
            ("#[repr(C)]\nstruct One {\n    pid: u32,\n}\n\npub struct Two {\n    pub pid: u32,\n}", 1),
            ("#[repr(C)]\nstruct One(u32);\n\npub fn find(pid: u32) {", 1),
        ] {
            assert_eq!(bare_numbers(text), Ok(count), "{text}");
        }
    }
}
