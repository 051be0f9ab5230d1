//! `biopsy snapshot` of programs whose heap keeps too much in one known way, and of the same programs without the fault.

use std::process::Command;

use biopsy_testkit::{DOTNET_RUNTIMES, Privilege, Survival, at_once, dotnet_heaps, require_all, temp_dir};
use serde_json::Value;

const NEEDED: [Privilege; 2] = [Privilege::DotNetTargets, Privilege::Ptrace];
/// All runtimes with each: `BIOPSY_THOROUGH=1`; else one each in turn.
const THOROUGH: &str = "BIOPSY_THOROUGH";

/// The report on a snapshot of the program in one way.
fn report(runtime: &str, arguments: &[&str]) -> Value {
    let target = dotnet_heaps(runtime, arguments);
    let survival = Survival::before(target.pid()).threads_may_change().files_may_change();
    let folder = temp_dir("inspections");
    let output = folder.path().join("heap");
    let taken = Command::new(env!("CARGO_BIN_EXE_biopsy"))
        .args(["snapshot", &target.pid().to_string(), "--json", "-o", output.to_str().expect("a plain name")])
        .output()
        .expect("biopsy starts");
    survival.assert_unharmed();
    let said = String::from_utf8_lossy(&taken.stderr);
    let taken: Value =
        serde_json::from_slice(&taken.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    // The recording says the same as the graph did before it was packed.
    let read = Command::new(env!("CARGO_BIN_EXE_biopsy"))
        .args(["analyze", "--json", output.to_str().expect("a plain name")])
        .output()
        .expect("biopsy starts");
    let read: Value = serde_json::from_slice(&read.stdout).expect("JSON");
    let report = taken["report"].clone();
    assert_eq!(
        report["heaps"][0]["held"]["inspections"], read["heaps"][0]["held"]["inspections"],
        "{arguments:?}"
    );
    report
}

/// Objects of one inspection and its first row: what, and how many.
fn inspected<'r>(report: &'r Value, id: &str) -> Option<(u64, &'r str, u64)> {
    let all = report["heaps"][0]["held"]["inspections"].as_array()?;
    let one = all.iter().find(|one| one["id"] == id)?;
    let first = &one["rows"][0];
    Some((one["objects"].as_u64()?, first["what"].as_str()?, first["objects"].as_u64()?))
}

fn findings(report: &Value) -> Vec<&str> {
    let all = report["findings"].as_array().map_or(&[][..], Vec::as_slice);
    all.iter().filter_map(|finding| finding["id"].as_str()).collect()
}

/// Way, inspection, what its first row names, how many at least, the finding.
type Fault = (&'static str, &'static str, &'static str, u64, Option<&'static str>);

const FAULTS: &[Fault] = &[
    ("strings", "duplicate-strings", "Heaps.Order.Country", 49_990, None),
    (
        "collections",
        "oversized-collections",
        "System.Collections.Generic.List<System.Int32> in Heaps.Order.Lines",
        10_000,
        None,
    ),
    ("collections", "empty-collections", "Heaps.Order.Notes", 10_000, None),
    ("arrays", "sparse-arrays", "System.Object[] in Heaps.Order.Cells", 2_000, None),
    ("boxes", "boxed-values", "System.Int32 in Heaps.Order.Cells", 200_000, None),
    ("events", "event-handlers", "Heaps.View in static Heaps.Bus.Changed", 10_000, Some("never-released")),
    ("timers", "timers", "Heaps.Account", 10_000, Some("never-released")),
    ("tokens", "token-callbacks", "Heaps.Account", 10_000, Some("never-released")),
    ("waiting", "waiting-methods", "Heaps.Program+<Fetch>d__", 10_000, None),
    ("lost", "lost-methods", "Heaps.Program+<Fetch>d__", 2_000, None),
    ("contexts", "stuck-contexts", "static Heaps.Program.Kept", 10, Some("never-released")),
    ("finalizers", "finalizer-queue", "Heaps.Resource", 9_000, Some("never-released")),
    ("pinned", "pinned-objects", "System.Byte[]", 5_000, None),
    ("closures", "closures", "Heaps.Program+<>c__DisplayClass", 500, None),
];

#[test]
fn each_fault_is_told_with_its_place_and_not_where_it_is_not() {
    if !require_all(&NEEDED) {
        return;
    }
    let thorough = std::env::var_os(THOROUGH).is_some_and(|value| value == "1");
    let numbered: Vec<_> = FAULTS.iter().enumerate().collect();
    // So many at once: each is a program with a heap.
    for some in numbered.chunks(DOTNET_RUNTIMES.len()) {
        at_once(some, |(number, fault)| {
            for (turn, runtime) in DOTNET_RUNTIMES.into_iter().enumerate() {
                if thorough || number % DOTNET_RUNTIMES.len() == turn {
                    is_told_and_its_twin_is_not(runtime, fault);
                }
            }
        });
    }
}

fn is_told_and_its_twin_is_not(runtime: &str, (way, id, what, least, finding): &Fault) {
    let sick = report(runtime, &[way]);
    let (_, found, objects) = inspected(&sick, id).unwrap_or_else(|| panic!("{runtime} {way}: nothing"));
    assert!(found.contains(what) && objects >= *least, "{runtime} {way}: {found} {objects}");
    let found = findings(&sick);
    finding.iter().for_each(|finding| assert!(found.contains(finding), "{runtime} {way}: {found:?}"));
    let tidy = report(runtime, &[way, "tidy"]);
    let rest = inspected(&tidy, id).filter(|(_, found, _)| found.contains(what));
    assert!(rest.is_none_or(|(.., objects)| objects < least / 10), "{runtime} {way} tidy: {rest:?}");
    let found = findings(&tidy);
    let is_ours = |id: &&str| ["never-released", "wasted-memory"].contains(id);
    assert!(!found.iter().any(is_ours), "{runtime} {way} tidy: {found:?}");
}
