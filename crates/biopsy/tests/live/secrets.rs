//! Secrets and names of a hostile process: what may neither leave the machine nor reach the terminal.

use std::path::Path;
use std::process::Command;

use biopsy_testkit::{Privilege, Survival, TargetProcess, compile_c, require_all, temp_dir};
use serde_json::Value;

use crate::support::{biopsy, said, succeeded};

const LIVE: &[Privilege] = &[Privilege::Cc, Privilege::Ptrace];

/// A process that calls itself, a thread and a mapped file like this.
fn named(folder: &Path, process: &str, thread: &str, file: &str) -> TargetProcess {
    let mut command = Command::new(compile_c("named", include_str!("named.c"), &["-O1"]));
    command.args([process, thread, file]).current_dir(folder);
    TargetProcess::spawn(command)
}

/// What is in a text that a terminal would obey, or that would look like another text, but for styles of ours.
fn commands_in(text: &str) -> Vec<char> {
    let mut rest = text.to_owned();
    for style in ["0", "1", "2", "31", "32", "33", "34", "35", "36", "1;31", "1;33", "1;34"] {
        rest = rest.replace(&format!("\u{1b}[{style}m"), "");
    }
    let harmful = |c: &char| {
        c.is_control() && !matches!(c, '\n' | '\t')
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
    };
    rest.chars().filter(harmful).collect()
}

#[test]
fn names_of_a_process_command_no_terminal_whatever_is_asked() {
    if !require_all(LIVE) {
        return;
    }
    let folder = temp_dir("names");
    // A name has 15 bytes: title and bell, a line end, C1, a bidirectional override.
    let (process, thread) = ("\u{1b}]0;p\u{7}\nerror: x", "\u{9b}2J\u{202e}\u{1b}[8mt");
    let mut target = named(folder.path(), process, thread, "f\u{1b}]0;f\u{7}\u{202e}");
    let survival = Survival::before(target.pid());
    let pid = target.pid().to_string();
    let at = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (bundle, dump, one, odd) = (at("a.zip"), at("dump"), at("x.core"), at("\u{1b}]0;no\u{7}\u{9b}"));
    let commands: &[&[&str]] = &[
        &["ps"],
        &["ps", "--json"],
        &["doctor"],
        &["capture", &pid, "--for", "500ms", "-o", &bundle],
        &["trace", &pid, "--for", "300ms", "--json", "-o", &at("b.zip")],
        &["analyze", &bundle],
        &["analyze", &bundle, "--markdown"],
        &["analyze", &bundle, "--json"],
        &["stacks", &pid, "--all"],
        &["stacks", &pid, "--json"],
        &["dump", &pid, "--dry-run"],
        &["dump", &pid, "-o", &dump],
        &["dump", &pid, "--on", "after:200ms", "--count", "1", "-o", &at("waited")],
        &["dump", &pid, "--raw", "-o", &one],
        &["analyze", &one],
        &["analyze", &one, "--json"],
        // What must fail names what it fails on.
        &["snapshot", &pid, "-o", &at("heap")],
        &["dump", &pid, "--max-pause", "0ms", "-o", &at("refused")],
        &["stacks", &format!("{process}{thread}")],
        &["analyze", &odd],
        &["export", &bundle, "--to", &odd],
        &["dump", &pid, "--on", &odd],
        &[&odd],
    ];
    for arguments in commands {
        for color in ["never", "always"] {
            let mut command = biopsy(arguments.iter());
            if arguments != &[&odd[..]] {
                command.args(["--color", color]);
            }
            for made in [&bundle, &dump, &one, &at("b.zip"), &at("waited")] {
                if arguments.last() == Some(&&made[..]) && arguments.contains(&"-o") {
                    let _ = std::fs::remove_file(made);
                    let _ = std::fs::remove_dir_all(made);
                }
            }
            let output = command.env("BIOPSY_LOG", "debug").output().unwrap();
            for (stream, bytes) in [("standard output", &output.stdout), ("standard error", &output.stderr)] {
                let text =
                    std::str::from_utf8(bytes).unwrap_or_else(|error| panic!("{arguments:?}: {error}"));
                assert_eq!(commands_in(text), [], "{arguments:?}, {stream}: {text:?}");
                assert!(color == "always" || !text.contains('\u{1b}'), "{arguments:?}, {stream}");
                assert!(!text.contains("\nerror: x"), "{arguments:?}: a name made a line: {text}");
            }
            if arguments.contains(&"--json") {
                let _: Value = serde_json::from_slice(&output.stdout).unwrap();
            }
        }
    }
    // The pages too.
    let page = std::fs::read_to_string(Path::new(&dump).join("report.html")).unwrap();
    assert_eq!(commands_in(&page), []);
    survival.assert_unharmed();
    target.stop();
}

