//! Totals, dominators and retained bytes of our graphs against those that the format's own reader works out of the same file.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use biopsy_analyze::HeapSummary;
use biopsy_analyze::heap::Dominators;
use biopsy_model::Avma;
use biopsy_testkit::{
    DotNetServer, Privilege, dotnet_heaps, dotnet_peer, dotnet_target, require_all, temp_dir,
};
use serde_json::Value;

const NEEDED: [Privilege; 2] = [Privilege::DotNetTargets, Privilege::Ptrace];

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("`{value}` is no number"))
}

/// Compares a graph as both see it; `None`: the reader is not there.
fn compare(path: &Path, what: &str) -> Option<()> {
    let name = path.to_str().expect("a plain name");
    let output = dotnet_peer("gcdump-check", &[name, "--top", "0"])?;
    let said = String::from_utf8_lossy(&output.stderr);
    let oracle: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    assert_eq!(oracle["consistency"]["ok"], true, "{what}");
    let heap = biopsy_import::heap::of_gcdump(path).expect("it can be read").expect("a heap");
    let graph = &heap.graph;
    let own = (graph.len() as u64, graph.edge_count());
    assert_eq!(own, (number(&oracle["objects"]), number(&oracle["objectEdges"])), "{what}");

    let dominators = Dominators::of(graph).expect("nothing is spilled");
    let all = &oracle["dominators"];
    assert_eq!(dominators.retained(0), number(&all["rootRetainedBytes"]), "{what}");
    // Nodes below which everything is, and what only stands for kinds of roots, are no objects of ours.
    let mut objects = 0;
    for one in all["topObjects"].as_array().expect("a list") {
        let digits = one["address"].as_str().expect("an address").trim_start_matches("0x");
        let address = Avma(u64::from_str_radix(digits, 16).expect("an address"));
        let Some(object) = graph.find(address) else { continue };
        let retained = dominators.number(object).map_or(0, |number| dominators.retained(number));
        assert_eq!(retained, number(&one["retained"]), "{what}: {} at {address}", one["type"]);
        objects += 1;
    }

    let summary = HeapSummary::new("x", graph, &heap.facts);
    let mut own: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
    for row in &summary.types {
        own.entry(&row.name).or_default().push((row.all.objects, row.retained.expect("it was worked out")));
    }
    let mut types = 0;
    for one in all["retainedByType"].as_array().expect("a list") {
        let name = one["name"].as_str().expect("a name");
        let expected = (number(&one["count"]), number(&one["retained"]));
        match own.get(name).map(Vec::as_slice) {
            Some([found]) => assert_eq!(*found, expected, "{what}: {name}"),
            // Types of one name in several modules are one there.
            Some(several) => {
                assert_eq!(several.iter().map(|one| one.0).sum::<u64>(), expected.0, "{what}: {name}")
            }
            None => panic!("{what}: no `{name}`"),
        }
        types += 1;
    }
    assert!(objects > 0 && types > 30, "{what}: {objects} objects, {types} types");
    Some(())
}

fn snapshot(pid: u32, path: &Path) {
    let output = Command::new(env!("CARGO_BIN_EXE_biopsy"))
        .args(["snapshot", &pid.to_string(), "-o", path.to_str().expect("a plain name")])
        .output()
        .expect("biopsy starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn dominators_and_retained_bytes_are_those_of_the_formats_own_reader() {
    if !require_all(&NEEDED) {
        return;
    }
    let folder = temp_dir("dominators");
    let path = folder.path().join("heap.gcdump");
    let compared = |pid: u32, what: &str| {
        snapshot(pid, &path);
        let compared = compare(&path, what);
        std::fs::remove_file(&path).expect("it was written");
        compared
    };
    for (runtime, way) in [("net8.0", "events"), ("net9.0", "waiting"), ("net10.0", "timers")] {
        let target = dotnet_heaps(runtime, &[way]);
        if compared(target.pid(), &format!("{runtime} {way}")).is_none() {
            return;
        }
    }
    let holder = dotnet_target("net10.0", "holder", &["--objects", "20000"]);
    compared(holder.pid(), "net10.0 holder");
    let server = DotNetServer::start("net9.0", &[]);
    compared(server.pid(), "net9.0 server");
}
