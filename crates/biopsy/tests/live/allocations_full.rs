//! `trace --launch --allocations=full`: exact counts from the start of a program, which does what it does without them.

use std::path::Path;
use std::process::{Command, Output};

use biopsy_testkit::{Privilege, compile_c, require_all, temp_dir};
use serde_json::Value;

use crate::support::{analyze, biopsy};

const LIVE: &[Privilege] = &[Privilege::Cc, Privilege::Perf];

/// Known counts in functions of their own; threads; a child that allocates, and executes; what it says of its environment and descriptors.
const SOURCE: &str = r#"
    #include <pthread.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <sys/wait.h>
    #include <unistd.h>
    #define VISIBLE __attribute__((noinline, visibility("default")))
    static void *kept[1000];
    static void *volatile used;
    VISIBLE void temporary(void) { for (int i = 0; i < 5000; i++) { used = malloc(40); free(used); } }
    VISIBLE void keep(void) { for (int i = 0; i < 1000; i++) kept[i] = calloc(3, 100); used = kept; }
    VISIBLE void grow(void) { for (int i = 1; i <= 10; i++) used = realloc(i == 1 ? 0 : used, i * 1000); free(used); used = 0; }
    VISIBLE void aligned(void) { void *to; if (posix_memalign(&to, 64, 777)) _exit(2); used = to; used = aligned_alloc(64, 640); }
    VISIBLE void of_thread(void) { void *all[100]; for (int i = 0; i < 20000; i++) { all[i % 100] = malloc(24); if (i % 100 == 99) for (int j = 0; j < 100; j++) free(all[j]); } }
    static void *thread(void *nothing) { of_thread(); return nothing; }
    VISIBLE void in_child(void) { for (int i = 0; i < 300; i++) used = malloc(50); }
    int main(void) {
        temporary(); keep(); grow(); aligned();
        pthread_t all[4];
        for (int i = 0; i < 4; i++) pthread_create(&all[i], 0, thread, 0);
        for (int i = 0; i < 4; i++) pthread_join(all[i], 0);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            in_child();
            execl("/bin/sh", "sh", "-c", "echo child ${LD_PRELOAD-none}; ls /proc/self/fd | wc -l", (char *)0);
            _exit(3);
        }
        int status;
        waitpid(child, &status, 0);
        const char *preload = getenv("LD_PRELOAD");
        printf("status %d preload %s\n", status, preload ? preload : "none");
        return 7;
    }"#;

fn recorded(program: &[&str], folder: &Path) -> (Output, Value) {
    let file = folder.join("r.biopsy.zip");
    let mut command = biopsy(["trace", "--launch", "--allocations=full", "--quiet", "-o"]);
    command.arg(&file).arg("--").args(program);
    let output = command.output().unwrap();
    (output, analyze(&file))
}

fn site<'a>(report: &'a Value, function: &str) -> Option<&'a Value> {
    let sites = report["allocations"]["sites"].as_array().expect("allocations were counted");
    sites.iter().find(|site| site["function"] == function)
}

#[test]
fn each_allocation_of_a_launched_program_is_counted() {
    if !require_all(LIVE) {
        return;
    }
    let folder = temp_dir("allocations-full");
    let program = compile_c("counted", SOURCE, &["-O1", "-g", "-pthread"]);
    let alone = Command::new(&program).output().unwrap();
    let (output, report) = recorded(&[program.to_str().unwrap()], folder.path());
    let (said, expected) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&alone.stdout));
    assert!(said.contains(&*expected), "it says something else: {said} {expected}");
    assert_eq!(report["allocations"]["exact"], true, "{:#}", report["allocations"]);
    // Calls, bytes, temporary, the most at one time, left: calls and bytes.
    for (function, expected) in [
        ("temporary", [5000, 200_000, 5000, 40, 0, 0]),
        ("keep", [1000, 300_000, 0, 300_000, 1000, 300_000]),
        ("grow", [10, 55_000, 10, 10_000, 0, 0]),
        ("aligned", [2, 1417, 0, 777, 2, 1417]),
        ("of_thread", [80_000, 1_920_000, 800, 0, 0, 0]),
    ] {
        let site =
            site(&report, function).unwrap_or_else(|| panic!("{function}: {:#}", report["allocations"]));
        let found =
            ["samples", "allocated_bytes", "temporary_calls", "peak_bytes", "kept_samples", "kept_bytes"]
                .map(|field| site[field].as_u64().expect("a number"));
        // How much four threads have at one time is theirs to decide; of two stacks the larger is told, or what is left.
        let peak = if function == "of_thread" || function == "aligned" { found[3] } else { expected[3] };
        let expected = [expected[0], expected[1], expected[2], peak, expected[4], expected[5]];
        assert_eq!(found, expected, "{function}");
    }
    assert!(site(&report, "in_child").is_none(), "a child counts for its parent");
    // Threads of one stack: at least one's hundred, at most all.
    let peak = site(&report, "of_thread").unwrap()["peak_bytes"].as_u64().unwrap();
    assert!((2400..=9600).contains(&peak), "{peak}");
}

#[test]
fn all_allocations_of_a_running_process_cannot_be_counted() {
    let output = biopsy(["trace", "1", "--allocations=full"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("--launch --allocations=full"), "{said}");
}
