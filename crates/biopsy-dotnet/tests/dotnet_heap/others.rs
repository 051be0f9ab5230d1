//! Files for other tools, and roots that no handle holds.

use std::fs::File;

use biopsy_dotnet::gcdump::{self, WriteOptions};
use biopsy_dotnet::graph::{ObjectIndex, RootKind};
use biopsy_model::Pid;
use biopsy_testkit::{DOTNET_RUNTIMES, dotnet_peer, dotnet_target, require_all, temp_dir};
use serde_json::Value;

use super::{NEEDED, is_live, quiet};

/// What other tools read must be what we mean.
#[test]
fn a_gcdump_is_opened_by_the_readers_of_the_format() {
    if !require_all(&NEEDED) {
        return;
    }
    let target = dotnet_target("net10.0", "holder", &["--objects", "20000"]);
    let (_, graph) = quiet(target.pid());
    let folder = temp_dir("gcdump");
    let path = folder.path().join("heap.gcdump");
    let options =
        WriteOptions { process_name: "holder".to_owned(), pid: Pid(target.pid()), ..WriteOptions::default() };
    let written = gcdump::write(&graph, &options, File::create(&path).expect("it is new")).expect("it fits");
    let Some(output) =
        dotnet_peer("gcdump-check", &[path.to_str().expect("plain"), "--top", "0", "--no-dominators"])
    else {
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let checked: Value = serde_json::from_slice(&output.stdout).expect("it prints JSON");
    assert_eq!(checked["objects"].as_u64(), Some(written), "{checked}");
    let bytes: u64 = graph
        .objects()
        .filter(|one| is_live(&graph, one.index))
        .filter(|one| graph.type_of(one.of).is_some_and(|of| !of.is_free))
        .map(|one| one.size)
        .sum();
    assert_eq!(checked["bytes"].as_u64(), Some(bytes), "{checked}");
    let again = gcdump::read(&std::fs::read(&path).expect("it is there")).expect("it can be read");
    assert_eq!(again.graph.len() as u64, written);
    let ours: Vec<ObjectIndex> = again.graph.objects().map(|one| one.index).collect();
    assert!(ours.iter().all(|index| is_live(&again.graph, *index)));
}

/// Roots that no handle holds.
#[test]
fn what_stacks_and_thread_statics_hold_is_live() {
    if !require_all(&NEEDED) {
        return;
    }
    for runtime in DOTNET_RUNTIMES {
        let target = dotnet_target(runtime, "holder", &["--objects", "2000"]);
        let (_, graph) = quiet(target.pid());
        let held = |name: &str| {
            let full = format!("Targets.Holder.Roots.{name}");
            let found = graph
                .objects()
                .find(|one| graph.type_of(one.of).is_some_and(|of| of.name == full))
                .unwrap_or_else(|| panic!("{runtime}: no {full}"));
            assert!(is_live(&graph, found.index), "{runtime}: {full}");
            found.index
        };
        let on_stack = held("HeldByStack");
        assert!(graph.roots().iter().any(|root| root.object == on_stack && root.kind == RootKind::Stack));
        for name in
            ["HeldByInterior", "HeldByThreadStatic", "HeldByThreadLocal", "HeldByTimer", "DependentValue"]
        {
            held(name);
        }
    }
}
