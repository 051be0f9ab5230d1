//! Threads of living Java programs, read from a frozen copy of their memory and compared with what `jstack` says of them.
//!
//! `BIOPSY_JAVA_HOMES`, a list with colons, adds virtual machines of other versions.

#![expect(clippy::print_stdout, reason = "what was compared belongs on the terminal")]

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use biopsy_runtimes::{
    Confidence, Holder, RuntimeKind, RuntimeStrands, Strand, StrandFrame, StrandId, StrandKind, WaitKind,
};
use biopsy_testkit::{Privilege, Survival, TargetProcess, require, require_program, temp_dir};
use support::runtime;

/// Share of frames that must be equal, in thousandths.
const EQUAL: usize = 990;

/// The folder of the compiled program; `None` where it cannot be compiled, and the test is skipped.
fn compiled() -> Option<biopsy_testkit::TempDir> {
    let there = require(Privilege::Ptrace)
        && require_program("javac", &["-version"])
        && require_program("java", &["-version"]);
    if !there {
        return None;
    }
    let folder = temp_dir("java");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/Waits.java");
    let mut javac = Command::new("javac");
    javac.args(["--release", "17", "-g:source,lines", "-d"]).arg(folder.path()).arg(source);
    assert!(javac.status().expect("javac runs").success(), "{javac:?}");
    Some(folder)
}

fn homes() -> Vec<PathBuf> {
    let more = std::env::var_os("BIOPSY_JAVA_HOMES").unwrap_or_default();
    let more = std::env::split_paths(&more).filter(|home| !home.as_os_str().is_empty());
    std::iter::once("java".into()).chain(more.map(|home| home.join("bin/java"))).collect()
}

fn start(java: &Path, folder: &Path, options: &[&str], modes: &[&str]) -> TargetProcess {
    let mut command = Command::new(java);
    command.args(options).arg("-cp").arg(folder).arg("Waits").args(modes);
    TargetProcess::spawn(command)
}

fn named<'r>(runtime: &'r RuntimeStrands, name: &str) -> &'r Strand {
    let found = runtime.strands.iter().find(|strand| strand.name.as_deref() == Some(name));
    found.unwrap_or_else(|| panic!("{} has no thread {name}: {:?}", runtime.label(), runtime.warnings))
}

/// As `jstack` writes a frame, without the module; what it puts into the place of a line where there is none is left out.
fn shown(frame: &StrandFrame) -> String {
    match (&frame.file, frame.line) {
        (Some(file), Some(line)) => format!("{}({file}:{line})", frame.function),
        _ => frame.function.to_string(),
    }
}

/// Frames of each thread as `jstack` says, by the name of the thread; `None` where it cannot attach.
fn jstack(pid: u32) -> Option<BTreeMap<String, Vec<String>>> {
    let output = Command::new("jstack").arg(pid.to_string()).output().ok()?;
    if !output.status.success() {
        return None;
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut threads = BTreeMap::new();
    let mut name = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix('"') {
            name = rest.split('"').next().unwrap_or_default().to_owned();
            threads.insert(name.clone(), Vec::new());
        } else if let Some(frame) = line.trim().strip_prefix("at ")
            && let Some(frames) = threads.get_mut(&name)
        {
            // `at java.lang.Thread.run(java.base@17.0.15/Thread.java:840)`
            let (function, place) = frame.split_once('(').unwrap_or((frame, ""));
            let place = place.split_once('/').map_or(place, |(_, place)| place);
            let line =
                place.trim_end_matches(')').rsplit_once(':').and_then(|(_, line)| line.parse::<u32>().ok());
            frames.push(line.map_or_else(|| function.to_owned(), |_| format!("{function}({place}")));
        }
    }
    Some(threads)
}

/// How many frames are equal, of how many.
fn compare(runtime: &RuntimeStrands, truth: &BTreeMap<String, Vec<String>>, what: &str) -> (usize, usize) {
    let (mut equal, mut all) = (0, 0);
    for strand in runtime.strands.iter().filter(|strand| strand.kind == StrandKind::Thread) {
        let Some(theirs) = strand.name.as_ref().and_then(|name| truth.get(name)) else { continue };
        let ours: Vec<_> = strand.frames.iter().map(shown).collect();
        let same = ours.iter().zip(theirs).filter(|(ours, theirs)| ours == theirs).count();
        equal += same;
        all += ours.len().max(theirs.len());
        if same < ours.len().max(theirs.len()) {
            let first = ours.iter().zip(theirs).position(|(ours, theirs)| ours != theirs).unwrap_or(same);
            println!(
                "{what}: {:?} differs at {first}: {:?}, jstack {:?}",
                strand.name,
                ours.get(first),
                theirs.get(first)
            );
        }
    }
    (equal, all)
}

fn assert_stuck_on_each_other(
    runtime: &RuntimeStrands,
    pair: [&str; 2],
    kinds: [WaitKind; 2],
    sites: [&str; 2],
) {
    for (index, (name, site)) in pair.iter().zip(sites).enumerate() {
        let (strand, other) = (named(runtime, name), named(runtime, pair[1 - index]));
        let wait = strand.wait.as_ref().unwrap_or_else(|| panic!("{name} waits"));
        assert_eq!(wait.kind, kinds[index], "{name} of {}", runtime.label());
        let [owner] = wait.owners.as_slice() else { panic!("one owner: {wait:?}") };
        assert_eq!((owner.holder, owner.confidence), (Holder::Strand(other.id), Confidence::Certain));
        assert!(strand.frames.iter().any(|frame| &*frame.function == site), "{name}: {:#?}", strand.frames);
    }
}

