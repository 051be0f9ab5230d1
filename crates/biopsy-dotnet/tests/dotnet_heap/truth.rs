//! Programs that count what they make, met exactly.

use std::collections::BTreeMap;
use std::path::Path;

use biopsy_dotnet::graph::Graph;
use biopsy_testkit::{
    DOTNET_RUNTIMES, PUBLISHED_DOTNET, Survival, TargetProcess, dotnet_command, published_dotnet,
    require_all, temp_dir,
};
use serde_json::Value;

use super::{NEEDED, quiet, thorough};

/// Objects, bytes and live objects by name as C# writes it.
fn by_name(graph: &Graph) -> BTreeMap<String, (u64, u64, u64)> {
    let mut by_name: BTreeMap<String, (u64, u64, u64)> = BTreeMap::new();
    for one in graph.by_type() {
        // The program writes nested types with a dot.
        let name = graph.type_of(one.of).expect("a type").name.replace('+', ".");
        let entry = by_name.entry(name).or_default();
        entry.0 += one.all.objects;
        entry.1 += one.all.bytes;
        entry.2 += one.live.expect("it was looked for").objects;
    }
    by_name
}

/// A walk must find what the truth file says. Returns how many types were met exactly.
fn meet(graph: &Graph, truth: &Path, what: &str) -> usize {
    let truth: Value = serde_json::from_slice(&std::fs::read(truth).expect("it was written")).expect("JSON");
    let by_name = by_name(graph);
    let mut exact = 0;
    for row in truth["types"].as_array().expect("a list") {
        let name = row["type"].as_str().expect("a name");
        let (objects, bytes) = (row["objects"].as_u64().unwrap_or(0), row["bytes"].as_u64().unwrap_or(0));
        let (found, found_bytes, live) = by_name.get(name).copied().unwrap_or_default();
        if row["exact"] == true {
            assert_eq!((found, found_bytes), (objects, bytes), "{what}: {name}");
            assert_eq!(live, objects, "{what}: {name} is all live");
            exact += 1;
        } else {
            assert!(found >= objects && found_bytes >= bytes, "{what}: {name}: {found}, {objects} expected");
        }
    }
    for row in truth["garbage"].as_array().expect("a list") {
        let name = row["type"].as_str().expect("a name");
        let (found, _, live) = by_name.get(name).copied().unwrap_or_default();
        // A register or a stack may still hold one of them.
        assert_eq!(found, row["objects"].as_u64().unwrap_or(0), "{what}: {name}");
        assert!(live <= 2, "{what}: {live} of {name} count as live");
    }
    exact
}

fn meet_holder(runtime: &str, collector: &str, environment: &[(&str, &str)]) {
    let folder = temp_dir("truth");
    let truth = folder.path().join("truth.json");
    let arguments = ["--objects", "20000", collector, "--truth", truth.to_str().expect("plain")];
    let mut command = dotnet_command(runtime, "holder", &arguments).expect("the targets are there");
    command.envs(environment.iter().copied());
    let target = TargetProcess::spawn(command);
    let survival = Survival::before(target.pid()).threads_may_change();
    let (image, graph) = quiet(target.pid());
    drop(image);
    survival.assert_unharmed();
    let what = format!("{runtime} {collector} {environment:?}");
    let exact = meet(&graph, &truth, &what);
    assert!(exact > 20, "{what}: {exact}");
    eprintln!("{what}: {exact} types met exactly, {} objects", graph.len());
}

/// The holder says what it made: types that only it makes must be there exactly, garbage and live. One combination of collector
/// each; all twelve with `BIOPSY_THOROUGH=1`.
#[test]
fn a_program_that_counts_its_objects_is_met_exactly() {
    if !require_all(&NEEDED) {
        return;
    }
    const SEGMENTS: &[(&str, &str)] = &[("DOTNET_GCName", "libclrgc.so")];
    let chosen =
        [("net8.0", "--server", SEGMENTS), ("net9.0", "--workstation", &[]), ("net10.0", "--server", &[])];
    for runtime in DOTNET_RUNTIMES {
        for collector in ["--workstation", "--server"] {
            for environment in [&[], SEGMENTS] {
                if thorough() || chosen.contains(&(runtime, collector, environment)) {
                    meet_holder(runtime, collector, environment);
                }
            }
        }
    }
}

/// Programs that bring their runtime along: in one file, trimmed, or both.
#[test]
fn programs_of_one_file_and_trimmed_ones_are_met_exactly() {
    if !require_all(&NEEDED) {
        return;
    }
    for folder in PUBLISHED_DOTNET {
        let Some(mut command) = published_dotnet(folder, &["--kind", "plain"]) else { continue };
        command.env("DOTNET_SYSTEM_GLOBALIZATION_INVARIANT", "1");
        let target = TargetProcess::spawn(command);
        let (image, graph) = quiet(target.pid());
        drop(image);
        let (widgets, _, live) = by_name(&graph).get("Targets.Variants.Widget").copied().unwrap_or_default();
        assert_eq!((widgets, live), (1000, 1000), "{folder}");
        assert!(graph.types().iter().all(|of| !of.is_nameless()), "{folder}: {:?}", graph.types());
        eprintln!("{folder}: 1,000 of 1,000, {} objects", graph.len());
    }
}
