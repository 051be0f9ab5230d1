//! Functions of Python, Java and JavaScript in samples and wait stacks of living programs, which are unharmed.

#![allow(clippy::disallowed_methods, reason = "tests open what they wrote")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use biopsy_model::stack::StackHandle;
use biopsy_model::timeline::Timeline;
use biopsy_model::{Nanos, Pid};
use biopsy_record::trace::{self, Method, TraceOptions};
use biopsy_recording::{Limits, RecordingFolder, layout};
use biopsy_testkit::{Privilege, Survival, TargetProcess, require, require_program, temp_dir};

/// Of a hundred samples that are in the chain of functions that the program is always in.
const RIGHT: usize = 99;

fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

fn record(target: &mut TargetProcess) -> Timeline {
    let survival = Survival::before(target.pid());
    let options = TraceOptions {
        pids: vec![Pid(target.pid())],
        method: Some(Method::Bpf),
        follow_children: true,
        ..TraceOptions::default()
    };
    let parent = temp_dir("languages");
    let folder = RecordingFolder::create(parent.path().join("recording")).unwrap();
    let handle = trace::start(&options, folder.create_member(layout::TIMELINE).unwrap(), None).unwrap();
    std::thread::sleep(Duration::from_secs(3));
    let _ = handle.stop();
    survival.assert_unharmed();
    target.stop();
    let file = std::fs::File::open(folder.path().join(layout::TIMELINE)).unwrap();
    biopsy_recording::timeline::read(file, &Limits::default()).unwrap().0
}

/// Functions of a stack, outermost first, by the last part of their names.
fn functions(timeline: &Timeline, stack: Option<StackHandle>) -> Vec<String> {
    let mut names: Vec<String> = timeline
        .frames_of(stack)
        .flat_map(|frame| timeline.symbols[frame.0 as usize].iter().flat_map(|found| &found.functions))
        .map(|function| function.name.rsplit('.').next().unwrap_or_default().to_owned())
        .collect();
    names.reverse();
    names
}

/// Whether these come in this order, with others between them.
fn has(functions: &[String], chain: &[&str]) -> bool {
    let mut rest = functions.iter();
    chain.iter().all(|wanted| rest.any(|function| function == wanted))
}

/// Of the samples in which a function runs, nearly all have the whole chain to it.
fn assert_samples(timeline: &Timeline, function: &str, chain: &[&str]) {
    let stacks = timeline.samples.iter().map(|sample| functions(timeline, sample.stack));
    let inside: Vec<_> = stacks.filter(|stack| stack.iter().any(|one| one == function)).collect();
    let right = inside.iter().filter(|stack| has(stack, chain)).count();
    assert!(inside.len() > 20, "{} samples in {function}", inside.len());
    let wrong = inside.iter().find(|stack| !has(stack, chain));
    assert!(right * 100 >= inside.len() * RIGHT, "{right} of {}: {wrong:?}", inside.len());
}

fn assert_waits(timeline: &Timeline, chain: &[&str]) {
    let there = timeline.wait_samples.iter().filter(|wait| has(&functions(timeline, wait.stack), chain));
    let waited = there.map(|wait| wait.weight).fold(Nanos(0), |sum, weight| sum + weight);
    assert!(waited.0 > 1_000_000_000, "{waited:?} in {chain:?}");
}

fn pythons() -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").unwrap_or_default();
    let versions = std::fs::read_dir(Path::new(&home).join(".pyenv/versions"));
    let folders = versions.into_iter().flatten().flatten().map(|entry| entry.path());
    let of = |folder: PathBuf| (8..=13).map(move |minor| folder.join(format!("bin/python3.{minor}")));
    let installed = folders.flat_map(of).filter(|path| path.exists());
    std::iter::once(PathBuf::from("/usr/bin/python3")).chain(installed).filter(|path| path.exists()).collect()
}

fn start_python(interpreter: &Path, mode: &str) -> TargetProcess {
    let mut command = Command::new(interpreter);
    command.arg(program("languages.py")).arg(mode);
    TargetProcess::spawn(command)
}

#[test]
fn functions_of_python() {
    if !require(Privilege::Bpf) || !require_program("python3", &["--version"]) {
        return;
    }
    for interpreter in pythons() {
        let timeline = record(&mut start_python(&interpreter, ""));
        let chain = ["run", "compute", "through_native", "count_up"];
        assert_samples(&timeline, "count_up", &chain);
        assert_waits(&timeline, &["run", "wait_for_nothing", "wait"]);
        let found = timeline.symbols.iter().flatten().flat_map(|symbols| &symbols.functions);
        let line = found.filter(|function| function.name == "count_up").find_map(|function| function.line);
        assert!((9..=11).contains(&line.unwrap_or(0)), "{}: {line:?}", interpreter.display());
    }
}

#[test]
fn a_python_that_was_forked_and_stacks_that_are_too_deep() {
    if !require(Privilege::Bpf) || !require_program("python3", &["--version"]) {
        return;
    }
    let interpreter = Path::new("python3");
    let timeline = record(&mut start_python(interpreter, "fork"));
    assert_samples(&timeline, "count_up", &["fork", "compute", "through_native", "count_up"]);
    let timeline = record(&mut start_python(interpreter, "deep"));
    assert_samples(&timeline, "count_up", &["(more calls, left out)", "recurse", "recurse", "count_up"]);
}

#[test]
fn methods_of_java() {
    if !require(Privilege::Bpf)
        || !require_program("javac", &["-version"])
        || !require_program("java", &["-version"])
    {
        return;
    }
    let folder = temp_dir("java");
    let mut javac = Command::new("javac");
    javac.args(["--release", "17", "-d"]).arg(folder.path()).arg(program("Languages.java"));
    assert!(javac.status().unwrap().success());
    let more = std::env::var_os("BIOPSY_JAVA_HOMES").unwrap_or_default();
    let more = std::env::split_paths(&more).filter(|home| !home.as_os_str().is_empty());
    for java in std::iter::once(PathBuf::from("java")).chain(more.map(|home| home.join("bin/java"))) {
        for options in ["-Dplain", "-Xint", "-XX:TieredStopAtLevel=1", "-XX:-TieredCompilation"] {
            let mut command = Command::new(&java);
            // Threads of its own come and go otherwise, and the target would not be as it was.
            command.args([options, "-XX:+UseSerialGC", "-XX:-UseDynamicNumberOfCompilerThreads"]);
            command.arg("-cp").arg(folder.path()).arg("Languages");
            let timeline = record(&mut TargetProcess::spawn(command));
            assert_samples(&timeline, "countUp", &["run", "compute", "throughLambda", "countUp"]);
            assert_waits(&timeline, &["run", "waitForNothing", "wait"]);
        }
    }
}

#[test]
fn functions_of_javascript() {
    if !require(Privilege::Bpf) || !require_program("node", &["--version"]) {
        return;
    }
    let more = std::env::var_os("BIOPSY_NODES").unwrap_or_default();
    let more: Vec<_> = std::env::split_paths(&more).filter(|node| !node.as_os_str().is_empty()).collect();
    for node in std::iter::once(PathBuf::from("node")).chain(more) {
        for options in ["--stack-size=900", "--no-opt"] {
            let mut command = Command::new(&node);
            command.arg(options).arg(program("languages.js"));
            let timeline = record(&mut TargetProcess::spawn(command));
            // The optimizing compiler puts functions into others: only the outermost is always there.
            assert_samples(&timeline, "compute", &["processImmediate", "compute"]);
            if options == "--no-opt" {
                assert_samples(&timeline, "countUp", &["compute", "throughNative", "countUp"]);
            }
        }
    }
}
