//! The process that reads what was sent: it says what `biopsy analyze` says, and survives what is hostile.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use biopsy_seal::{Identity, seal_file};
use serde_json::Value;

fn worker(plain: &[u8], key: &Identity, with: &Identity) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sent");
    seal_file(&mut &plain[..], &path, &[key.recipient()]).unwrap();
    run(&path, with)
}

fn run(path: &Path, with: &Identity) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_biopsy-lab"))
        .arg("worker")
        .arg(path)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(with.secret_text().as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name)).unwrap()
}

#[test]
fn what_was_sent_is_analysed_where_it_is() {
    let key = Identity::generate();
    for of in ["others/sleep.data", "recordings/lock-convoy-1.0.zip"] {
        let done = worker(&fixture(of), &key, &key);
        assert!(done.status.success(), "{of}: {}", String::from_utf8_lossy(&done.stderr));
        let answer: Value = serde_json::from_slice(&done.stdout).unwrap();
        assert!(answer["html"].as_str().unwrap().ends_with("</html>\n"));
        let report: Value = serde_json::from_str(answer["json"].as_str().unwrap()).unwrap();
        assert!(report["findings"].is_array(), "{of}");
    }
}

#[test]
fn what_cannot_be_read_is_said_and_nothing_more() {
    let (key, other) = (Identity::generate(), Identity::generate());
    let not_ours = worker(b"PK\x03\x04 is no zip", &key, &key);
    let nothing = worker(b"", &key, &key);
    let wrong_key = worker(&fixture("others/sleep.data"), &key, &other);
    for done in [not_ours, nothing, wrong_key] {
        assert_eq!(done.status.code(), Some(1), "{}", String::from_utf8_lossy(&done.stderr));
        assert!(done.stdout.is_empty());
        let words = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(!words.trim().is_empty() && !words.contains("panicked"), "{words}");
    }
}

#[test]
fn a_report_that_was_made_elsewhere_stays_text() {
    let key = Identity::generate();
    let mut sent = biopsy_deliver::REPORT_ALONE.to_vec();
    sent.extend_from_slice(b"# found\n<script>alert(1)</script>\n");
    let done = worker(&sent, &key, &key);
    let answer: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert!(answer["html"].is_null() && answer["json"].is_null());
    assert!(answer["markdown"].as_str().unwrap().starts_with("# found"));
}
