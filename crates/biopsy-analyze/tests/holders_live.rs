//! Who holds locks that do not say it, in programs of known truth: names of threads tell who holds and who waits.

#![allow(clippy::print_stdout, reason = "the table is what one looks at it for")]

use std::path::PathBuf;
use std::process::{Command, Stdio};

use biopsy_analyze::analyze_dump;
use biopsy_analyze::dump::{DumpAnalysis, DumpFacts, ThreadFacts};
use biopsy_image::{Limits, open};
use biopsy_model::{Confidence, Tid};
use biopsy_stacks::image::{Options, walk};
use biopsy_testkit::{Privilege, TargetProcess, compile_c, compile_cpp, compile_rust, require_all};

const NEEDED: &[Privilege] = &[Privilege::Cc, Privilege::Gdb, Privilege::Ptrace];

const RUST: &str = include_str!("../../biopsy-testkit/programs/holders.rs");
const CPP: &str = include_str!("../../biopsy-testkit/programs/holders.cpp");

fn analyze(pid: u32) -> DumpAnalysis {
    let folder = tempfile::tempdir().expect("a folder");
    let prefix = folder.path().join("core");
    let output = Command::new("gcore")
        .arg("-o")
        .arg(&prefix)
        .arg(pid.to_string())
        .stdin(Stdio::null())
        .output()
        .expect("gcore");
    let core = folder.path().join(format!("core.{pid}"));
    assert!(core.exists(), "gcore: {}", String::from_utf8_lossy(&output.stderr));
    let opened = open(&core, &Limits::default()).expect("a core of gdb opens");
    let stacks = walk(&*opened.image, &Options { roots: vec!["/".into()], ..Options::default() });
    analyze_dump(&*opened.image, &stacks, &DumpFacts { threads: names(pid), ..DumpFacts::of(&opened) })
}

/// Cores of gdb do not have the names of threads.
fn names(pid: u32) -> Vec<ThreadFacts> {
    let folder = std::fs::read_dir(format!("/proc/{pid}/task")).expect("the process lives");
    let threads = folder.flatten().map(|entry| {
        let name = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        let tid = entry.file_name().to_string_lossy().parse().expect("a thread id");
        ThreadFacts { tid: Tid(tid), name: Some(name.trim().to_owned()), ..ThreadFacts::default() }
    });
    threads.collect()
}

/// What was found, against what is true.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Verdict {
    /// Somebody is named who holds nothing.
    Wrong,
    /// It is said that it is not known.
    NotDetermined,
    /// Inferred.
    Inferred,
    /// Read from the locks.
    Certain,
}

fn judge(analysis: &DumpAnalysis) -> Verdict {
    let name = |tid| analysis.thread(tid).map_or("", |thread| thread.name.as_str());
    let truth = |name: &str| name.starts_with("holds") || name.starts_with("stuck");
    let mut weakest = Verdict::Certain;
    for thread in &analysis.threads {
        let Some(lock) = &thread.lock else { continue };
        let holders = lock.known_holders();
        let mut known = holders.iter().filter(|holder| holder.confidence > Confidence::Possible).peekable();
        let waits = name(thread.tid).starts_with("waits") || name(thread.tid).starts_with("stuck");
        if waits && known.peek().is_none() {
            weakest = weakest.min(Verdict::NotDetermined);
        }
        for holder in known {
            let found = match (truth(name(holder.thread)), holder.confidence) {
                (false, _) => Verdict::Wrong,
                (true, Confidence::Certain) => Verdict::Certain,
                (true, _) => Verdict::Inferred,
            };
            weakest = weakest.min(found);
        }
    }
    let stuck = analysis.threads.iter().filter(|thread| thread.name.starts_with("stuck")).count();
    let circles: usize = analysis.waits.cycles.iter().map(Vec::len).sum();
    match circles.cmp(&stuck) {
        std::cmp::Ordering::Greater => Verdict::Wrong,
        std::cmp::Ordering::Less => weakest.min(Verdict::NotDetermined),
        std::cmp::Ordering::Equal => weakest,
    }
}

fn describe(analysis: &DumpAnalysis) -> String {
    let name = |tid| analysis.thread(tid).map_or("", |thread| thread.name.as_str());
    let mut lines = String::new();
    for thread in analysis.threads.iter().filter(|thread| thread.lock.is_some()) {
        let lock = thread.lock.as_ref().expect("it was asked for");
        let holders: Vec<String> = lock
            .known_holders()
            .iter()
            .map(|holder| format!("{} {:?} in {:?}", name(holder.thread), holder.confidence, holder.site))
            .collect();
        lines += &format!("    {}: {} [{}] {}\n", thread.name, lock.words(), holders.join("; "), lock.proof);
    }
    lines + &format!("    circles {:?} {:?}\n", analysis.waits.cycles, analysis.waits.circles)
}

