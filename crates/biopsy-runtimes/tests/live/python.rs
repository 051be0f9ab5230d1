//! Threads and tasks of Python.

use std::path::{Path, PathBuf};
use std::process::Command;

use biopsy_runtimes::{
    Confidence, Holder, RuntimeKind, RuntimeStrands, Strand, StrandKind, StrandState, WaitKind,
};
use biopsy_testkit::{Privilege, TargetProcess, require, require_that};

use super::frozen::{assert_deadlock, owner, strands, waiting_in};

/// Interpreters of the machine: 3.8 to 3.13, wherever they are.
fn interpreters() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> =
        std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect();
    if let Some(home) = std::env::var_os("HOME") {
        let versions = std::fs::read_dir(Path::new(&home).join(".pyenv/versions"));
        folders.extend(versions.into_iter().flatten().flatten().map(|entry| entry.path().join("bin")));
    }
    let named = |folder: &PathBuf| -> Vec<PathBuf> {
        (8..=13).map(|minor| folder.join(format!("python3.{minor}"))).filter(|path| path.exists()).collect()
    };
    let mut all: Vec<PathBuf> =
        folders.iter().flat_map(named).filter_map(|path| path.canonicalize().ok()).collect();
    // Shims are no interpreters.
    all.retain(|path| std::fs::read(path).is_ok_and(|bytes| bytes.starts_with(b"\x7fELF")));
    all.sort();
    all.dedup();
    all
}

fn each(mode: &str, check: impl Fn(&RuntimeStrands)) {
    if !require(Privilege::Ptrace) {
        return;
    }
    let interpreters = interpreters();
    if !require_that(!interpreters.is_empty(), "needs Python 3.8 to 3.13, which is not there") {
        return;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/strands.py");
    for interpreter in interpreters {
        let mut command = Command::new(&interpreter);
        command.arg(&source).arg(mode);
        let target = TargetProcess::spawn(command);
        let runtime = strands(&target, RuntimeKind::Python);
        assert_eq!(runtime.warnings, Vec::<String>::new(), "{}", interpreter.display());
        check(&runtime);
    }
}

fn thread<'r>(runtime: &'r RuntimeStrands, name: &str) -> &'r Strand {
    let found = runtime.strands.iter().find(|strand| strand.name.as_deref() == Some(name));
    found.unwrap_or_else(|| panic!("no `{name}`: {runtime:#?}"))
}

fn lines(strand: &Strand) -> Vec<(String, u32)> {
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    strand.frames.iter().map(|frame| (last(&frame.function), frame.line.unwrap_or_default())).collect()
}

/// Number of the line of the program that has this text.
fn line_of(text: &str) -> u32 {
    let program = include_str!("../programs/strands.py");
    let found =
        program.lines().position(|line| line.contains(text)).unwrap_or_else(|| panic!("no line {text}"));
    found as u32 + 1
}

#[test]
fn two_threads_wait_for_each_others_lock() {
    for (mode, confidence) in [("abba", Confidence::AlmostCertain), ("rlock", Confidence::Certain)] {
        each(mode, |runtime| {
            let pair = waiting_in(runtime, "both");
            assert_deadlock(&pair);
            assert!(pair.iter().all(|(strand, wait)| {
                owner(wait).confidence == confidence
                    && owner(wait).frame == Some(0)
                    && strand.tid.is_some()
                    && strand.frames[0].line == Some(line_of("with second:"))
            }));
        });
    }
}

/// A block between the one of the lock and where the thread stands.
#[test]
fn outer_blocks_count_as_inner_ones() {
    each("nested", |runtime| assert_deadlock(&waiting_in(runtime, "nested")));
}

#[test]
fn tasks_wait_for_each_others_locks() {
    each("locks", |runtime| {
        let wait = |name: &str| {
            let wait = thread(runtime, name).wait.as_ref().expect("it waits");
            assert_eq!((wait.kind, wait.object.as_deref()), (WaitKind::Mutex, Some("asyncio.Lock")));
            owner(wait)
        };
        for (waits, has) in [("ab", "ba"), ("ba", "ab"), ("own", "own")] {
            let owner = wait(waits);
            assert_eq!(owner.holder, Holder::Strand(thread(runtime, has).id), "{waits}");
            let site = owner.frame.and_then(|frame| thread(runtime, has).frames.get(frame));
            let function = site.map(|frame| frame.function.rsplit('.').next().unwrap_or_default().to_owned());
            assert_eq!(function.as_deref(), Some(if has == "own" { "twice" } else { "in_order" }));
        }
    });
}

