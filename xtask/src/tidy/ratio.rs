//! Lines of tests for each line of code, by crate: `cargo xtask tidy --ratio`.
//!
//! Counted are lines that are not blank. Of tests are the folder `tests` and `benches` of a crate, files that are declared behind
//! `#[cfg(test)]` and those below them, and items behind it within a file; all else is code, comments and examples with it. Code that is
//! there for tests of other crates (`src/testing`, `src/fuzz`, `examples`) counts as code and is named in a column of its own.
//! An item is taken to end where the next line with its indentation closes it, as rustfmt writes it.

use std::collections::{BTreeMap, BTreeSet};

use super::edges::READ_HALF;
use crate::run::{Outcome, root};

/// What crates of the read half, which are pure, should have.
const BAR: f64 = 0.5;

/// Lines of a crate.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Lines {
    code: usize,
    /// Of `code`, what serves tests, fuzzing and trials.
    serving: usize,
    tests: usize,
}

/// A table of all crates, those first that lack most.
pub(crate) fn table(files: &[String]) -> Outcome<String> {
    let mut crates: BTreeMap<&str, Vec<(&str, String)>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.ends_with(".rs")) {
        let Some((name, place)) = file.strip_prefix("crates/").and_then(|rest| rest.split_once('/')) else {
            continue;
        };
        let text = std::fs::read_to_string(root().join(file))
            .map_err(|error| format!("cannot read `{file}`: {error}"))?;
        crates.entry(name).or_default().push((place, text));
    }
    let mut rows: Vec<(&str, Lines)> = crates.iter().map(|(name, files)| (*name, lines_of(files))).collect();
    let is_pure = |name: &str| READ_HALF.contains(&name);
    rows.sort_by(|(one, a), (other, b)| {
        (is_pure(other).cmp(&is_pure(one))).then(ratio(a).total_cmp(&ratio(b)))
    });
    let mut table = format!(
        "{:20} {:>7} {:>9} {:>7} {:>6}  lines of tests to {BAR}\n",
        "crate", "code", "(serving)", "tests", "ratio"
    );
    for (name, lines) in rows {
        let lacks = ((lines.code as f64 * BAR).ceil() as usize).saturating_sub(lines.tests);
        let lacks = match (is_pure(name), lacks) {
            (false, _) => "not pure".to_owned(),
            (true, 0) => String::new(),
            (true, lacks) => lacks.to_string(),
        };
        let row = format!(
            "{name:20} {:>7} {:>9} {:>7} {:>6.2}  {lacks}",
            lines.code,
            lines.serving,
            lines.tests,
            ratio(&lines)
        );
        table.push_str(row.trim_end());
        table.push('\n');
    }
    Ok(table)
}

fn ratio(lines: &Lines) -> f64 {
    lines.tests as f64 / lines.code.max(1) as f64
}

/// Of the files of a crate: place in its folder, and text.
fn lines_of(files: &[(&str, String)]) -> Lines {
    let declared: BTreeSet<String> =
        files.iter().flat_map(|(place, text)| test_modules(place, text)).collect();
    let mut lines = Lines::default();
    for (place, text) in files {
        let all = text.lines().filter(|line| !line.trim().is_empty()).count();
        let module = place.trim_end_matches(".rs").trim_end_matches("/mod");
        let is_declared = declared.iter().any(|one| {
            module.strip_prefix(one.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        if is_declared || place.starts_with("tests/") || place.starts_with("benches/") {
            lines.tests += all;
            continue;
        }
        let tests = lines_behind_test(text);
        lines.tests += tests;
        lines.code += all - tests;
        if ["examples/", "src/testing", "src/fuzz"].iter().any(|one| place.starts_with(one)) {
            lines.serving += all - tests;
        }
    }
    lines
}

/// Modules in files of their own that a file declares behind `#[cfg(test)]`, as places without an ending.
fn test_modules(place: &str, text: &str) -> Vec<String> {
    let own = place.trim_end_matches(".rs");
    let folder = match own.rsplit_once('/') {
        Some((folder, "lib" | "main" | "mod")) => folder,
        _ => own,
    };
    let mut found = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim) {
        if starts_test(line) {
            is_test = true;
        } else if is_test && !line.starts_with("#[") && !line.starts_with("//") {
            let module = line.split_once("mod ").and_then(|(_, rest)| rest.strip_suffix(';'));
            found.extend(module.map(|name| format!("{folder}/{name}")));
            is_test = false;
        }
    }
    found
}

fn starts_test(line: &str) -> bool {
    line.starts_with("#[cfg(test)]") || line.starts_with("#[cfg(all(test")
}

/// Lines of items behind `#[cfg(test)]`, the attribute with them.
fn lines_behind_test(text: &str) -> usize {
    let mut count = 0;
    // The indentation of the item that is open, if one is.
    let mut open: Option<usize> = None;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let (indent, words) = (line.len() - line.trim_start().len(), line.trim());
        match open {
            None if starts_test(words) => open = Some(indent),
            None => continue,
            Some(start) if indent == start && closes(words) => open = None,
            Some(_) => {}
        }
        count += 1;
    }
    count
}

/// Whether an item of one line, or the last line of one.
fn closes(words: &str) -> bool {
    !words.starts_with("#[")
        && !words.starts_with("//")
        && [";", ",", "}"].iter().any(|end| words.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::{Lines, lines_behind_test, lines_of, test_modules};

    #[test]
    fn items_behind_the_attribute_are_tests() {
        for (text, tests) in [
            ("fn a() {}\n", 0),
            ("fn a() {}\n#[cfg(test)]\nmod tests;\nfn b() {}\n", 2),
            ("#[cfg(test)]\nmod tests {\n    fn a() {\n\n    }\n}\nfn b() {\n}\n", 5),
            ("#[cfg(test)]\n#[path = \"x.rs\"]\n// Why.\nmod tests;\nfn b() {\n}\n", 4),
            ("impl A {\n    #[cfg(test)]\n    fn a() {\n        b();\n    }\n    fn b() {}\n}\n", 4),
            ("struct A {\n    #[cfg(test)]\n    a: u8,\n    b: u8,\n}\n", 2),
            ("#[cfg(not(test))]\nmod a;\n", 0),
        ] {
            assert_eq!(lines_behind_test(text), tests, "{text}");
        }
    }

    #[test]
    fn modules_are_below_the_file_that_declares_them() {
        let text = "#[cfg(test)]\n#[expect(x)]\nmod tests;\nmod b;\n#[cfg(test)]\npub(crate) mod made;\n";
        for (place, folder) in [("src/lib.rs", "src"), ("src/a/mod.rs", "src/a"), ("src/a/b.rs", "src/a/b")] {
            assert_eq!(test_modules(place, text), [format!("{folder}/tests"), format!("{folder}/made")]);
        }
    }

    #[test]
    fn a_crate_is_the_sum_of_its_files() {
        let files = [
            ("src/lib.rs", "mod a;\n\n#[cfg(test)]\nmod tests;\n"),
            ("src/tests.rs", "1\n"),
            ("src/tests/deep.rs", "1\n2\n"),
            ("src/tests_of_others.rs", "1\n2\n3\n"),
            ("src/fuzz.rs", "1\n"),
            ("tests/all.rs", "1\n\n2\n3\n"),
        ];
        let files = files.map(|(place, text)| (place, text.to_owned()));
        assert_eq!(lines_of(&files), Lines { code: 5, serving: 1, tests: 8 });
    }
}
