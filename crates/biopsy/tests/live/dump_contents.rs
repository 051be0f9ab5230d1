//! What is in the files of `biopsy dump`, and what is not: secrets, minidumps, bundles, full disks.

use std::path::{Path, PathBuf};
use std::process::Command;

use biopsy_testkit::{
    Privilege, Program, Survival, TargetProcess, compile_c, machine_to_myself, require_all, temp_dir,
};
use serde_json::Value;

use crate::support::{biopsy, complaint, said};

const LIVE: &[Privilege] = &[Privilege::Cc, Privilege::Ptrace];
/// What the program was given by name, and keeps without the name.
const GIVEN: &str = "q8Xw3-given-by-name-R5tY";

fn planted(arguments: &[&str]) -> TargetProcess {
    let program = compile_c("planted", include_str!("planted.c"), &["-O1"]);
    let mut command = Command::new(program);
    command.args(arguments).env("FEED_API_KEY", GIVEN);
    TargetProcess::spawn(command)
}

fn has(bytes: &[u8], needle: &[u8]) -> bool {
    bytes.windows(needle.len()).any(|window| window == needle)
}

fn wide(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// A plain core of the target, alone.
#[track_caller]
fn raw_core(pid: u32, into: &Path, more: &[&str]) -> (Vec<u8>, Value) {
    let output =
        biopsy(["dump", &pid.to_string(), "--raw", "--json", "--output"]).arg(into).args(more).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", said(&output));
    (std::fs::read(into).unwrap(), serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn planted_secrets_are_masked_and_counted() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let folder = temp_dir("secrets");
    let mut target = planted(&[]);
    let survival = Survival::before(target.pid());
    for kind in ["full", "heap"] {
        let at = |name: &str| folder.path().join(format!("{kind}-{name}.core"));
        let (open, _) = raw_core(target.pid(), &at("open"), &["--kind", kind]);
        let (scrubbed, result) = raw_core(target.pid(), &at("scrubbed"), &["--kind", kind, "--scrub"]);
        assert_eq!(open.len(), scrubbed.len(), "{kind}: nothing is moved");
        let secrets: Vec<String> = (0..64).map(|at| format!("Zk9-planted-{at:02}-qTw7")).collect();
        for secret in secrets.iter().map(String::as_str).chain([GIVEN]) {
            assert!(
                has(&open, secret.as_bytes()),
                "{kind}: `{secret}` is not in the dump that is not scrubbed"
            );
            assert!(!has(&scrubbed, secret.as_bytes()), "{kind}: `{secret}` is left");
            assert!(!has(&scrubbed, &wide(secret)), "{kind}: `{secret}` is left in UTF-16");
        }
        assert!(has(&open, &wide("Zk9-planted-07-qTw7")), "{kind}");
        assert!(has(&scrubbed, b"Server=db;Password=****"), "{kind}: the key stays");
        let counted: u64 =
            result["masked"].as_array().unwrap().iter().map(|one| one[1].as_u64().unwrap()).sum();
        assert!(counted >= 128, "{kind}: {:#}", result["masked"]);
    }
    // What went through a pipe cannot be searched for what was left.
    let pid = target.pid().to_string();
    for (scrub, said) in [(&["--scrub"][..], true), (&[], false)] {
        let output =
            biopsy(["dump", "--quiet", "--kind", "stacks", "-o", "-", &pid]).args(scrub).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(told.contains("cannot be searched"), said, "{told}");
    }
    survival.assert_unharmed();
    target.stop();
}

#[test]
fn a_minidump_of_stacks_opens_and_shows_the_same_functions() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let folder = temp_dir("minidump");
    let file = folder.path().join("convoy.dmp");
    let mut target = TargetProcess::start(Program::LockConvoy, &[]);
    let survival = Survival::before(target.pid());
    let pid = target.pid().to_string();
    let output = biopsy(["dump", &pid, "--json", "--output"]).arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(std::fs::read(&file).unwrap().starts_with(b"MDMP"));
    let shown = biopsy(["analyze", "--symbols", "/"]).arg(&file).output().unwrap();
    assert!(shown.status.success(), "{}", said(&shown));
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(text.contains("append_under_lock") && text.contains("lock-convoy"), "{text}");

    // In a recording it stands where a core would.
    let recording = folder.path().join("recording");
    let output = biopsy(["dump", &pid, "--format", "minidump", "--scrub", "--json", "--output"])
        .arg(&recording)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let facts = &result["dumps"][0];
    assert_eq!((&facts["format"], &facts["kind"]), (&"minidump".into(), &"stacks".into()), "{facts:#}");
    assert_eq!(facts["core"], format!("dumps/{pid}.scrubbed.dmp"));
    assert!(recording.join("report.html").is_file());
    survival.assert_unharmed();
    for wrong in [
        &["--kind", "heap", "-o", "x.dmp"][..],
        &["--format", "core", "-o", "x.dmp"],
        &["--raw", "-o", "x.dmp"],
    ] {
        let text = complaint(biopsy(["dump", &pid]).args(wrong).current_dir(folder.path()));
        assert!(text.contains("hint: "), "{wrong:?}: {text}");
    }
    target.stop();
}

#[test]
fn a_deadlock_shows_in_a_dump_of_stacks() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let folder = temp_dir("deadlock");
    let mut target = TargetProcess::start(Program::Deadlock, &["abba"]);
    let survival = Survival::before(target.pid());
    let pid = target.pid().to_string();
    let file = folder.path().join("stacks.core.zst");
    let output = biopsy(["dump", &pid, "--kind", "stacks", "--output"]).arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let shown = biopsy(["analyze", "--symbols", "/"]).arg(&file).output().unwrap();
    let text = said(&shown);
    assert!(shown.status.success() && text.contains("Deadlock: "), "{text}");
    survival.assert_unharmed();
    target.stop();
}

