//! A thousand secrets in a process: in its environment, its arguments, its memory and the messages of its exceptions. None of them is in a report, whatever was recorded.

use std::path::Path;
use std::process::{Command, Stdio};

use biopsy_testkit::{Privilege, Survival, TargetProcess, require_all, require_program, temp_dir};

use crate::support::{biopsy, said, succeeded};

const LIVE: &[Privilege] = &[Privilege::Perf, Privilege::Bpf, Privilege::Ptrace];
const IN_ENVIRONMENT: usize = 300;
const IN_ARGUMENTS: usize = 200;
const ALL: usize = 1000;
/// So many characters in a row of a secret are a part of it.
const PART: usize = 9;

/// All different, from a seed, of letters and digits.
fn secrets() -> Vec<String> {
    let mut state = 20u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b"abcdefghjkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"[(state >> 33) as usize % 55])
    };
    (0..ALL).map(|_| (0..18).map(|_| next()).collect::<String>() + "7Q").collect()
}

/// Those of which a part is in this text.
fn left<'s>(text: &str, secrets: &'s [String]) -> Vec<&'s str> {
    let is_left =
        |secret: &&String| text.contains(&secret[..PART]) || text.contains(&secret[secret.len() - PART..]);
    secrets.iter().filter(is_left).map(String::as_str).collect()
}

/// Every report of a recording: the pages and texts beside it, and what `analyze` makes of it anew. Each with its name.
fn reports(recording: &Path) -> Vec<(String, String)> {
    let page = recording.with_extension("page.html");
    let mut all = Vec::new();
    for form in [&["--json"][..], &["--markdown"], &["--html", page.to_str().unwrap()], &[]] {
        let output = biopsy(["analyze"]).arg(recording).args(form).output().unwrap();
        assert!(succeeded(&output), "{form:?}: {}", said(&output));
        all.push((format!("{form:?}"), said(&output)));
    }
    let beside = ["report.html", "report.md", "report.json"].map(|name| recording.join(name));
    for path in beside.iter().chain([&page]).filter(|path| path.exists()) {
        all.push((path.display().to_string(), std::fs::read_to_string(path).unwrap()));
    }
    all
}

#[test]
fn none_of_a_thousand_secrets_is_in_a_report() {
    if !require_all(LIVE) || !require_program("python3", &["--version"]) {
        return;
    }
    let (folder, secrets) = (temp_dir("thousand"), secrets());
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("secrets"), secrets[IN_ENVIRONMENT + IN_ARGUMENTS..].join("\n")).unwrap();
    let mut command = Command::new("python3");
    command.arg("-c").arg(include_str!("kept_secrets.py"));
    command.env("SHOP_LOG", at("shop.log")).env("SHOP_FILE", at("secrets"));
    for (number, secret) in secrets.iter().take(IN_ENVIRONMENT + IN_ARGUMENTS).enumerate() {
        match number < IN_ENVIRONMENT {
            true => command.env(format!("SHOP_{number}_PASSWORD"), secret),
            false => command.arg(format!("--api-token-{number}={secret}")),
        };
    }
    let mut target = TargetProcess::spawn(command);
    let log = std::fs::read_to_string(at("shop.log")).unwrap();
    assert!(left(&log, &secrets).len() >= 200, "its exceptions have them");
    let survival = Survival::before(target.pid());
    let pid = target.pid().to_string();
    let mut texts = Vec::new();
    let recordings = [
        ("capture", vec!["capture", &pid, "--for", "2s", "--folder"]),
        ("snapshot", vec!["snapshot", &pid, "--max-pause", "10s"]),
        ("dump", vec!["dump", &pid, "--max-pause", "10s"]),
    ];
    for (name, arguments) in &recordings {
        let output = biopsy(arguments).arg("--output").arg(at(name)).output().unwrap();
        assert!(succeeded(&output), "{name}: {}", said(&output));
        texts.push(((*name).to_owned(), said(&output)));
        texts.extend(reports(&at(name)));
    }
    for arguments in
        [&["stacks", &pid][..], &["stacks", &pid, "--json"], &["ps", &pid, "--json"], &["doctor", &pid]]
    {
        texts.push((format!("{arguments:?}"), said(&biopsy(arguments).output().unwrap())));
    }
    survival.assert_unharmed();
    // Its last words are the message of an exception.
    let ended = biopsy(["dump", &pid, "--on", "exit!=0", "--for", "60s", "--output"])
        .arg(at("ended"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let is_followed = || {
        std::fs::read_to_string(format!("/proc/{pid}/status"))
            .is_ok_and(|status| !status.contains("TracerPid:\t0\n"))
    };
    while !is_followed() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    target.say("end");
    let output = ended.wait_with_output().unwrap();
    assert!(succeeded(&output), "{}", said(&output));
    texts.push(("ended".to_owned(), said(&output)));
    let of_end = reports(&at("ended"));
    assert!(
        of_end.iter().any(|(_, text)| text.contains("login failed: password=[redacted:")),
        "the message is told: {of_end:?}"
    );
    texts.extend(of_end);
    assert!(texts.len() > 20, "{}", texts.len());
    for (name, text) in &texts {
        assert_eq!(left(text, &secrets), [""; 0], "{name}");
    }
}
