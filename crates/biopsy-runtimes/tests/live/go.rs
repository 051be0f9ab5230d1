//! Goroutines.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use biopsy_runtimes::{
    Confidence, Holder, RuntimeKind, RuntimeStrands, Strand, StrandFrame, StrandState, WaitKind,
};
use biopsy_testkit::{Privilege, Signal, TargetProcess, require, require_program, temp_dir};

use super::frozen::{assert_deadlock, owner, strands, waiting_in};

/// Compilers of Go: the one of the machine, and those whose roots the variable lists.
const MORE: &str = "BIOPSY_GO_ROOTS";

fn compilers() -> Vec<PathBuf> {
    let mut all = Vec::new();
    if require_program("go", &["version"]) {
        all.push(PathBuf::from("go"));
    }
    let more = std::env::var_os(MORE).unwrap_or_default();
    let roots = std::env::split_paths(&more).filter(|root| root.is_absolute());
    all.extend(roots.map(|root| root.join("bin/go")));
    all
}

/// The program, with symbols and stripped, by each compiler.
fn each(mode: &str, check: impl Fn(&mut TargetProcess)) {
    if !require(Privilege::Ptrace) {
        return;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/strands.go");
    for compiler in compilers() {
        for flags in ["", "-s -w"] {
            let folder = temp_dir("go");
            let program = folder.path().join("strands");
            let mut build = Command::new(&compiler);
            build.args(["build", "-ldflags", flags, "-o"]).arg(&program).arg(&source);
            build.env("GO111MODULE", "off").env("GOTOOLCHAIN", "local").env("CGO_ENABLED", "0");
            build.env("GOCACHE", concat!(env!("CARGO_TARGET_TMPDIR"), "/go-cache")).env("GOFLAGS", "");
            if compiler.is_absolute() {
                build.env("GOROOT", compiler.ancestors().nth(2).expect("a root"));
            }
            let output = build.output().expect("the compiler runs");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let mut command = Command::new(&program);
            command.arg(mode).env("GOTRACEBACK", "system");
            check(&mut TargetProcess::spawn(command));
        }
    }
}

fn read(target: &TargetProcess) -> RuntimeStrands {
    let runtime = strands(target, RuntimeKind::Go);
    assert_eq!(runtime.warnings, Vec::<String>::new(), "{}", runtime.label());
    assert!(runtime.strands.iter().all(|strand| !strand.cut), "{runtime:#?}");
    runtime
}

#[test]
fn two_goroutines_wait_for_each_others_lock() {
    for (mode, function) in [("plain", "main.swap"), ("deferred", "main.transfer")] {
        each(mode, |target| {
            let runtime = read(target);
            let pair = waiting_in(&runtime, function);
            assert_deadlock(&pair);
            let site = owner(pair[0].1).frame.and_then(|frame| pair[1].0.frames.get(frame));
            assert_eq!(site.map(|frame| &*frame.function), Some(function));
        });
    }
}

#[test]
fn a_goroutine_waits_for_a_read_lock_of_its_own() {
    each("upgrade", |target| {
        let runtime = read(target);
        let found = waiting_in(&runtime, "main.upgrade");
        let [(strand, wait)] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((wait.kind, owner(wait).holder), (WaitKind::WriteLock, Holder::Strand(strand.id)));
    });
}

#[test]
fn who_sleeps_with_a_lock_is_named_and_not_who_had_it_before() {
    each("holder", |target| {
        let runtime = read(target);
        let holder = |function: &str| {
            let found = waiting_in(&runtime, function);
            assert_eq!(found.len(), 1, "{found:?}");
            found[0].0.id
        };
        let (plain, deferred) = (holder("main.hold"), holder("main.holdDeferred"));
        let wanted = waiting_in(&runtime, "main.want");
        let owners: Vec<Holder> = wanted.iter().map(|(_, wait)| owner(wait).holder).collect();
        assert_eq!(owners.iter().filter(|one| **one == Holder::Strand(plain)).count(), 2, "{owners:?}");
        assert_eq!(owners.iter().filter(|one| **one == Holder::Strand(deferred)).count(), 1, "{owners:?}");
    });
    each("loop", |target| {
        let runtime = read(target);
        let wanted = waiting_in(&runtime, "main.want");
        let [(_, wait)] = wanted.as_slice() else { panic!("{wanted:?}") };
        let Holder::Strand(id) = owner(wait).holder else { panic!("{wait:?}") };
        assert_eq!(owner(wait).confidence, Confidence::VeryLikely);
        let holder = runtime.strand(id).expect("it is there");
        assert!(holder.frames.iter().any(|frame| &*frame.function == "main.holdAll"));
    });
}

#[test]
fn each_wait_is_what_the_program_waits_for() {
    each("all", |target| {
        let runtime = read(target);
        let kinds = |function: &str| -> Vec<WaitKind> {
            waiting_in(&runtime, function).iter().map(|(_, wait)| wait.kind).collect()
        };
        assert_eq!(kinds("main.deep"), vec![WaitKind::ChannelReceive; 20]);
        assert_eq!(kinds("main.(*relay[...]).forward"), [WaitKind::ChannelSend]);
        assert_eq!(kinds("main.byLength.Less"), [WaitKind::Timer]);
        let waits = || runtime.strands.iter().filter_map(|strand| strand.wait.as_ref());
        let count = |is: fn(&biopsy_runtimes::StrandWait) -> bool| waits().filter(|wait| is(wait)).count();
        assert_eq!(count(|wait| wait.kind == WaitKind::WaitGroup && wait.address.is_some()), 1);
        assert_eq!(count(|wait| wait.kind == WaitKind::Condition), 1);
        assert_eq!(count(|wait| wait.kind == WaitKind::WriteLock && !wait.owners.is_empty()), 1);
        assert_eq!(count(|wait| wait.never_ends), 2, "two nil channels");
        assert_eq!(count(|wait| wait.kind == WaitKind::Select && wait.others.len() == 1), 2);
        // Accept, a connection and a pipe.
        assert_eq!(count(|wait| wait.kind == WaitKind::Io && wait.descriptor.is_some()), 3);
    });
}

#[test]
fn frames_are_those_that_go_prints_itself() {
    each("all", |target| {
        let runtime = read(target);
        target.signal(Signal::QUIT);
        let printed = printed(target);
        let (mut same, mut all, mut different) = (0, 0, String::new());
        for (id, theirs) in &printed {
            let ours =
                runtime.strands.iter().find(|strand| strand.id.0 == *id).map(shown).unwrap_or_default();
            all += theirs.len().max(ours.len());
            same += theirs.iter().zip(&ours).filter(|(a, b)| a == b).count();
            if *theirs != ours {
                different.push_str(&format!("{id}: {theirs:?}\n{ours:?}\n"));
            }
        }
        assert!(all > 200, "{printed:?}");
        assert!(same * 100 >= all * 99, "{same} of {all} frames are equal\n{different}");
    });
}

/// Function, path and line.
type Line = (String, String, u32);

/// What `SIGQUIT` prints of each goroutine.
fn printed(target: &mut TargetProcess) -> BTreeMap<u64, Vec<Line>> {
    let ended = target.wait_for_exit(Duration::from_secs(60));
    assert!(ended.is_some(), "it ends by itself of this signal");
    let text = target.stderr();
    let mut found: BTreeMap<u64, Vec<Line>> = BTreeMap::new();
    let mut current = None;
    let mut function = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("goroutine ") {
            current = rest.split(' ').next().and_then(|id| id.parse().ok()).filter(|id| *id != 0);
            // One that runs is on a thread whose stack it cannot print.
            current = current.filter(|_| !rest.contains("[running"));
        } else if let (Some(id), Some(place)) = (current, line.strip_prefix('\t')) {
            let place = place.split(" +0x").next().unwrap_or(place);
            let Some((file, number)) = place.rsplit_once(':') else { continue };
            let Ok(number) = number.parse() else { continue };
            found.entry(id).or_default().push((function.clone(), file.to_owned(), number));
        } else if let Some(created) = line.strip_prefix("created by ") {
            function = format!("created by {}", created.split(" in goroutine").next().unwrap_or(created));
        } else {
            let name = line.rsplit_once('(').map_or(line, |(name, _)| name);
            // Go prints it as the program calls it.
            function = if name == "panic" { "runtime.gopanic" } else { name }.to_owned();
        }
    }
    found
}

/// What we have of it, in the same form.
fn shown(strand: &Strand) -> Vec<Line> {
    let line = |name: String, frame: &StrandFrame| {
        (name, frame.file.as_deref().unwrap_or_default().to_owned(), frame.line.unwrap_or_default())
    };
    let frames = strand.frames.iter().map(|frame| line(frame.function.to_string(), frame));
    let start = strand.started_at.iter().map(|start| line(format!("created by {}", start.function), start));
    frames.chain(start).collect()
}

#[test]
fn a_hundred_thousand_goroutines_are_read() {
    each("leak", |target| {
        let runtime = read(target);
        let senders = runtime.strands.iter().filter(|strand| {
            strand.state == StrandState::Waiting
                && strand.wait.as_ref().is_some_and(|wait| wait.kind == WaitKind::ChannelSend)
        });
        assert_eq!(senders.count(), 100_000);
    });
}