#[test]
fn a_thread_waits_for_a_lock_of_its_own() {
    each("self", |runtime| {
        let strand = thread(runtime, "aa");
        let wait = strand.wait.as_ref().expect("it waits");
        assert_eq!(owner(wait).holder, Holder::Strand(strand.id));
    });
}

#[test]
fn who_is_inside_of_a_with_block_is_named_and_not_who_was() {
    each("holder", |runtime| {
        for (waiter, holder) in [("want", "hold"), ("account-waiter", "account-holder")] {
            let holder = thread(runtime, holder).id;
            let waiters: Vec<_> =
                runtime.strands.iter().filter(|strand| strand.name.as_deref() == Some(waiter)).collect();
            assert!(!waiters.is_empty());
            for waiter in waiters {
                assert_eq!(owner(waiter.wait.as_ref().expect("it waits")).holder, Holder::Strand(holder));
            }
        }
    });
}

#[test]
fn a_lock_that_was_taken_by_hand_has_candidates_only() {
    each("hand", |runtime| {
        let wait = thread(runtime, "want").wait.as_ref().expect("it waits");
        let taker = thread(runtime, "takes_by_hand").id;
        assert!(wait.owners.iter().all(|owner| owner.confidence == Confidence::Possible));
        assert!(wait.owners.iter().any(|owner| owner.holder == Holder::Strand(taker)));
    });
}

#[test]
fn a_thread_that_is_joined_waits_for_a_lock_of_who_joins() {
    each("join", |runtime| {
        let (joins, worker) = (thread(runtime, "joins"), thread(runtime, "worker"));
        let wait = joins.wait.as_ref().expect("it waits");
        assert_eq!((wait.kind, owner(wait).holder), (WaitKind::Join, Holder::Strand(worker.id)));
        assert_eq!(owner(worker.wait.as_ref().expect("it waits")).holder, Holder::Strand(joins.id));
    });
}

#[test]
fn tasks_that_await_each_other_are_a_ring() {
    each("ring", |runtime| {
        let task = |name: &str| {
            let found = thread(runtime, name);
            assert_eq!((found.kind, found.state), (StrandKind::Task, StrandState::Waiting));
            assert_eq!(
                lines(found).first().map(|frame| frame.0.as_str()),
                Some(if name == "n" { "never" } else { "awaits" })
            );
            found
        };
        for (name, other) in [("x", "y"), ("y", "z"), ("z", "x")] {
            let wait = task(name).wait.as_ref().expect("it waits");
            assert_eq!(owner(wait).holder, Holder::Strand(task(other).id));
        }
        let never = task("n");
        assert_eq!(lines(never).last().map(|frame| frame.0.as_str()), Some("outer"));
        assert!(never.wait.as_ref().is_some_and(|wait| wait.owners.is_empty() && wait.address.is_some()));
    });
}

#[test]
fn one_of_two_that_compute_has_the_interpreters_lock() {
    each("spin", |runtime| {
        let lock = runtime.interpreter_lock.as_ref().expect("it is known");
        let spins: Vec<&Strand> =
            runtime.strands.iter().filter(|strand| strand.name.as_deref() == Some("spin")).collect();
        assert_eq!(spins.len(), 2);
        // Between two of them nobody has it for a moment.
        if let Some(holder) = lock.holder {
            assert!(spins.iter().any(|strand| strand.id == holder), "{runtime:#?}");
        }
    });
}

#[test]
fn each_wait_is_what_the_program_waits_for() {
    each("all", |runtime| {
        let kind = |name: &str| thread(runtime, name).wait.as_ref().map(|wait| wait.kind);
        assert_eq!(kind("queue"), Some(WaitKind::Condition));
        assert_eq!(kind("event"), Some(WaitKind::Condition));
        assert_eq!(kind("accept"), Some(WaitKind::Io));
        assert_eq!(kind("child"), Some(WaitKind::Other));
        assert_eq!(kind("recursive"), Some(WaitKind::Timer));
        let made: Vec<String> = lines(thread(runtime, "Made")).into_iter().map(|frame| frame.0).collect();
        assert_eq!(made[..4], ["slow", "wait", "__init__", "__call__"]);
        let recursive = lines(thread(runtime, "recursive"));
        let calls = recursive
            .iter()
            .filter(|frame| **frame == ("recursive".to_owned(), line_of("return recursive(n - 1)")));
        assert_eq!(calls.count(), 30);
        let many = lines(thread(runtime, "many_lines"));
        assert!(many.contains(&("inner".to_owned(), line_of("result = function("))), "{many:?}");
    });
}
