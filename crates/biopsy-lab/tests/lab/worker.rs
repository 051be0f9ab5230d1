//! The process that reads what was sent: it says what `biopsy analyze` says, and survives what is hostile.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use biopsy_seal::{Identity, seal_file};
use biopsy_testkit::require_program;
use serde_json::Value;

fn worker(plain: &[u8], key: &Identity, with: &Identity) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sent");
    seal_file(&mut &plain[..], &path, &[key.recipient()]).unwrap();
    run(&path, with)
}

fn run(path: &Path, with: &Identity) -> Output {
    feed(Command::new(env!("CARGO_BIN_EXE_biopsy-lab")).arg("worker").arg(path).env_clear(), with)
}

/// Runs it with the key on its standard input.
fn feed(command: &mut Command, with: &Identity) -> Output {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
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

/// The order of its calls, by strace: nothing of the file is read before it has given up everything else.
#[test]
fn it_is_fenced_in_before_it_opens_what_was_sent() {
    if !require_program("strace", &["--version"]) {
        return;
    }
    let (folder, key) = (tempfile::tempdir().unwrap(), Identity::generate());
    let (path, log) = (folder.path().join("what-was-sent"), folder.path().join("calls"));
    seal_file(&mut &fixture("recordings/format-1.0.zip")[..], &path, &[key.recipient()]).unwrap();
    let mut traced = Command::new("strace");
    traced.args(["-f", "-qq", "-e", "trace=openat,landlock_restrict_self,seccomp,prctl", "-o"]).arg(&log);
    let done = feed(traced.arg(env!("CARGO_BIN_EXE_biopsy-lab")).arg("worker").arg(&path), &key);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let calls = std::fs::read_to_string(log).unwrap();
    let lines: Vec<&str> = calls.lines().collect();
    // For its path alone (O_PATH) it is opened by the fence, which has to name it.
    let read = |line: &&str| line.contains("what-was-sent") && !line.contains("O_PATH");
    let opened = lines.iter().position(read).expect("it is opened");
    for fence in ["landlock_restrict_self(", "SECCOMP"] {
        let put_up = lines.iter().position(|line| line.contains(fence) && line.ends_with("= 0"));
        assert!(put_up.is_some_and(|put_up| put_up < opened), "it was opened first: {fence} {calls}");
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
