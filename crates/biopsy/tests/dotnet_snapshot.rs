//! `biopsy snapshot` on living .NET programs, and what can be made of it.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use biopsy_testkit::{
    DOTNET_RUNTIMES, Privilege, Survival, TargetProcess, at_once, dotnet_odd, dotnet_peer, dotnet_root,
    dotnet_target, packaged_dotnet_target, published_dotnet, require_all, temp_dir,
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

/// The one heap of a report, or of what `snapshot` says.
fn heap_of(document: &Value) -> &Value {
    let report = document.get("report").unwrap_or(document);
    &report["heaps"][0]
}

fn row<'a>(document: &'a Value, name: &str) -> &'a Value {
    let rows = heap_of(document)["types"].as_array().expect("a list");
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no `{name}`"))
}

#[test]
fn a_snapshot_is_taken_kept_read_and_exported() {
    if !require_all(&NEEDED) {
        return;
    }
    at_once(DOTNET_RUNTIMES.into_iter().zip([false, true, false]), |(runtime, bundle)| {
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
        let facts = heap_of(&taken);
        assert_eq!((&facts["whole"], &facts["source"]), (&true.into(), &"memory".into()), "{facts}");
        let garbage = row(&taken, "Targets.Holder.Model.Garbage");
        assert_eq!(garbage["objects"], 1000, "{runtime}");
        assert!(garbage["live_objects"].as_u64().is_some_and(|live| live < 5), "{garbage}");
        // What the command says is what the recording says.
        let again = json(&biopsy(&["analyze", text(&recording), "--json"]));
        assert_eq!(heap_of(&again)["references"], facts["references"]);
        assert_eq!(heap_of(&again)["types"], heap_of(&taken)["types"]);
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
        assert_eq!(heap_of(&read)["objects"], facts["live_objects"]);
        if !bundle {
            no_contents(&recording, &secrets_of(&truth));
        }
    });
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

/// Every version, and 3.1, whose memory is not understood.
#[test]
fn a_heap_that_the_runtime_tells_is_whole_and_met_exactly() {
    if !require_all(&NEEDED) {
        return;
    }
    let folder = temp_dir("told");
    let ask = |pid: &str, from: &str, name: &str| {
        let recording = folder.path().join(name);
        let mut arguments = vec!["snapshot", pid, "--from", from, "--json", "--top", "0", "--quiet"];
        arguments.extend(["--max-pause", "60s", "-o", text(&recording)]);
        let taken = json(&biopsy(&arguments));
        let facts = heap_of(&taken);
        assert_eq!((&facts["whole"], &facts["source"]), (&true.into(), &"runtime".into()), "{facts}");
        assert!(facts["pause_ms"].as_f64().is_some_and(|pause| pause > 0.0), "{facts}");
        is_opened(&recording, facts);
        taken
    };
    if let Some((target, _)) = packaged_dotnet_target("3.1", &["leak=5"]) {
        let taken = ask(&target.pid().to_string(), "auto", "3.1");
        assert_eq!(row(&taken, "Sick.LeakyOrder")["objects"], 5000);
        let warnings = heap_of(&taken)["warnings"].to_string();
        assert!(
            warnings.contains("not from memory") && warnings.contains("no layout for .NET 3.1"),
            "{warnings}"
        );
    }
    at_once(DOTNET_RUNTIMES, |runtime| {
        let target = dotnet_target(runtime, "holder", &["--objects", "20000"]);
        let taken = ask(&target.pid().to_string(), "runtime", runtime);
        assert_eq!(row(&taken, "Targets.Holder.Model.Order")["objects"], 3920, "{runtime}");
        let rows = heap_of(&taken)["types"].as_array().expect("a list");
        assert!(!rows.iter().any(|row| row["name"] == "Targets.Holder.Model.Garbage"), "it collected before");
        over_budget_is_refused(target.pid(), folder.path());
    });
}

/// Exports the snapshot, and has the format's own reader open it.
fn is_opened(recording: &Path, facts: &Value) {
    let gcdump = recording.with_extension("gcdump");
    let exported = biopsy(&["export", text(recording), "--to", "gcdump", "-o", text(&gcdump)]);
    assert!(exported.status.success(), "{}", String::from_utf8_lossy(&exported.stderr));
    if let Some(output) = dotnet_peer("gcdump-check", &[text(&gcdump), "--top", "1", "--no-dominators"]) {
        let checked = json(&output);
        assert_eq!(checked["objects"], facts["live_objects"], "{checked}");
        assert_eq!(checked["consistency"]["ok"], true, "{checked}");
    }
}

fn over_budget_is_refused(pid: u32, folder: &Path) {
    let pid = pid.to_string();
    // The budget is kept before anything is asked.
    let refused = biopsy(&[
        "snapshot",
        &pid,
        "--from",
        "runtime",
        "--max-pause",
        "1us",
        "-o",
        text(&folder.join("no")),
    ]);
    assert_eq!(refused.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("would stand still"), "{refused:?}");
    assert!(!folder.join("no").exists());
}

/// Writes over a place in the memory of a process: the offset of a field in what its runtime exports for debuggers, which
/// nothing in the process reads.
fn tamper(pid: u32, original: &[u8], other: &[u8]) {
    assert_eq!(original.len(), other.len());
    let memory =
        File::options().read(true).write(true).open(format!("/proc/{pid}/mem")).expect("may be written");
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("it runs");
    for line in maps.lines().filter(|line| line.ends_with("/libcoreclr.so")) {
        let (start, rest) = line.split_once('-').expect("a range");
        let address = |text: &str| u64::from_str_radix(text, 16).expect("hexadecimal");
        let start = address(start);
        let end = address(rest.split(' ').next().expect("an end"));
        let mut bytes = vec![0; (end - start) as usize];
        if memory.read_exact_at(&mut bytes, start).is_err() {
            continue;
        }
        if let Some(at) = memchr::memmem::find(&bytes, original) {
            memory.write_all_at(other, start + at as u64).expect("it is ours to change");
            return;
        }
    }
    panic!("{} is nowhere", String::from_utf8_lossy(original));
}

/// A runtime whose description does not fit what is in memory: it is said, nothing is guessed, and the runtime is asked.
#[test]
fn a_runtime_that_does_not_fit_its_layout_is_said_and_asked() {
    if !require_all(&NEEDED) {
        return;
    }
    let folder = temp_dir("tampered");
    let target = dotnet_target("net10.0", "holder", &["--objects", "2000"]);
    let survival = Survival::before(target.pid()).threads_may_change();
    tamper(target.pid(), b"\"BaseSize\":4", b"\"BaseSize\":6");
    let pid = target.pid().to_string();
    let only = biopsy(&[
        "snapshot",
        &pid,
        "--from",
        "memory",
        "--max-pause",
        "5s",
        "-o",
        text(&folder.path().join("no")),
    ]);
    assert_eq!(only.status.code(), Some(4), "{only:?}");
    let said = String::from_utf8_lossy(&only.stderr);
    assert!(said.contains("does not fit this process"), "{said}");
    let recording = folder.path().join("heap");
    let taken =
        json(&biopsy(&["snapshot", &pid, "--json", "--quiet", "--max-pause", "60s", "-o", text(&recording)]));
    let facts = heap_of(&taken);
    assert_eq!((&facts["whole"], &facts["source"]), (&true.into(), &"runtime".into()), "{facts}");
    let warnings = facts["warnings"].to_string();
    assert!(warnings.contains("not from memory") && warnings.contains("does not fit"), "{warnings}");
    survival.assert_unharmed();
}

/// Cores of the kinds that users have, with and without the text of files.
#[test]
fn heaps_of_cores_are_exported_by_name() {
    if !require_all(&NEEDED) {
        return;
    }
    let folder = temp_dir("cores");
    at_once(DOTNET_RUNTIMES.into_iter().zip(["heap", "full", "heap"]), |(runtime, kind)| {
        let target = dotnet_target(runtime, "holder", &["--objects", "20000"]);
        let core = folder.path().join(format!("{runtime}.core"));
        dump(target.pid(), kind, &core);
        drop(target);
        let gcdump = core.with_extension("gcdump");
        let exported =
            biopsy(&["export", text(&core), "--symbols", "/", "--to", "gcdump", "-o", text(&gcdump)]);
        assert!(exported.status.success(), "{}", String::from_utf8_lossy(&exported.stderr));
        let read = json(&biopsy(&["analyze", text(&gcdump), "--json"]));
        assert_eq!(row(&read, "Targets.Holder.Model.Order")["objects"], 3920, "{runtime} {kind}");
        let rows = heap_of(&read)["types"].as_array().expect("a list").iter();
        let nameless: Vec<&Value> =
            rows.filter(|row| row["name"].as_str().is_none_or(|name| name.starts_with('?'))).collect();
        assert!(nameless.is_empty(), "{runtime} {kind}: {nameless:?}");
        if let Some(output) = dotnet_peer("gcdump-check", &[text(&gcdump), "--top", "1", "--no-dominators"]) {
            let checked = json(&output);
            assert_eq!(checked["objects"], heap_of(&read)["objects"], "{runtime} {kind}");
            assert_eq!(checked["consistency"]["ok"], true, "{checked}");
        }
        // One of each kind.
        if runtime != "net10.0" {
            cut_cores_say_so(&core, &read);
        }
    });
}

/// Parts of a core: an error, or what is there with the warning that it is not all. Names are those of the whole core, or have
/// a `?` where the name, or that of a type argument, is not in the part.
fn cut_cores_say_so(core: &Path, whole: &Value) {
    let names = |document: &Value| -> BTreeSet<String> {
        let rows = heap_of(document)["types"].as_array().expect("a list").iter();
        rows.map(|row| row["name"].as_str().expect("a text").to_owned()).collect()
    };
    let bytes = core.metadata().expect("it is there").len();
    let gcdump = core.with_extension("part.gcdump");
    for keep in [bytes / 20 * 19, bytes / 2, bytes / 50, 3_000, 100] {
        File::options().write(true).open(core).and_then(|file| file.set_len(keep)).expect("it can be cut");
        let analyzed = biopsy(&["analyze", text(core), "--symbols", "/", "--json"]);
        let code = analyzed.status.code();
        assert!(matches!(code, Some(3 | 6)), "{keep} of {bytes}: {analyzed:?}");
        if code == Some(3) {
            let said: Value = serde_json::from_slice(&analyzed.stdout).expect("JSON, of what is there");
            let said = said["findings"].to_string();
            assert!(said.contains("incomplete-dump"), "{keep} of {bytes}: {said}");
        }
        let exported =
            biopsy(&["export", text(core), "--symbols", "/", "--to", "gcdump", "-o", text(&gcdump)]);
        let code = exported.status.code();
        assert!(matches!(code, Some(0 | 3 | 6)), "{keep} of {bytes}: {exported:?}");
        assert_eq!(gcdump.exists(), code != Some(6));
        if gcdump.exists() {
            let part = json(&biopsy(&["analyze", text(&gcdump), "--json"]));
            let made_up: Vec<_> = names(&part).difference(&names(whole)).cloned().collect();
            assert!(made_up.iter().all(|name| name.contains('?')), "{keep} of {bytes}: {made_up:?}");
            std::fs::remove_file(&gcdump).expect("it was written");
        }
    }
}

/// What the runtime's own program writes without heap has what its reader asked for on the way through the stacks.
#[test]
fn managed_stacks_are_told_from_dumps_without_heap() {
    if !require_all(&NEEDED) {
        return;
    }
    let folder = temp_dir("normal");
    let frameworks = dotnet_root().expect("the targets are there").join("shared/Microsoft.NETCore.App");
    at_once(DOTNET_RUNTIMES, |runtime| {
        let version = runtime.strip_prefix("net").expect("as in `net9.0`");
        let of_version = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&format!("{version}.")))
        };
        let entries = std::fs::read_dir(&frameworks).expect("a folder").flatten().map(|entry| entry.path());
        let createdump = entries.into_iter().find(of_version).expect("its runtime").join("createdump");
        let target = dotnet_target(runtime, "holder", &["--objects", "2000"]);
        for kind in ["--normal", "--triage"] {
            let core = folder.path().join(format!("{runtime}{kind}.core"));
            let mut command = Command::new(&createdump);
            command.args([kind, "--name", text(&core), &target.pid().to_string()]);
            let made = command.output().expect("it starts");
            assert!(made.status.success(), "{made:?}");
            let analyzed = json(&biopsy(&["analyze", text(&core), "--symbols", "/", "--json"]));
            let groups = analyzed["dumps"][0]["groups"].to_string();
            for method in ["Targets.Shared.Shutdown.Wait", "System.Threading.ManualResetEventSlim.Wait"] {
                assert!(groups.contains(method), "{runtime} {kind}: {method}");
            }
            assert!(analyzed["dumps"][0]["managed"]["heap"].is_null(), "{}", analyzed["dumps"][0]["managed"]);
            let exported = biopsy(&[
                "export",
                text(&core),
                "--symbols",
                "/",
                "--to",
                "gcdump",
                "-o",
                text(&core.with_extension("no")),
            ]);
            assert_eq!(exported.status.code(), Some(6), "{exported:?}");
            let said = String::from_utf8_lossy(&exported.stderr);
            assert!(said.contains("the memory of the heap is not in"), "{said}");
        }
    });
}