/// Lists of processes and error messages are pasted into tickets.
#[test]
fn arguments_are_shown_without_their_secrets() {
    if !require_all(LIVE) {
        return;
    }
    let folder = temp_dir("arguments");
    let start = |number: u32| {
        let mut command = Command::new(compile_c("named", include_str!("named.c"), &["-O1"]));
        command.args([
            "shown-masked",
            "thread",
            &format!("file-{number}"),
            "--password=Tr0ub4dor-of-the-shop",
        ]);
        command.args(["--api-key", "k9vQ2mX7pL4rT8wZ"]).current_dir(folder.path());
        TargetProcess::spawn(command)
    };
    let targets = [start(1), start(2)];
    let pid = targets[0].pid().to_string();
    for arguments in
        [&["ps", &pid][..], &["ps", &pid, "--json"], &["ps", "shown-masked"], &["stacks", "shown-masked"]]
    {
        let said = said(&biopsy(arguments).output().unwrap());
        assert!(said.contains("--password="), "{arguments:?}: {said}");
        for secret in ["Tr0ub4dor", "k9vQ2mX7"] {
            assert!(!said.contains(secret), "{arguments:?}: {said}");
        }
    }
}

#[test]
fn what_stands_beside_memory_is_masked_in_a_scrubbed_dump() {
    if !require_all(LIVE) {
        return;
    }
    let folder = temp_dir("beside");
    let (process, thread) = ("password=Pr7kQ2", "password=Th7kQ2");
    let mut target = named(folder.path(), process, thread, "password=Fi7kQ2zV99xLmP4t");
    let survival = Survival::before(target.pid());
    for (name, more) in [("raw", &["--raw"][..]), ("packed", &[])] {
        let into = folder.path().join(name);
        let output = biopsy(["dump", &target.pid().to_string(), "--scrub", "--kind", "full", "--json", "-o"])
            .arg(&into)
            .args(more)
            .output()
            .unwrap();
        assert!(succeeded(&output), "{}", said(&output));
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(result["dumps"][0]["scrubbed"], true, "{result:#}");
        let member = result["dumps"][0]["core"].as_str().unwrap();
        assert!(member.contains(".scrubbed."), "{member}");
        let bytes = std::fs::read(into.join(member)).unwrap();
        let bytes = if more.is_empty() { zstd::decode_all(&bytes[..]).unwrap() } else { bytes };
        for secret in ["Pr7kQ2", "Th7kQ2", "Fi7kQ2zV99xLmP4t"] {
            let left = bytes.windows(secret.len()).filter(|window| *window == secret.as_bytes()).count();
            assert_eq!(left, 0, "{name}: `{secret}`");
        }
    }
    survival.assert_unharmed();
    target.stop();
}

#[test]
fn an_environment_of_long_secrets_is_captured_in_little_memory_and_masked() {
    if !require_all(LIVE) {
        return;
    }
    let folder = temp_dir("environment");
    let mut command = Command::new(compile_c("named", include_str!("named.c"), &["-O1"]));
    command.args(["p", "t", "f"]).current_dir(folder.path());
    let mut state = 1u64;
    let mut values = Vec::new();
    for number in 0..100 {
        let value: String = (0..15_000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                char::from(b'!' + (state >> 33) as u8 % 94)
            })
            .collect();
        command.env(format!("X_PASSWORD_{number}"), &value);
        values.push(value);
    }
    let mut target = TargetProcess::spawn(command);
    let survival = Survival::before(target.pid());
    let into = folder.path().join("recording");
    let output = biopsy(["capture", &target.pid().to_string(), "--for", "500ms", "--folder", "--json", "-o"])
        .arg(&into)
        .output()
        .unwrap();
    assert!(succeeded(&output), "{}", said(&output));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let peak = result["trace"]["recorder_peak_bytes"].as_u64().unwrap();
    assert!(peak < 400_000_000, "{peak} bytes");
    let path = into.join("target").join(target.pid().to_string()).join("environment.txt");
    let shown = std::fs::read_to_string(&path).unwrap_or_else(|_| {
        let all = std::fs::read_dir(path.parent().unwrap()).unwrap();
        all.map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap_or_default()).collect()
    });
    assert!(shown.contains("X_PASSWORD_99"), "{shown}");
    for value in &values {
        assert!(!shown.contains(&value[..20]) && !shown.contains(&value[14_000..14_020]));
    }
    survival.assert_unharmed();
    target.stop();
}