#[test]
fn two_monitors_two_locks_and_one_of_each_are_a_circle() {
    let Some(folder) = compiled() else { return };
    for java in homes() {
        for (mode, pair, kinds, sites) in [
            (
                "monitors",
                ["cellar-first", "attic-first"],
                [WaitKind::Monitor; 2],
                ["Waits.monitorThenMonitor", "Waits.monitorThenMonitor"],
            ),
            (
                "locks",
                ["left-first", "right-first"],
                [WaitKind::Mutex; 2],
                ["Waits.lockThenLock", "Waits.lockThenLock"],
            ),
            (
                "mixed",
                ["monitor-first", "lock-first"],
                [WaitKind::Mutex, WaitKind::Monitor],
                ["Waits.monitorThenLock", "Waits.lockThenMonitor"],
            ),
        ] {
            let target = start(&java, folder.path(), &[], &[mode]);
            let survival = Survival::before(target.pid()).threads_may_change().files_may_change();
            let runtime = runtime(target.pid(), RuntimeKind::Java);
            assert!(runtime.warnings.is_empty(), "{:?}", runtime.warnings);
            assert_stuck_on_each_other(&runtime, pair, kinds, sites);
            survival.assert_unharmed();
        }
    }
}

/// Collectors, compilers and layouts of objects; what a version does not have, it does not start with.
const SETTINGS: [&[&str]; 11] = [
    &[],
    &["-Xint"],
    &["-Xcomp", "-XX:TieredStopAtLevel=1"],
    &["-Xcomp"],
    &["-XX:+UseSerialGC"],
    &["-XX:+UseParallelGC", "-XX:-UseCompressedOops"],
    &["-XX:+UseZGC"],
    &["-XX:+UnlockExperimentalVMOptions", "-XX:+UseShenandoahGC"],
    &["-XX:+UnlockExperimentalVMOptions", "-XX:LockingMode=2"],
    &["-XX:+UseZGC", "-XX:+ZGenerational"],
    &["-XX:+UnlockExperimentalVMOptions", "-XX:+UseCompactObjectHeaders"],
];

#[test]
fn frames_are_those_that_jstack_says() {
    let Some(folder) = compiled() else { return };
    if !require_program("jstack", &["-h"]) {
        return;
    }
    let (mut equal, mut all) = (0, 0);
    for java in homes() {
        for settings in SETTINGS {
            let starts = Command::new(&java)
                .args(settings)
                .arg("-version")
                .output()
                .is_ok_and(|out| out.status.success());
            if !starts {
                continue;
            }
            let target = start(&java, folder.path(), settings, &["monitors", "others", "warm"]);
            let runtime = runtime(target.pid(), RuntimeKind::Java);
            assert!(runtime.warnings.is_empty(), "{:?}", runtime.warnings);
            let Some(truth) = jstack(target.pid()) else { continue };
            let what = format!("{} {settings:?}", runtime.label());
            let (same, here) = compare(&runtime, &truth, &what);
            println!("{what}: {same} of {here} frames as jstack says");
            (equal, all) = (equal + same, all + here);
            let (upgrade, joins) = (named(&runtime, "upgrade"), named(&runtime, "joins"));
            let owner_of = |strand: &Strand| -> Vec<Holder> {
                strand.wait.iter().flat_map(|wait| &wait.owners).map(|owner| owner.holder).collect()
            };
            assert_eq!(owner_of(upgrade), [Holder::Strand(upgrade.id)], "{what}");
            assert_eq!(owner_of(joins), [Holder::Strand(named(&runtime, "cellar-first").id)], "{what}");
        }
    }
    println!("{equal} of {all} frames as jstack says");
    assert!(all > 1_000 && equal * 1_000 >= all * EQUAL, "{equal} of {all}");
}

#[test]
fn a_virtual_thread_that_holds_its_carrier_is_a_strand_of_its_own() {
    let Some(folder) = compiled() else { return };
    for java in homes() {
        let help = Command::new(&java).arg("-version").output().expect("java runs");
        let version = String::from_utf8_lossy(&help.stderr).into_owned();
        if !version.contains("\"21") {
            continue;
        }
        let target = start(&java, folder.path(), &[], &["virtual"]);
        let runtime = runtime(target.pid(), RuntimeKind::Java);
        let found = runtime.strands.iter().find(|strand| strand.kind == StrandKind::VirtualThread);
        let strand = found.unwrap_or_else(|| panic!("a virtual thread: {:#?}", runtime.strands));
        assert!(strand.frames.iter().any(|frame| &*frame.function == "Waits.deep"), "{strand:#?}");
        let carrier =
            runtime.strands.iter().find(|one| one.tid == strand.tid && one.kind == StrandKind::Thread);
        let carrier = carrier.expect("its carrier is there too");
        assert_ne!(carrier.id, StrandId(0));
        assert!(carrier.frames.iter().all(|frame| !frame.function.starts_with("Waits")), "{carrier:#?}");
    }
}

/// A thread that runs has no anchor: its frames come from its registers, wherever it is.
#[test]
fn a_thread_that_runs_has_frames() {
    let Some(folder) = compiled() else { return };
    for java in homes() {
        for settings in [&[] as &[&str], &["-Xint"]] {
            let target = start(&java, folder.path(), settings, &["spin"]);
            let looks = 10;
            let seen = (0..looks).filter(|_| {
                let runtime = runtime(target.pid(), RuntimeKind::Java);
                let strand = named(&runtime, "spin");
                let last = strand.frames.last().map(|frame| frame.function.to_string());
                last.as_deref() == Some("java.lang.Thread.run")
                    && strand.frames.iter().any(|frame| frame.function.starts_with("Waits."))
            });
            let seen = seen.count();
            println!(
                "{} {settings:?}: {seen} of {looks} looks at a running thread were whole",
                java.display()
            );
            assert!(seen >= looks - 1, "{seen} of {looks}");
        }
    }
}
