//! Files that other programs wrote, held against the numbers of their own readers (`fixtures/others/oracles.json`).

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/others")
}

/// The file as its program wrote it, in a folder that is removed with the guard.
fn unpacked(name: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let bytes = std::fs::read(fixtures().join(name)).unwrap();
    let (name, bytes) = match name.strip_suffix(".zst") {
        Some(plain) => (plain, zstd::decode_all(&bytes[..]).unwrap()),
        None => (name, bytes),
    };
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    (folder, path)
}

fn biopsy(arguments: &[&str], file: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_biopsy")).args(arguments).arg(file).output().unwrap()
}

fn analyze(name: &str) -> Value {
    let (_folder, file) = unpacked(name);
    let output = biopsy(&["analyze", "--json"], &file);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {:?}: {said}", output.status);
    serde_json::from_slice(&output.stdout).unwrap()
}

fn oracles(ending: &str) -> Vec<(String, Value)> {
    let text = std::fs::read_to_string(fixtures().join("oracles.json")).unwrap();
    let all: serde_json::Map<String, Value> = serde_json::from_str(&text).unwrap();
    let of: Vec<_> = all.into_iter().filter(|(name, _)| name.contains(ending)).collect();
    assert!(of.len() >= 2, "{of:?}");
    of
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

#[test]
fn heaps_of_32_bit_processes_have_all_their_objects() {
    for (name, oracle) in oracles(".gcdump") {
        let report = analyze(&name);
        let facts = &report["heaps"][0];
        for (ours, theirs) in
            [("objects", "objects"), ("bytes", "bytes"), ("live_objects", "reachable"), ("pid", "pid")]
        {
            assert_eq!(facts[ours], oracle[theirs], "{name}: {ours}");
        }
        // Theirs are those of pseudo nodes too.
        assert!(number(&facts["dangling"]) <= number(&oracle["dangling"]), "{name}: {}", facts["dangling"]);
        assert_eq!((&facts["whole"], &facts["warnings"]), (&true.into(), &Value::Null), "{name}");
        let types = facts["types"].as_array().unwrap();
        for row in oracle["types"].as_array().unwrap() {
            let of_type =
                |one: &&Value| one["name"] == row[0] && one["objects"] == row[1] && one["bytes"] == row[2];
            assert!(types.iter().any(|one| of_type(&one)), "{name}: {row}");
        }
    }
}

#[test]
fn a_heap_keeps_process_and_time_when_it_is_written_again() {
    let (folder, file) = unpacked("wpf-32-bit.gcdump.zst");
    let again = folder.path().join("again.gcdump");
    let output = biopsy(&["export", "--to", "gcdump", "-o", again.to_str().unwrap()], &file);
    assert!(output.status.success(), "{output:?}");
    let facts = |file: &Path| {
        let output = biopsy(&["analyze", "--json"], file);
        let mut report: Value = serde_json::from_slice(&output.stdout).unwrap();
        report["heaps"][0].take()
    };
    let (before, after) = (facts(&file), facts(&again));
    // 2014-05-19 12:36:33, on the clock of that machine.
    assert_eq!(before["taken_at_unix_seconds"], 1_400_502_993.0);
    assert_eq!(after["taken_at_unix_seconds"], before["taken_at_unix_seconds"]);
    assert_eq!((&before["pid"], &after["pid"]), (&8660.into(), &8660.into()));
    assert_eq!(after["objects"], before["live_objects"], "what is live is written");
    let bytes = std::fs::read(&again).unwrap();
    assert!(memchr::memmem::find(&bytes, b"WpfApplication2").is_some());
}

#[test]
fn event_streams_have_the_counts_and_pauses_that_traceevent_tells() {
    for (name, oracle) in oracles(".nettrace") {
        let report = analyze(&name);
        let runtime = &report["runtimes"][0];
        assert_eq!(runtime["events_total"], oracle["events"], "{name}");
        assert_eq!((&runtime["pid"], &runtime["lost"]), (&oracle["pid"], &oracle["lost"]), "{name}");
        let rows = runtime["providers"].as_array().unwrap();
        let providers = oracle["providers"].as_object().unwrap();
        assert_eq!(rows.len(), providers.len(), "{name}");
        for row in rows {
            let of = &providers[row["provider"].as_str().unwrap()];
            assert_eq!(row["count"], of["count"], "{name}: {row}");
            let mut ids: std::collections::BTreeMap<String, u64> = Default::default();
            for event in row["events"].as_array().unwrap() {
                let (_, id) = event[0].as_str().unwrap().rsplit_once('(').unwrap();
                *ids.entry(id.trim_end_matches(')').to_owned()).or_default() += number(&event[1]);
            }
            for (id, count) in of["ids"].as_object().unwrap() {
                assert_eq!(ids.get(id).copied(), count.as_u64(), "{name}: {id} of {row}");
            }
        }
        let (ours, theirs) = (&runtime["collections"], &oracle["collections"]);
        assert_eq!(ours["total"], theirs["count"], "{name}");
        for (nanos, millis) in [("paused_ns", "pause_ms"), ("longest_ns", "longest_ms")] {
            let (ours, theirs) = (ours[nanos].as_f64().unwrap() / 1e6, theirs[millis].as_f64().unwrap());
            assert!((ours - theirs).abs() <= theirs * 0.001, "{name}: {nanos}: {ours} ms, not {theirs} ms");
        }
        assert_eq!(runtime["exceptions_total"], oracle["exceptions"], "{name}");
        assert_eq!(runtime["contentions_total"], oracle["contentions"], "{name}");
    }
}

#[test]
fn an_event_stream_exported_to_tools_of_samples_has_all_of_them() {
    let (folder, file) = unpacked("only-managed-samples.nettrace.zst");
    let expected = 7423;
    let out = folder.path().join("profile.json.gz");
    let output = biopsy(&["export", "--to", "firefox", "-o", out.to_str().unwrap()], &file);
    assert!(output.status.success(), "{output:?}");
    let profile: Value =
        serde_json::from_reader(flate2::read::GzDecoder::new(&std::fs::read(&out).unwrap()[..])).unwrap();
    let threads = profile["threads"].as_array().unwrap();
    let samples: u64 = threads.iter().map(|thread| number(&thread["samples"]["length"])).sum();
    assert_eq!(samples, expected);
    assert!(profile.to_string().contains("Program.Main"), "functions have names");
    let out = folder.path().join("trace.perfetto");
    let output = biopsy(&["export", "--to", "perfetto", "-o", out.to_str().unwrap()], &file);
    assert!(output.status.success(), "{output:?}");
    assert!(std::fs::metadata(&out).unwrap().len() > expected * 10, "a packet for each");
}

#[test]
fn an_event_stream_without_samples_is_refused_where_samples_are_wanted() {
    let (folder, file) = unpacked("dotnet-5.0-array-types.nettrace.zst");
    for format in ["firefox", "perfetto", "pprof", "speedscope", "collapsed", "collapsed-waits"] {
        let out = folder.path().join(format);
        let output = biopsy(&["export", "--to", format, "-o", out.to_str().unwrap()], &file);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(6), "{format}: {said}");
        assert!(said.contains("cannot export to") && said.contains("no trace"), "{format}: {said}");
        assert!(!out.exists(), "{format}");
    }
}

