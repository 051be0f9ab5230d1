//! Leaks with a known cause: what the first finding on three snapshots of one process says, type and holder.

use std::process::Command;

use biopsy_testkit::{
    DOTNET_RUNTIMES, Privilege, Survival, at_once, dotnet_peer, dotnet_target, require_all, temp_dir,
};
use serde_json::Value;

const NEEDED: [Privilege; 2] = [Privilege::DotNetTargets, Privilege::Ptrace];

fn biopsy(arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_biopsy")).args(arguments).output().expect("biopsy starts");
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {said}"))
}

/// Mode of the server, and what has to be in the title: type, holder.
const LEAKS: &[(&str, [&str; 2])] = &[
    (
        "leak-timer",
        [
            "`Targets.Server.Sick.SessionKeepAlive+UserSession`",
            "static System.Threading.TimerQueue.Instances",
        ],
    ),
    (
        "leak-event-handler",
        ["`Targets.Server.Sick.DeploymentEvents+DeploymentView`", "DeploymentEvents.Completed`"],
    ),
];

#[test]
fn leaks_by_timers_and_events_are_told_with_type_and_holder() {
    if !require_all(&NEEDED) {
        return;
    }
    for (mode, words) in LEAKS {
        at_once(DOTNET_RUNTIMES, |runtime| {
            let folder = temp_dir("leaks");
            let recording = folder.path().join("leak");
            let file = recording.to_str().expect("a plain name");
            let target = dotnet_target(runtime, "server", &["--port", "0", "--sick", mode]);
            let survival = Survival::before(target.pid()).threads_may_change().files_may_change();
            let pid = target.pid().to_string();
            let series = ["snapshot", &pid, "--every", "4s", "--count", "3", "--max-pause", "5s"];
            let taken = biopsy(&[series.as_slice(), &["--json", "--quiet", "-o", file]].concat());
            survival.assert_unharmed();
            let report = &taken["report"];
            let holder = &report["growth"]["holders"][0];
            let first = &report["findings"][0];
            // A busy machine may have let the program grow in one interval only: then there is no leak, and the place is right all the same.
            if holder["always"] == true {
                assert_eq!(first["id"], "leak", "{runtime} {mode}: {:#}", report["findings"]);
                let title = first["title"].as_str().unwrap_or_default();
                for word in words {
                    assert!(title.contains(word), "{runtime} {mode}: `{word}` is not in {title}");
                }
            }
            let objects: Vec<u64> =
                holder["objects"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
            let is_everywhere = objects.len() == 3 && objects.iter().skip(1).all(|objects| *objects > 0);
            assert!(
                is_everywhere,
                "{runtime} {mode}: the place has one name in the later snapshots: {holder:#}"
            );
            totals_are_equal(file, folder.path());
        });
    }
}

/// Of the second snapshot, as `.heapsnapshot` and as `.gcdump`, which the format's own reader counts.
fn totals_are_equal(recording: &str, folder: &std::path::Path) {
    let exported = |format: &str| {
        let path = folder.join(format);
        let name = path.to_str().expect("a plain name").to_owned();
        let arguments = ["export", recording, "--snapshot", "2", "--to", format, "-o", &name];
        let output =
            Command::new(env!("CARGO_BIN_EXE_biopsy")).args(arguments).output().expect("biopsy starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        name
    };
    let (v8, gcdump) = (exported("heapsnapshot"), exported("gcdump"));
    let Some(output) = dotnet_peer("gcdump-check", &[&gcdump, "--top", "1", "--no-dominators"]) else {
        return;
    };
    let oracle: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let read: Value = serde_json::from_slice(&std::fs::read(v8).expect("it was written")).expect("JSON");
    let fields = read["snapshot"]["meta"]["node_fields"].as_array().expect("a list").len();
    let nodes: Vec<u64> =
        read["nodes"].as_array().expect("a list").iter().filter_map(Value::as_u64).collect();
    let kinds = read["snapshot"]["meta"]["node_types"][0].as_array().expect("a list");
    let objects = nodes.chunks(fields).filter(|node| kinds[node[0] as usize] == "object");
    let (count, bytes) = objects.fold((0, 0), |(count, bytes), node| (count + 1, bytes + node[3]));
    assert_eq!((Some(count), Some(bytes)), (oracle["objects"].as_u64(), oracle["bytes"].as_u64()));
}
