//! `trace --launch --allocations=full`: exact counts from the start of a program, which does what it does without them.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use biopsy_testkit::{Privilege, Signal, compile_c, is_running, require_all, send_signal, temp_dir};
use serde_json::Value;

use crate::support::{analyze, biopsy, complaint};

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
    let output = tracing(&file, program).output().unwrap();
    (output, analyze(&file))
}

fn tracing(file: &Path, program: &[&str]) -> Command {
    let mut command = biopsy(["trace", "--launch", "--allocations=full", "--quiet", "-o"]);
    command.arg(file).arg("--").args(program);
    command
}

fn warning<'a>(report: &'a Value, code: &str) -> Option<&'a Value> {
    report["warnings"].as_array()?.iter().find(|one| one["code"] == code)
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
    let said = warning(&report, "allocations.children-not-counted").expect("it started others").to_string();
    assert!(said.contains("executed other programs") && said.contains("sh"), "{said}");
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

/// Allocates, says so, waits for a line, allocates as much again and starts a child; in the end it says what it has.
const WAITS: &str = r#"
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/wait.h>
    #include <unistd.h>
    static unsigned long sum;
    static void work(void) {
        static char *kept[5000];
        for (int i = 0; i < 200000; i++) {
            char **slot = &kept[i % 5000];
            sum += *slot ? **slot : 0;
            *slot = realloc(*slot, 1 + i % 700);
            **slot = (char)i;
        }
    }
    int main(void) {
        char line[100];
        work();
        printf("ready %d\n", getpid());
        fflush(stdout);
        if (!fgets(line, sizeof line, stdin)) return 1;
        work();
        if (fork() == 0) { free(malloc(10)); execl("/bin/echo", "echo", "child", (char *)0); }
        int status;
        wait(&status);
        printf("sum %lu status %d\n", sum, status);
        return 0;
    }"#;

#[test]
fn a_program_goes_on_when_biopsy_is_killed() {
    if !require_all(LIVE) {
        return;
    }
    let folder = temp_dir("allocations-killed");
    let program = compile_c("allocates-and-waits", WAITS, &["-O1"]);
    let work = |command: &mut Command, between: &dyn Fn(u32, u32)| {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = lines.next().unwrap().unwrap();
        let pid = ready.strip_prefix("ready ").and_then(|pid| pid.parse().ok()).expect("a pid");
        between(child.id(), pid);
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"go\n").unwrap();
        let rest: Vec<String> = lines.map(Result::unwrap).collect();
        let _ = child.wait();
        (pid, rest)
    };
    let (_, alone) = work(&mut Command::new(&program), &|_, _| {});
    let file = folder.path().join("r.biopsy.zip");
    let mut command = tracing(&file, &[program.to_str().unwrap()]);
    let (pid, rest) = work(&mut command, &|biopsy, pid| {
        assert_ne!(biopsy, pid);
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        assert!(maps.contains("biopsy-allocations"), "it is not counted: {maps}");
        assert!(send_signal(biopsy, Signal::KILL));
        while is_running(biopsy) {
            std::thread::yield_now();
        }
        assert!(is_running(pid));
    });
    // The pipe has ended, so nobody has it open; what it wrote is the same, its child's line too.
    assert_eq!(rest, alone);
    assert!(rest.iter().any(|line| line == "child"), "{rest:?}");
    while is_running(pid) {
        std::thread::yield_now();
    }
    // What is shared has no name that could stay.
    for entry in std::fs::read_dir("/dev/shm").into_iter().flatten().flatten() {
        assert!(!entry.file_name().to_string_lossy().contains("biopsy-allocations"), "{entry:?}");
    }
}

/// A library that somebody else preloads: its constructor looks for the variable.
const OTHERS: &str = r#"
    #include <stdlib.h>
    #include <string.h>
    static char seen[4096] = "none";
    __attribute__((constructor)) static void early(void) {
        const char *value = getenv("LD_PRELOAD");
        if (value) strncpy(seen, value, sizeof seen - 1);
    }
    const char *seen_early(void) { return seen; }"#;

const USES_OTHERS: &str = r#"
    #define _GNU_SOURCE
    #include <dlfcn.h>
    #include <stdio.h>
    #include <stdlib.h>
    __attribute__((noinline)) void *of_its_own(void) { void *volatile kept = malloc(1234); return kept; }
    int main(void) {
        const char *(*seen)(void) = (const char *(*)(void))dlsym(RTLD_DEFAULT, "seen_early");
        void *kept = of_its_own();
        printf("early %s now %s\n", seen ? seen() : "not loaded", getenv("LD_PRELOAD"));
        return kept == 0;
    }"#;

#[test]
fn a_library_that_was_preloaded_before_stays() {
    if !require_all(LIVE) {
        return;
    }
    let folder = temp_dir("allocations-preload");
    let library = compile_c("preloaded-by-others", OTHERS, &["-shared", "-fPIC"]);
    let program = compile_c("uses-preloaded", USES_OTHERS, &["-O1", "-ldl"]);
    let file = folder.path().join("r.biopsy.zip");
    let output = tracing(&file, &[program.to_str().unwrap()]).env("LD_PRELOAD", &library).output().unwrap();
    let (said, path) = (String::from_utf8_lossy(&output.stdout), library.display());
    assert!(said.contains(&format!("early {path} now {path}\n")), "{}", crate::support::said(&output));
    assert_eq!(site(&analyze(&file), "of_its_own").expect("counted")["kept_bytes"], 1234);
}

#[test]
fn programs_that_cannot_be_counted_are_refused_with_the_reason() {
    if !require_all(LIVE) {
        return;
    }
    let folder = temp_dir("allocations-refused");
    let file = folder.path().join("r.biopsy.zip");
    let source = "int main(void) { return 0; }";
    for (flags, expected) in
        [(&["-static"][..], "statically"), (&["-fsanitize=address"][..], "built with a sanitizer")]
    {
        let program = compile_c("not-counted", source, flags);
        let said = complaint(&mut tracing(&file, &[program.to_str().unwrap()]));
        assert!(said.contains(expected), "{said}");
    }
    // The limit is on biopsy, too, which hands it on.
    let program = compile_c("not-counted", source, &[]);
    let tracing = tracing(&file, &[program.to_str().unwrap()]);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -v 20000000; exec \"$0\" \"$@\""]).arg(tracing.get_program());
    limited.args(tracing.get_args()).env("NO_COLOR", "1");
    let output = limited.output().unwrap();
    let report = analyze(&file);
    let said = warning(&report, "allocations.not-counted").map(Value::to_string).unwrap_or_default();
    assert!(said.contains("its address space has a limit"), "{} {said}", crate::support::said(&output));
}