/// Each mode of a program, all at once, with what is found in each.
fn table(label: &str, program: &PathBuf, modes: &[&str]) -> Vec<(String, Verdict)> {
    let start = |mode: &&str| {
        let mut command = Command::new(program);
        command.arg(mode);
        TargetProcess::spawn(command)
    };
    // What is under work: `HOLDERS_ONLY=spin`.
    let only = std::env::var("HOLDERS_ONLY").ok();
    let modes: Vec<&&str> =
        modes.iter().filter(|mode| only.as_deref().is_none_or(|only| only == **mode)).collect();
    let targets: Vec<TargetProcess> = modes.iter().map(|mode| start(mode)).collect();
    let mut found = Vec::new();
    for (mode, target) in modes.iter().zip(targets) {
        let analysis = analyze(target.pid());
        let verdict = judge(&analysis);
        let mode = format!("{label}: {mode}");
        println!("{mode:<36} {verdict:?}");
        if verdict < Verdict::Inferred || std::env::var_os("HOLDERS_VERBOSE").is_some() {
            print!("{}", describe(&analysis));
        }
        found.push((mode, verdict));
    }
    found
}

const RUST_MODES: &[&str] = &[
    "abba",
    "ring",
    "holder",
    "far-out",
    "rounds",
    "hand-over",
    "optional",
    "self",
    "upgrade",
    "read-write",
    "readers",
    "writer",
    "condition",
    "lost-news",
];
const CPP_MODES: &[&str] = &[
    "among",
    "among-flag",
    "among-hand",
    "reader",
    "writer",
    "guard",
    "by-hand",
    "helpers",
    "deferred",
    "abba",
    "upgrade",
    "global",
    "mixed",
    "semaphores",
    "signal",
    "spin",
];

fn assert_all(found: &[(String, Verdict)]) {
    let wrong: Vec<_> = found.iter().filter(|(_, verdict)| *verdict == Verdict::Wrong).collect();
    assert!(wrong.is_empty(), "confident and wrong: {wrong:?}");
    let unknown: Vec<_> = found.iter().filter(|(_, verdict)| *verdict == Verdict::NotDetermined).collect();
    assert!(unknown.is_empty(), "not determined: {unknown:?}");
}

#[test]
fn holders_in_rust_are_found_in_optimised_and_stripped_programs() {
    if !require_all(NEEDED) {
        return;
    }
    let mut found = Vec::new();
    for (label, flags) in
        [("rust -O", &["-O"][..]), ("rust -O stripped", &["-Copt-level=3", "-Cstrip=symbols"])]
    {
        found.extend(table(label, &compile_rust("holders-rust", RUST, flags), RUST_MODES));
    }
    assert_all(&found);
}

/// The same program over other locks, which is not built here: `docs/design/17-holders.md` says how.
#[test]
fn holders_in_a_program_from_elsewhere_are_found() {
    let Some(program) = std::env::var_os("HOLDERS_PROGRAM").map(PathBuf::from) else {
        println!("skipped: HOLDERS_PROGRAM names no program");
        return;
    };
    if !require_all(NEEDED) {
        return;
    }
    assert_all(&table("elsewhere", &program, RUST_MODES));
}

#[test]
fn holders_in_cpp_are_found_in_optimised_and_stripped_programs() {
    if !require_all(NEEDED) {
        return;
    }
    let every = std::env::var_os("HOLDERS_ALL").is_some();
    let usual = [("c++ -O2", &["-O2"][..]), ("c++ -O3 stripped", &["-O3", "-s"])];
    let others = [
        ("c++ -O0", &["-O0"][..]),
        ("c++ -O1", &["-O1"]),
        ("c++ no exceptions", &["-O2", "-fno-exceptions"]),
        ("c++ no plt", &["-O2", "-fno-plt", "-s"]),
        ("c++ lto no pie", &["-O3", "-flto", "-no-pie", "-s"]),
        ("c++ static", &["-O2", "-static"]),
        ("c++ static stripped", &["-O2", "-static", "-s"]),
    ];
    let mut found = Vec::new();
    for (label, flags) in usual.into_iter().chain(others.into_iter().filter(|_| every)) {
        found.extend(table(label, &compile_cpp("holders-cpp", CPP, flags), CPP_MODES));
    }
    assert_all(&found);
}

#[test]
fn a_mutex_that_was_copied_by_fork_has_no_owner_to_wait_for() {
    if !require_all(NEEDED) {
        return;
    }
    let source = include_str!("../../biopsy-testkit/programs/across.c");
    let mut command = Command::new(compile_c("across", source, &["-O2", "-s"]));
    command.arg("orphan");
    let target = TargetProcess::spawn(command);
    let child: u32 = target
        .ready_line()
        .split_ascii_whitespace()
        .nth(2)
        .and_then(|word| word.parse().ok())
        .expect("READY PID CHILD");
    // It says so just before.
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !std::fs::read_to_string(format!("/proc/{child}/wchan")).is_ok_and(|text| text.contains("futex")) {
        assert!(std::time::Instant::now() < until, "the child does not wait");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let analysis = analyze(child);
    let first = &analysis.findings[0];
    assert_eq!(first.id.as_str(), "orphaned-lock", "{first:#?}");
    assert!(first.title.contains("of its parent held when the process was forked"), "{}", first.title);
}
