//! `trace --launch --allocations=full`: what each place had in the middle of a recording, beside what it has at the end.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use biopsy_testkit::{Privilege, compile_c, require_all, temp_dir};
use serde_json::Value;

use crate::support::{analyze, biopsy};

/// Places are read for the first time after a second.
const FIRST: Duration = Duration::from_millis(2200);
/// A machine that stands still for seconds has the moment somewhere else, or none.
const TRIES: usize = 5;

/// Two places keep as much as is known, `early` until the line that it waits for.
const SOURCE: &str = r#"
    #include <stdio.h>
    #include <stdlib.h>
    #define PLACE __attribute__((noinline, visibility("default")))
    static void *one[3000], *two[500], *three[100];
    PLACE void early(void) { for (int i = 0; i < 3000; i++) one[i] = malloc(100); }
    PLACE void late(void) { for (int i = 0; i < 500; i++) two[i] = malloc(1000); }
    PLACE void always(void) { for (int i = 0; i < 100; i++) three[i] = malloc(70); }
    int main(void) {
        char line[10];
        always();
        early();
        puts("ready");
        fflush(stdout);
        if (!fgets(line, sizeof line, stdin)) return 1;
        for (int i = 0; i < 3000; i++) free(one[i]);
        late();
        return two[499] == three[99];
    }"#;

/// The report, and for which share of the time until the program had ended it had what `early` keeps.
fn recorded(program: &Path, file: &Path) -> (Value, f64) {
    let mut command = biopsy(["trace", "--launch", "--allocations=full", "--quiet", "-o"]);
    command.arg(file).arg("--").arg(program).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    let began = Instant::now();
    std::thread::sleep(FIRST);
    stdin.write_all(b"go\n").unwrap();
    let first = began.elapsed();
    // The pipe ends with the program, and with biopsy.
    assert!(child.wait().unwrap().success());
    let report = analyze(file);
    let all = report["allocations"]["seconds"].as_f64().expect("how long they were counted");
    (report, first.as_secs_f64() / all)
}

#[test]
fn what_a_place_had_in_the_middle_is_told_beside_what_it_has_at_the_end() {
    if !require_all(&[Privilege::Cc, Privilege::Perf]) {
        return;
    }
    let folder = temp_dir("allocations-middle");
    let program = compile_c("early-and-late", SOURCE, &["-O1"]);
    for number in 0..TRIES {
        let (report, share) = recorded(&program, &folder.path().join(format!("{number}.biopsy.zip")));
        let allocations = &report["allocations"];
        // The moment is at three quarters of the time at most: `early` had its blocks then, if it had them for longer.
        if allocations["then_seconds"].is_null() || share < 0.8 {
            continue;
        }
        for (function, then, kept) in [("early", 300_000, 0), ("late", 0, 500_000), ("always", 7000, 7000)] {
            let site =
                allocations["sites"].as_array().unwrap().iter().find(|site| site["function"] == function);
            let site = site.unwrap_or_else(|| panic!("{function}: {allocations:#}"));
            let found = ["then_bytes", "kept_bytes"].map(|field| site[field].as_u64());
            assert_eq!(found, [Some(then), Some(kept)], "{function}: {allocations:#}");
        }
        return;
    }
    panic!("{TRIES} recordings of some 2 s have no moment in their middle");
}
