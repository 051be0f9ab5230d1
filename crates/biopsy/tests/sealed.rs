//! Sealed files through the program: sealed to a key, read again with it, and with nothing else.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use biopsy_deliver::certificate::{Certificate, LIMITS, Sent};
use biopsy_deliver::{Receipt, Signed, Signer};
use biopsy_seal::Identity;

fn biopsy(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_biopsy")).args(arguments).output().unwrap()
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name)
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_sealed_file_says_what_the_plain_one_says() {
    says_the_same("others/sleep.data");
    says_the_same("recordings/lock-convoy-1.0.zip");
}

fn says_the_same(of: &str) {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let key = Identity::generate();
    std::fs::write(at("key"), key.secret_text().as_bytes()).unwrap();
    let plain = at("evidence");
    std::fs::copy(fixture(of), &plain).unwrap();
    let to = key.recipient().to_string();
    let sealed = biopsy(&["send", &plain, "--seal-only", "--to-key", &to]);
    assert!(sealed.status.success(), "{}", words(&sealed));
    let file = format!("{plain}.age");
    assert!(
        !biopsy(&["send", &plain, "--seal-only", "--to-key", &to]).status.success(),
        "nothing is overwritten"
    );

    let open = biopsy(&["analyze", &plain, "--markdown"]);
    let read = biopsy(&["analyze", &file, "--identity", &at("key"), "--markdown"]);
    assert!(read.status.success(), "{}", words(&read));
    let without_name = |output: &Output| {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines()
            .filter(|line| !line.contains("evidence") && !line.contains("/proc/"))
            .collect::<Vec<_>>()
            .join("\n")
    };
    assert_eq!(without_name(&read), without_name(&open));

    let exported = biopsy(&["export", &file, "--to", "collapsed", "-o", "-", "--identity", &at("key")]);
    assert!(exported.status.success(), "{}", words(&exported));
    let locked = biopsy(&["analyze", &file]);
    assert_eq!(locked.status.code(), Some(6));
    assert!(words(&locked).contains("--identity"), "{}", words(&locked));
    std::fs::write(at("other"), Identity::generate().secret_text().as_bytes()).unwrap();
    let other = biopsy(&["analyze", &file, "--identity", &at("other")]);
    assert_eq!(other.status.code(), Some(6));
    assert!(words(&other).contains("not sealed to this key"), "{}", words(&other));
}

#[test]
fn what_is_no_link_is_refused_without_being_shown() {
    let refused = biopsy(&["send", "--request", "https://lab.example/r/x#hunter2"]);
    assert_eq!(refused.status.code(), Some(2));
    let plain = "http://lab.example/r/AAAAAAAAAAAAAAAAAAAAAA#AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA.AAAAAAAAAAAAAAAAAAAAAA.AAAAAAAAAAAAAAAAAAAAAA";
    let plain = biopsy(&["send", "--request", plain]);
    assert_eq!(plain.status.code(), Some(2));
    assert!(words(&plain).contains("speaks no https"), "{}", words(&plain));
}

#[test]
fn a_certificate_is_checked_against_the_receipt() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let lab = Signer::generate();
    let certificate = Certificate {
        case: "4711".to_owned(),
        received: vec![Sent { request: "r".to_owned(), bytes: 3, sha256: "ab".to_owned() }],
        case_key: "age1".to_owned(),
        sealed_to: Vec::new(),
        destroyed_key: "k".to_owned(),
        places: Vec::new(),
        reads: Vec::new(),
        deleted: 2_000,
        by: "\u{1b}[31moperator".to_owned(),
        reason: "it has served".to_owned(),
        log_head: String::new(),
        limits: LIMITS.to_owned(),
    };
    let receipt = Receipt {
        request: "r".to_owned(),
        case: "4711".to_owned(),
        bytes: 3,
        sha256: "ab".to_owned(),
        received: 1_000,
        log_head: String::new(),
    };
    std::fs::write(at("certificate"), Signed::new(&certificate, &lab).unwrap().to_text()).unwrap();
    std::fs::write(at("receipt"), Signed::new(&receipt, &lab).unwrap().to_text()).unwrap();
    let right = biopsy(&["verify-deletion", &at("certificate"), "--receipt", &at("receipt")]);
    assert!(right.status.success(), "{}", words(&right));
    let text = String::from_utf8_lossy(&right.stdout).into_owned();
    assert!(text.contains("the certificate is right") && !text.contains('\u{1b}'), "{text}");
    assert_eq!(
        biopsy(&["verify-deletion", &at("certificate")]).status.code(),
        Some(3),
        "whose signature is it?"
    );
    let changed = std::fs::read_to_string(at("certificate")).unwrap().replace("it has served", "it has gone");
    std::fs::write(at("changed"), changed).unwrap();
    assert_eq!(
        biopsy(&["verify-deletion", &at("changed"), "--receipt", &at("receipt")]).status.code(),
        Some(6)
    );
}

/// What a recording would be written over, or be taken for, stays: nothing of it is sealed, sent or removed.
#[test]
fn files_that_are_there_are_not_taken_for_the_recording() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let [id, secret] = [22, 43].map(|length| "A".repeat(length));
    let link = format!("http://127.0.0.1:9/r/{id}#{secret}.{id}.{id}");
    for (there, sealed) in
        [("mine.zip", "mine.zip.age"), ("other.zip", "other.age"), ("last.zip.age", "last.zip.age")]
    {
        std::fs::write(at(there), "mine").unwrap();
        let refused = biopsy(&["send", "--request", &link, "--yes", "--output", &at(sealed)]);
        assert_eq!(refused.status.code(), Some(7), "{}", words(&refused));
        assert!(
            words(&refused).contains(there) && words(&refused).contains("is there already"),
            "{}",
            words(&refused)
        );
        assert_eq!(std::fs::read(at(there)).unwrap(), b"mine");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);
}
