//! `biopsy snapshot` on living .NET programs, and what can be made of it.

use std::path::Path;
use std::process::{Command, Output};

use biopsy_testkit::{
    DOTNET_RUNTIMES, Privilege, Survival, dotnet_peer, dotnet_target, require_all, temp_dir,
};
use serde_json::Value;

const NEEDED: [Privilege; 2] = [Privilege::DotNetTargets, Privilege::Ptrace];

fn biopsy(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_biopsy")).args(arguments).output().expect("biopsy starts")
}

fn json(output: &Output) -> Value {
    let said = || String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}: {}", output.status, said());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", said()))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain name")
}

fn row<'a>(document: &'a Value, name: &str) -> &'a Value {
    let rows = document["types"].as_array().expect("a list");
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no `{name}`"))
}

#[test]
fn a_snapshot_is_taken_kept_read_and_exported() {
    if !require_all(&NEEDED) {
        return;
    }
    for (runtime, bundle) in DOTNET_RUNTIMES.into_iter().zip([false, true, false]) {
        let folder = temp_dir("snapshot");
        let truth = folder.path().join("truth.json");
        let arguments = ["--objects", "20000", "--secrets", "--truth", text(&truth)];
        let target = dotnet_target(runtime, "holder", &arguments);
        let survival = Survival::before(target.pid()).threads_may_change();
        let pid = target.pid().to_string();
        let recording = folder.path().join(if bundle { "heap.zip" } else { "heap" });
        let taken = json(&biopsy(&[
            "snapshot",
            &pid,
            "--json",
            "--top",
            "0",
            "--quiet",
            "--max-pause",
            "5s",
            "-o",
            text(&recording),
        ]));
        survival.assert_unharmed();
        let facts = &taken["snapshot"];
        assert_eq!((&facts["whole"], &facts["source"]), (&true.into(), &"memory".into()), "{facts}");
        let garbage = row(&taken, "Targets.Holder.Model.Garbage");
        assert_eq!(garbage["objects"], 1000, "{runtime}");
        assert!(garbage["live_objects"].as_u64().is_some_and(|live| live < 5), "{garbage}");
        // What the command says is what the recording says.
        let again = json(&biopsy(&["analyze", text(&recording), "--json"]));
        assert_eq!(again["snapshot"]["references"], facts["references"]);
        assert_eq!(again["types"], taken["types"]);
        // And what other tools find in it.
        let gcdump = folder.path().join("heap.gcdump");
        let exported = biopsy(&["export", text(&recording), "--to", "gcdump", "-o", text(&gcdump)]);
        assert!(exported.status.success(), "{}", String::from_utf8_lossy(&exported.stderr));
        if let Some(output) = dotnet_peer("gcdump-check", &[text(&gcdump), "--top", "1", "--no-dominators"]) {
            let checked = json(&output);
            assert_eq!(checked["objects"], facts["live_objects"], "{runtime}");
            assert_eq!(checked["bytes"], facts["live_bytes"], "{runtime}");
        }
        let read = json(&biopsy(&["analyze", text(&gcdump), "--json"]));
        assert_eq!(read["snapshot"]["objects"], facts["live_objects"]);
        if !bundle {
            no_contents(&recording, &secrets_of(&truth));
        }
    }
}

/// The texts that the program holds and calls secrets.
fn secrets_of(truth: &Path) -> Vec<String> {
    let truth: Value = serde_json::from_slice(&std::fs::read(truth).expect("it was written")).expect("JSON");
    let secrets = truth["secrets"].as_array().expect("a list").iter();
    let values: Vec<String> = secrets.filter_map(|one| Some(one["value"].as_str()?.to_owned())).collect();
    assert!(values.len() > 5, "{truth}");
    values
}

/// None of them may be in what was written.
fn no_contents(recording: &Path, secrets: &[String]) {
    let mut open = vec![recording.to_owned()];
    let mut files = 0;
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(std::fs::read_dir(&path).expect("a folder").flatten().map(|entry| entry.path()));
            continue;
        }
        files += 1;
        let bytes = std::fs::read(&path).expect("a file");
        let bytes = if path.extension().is_some_and(|ending| ending == "zst") {
            zstd::decode_all(bytes.as_slice()).expect("it is whole")
        } else {
            bytes
        };
        for secret in secrets {
            let wide: Vec<u8> = secret.encode_utf16().flat_map(u16::to_le_bytes).collect();
            for form in [secret.as_bytes(), &wide] {
                assert!(memchr::memmem::find(&bytes, form).is_none(), "{}", path.display());
            }
        }
    }
    assert!(files > 10, "{files} files");
}

#[test]
fn a_heap_that_the_runtime_tells_is_what_its_own_tool_collects() {
    if !require_all(&NEEDED) {
        return;
    }
    let folder = temp_dir("told");
    let target = dotnet_target("net10.0", "holder", &["--objects", "20000"]);
    let pid = target.pid().to_string();
    let recording = folder.path().join("heap");
    let taken = json(&biopsy(&[
        "snapshot",
        &pid,
        "--from",
        "runtime",
        "--json",
        "--top",
        "0",
        "--quiet",
        "--max-pause",
        "60s",
        "-o",
        text(&recording),
    ]));
    let facts = &taken["snapshot"];
    assert_eq!((&facts["whole"], &facts["source"]), (&true.into(), &"runtime".into()), "{facts}");
    assert_eq!(row(&taken, "Targets.Holder.Model.Order")["objects"], 3920);
    let rows = taken["types"].as_array().expect("a list");
    assert!(!rows.iter().any(|row| row["name"] == "Targets.Holder.Model.Garbage"), "it collected before");
    // The budget is kept before anything is asked.
    let refused = biopsy(&[
        "snapshot",
        &pid,
        "--from",
        "runtime",
        "--max-pause",
        "1us",
        "-o",
        text(&folder.path().join("no")),
    ]);
    assert_eq!(refused.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("would stand still"), "{refused:?}");
    assert!(!folder.path().join("no").exists());
}

#[test]
fn what_is_no_dotnet_process_is_said() {
    if !require_all(&[Privilege::Ptrace]) {
        return;
    }
    let mut sleeper = Command::new("sleep").arg("60").spawn().expect("sleep starts");
    let folder = temp_dir("none");
    let output = biopsy(&["snapshot", &sleeper.id().to_string(), "-o", text(&folder.path().join("heap"))]);
    sleeper.kill().expect("it runs");
    sleeper.wait().expect("it ends");
    assert_eq!(output.status.code(), Some(4));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("no .NET runtime"), "{said}");
    assert!(!folder.path().join("heap").exists());
}