fn dump(pid: u32, kind: &str, core: &Path) {
    let pid = pid.to_string();
    let made = biopsy(&[
        "dump",
        &pid,
        "--kind",
        kind,
        "--raw",
        "--quiet",
        "--max-pause",
        "5s",
        "--output",
        text(core),
    ]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// A core without the text of files, on a machine that lacks them.
#[test]
fn a_core_whose_files_are_missing_says_which() {
    if !require_all(&NEEDED) {
        return;
    }
    let folder = temp_dir("missing");
    let Some(original) = published_dotnet("net10.0/single-file", &[]) else { return };
    let program = folder.path().join("variant");
    std::fs::copy(original.get_program(), &program).expect("it can be copied");
    let mut command = Command::new(&program);
    command.args(["--kind", "plain"]).env("DOTNET_SYSTEM_GLOBALIZATION_INVARIANT", "1");
    let target = TargetProcess::spawn(command);
    let core = folder.path().join("one.core");
    dump(target.pid(), "heap", &core);
    drop(target);
    let gcdump = folder.path().join("with.gcdump");
    let arguments = ["export", text(&core), "--symbols", "/", "--to", "gcdump", "-o", text(&gcdump)];
    let with = biopsy(&arguments);
    assert!(with.status.success(), "{}", String::from_utf8_lossy(&with.stderr));
    std::fs::remove_file(&program).expect("it is there");
    std::fs::remove_file(&gcdump).expect("it was written");
    let without = biopsy(&arguments);
    assert_eq!(without.status.code(), Some(6), "{without:?}");
    let said = String::from_utf8_lossy(&without.stderr);
    assert!(said.contains(".NET") && said.contains("variant"), "{said}");
    assert!(!gcdump.exists());
}

/// Names are made by whoever makes a type; terminals and other tools are not to suffer.
#[test]
fn names_that_do_harm_are_escaped_on_terminals_and_survive_in_files() {
    if !require_all(&NEEDED) {
        return;
    }
    // A grave accent begins the number of type arguments, so two of the names are one.
    const ROWS: usize = 41;
    let folder = temp_dir("names");
    let target = TargetProcess::spawn(dotnet_odd("net9.0", &["emitted=42"]).expect("the targets are there"));
    let recording = folder.path().join("heap");
    let pid = target.pid().to_string();
    let output =
        biopsy(&["snapshot", &pid, "--quiet", "--top", "0", "--max-pause", "5s", "-o", text(&recording)]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let shown = String::from_utf8(output.stdout).expect("text");
    let harmful = |character: char| {
        (character.is_control() && character != '\n')
            || matches!(character, '\u{200b}' | '\u{202e}' | '\u{2028}' | '\u{2066}')
    };
    assert_eq!(shown.find(harmful), None, "{shown}");
    assert_eq!(shown.lines().filter(|line| line.contains("  Harm.")).count(), ROWS, "{shown}");
    assert!(shown.contains("roots  ") && shown.contains("gen0 "), "{shown}");
    let read = json(&biopsy(&["analyze", text(&recording), "--json"]));
    is_opened(&recording, heap_of(&read));
    let rows = |document: &Value| -> Vec<String> {
        let rows = heap_of(document)["types"].as_array().expect("a list").iter();
        let mut names: Vec<String> = rows.filter_map(|row| Some(row["name"].as_str()?.to_owned())).collect();
        names.retain(|name| name.starts_with("Harm."));
        names.sort();
        names
    };
    let names = rows(&read);
    assert!(
        names.contains(&"Harm.Right\u{202e}ToLeft1".to_owned())
            && names.contains(&"Harm.Emoji\u{1f9ea}7".to_owned())
    );
    let again = json(&biopsy(&["analyze", text(&recording.with_extension("gcdump")), "--json"]));
    assert_eq!(rows(&again), names);
}

#[test]
fn what_is_no_dotnet_process_is_said() {
    if !require_all(&[Privilege::Ptrace]) {
        return;
    }
    let mut sleeper = Command::new("sleep").arg("60").spawn().expect("sleep starts");
    let folder = temp_dir("none");
    let (pid, heap) = (sleeper.id().to_string(), folder.path().join("heap"));
    // Without `--from` it is told where its memory went.
    let output = biopsy(&["snapshot", &pid, "--from", "memory", "-o", text(&heap)]);
    sleeper.kill().expect("it runs");
    sleeper.wait().expect("it ends");
    assert_eq!(output.status.code(), Some(4));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("no .NET runtime"), "{said}");
    assert!(!heap.exists());
}

/// A list that is only added to: named with field and type, from several snapshots in one recording.
#[test]
fn a_leak_is_named_from_snapshots_in_one_recording() {
    if !require_all(&NEEDED) {
        return;
    }
    at_once(["net8.0", "net10.0"], |runtime| {
        let folder = temp_dir("leak");
        let target = dotnet_target(runtime, "server", &["--port", "0", "--sick", "leak-static-list"]);
        let survival = Survival::before(target.pid()).threads_may_change().files_may_change();
        let pid = target.pid().to_string();
        let recording = folder.path().join("leak.biopsy.zip");
        let common = ["--json", "--quiet", "--max-pause", "5s", "--into", text(&recording)];
        let first = [&["snapshot", &pid, "--every", "2s", "--count", "2"], common.as_slice()].concat();
        assert!(
            json(&biopsy(&first))["report"]["growth"]["moments"].as_array().is_some_and(|all| all.len() == 2)
        );
        std::thread::sleep(std::time::Duration::from_secs(2));
        json(&biopsy(&[&["snapshot", &pid], common.as_slice()].concat()));
        survival.assert_unharmed();
        let compared = json(&biopsy(&["compare", text(&recording), "--json"]));
        let grew = &compared["holders"][0];
        assert!(grew["type"].as_str().is_some_and(|of| of.ends_with("AuditEntry")), "{runtime}: {grew}");
        let way = grew["way"].as_str().expect("a way");
        assert!(way.starts_with("static ") && way.contains(".AuditTrail.Entries"), "{runtime}: {way}");
        assert!(way.contains("._items"), "{runtime}: {way}");
        let report = json(&biopsy(&["analyze", text(&recording), "--json"]));
        let ids: Vec<_> =
            report["findings"].as_array().expect("a list").iter().map(|one| &one["id"]).collect();
        // A busy machine may have let the program grow in one interval only.
        let always = grew["always"] == true;
        assert_eq!(ids.contains(&&Value::from("leak")), always, "{runtime}: {ids:?}");
        assert_eq!(report["heaps"].as_array().map(Vec::len), Some(3));
        let answer = json(&biopsy(&["heap", text(&recording), "--path-to", "AuditEntry", "--json"]));
        let row = answer["rows"][0]["text"].as_str().expect("a way");
        assert!(row.contains("AuditTrail.Entries"), "{runtime}: {row}");
        // Of another process, or of an earlier run, is no place for it; and what is there stays as it is.
        let before = std::fs::read(&recording).expect("the recording");
        let other = dotnet_target(runtime, "holder", &["--objects", "1000"]);
        let refused = biopsy(&["snapshot", &other.pid().to_string(), "--into", text(&recording), "--quiet"]);
        assert!(String::from_utf8_lossy(&refused.stderr).contains("is not of this process"), "{refused:?}");
        assert!(std::fs::read(&recording).is_ok_and(|after| after == before));
        assert_eq!(
            std::fs::read_dir(folder.path()).expect("a folder").count(),
            1,
            "nothing is left beside it"
        );
    });
}

#[test]
fn a_leak_is_named_with_who_allocates_it_from_one_capture() {
    if !require_all(&NEEDED) || !require_all(&[Privilege::Perf]) {
        return;
    }
    let (mode, words) = ("leak-static-list", ["AuditTrail.Entries", "AuditTrail.Begin"]);
    at_once(["net10.0", "net8.0"], |runtime| {
        let folder = temp_dir("leak-capture");
        let target = dotnet_target(runtime, "server", &["--port", "0", "--sick", mode]);
        let survival = Survival::before(target.pid()).threads_may_change().files_may_change();
        let recording = folder.path().join("leak.zip");
        let output = biopsy(&[
            "capture",
            &target.pid().to_string(),
            "--snapshots",
            "3",
            "--max-pause",
            "10s",
            "--allocations",
            "--for",
            "12s",
            "--quiet",
            "-o",
            text(&recording),
        ]);
        assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
        survival.assert_unharmed();
        let report = json(&biopsy(&["analyze", text(&recording), "--json"]));
        assert_eq!(report["heaps"].as_array().map(Vec::len), Some(3), "{runtime}");
        let marks: Vec<_> = report["marks"].as_array().into_iter().flatten().collect();
        assert_eq!(marks.len(), 3, "each is on the time axis: {marks:?}");
        let leak =
            report["findings"].as_array().into_iter().flatten().find(|finding| finding["id"] == "leak");
        let title = leak.map(|leak| leak["title"].to_string()).unwrap_or_default();
        for word in words {
            assert!(
                title.contains(word),
                "{runtime} {mode}: `{word}` is not in {title}; {:#}",
                report["findings"]
            );
        }
    });
}
