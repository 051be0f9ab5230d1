//! Which lines of files are changed, to see what redaction does to text of others: `changed_lines FILE|FOLDER...`.
//! `changed_lines --each-line FILE` prints each line as it is masked by itself.
//!
//! Each file is a recording of its own, gone over until nothing new is learned. Prints each changed line (the first of each
//! rule and file), and the sum.
#![expect(clippy::print_stdout, reason = "an example that looks prints what it saw")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use biopsy_redact::{BundleKey, Options, Redactor, is_text};

/// Longest file that is looked at, in bytes.
const LARGEST: u64 = 8 << 20;

fn main() {
    let rules = Redactor::new(Options::default()).expect("the built-in packs are right");
    let mut open: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if open.first().is_some_and(|first| first.as_os_str() == "--each-line") {
        for path in &open[1..] {
            for line in std::fs::read_to_string(path).expect("a file").lines() {
                println!("{}", rules.for_bundle(BundleKey::from_bytes([1; 32])).text(line).text);
            }
        }
        return;
    }
    let (mut files, mut all, mut changed) = (0u64, 0u64, 0u64);
    let mut by_rule = BTreeMap::new();
    while let Some(path) = open.pop() {
        let Ok(facts) = path.symlink_metadata() else { continue };
        if facts.is_dir() {
            open.extend(std::fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
        } else if facts.is_file() && facts.len() <= LARGEST {
            let Ok(bytes) = std::fs::read(&path) else { continue };
            if is_text(&bytes[..bytes.len().min(4096)]) {
                files += 1;
                let (lines, different) = compare(&rules, &path, &bytes, &mut by_rule);
                all += lines;
                changed += different;
            }
        }
    }
    for (rule, lines) in by_rule {
        println!("{lines} lines by {rule}");
    }
    println!("{files} files, {all} lines, {changed} changed");
}

fn compare(rules: &Redactor, path: &Path, bytes: &[u8], by_rule: &mut BTreeMap<String, u64>) -> (u64, u64) {
    let redactor = rules.for_bundle(BundleKey::from_bytes([1; 32]));
    let mut masked = bytes.to_vec();
    for _ in 0..3 {
        let before = redactor.generation();
        let mut next = Vec::new();
        redactor.stream(&masked[..], &mut next).expect("memory");
        masked = next;
        if redactor.generation() == before {
            break;
        }
    }
    let mut shown = BTreeSet::new();
    let (mut all, mut changed, mut lost) = (0, 0, false);
    let lines = |text: &[u8]| memchr::memchr_iter(b'\n', text).count();
    let mut below = lines(bytes).saturating_sub(lines(&masked));
    let mut after = masked.split(|b| *b == b'\n');
    for line in bytes.split(|b| *b == b'\n') {
        all += 1;
        if below > 0 && lost && after.clone().next() != Some(line) {
            // Of a value of many lines that became one mask.
            below -= 1;
            changed += 1;
            continue;
        }
        let new = after.next().unwrap_or_default();
        if new == line {
            continue;
        }
        changed += 1;
        lost = memchr::memmem::find(new, b"-----BEGIN").is_some()
            || memchr::memmem::find(new, b"redacted:").is_some();
        let new = String::from_utf8_lossy(new);
        let rule = new.split("[redacted:").nth(1).and_then(|rest| rest.split(':').next()).unwrap_or("?");
        *by_rule.entry(rule.to_owned()).or_default() += 1;
        if shown.insert(rule.to_owned()) {
            let old: String = String::from_utf8_lossy(line).chars().take(200).collect();
            println!(
                "{}: {rule}\n  < {old}\n  > {}",
                path.display(),
                new.chars().take(200).collect::<String>()
            );
        }
    }
    (all, changed)
}