#[test]
fn dumps_in_a_bundle_are_read_where_they_are() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let folder = temp_dir("bundled");
    let mut target = TargetProcess::start(Program::SlowPeer, &[]);
    let survival = Survival::before(target.pid());
    let pid = target.pid().to_string();
    for (name, more) in
        [("packed.zip", &["--tree"][..]), ("raw.zip", &["--tree", "--raw", "--kind", "stacks"])]
    {
        let bundle = folder.path().join(name);
        let output = biopsy(["dump", &pid, "--output"]).arg(&bundle).args(more).output().unwrap();
        assert!(output.status.success(), "{name}: {}", said(&output));
        let shown = biopsy(["analyze", "--symbols", "/"]).arg(&bundle).output().unwrap();
        assert!(shown.status.success(), "{name}: {}", said(&shown));
        let text = String::from_utf8_lossy(&shown.stdout).into_owned();
        let first = text.find(&format!("pid {pid}"));
        assert!(first.is_some(), "{name}: {text}");
        assert!(text.contains("fetch_from_peer"), "{name}: {text}");
    }
    survival.assert_unharmed();
    target.stop();
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found
}

#[test]
fn a_disk_that_fills_up_leaves_nothing_that_is_called_whole() {
    if !require_all(LIVE) || !require_all(&[Privilege::Namespaces]) {
        return;
    }
    let _machine = machine_to_myself();
    // Noise does not pack: half a gigabyte is expected to become 150 MB, which with the reserve would fit.
    let mut target = planted(&["500"]);
    let survival = Survival::before(target.pid());
    let pid = target.pid().to_string();
    for (size, output, filled) in
        [("440m", "noise.core.zst", true), ("440m", "recording", true), ("64m", "small.core.zst", false)]
    {
        let folder = temp_dir("full");
        // What is left is copied out of the mount, which nobody else sees.
        let script = "mount -t tmpfs -o size=$1 tmpfs \"$2\" && cd \"$2\" && shift 2 && \"$@\"; code=$?; \
                      find . -type f -exec ls -s {} +; umount -l . ; exit $code";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, "sh", size]).arg(folder.path());
        command.args([env!("CARGO_BIN_EXE_biopsy"), "dump", &pid, "--quiet", "--output", output]);
        let done = command.output().unwrap();
        let text = said(&done);
        assert!(!text.contains("panicked"), "{text}");
        assert!(matches!(done.status.code(), Some(3 | 7)), "{output}: {text}");
        let names: Vec<&str> =
            std::str::from_utf8(&done.stdout).unwrap().lines().filter(|line| line.contains("./")).collect();
        assert!(!names.iter().any(|name| name.ends_with(".core.zst")), "called whole: {text}");
        assert_eq!(names.iter().any(|name| name.ends_with(".core.zst.partial")), filled, "{text}");
        if !filled {
            assert!(text.contains("free") && text.contains("hint: "), "{text}");
        }
    }
    survival.assert_unharmed();
    target.stop();
}

#[test]
fn nothing_is_left_of_a_dump_that_cannot_be_written() {
    if !require_all(LIVE) {
        return;
    }
    let folder = temp_dir("exists");
    let mut target = TargetProcess::start(Program::Idle, &[]);
    let file = folder.path().join("there.core.zst");
    std::fs::write(&file, "mine").unwrap();
    let text = complaint(biopsy(["dump", &target.pid().to_string(), "--output"]).arg(&file));
    assert!(text.contains("exists"), "{text}");
    assert_eq!(files(folder.path()), std::slice::from_ref(&file));
    assert_eq!(std::fs::read(&file).unwrap(), b"mine");
    target.stop();
}
