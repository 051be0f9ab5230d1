//! Bare numbers that cross crates: public functions and fields whose name says address, process, thread, start or frame, and whose
//! type does not.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

use crate::run::{Outcome, root};

/// How many there are yet, by crate. `Avma`, `Svma`, `Pid`, `Tid` and the like of `biopsy-model` take their place: a number here only
/// falls, and a crate that is not here has none.
const LEFT: &[(&str, usize)] = &[
    ("biopsy-allocators", 1),
    ("biopsy-analyze", 4),
    ("biopsy-dotnet", 3),
    ("biopsy-dotnet-ipc", 1),
    ("biopsy-elf", 5),
    ("biopsy-image", 20),
    ("biopsy-model", 1),
    ("biopsy-recording", 1),
    ("biopsy-report", 15),
    ("biopsy-runtimes", 19),
    ("biopsy-standby", 1),
    ("biopsy-sys", 5),
    ("biopsy-target", 6),
    ("biopsy-testkit", 12),
];

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
    Ok(found)
}

/// By crate: how many, and the last file with one.
fn counts(files: &[String]) -> Outcome<BTreeMap<String, (usize, String)>> {
    let mut counts: BTreeMap<String, (usize, String)> = BTreeMap::new();
    for file in files.iter().filter(|file| file.ends_with(".rs")) {
        let Some((name, _)) = file.strip_prefix("crates/").and_then(|rest| rest.split_once("/src/")) else {
            continue;
        };
        let text = std::fs::read_to_string(root().join(file))
            .map_err(|error| format!("cannot read `{file}`: {error}"))?;
        let count = bare_numbers(&text)?;
        if count > 0 {
            let (sum, last) = counts.entry(name.to_owned()).or_default();
            *sum += count;
            last.clone_from(file);
        }
    }
    Ok(counts)
}

/// How many there are in the text of a file.
fn bare_numbers(text: &str) -> Outcome<usize> {
    static ITEM: LazyLock<Result<Regex, regex::Error>> =
        LazyLock::new(|| Regex::new(r"(?m)^\s*pub (?:(?:const )?fn \w+[^{;]*|\w+: [^,\n]*)"));
    static BARE: LazyLock<Result<Regex, regex::Error>> = LazyLock::new(|| {
        Regex::new(r"\b(?:addresse?|pid|tid|start|frame)s?: (?:Option<|&|Vec<|\[)*(?:u64|u32)\b")
    });
    let (item, bare) = (ITEM.as_ref(), BARE.as_ref());
    let (item, bare) = item.and_then(|item| Ok((item, bare?))).map_err(|error| error.to_string())?;
    Ok(item.find_iter(text).map(|item| bare.find_iter(item.as_str()).count()).sum())
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
        ] {
            assert_eq!(bare_numbers(text), Ok(count), "{text}");
        }
    }
}
