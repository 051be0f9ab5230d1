//! The layout that `ARCHITECTURE.md` promises: facts know no findings, rules know no other rules, each file is named after its id.

use biopsy_analyze::FindingId;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Source files below `folder` of this crate, without tests.
fn files(folder: &str) -> Vec<(PathBuf, String)> {
    let mut open = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(folder)];
    let mut files = Vec::new();
    while let Some(at) = open.pop() {
        for entry in fs::read_dir(&at).expect("a folder of the sources") {
            let path = entry.expect("an entry of it").path();
            if path.is_dir() {
                if !path.ends_with("tests") {
                    open.push(path);
                }
            } else if path.extension().is_some_and(|ending| ending == "rs") && !path.ends_with("tests.rs") {
                let text = fs::read_to_string(&path).expect("a source file");
                let code = text.split("#[cfg(test)]").next().unwrap_or_default().to_owned();
                files.push((path, code));
            }
        }
    }
    assert!(!files.is_empty(), "{folder}");
    files
}

#[test]
fn facts_know_no_findings() {
    for folder in ["trace", "metrics", "runtimes", "dump"] {
        for (path, code) in files(folder) {
            for line in code.lines().filter(|line| line.contains("findings::")) {
                let type_alone = line == "use crate::findings::finding::Finding;";
                assert!(type_alone, "{}: {line}", path.display());
            }
        }
    }
}

#[test]
fn each_rule_has_a_file_with_the_name_of_its_id() {
    // Several ids of one rule: what a process died of, and what an idle one does; waits for other processes, which
    // are a deadlock or a chain.
    const SEVERAL: &[&str] = &["crash", "last-word", "across"];
    let mut named: BTreeSet<&FindingId> = BTreeSet::new();
    for (path, code) in files("findings/rules") {
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default().replace('_', "-");
        if name == "mod" {
            continue;
        }
        // A further form of a finding stands in the folder of its id.
        let folder = path.parent().and_then(|folder| folder.file_name()?.to_str()).unwrap_or_default();
        let id = FindingId::parse(&name).or_else(|| FindingId::parse(&folder.replace('_', "-")));
        assert!(
            id.is_some() || SEVERAL.contains(&name.as_str()),
            "{}: no id is called {name}",
            path.display()
        );
        let own = id.is_none_or(|id| code.contains(&format!("FindingId::{id:?}")));
        assert!(own, "{} makes no finding of its name", path.display());
        named.extend(FindingId::ALL.iter().filter(|id| code.contains(&format!("FindingId::{id:?},"))));
    }
    let without: Vec<&FindingId> = FindingId::ALL.iter().filter(|id| !named.contains(id)).collect();
    assert!(without.is_empty(), "no rule makes {without:?}");
}

#[test]
fn rules_do_not_know_what_explains_what() {
    for (path, code) in files("findings/rules") {
        assert!(!code.contains("explains"), "{}", path.display());
        let named = |rest: &str| {
            rest.split(|next: char| !next.is_alphanumeric()).next().unwrap_or_default().to_owned()
        };
        let ids = code.split("FindingId::").skip(1).map(named).collect::<BTreeSet<_>>().len();
        let several = ["last_word.rs", "crash.rs", "across.rs"].iter().any(|name| path.ends_with(name));
        assert!(ids <= 1 || several, "{} speaks of {ids} findings", path.display());
    }
}
