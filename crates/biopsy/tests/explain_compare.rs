//! `explain`, `compare` and `logs` as a user types them, on the recordings of `fixtures/`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn biopsy(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_biopsy")).args(arguments).output().unwrap()
}

fn recording(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/recordings");
    let mut found: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()).collect();
    found.sort();
    found.into_iter().find(|path| path.to_string_lossy().contains(name)).expect("there is such a recording")
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_finding_is_explained_with_its_evidence_in_a_file() {
    let file = recording("lock-convoy");
    let output = biopsy(&["explain", "lock-convoy", &file.to_string_lossy()]);
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    for words in ["means", "rests on", "not so if", "append_under_lock", "found 1 time"] {
        assert!(said.contains(words), "`{words}` is missing: {said}");
    }
    let output = biopsy(&["explain", "--json", "deadlock", &file.to_string_lossy()]);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["findings"][0]["found"], serde_json::json!([]), "{document:#}");
}

#[test]
fn who_mistypes_an_id_is_told_what_is_near() {
    let output = biopsy(&["explain", "deadlok"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("'deadlock'"), "{}", text(&output));
    assert!(text(&biopsy(&["explain", "xyzzy"])).contains("`biopsy explain` alone lists all findings"));
    assert!(text(&biopsy(&["explain"])).contains("cgroup-throttled"));
    assert!(text(&biopsy(&["completions", "bash"])).contains("cgroup-throttled"), "ids are completed");
}

#[test]
fn lines_of_logs_are_found_by_text_severity_and_moment() {
    let file = recording("format");
    let file = &*file.to_string_lossy();
    let count = |more: &[&str]| {
        let output = biopsy(&[&["logs", "--json", file], more].concat());
        let document: serde_json::Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", text(&output)));
        assert_eq!(document["schema"], "biopsy-log-lines");
        document["lines"].as_array().unwrap().len()
    };
    assert_eq!(count(&[]), 2);
    assert_eq!(count(&["--level", "warning"]), 1);
    assert_eq!(count(&["--grep", "no line has this"]), 0);
    assert_eq!(count(&["--around", "10h"]), 0);
    assert_eq!(count(&["--around", "11:23:50"]), 2, "by the clock of its machine");
    assert_eq!(count(&["--around", "11:23:50", "--within", "1s"]), 0);
    assert!(text(&biopsy(&["logs", file])).contains("2 of 2 lines"));
    let said = text(&biopsy(&["logs", file, "--around", "deadlock"]));
    assert!(said.contains("there is no finding `deadlock` in it"), "{said}");
    let none = text(&biopsy(&["logs", &recording("hot").to_string_lossy()]));
    assert!(none.contains("there are no logs in it"), "{none}");
}

#[test]
fn two_recordings_are_compared_in_every_form() {
    let (one, other) = (recording("hot"), recording("lock-convoy"));
    let (one, other) = (one.to_string_lossy(), other.to_string_lossy());
    let same = text(&biopsy(&["compare", &one, &one]));
    assert!(same.contains("the same recording"), "{same}");
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let output = biopsy(&["compare", "--json", "--html", &page.to_string_lossy(), &one, &other]);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["schema"], "biopsy-comparison");
    assert!(document["remarks"].to_string().contains("different programs"), "{document:#}");
    assert!(std::fs::read_to_string(&page).unwrap().contains("biopsy-comparison"));
    assert!(text(&biopsy(&["compare", "--markdown", &one, &other])).contains("| before |"));
}

#[test]
fn what_holds_no_time_is_refused_with_a_reason() {
    let file = std::env::current_exe().unwrap();
    let output = biopsy(&["compare", &file.to_string_lossy(), &file.to_string_lossy()]);
    assert!(!output.status.success());
    assert!(text(&output).contains("nothing that can be compared"), "{}", text(&output));
}
