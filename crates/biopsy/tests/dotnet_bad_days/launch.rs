//! Programs that are started: their runtimes are heard from their first moment, those of their children too.

use std::process::Stdio;

use biopsy_testkit::{Privilege, dotnet_command, require_all, temp_dir};

use crate::support::{analyze, biopsy};

#[test]
fn a_launched_program_and_its_children_are_heard_from_their_start() {
    if !require_all(&[Privilege::Perf, Privilege::Bpf, Privilege::DotNetTargets]) {
        return;
    }
    // 8 and 9 were seen too: starting them takes long where CI has little CPU.
    let runtime = "net10.0";
    let folder = temp_dir("launch");
    let (file, truth) = (folder.path().join("recording.zip"), folder.path().join("truth.jsonl"));
    let arguments = ["--mode", "steady", "--interval", "1500", "--truth", truth.to_str().unwrap()];
    let program = dotnet_command(runtime, "tentacle", &arguments).unwrap();
    let mut command = biopsy(&["trace", "--for", "4s", "--launch", "--quiet", "--output"]);
    command.arg(&file).arg("--").arg(program.get_program()).args(program.get_args());
    command.current_dir(folder.path()).env("TMPDIR", folder.path());
    // The program goes on after the recording, and must not hold our pipes.
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert!(matches!(status.code(), Some(0 | 3)), "{runtime}: {status}");
    let started = std::fs::read_to_string(&truth).unwrap_or_default();
    let ready = started.lines().find_map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).ok()?;
        (line["event"] == "ready").then(|| line["pid"].as_u64())?
    });
    // The agent runs until it is told to end.
    let pid = ready.unwrap_or_else(|| panic!("{runtime}: it did not get ready: {started}"));
    biopsy_testkit::send_signal(u32::try_from(pid).unwrap(), biopsy_testkit::Signal::TERM);

    let report = analyze(&file);
    let runtimes = report["runtimes"].as_array().unwrap();
    let heard = |of: u64| runtimes.iter().find(|one| one["pid"].as_u64() == Some(of));
    let agent = heard(pid).unwrap_or_else(|| panic!("{runtime}: {:#}", report["warnings"]));
    assert!(agent["loads_total"].as_u64().unwrap() > 5, "{runtime}: {agent:#}");
    let children = runtimes.iter().filter(|one| one["pid"].as_u64() != Some(pid)).count();
    assert!(children > 0, "{runtime}: no child was heard: {:#}", report["warnings"]);
}
