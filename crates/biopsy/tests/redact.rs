//! `biopsy redact`: as a user types it.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const SECRET: &str = "Xk9mQ2vL7pRt";

fn redact(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_biopsy"))
        .arg("redact")
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn shown(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_folder_is_written_beside_itself_and_a_file_to_where_it_is_wanted() {
    let place = tempfile::tempdir().unwrap();
    let logs = place.path().join("logs");
    fs::create_dir(&logs).unwrap();
    fs::write(logs.join("app.log"), format!("retry {SECRET}\n")).unwrap();
    fs::write(logs.join("app.conf"), format!("password={SECRET}\n")).unwrap();
    let done = redact(&[text(&logs)]);
    assert!(done.status.success() && shown(&done).contains("2 files"), "{}", shown(&done));
    let clean = fs::read_to_string(place.path().join("logs.redacted/app.log")).unwrap();
    assert!(clean.starts_with("retry [redacted:"), "{clean}");
    let again = redact(&[text(&logs)]);
    assert_eq!(again.status.code(), Some(7), "{}", shown(&again));
    let file = redact(&[text(&logs.join("app.conf")), "-o", "-"]);
    assert!(
        file.status.success() && file.stdout.starts_with(b"password=[redacted:password:"),
        "{}",
        shown(&file)
    );
    let json = redact(&[text(&logs.join("app.conf")), "--json"]);
    let document: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(document["files"][0]["masked"][0]["rule"], "password");
    assert!(place.path().join("logs/app.redacted.conf").exists());
}

#[test]
fn a_check_ends_with_its_own_code_and_writes_nothing() {
    let place = tempfile::tempdir().unwrap();
    let (dirty, clean) = (place.path().join("dirty.log"), place.path().join("clean.log"));
    fs::write(&dirty, format!("start\npassword={SECRET}\n")).unwrap();
    fs::write(&clean, "start\nlistening on port 8080\n").unwrap();
    let found = redact(&["--check", text(&dirty)]);
    assert_eq!(found.status.code(), Some(8));
    let said = shown(&found);
    assert!(said.contains("dirty.log:2: password:") && !said.contains(SECRET), "{said}");
    assert!(redact(&["--check", text(&clean)]).status.success());
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 2);
    let missing = redact(&[text(&place.path().join("none"))]);
    assert_eq!(missing.status.code(), Some(6), "{}", shown(&missing));
}

#[test]
fn standard_input_goes_to_standard_output() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_biopsy"))
        .args(["redact", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(format!("a\npassword={SECRET}\n{SECRET}\n").as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success() && text.starts_with("a\npassword=[redacted:") && !text.contains(SECRET),
        "{text}"
    );
}

#[test]
fn a_policy_has_rules_values_that_stay_and_examples_that_are_run() {
    let place = tempfile::tempdir().unwrap();
    let policy = place.path().join("redact.toml");
    let write = |example: &str| {
        let text = format!(
            "description = \"ours\"\nallow = [\"demo-Key-77\"]\n[[rule]]\nid = \"badge\"\ndescription = \"Badges.\"\nkind = \"key\"\n\
             words = [\"badge\"]\nmatch = [[\"badge={example}\", \"Zx81qq\"]]\nno_match = [\"badge=demo-Key-77\"]\n"
        );
        fs::write(&policy, text).unwrap();
    };
    write("Zx81qq");
    assert!(redact(&["--test", "--policy", text(&policy)]).status.success());
    let log = place.path().join("a.log");
    fs::write(&log, "badge=Qq77zz password=demo-Key-77\n").unwrap();
    let done = redact(&[text(&log), "--policy", text(&policy), "-o", "-"]);
    let line = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(
        line.starts_with("badge=[redacted:badge:") && line.ends_with(" password=demo-Key-77\n"),
        "{}",
        shown(&done)
    );
    write("other");
    let broken = redact(&["--test", "--policy", text(&policy)]);
    assert_eq!(broken.status.code(), Some(6), "{}", shown(&broken));
    fs::write(&policy, "description = \"x\"\n[[rule]]\nid = 5\n").unwrap();
    let wrong = redact(&[text(&log), "--policy", text(&policy)]);
    assert!(
        wrong.status.code() == Some(6) && shown(&wrong).contains("line 3, column 6"),
        "{}",
        shown(&wrong)
    );
}

#[test]
fn one_client_has_one_pseudonym_in_all_files() {
    let place = tempfile::tempdir().unwrap();
    let logs = place.path().join("logs");
    fs::create_dir(&logs).unwrap();
    fs::write(logs.join("a.log"), "203.0.113.9 - - [21/Nov/2026:10:00:00 +0000]\n").unwrap();
    fs::write(logs.join("b.log"), "client: 203.0.113.9, port 80\n").unwrap();
    let done = redact(&["--anonymize", text(&logs)]);
    assert!(done.status.success(), "{}", shown(&done));
    let read = |name: &str| fs::read_to_string(place.path().join("logs.redacted").join(name)).unwrap();
    let (a, b) = (read("a.log"), read("b.log"));
    let mask = &a[..a.find(']').unwrap() + 1];
    assert!(mask.starts_with("[redacted:ip-address:") && b.contains(mask), "{a}{b}");
}
