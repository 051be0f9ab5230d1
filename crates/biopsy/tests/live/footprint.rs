//! `biopsy snapshot` of a native process: where its memory went.

use biopsy_testkit::{Privilege, Program, Survival, TargetProcess, compile_c, require, temp_dir};
use serde_json::Value;

use crate::support::{biopsy, said};

fn part(footprint: &Value, kind: &str) -> u64 {
    let parts = footprint["parts"].as_array().expect("a list");
    parts
        .iter()
        .find(|part| part["kind"] == kind)
        .map_or(0, |part| part["resident"].as_u64().expect("a number"))
}

#[test]
fn memory_that_the_allocator_keeps_is_told_from_memory_in_use() {
    if !require(Privilege::Ptrace) {
        return;
    }
    // 200 MB in blocks of 8 KiB, of which every other one is given back: none of it can be returned to the system.
    let source = r#"
        #include "target.h"
        enum { BLOCKS = 25000, SIZE = 8000 };
        int main(void) {
            limit_own_life();
            static char *blocks[BLOCKS];
            for (int at = 0; at < BLOCKS; at++) memset(blocks[at] = malloc(SIZE), 1, SIZE);
            for (int at = 0; at < BLOCKS; at += 2) free(blocks[at]);
            printf("READY %d\n", (int)getpid());
            fflush(stdout);
            wait_for_stop();
        }"#;
    let program = compile_c("half-given-back", source, &["-O1"]);
    let mut target = TargetProcess::spawn(std::process::Command::new(program));
    let survival = Survival::before(target.pid());
    let folder = temp_dir("footprint");
    let file = folder.path().join("x.zip");
    let output = biopsy(["snapshot", &target.pid().to_string(), "--max-pause", "10s", "-o"])
        .arg(&file)
        .output()
        .unwrap();
    survival.assert_unharmed();
    let text = said(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("kept by the allocator") && text.contains("is free and kept by glibc"), "{text}");

    let output = biopsy(["analyze", "--json"]).arg(&file).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["findings"][0]["id"], "kept-by-allocator", "{report:#}");
    let footprint = &report["footprints"][0];
    assert_eq!(footprint["pid"], target.pid());
    let [used, free] = ["allocated", "allocator-free"].map(|kind| part(footprint, kind));
    for bytes in [used, free] {
        assert!((95_000_000..110_000_000).contains(&bytes), "{used} {free}");
    }
    assert!(footprint["kernel"]["resident"].as_u64().unwrap() >= used + free, "{footprint:#}");

    // Its blocks are a heap like any other.
    let heap = folder.path().join("x.gcdump");
    let output = biopsy(["snapshot", &target.pid().to_string(), "-o"]).arg(&heap).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let output = biopsy(["analyze", "--json"]).arg(&heap).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["heaps"][0]["bytes"].as_u64().is_some_and(|bytes| bytes > 95_000_000), "{report:#}");
    target.stop();
}

#[test]
fn a_process_that_allocates_little_has_a_footprint_and_no_finding() {
    if !require(Privilege::Ptrace) {
        return;
    }
    let mut target = TargetProcess::start(Program::Idle, &[]);
    let survival = Survival::before(target.pid());
    let folder = temp_dir("footprint-idle");
    let file = folder.path().join("x");
    let output = biopsy(["snapshot", &target.pid().to_string(), "--json", "-o"]).arg(&file).output().unwrap();
    survival.assert_unharmed();
    assert!(output.status.success(), "{}", said(&output));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["report"]["findings"].as_array().map(Vec::len), Some(0), "{result:#}");
    assert!(part(&result["report"]["footprints"][0], "stacks") > 0, "{result:#}");
    target.stop();
}