/// File, pid, thread, address, and the title of the finding.
const CRASHES: &[(&str, u64, u64, Option<&str>, &str)] = &[
    (
        "linux-mini.dmp",
        1304,
        1304,
        Some("0x45"),
        "The process died of SIGSEGV in `crash+0x1d72`: a field of a null pointer was used",
    ),
    (
        "invalid-parameter.dmp",
        6256,
        5896,
        None,
        r"The process died of STATUS_INVALID_PARAMETER in `c:\build\CrashTest\x64\Debug\CrashTest.exe+0x7a9a3`: an exception",
    ),
    (
        "simple-crashpad.dmp",
        56685,
        927_532,
        None,
        "The process died of EXC_CRASH / SIGABRT in `crashy+0x3f8a`: the process aborted itself",
    ),
    (
        "pipeline-inlines-macos-segv.dmp.zst",
        80556,
        4611,
        Some("0xffffffff80000042"),
        "The process died of EXC_BAD_ACCESS / KERN_INVALID_ADDRESS in `crash-client+0x14cd4`: an address of the kernel was used",
    ),
    (
        "windows-x86.dmp",
        3932,
        3060,
        Some("0x45"),
        "The process died of EXCEPTION_ACCESS_VIOLATION_WRITE: a field of a null pointer was used",
    ),
];

#[test]
fn minidumps_of_others_name_the_cause_that_they_hold() {
    for (name, pid, thread, address, title) in CRASHES {
        let report = analyze(name);
        let finding = &report["findings"][0];
        assert_eq!(finding["title"], *title, "{name}");
        assert_eq!(report["dumps"][0]["identity"]["pid"], *pid, "{name}");
        let evidence = finding["evidence"].as_array().unwrap();
        assert_eq!(evidence[0]["reference"]["tid"], *thread, "{name}");
        let told = evidence.iter().find_map(|one| one["text"].as_str()?.strip_prefix("address "));
        assert_eq!(told.and_then(|text| text.split(' ').next()), *address, "{name}: {evidence:?}");
    }
}

#[test]
fn a_dump_whose_counts_cannot_be_true_is_no_success() {
    for name in ["invalid-range.dmp", "invalid-record-count.dmp"] {
        let output = biopsy(&["analyze"], &fixtures().join(name));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(6), "{name}: {said}");
        assert!(said.contains("neither threads nor memory"), "{name}: {said}");
    }
    // A stream that lies behind the end of the file: what is there is told, and that it is not all.
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = std::fs::read(fixtures().join("linux-mini.dmp")).unwrap();
    let modules = (32..).step_by(12).find(|at| bytes[*at] == 4).unwrap();
    bytes[modules + 8..modules + 12].copy_from_slice(&u32::MAX.to_le_bytes());
    let file = folder.path().join("moved.dmp");
    std::fs::write(&file, bytes).unwrap();
    let output = biopsy(&["analyze"], &file);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("The dump is not whole") && told.contains("SIGSEGV"), "{told}");
}
