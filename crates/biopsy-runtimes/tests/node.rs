//! JavaScript of living Node programs, read from a frozen copy of their memory and compared with what another run of the same
//! program says of its own stack.
//!
//! `BIOPSY_NODES`, a list with colons, adds executables of other versions.

#![expect(clippy::print_stdout, reason = "what was compared belongs on the terminal")]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use biopsy_runtimes::{RuntimeKind, RuntimeStrands, Strand, StrandFrame, StrandState, WaitKind};
use biopsy_testkit::{Privilege, Survival, TargetProcess, require, require_program};
use support::runtime;

/// Share of frames that must be equal, in thousandths.
const EQUAL: usize = 990;

const MODES: [&str; 11] = [
    "plain",
    "timer",
    "promise",
    "replaced",
    "parsed",
    "generated",
    "evaluated",
    "module",
    "emitted",
    "worker",
    "warm",
];

fn there() -> bool {
    require(Privilege::Ptrace) && require_program("node", &["--version"])
}

fn nodes() -> Vec<PathBuf> {
    let more = std::env::var_os("BIOPSY_NODES").unwrap_or_default();
    let more: Vec<_> = std::env::split_paths(&more).filter(|node| !node.as_os_str().is_empty()).collect();
    std::iter::once("node".into()).chain(more).collect()
}

fn start(node: &Path, arguments: &[&str]) -> TargetProcess {
    let mut command = Command::new(node);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/waits.js")).args(arguments);
    TargetProcess::spawn(command)
}

/// A frame as it is compared: function, script, line. V8 does not name what has no name, and writes what a function was called
/// on before its name.
#[derive(PartialEq, Eq, Debug)]
struct Shown {
    function: String,
    file: String,
    line: Option<u32>,
}

/// `    at async Orders.recompute [as x] (/srv/orders.js:4:30)`
fn theirs(line: &str) -> Option<Shown> {
    let text = line.trim_matches(['"', ' ']).strip_prefix("at ")?;
    if text.contains("(eval at ") {
        // `at eval (eval at made (/srv/orders.js:46:37), <anonymous>:5:3)`: of a script without a name.
        let line = text.rsplit(':').nth(1).and_then(|line| line.parse().ok());
        return Some(Shown { function: String::new(), file: String::new(), line });
    }
    let (function, place) = match text.strip_suffix(')').and_then(|text| text.rsplit_once(" (")) {
        Some((function, place)) => (function, place),
        None => ("", text),
    };
    let (file, line) = match place.rsplitn(3, ':').collect::<Vec<_>>().as_slice() {
        [_, line, file] => ((*file).to_owned(), line.parse().ok()),
        _ => (String::new(), None),
    };
    let function = function.split(" [as ").next().unwrap_or_default();
    let function = function.trim_start_matches("async ").trim_start_matches("new ");
    let function =
        function.rsplit('.').next().unwrap_or_default().trim_start_matches("get ").trim_end_matches(']');
    let named = !matches!(function, "" | "<anonymous>");
    Some(Shown { function: if named { function.to_owned() } else { String::new() }, file, line })
}

fn ours(frame: &StrandFrame) -> Shown {
    let function = frame.function.rsplit('.').next().unwrap_or_default();
    let function = if &*frame.function == "(anonymous)" { "" } else { function };
    Shown {
        function: function.trim_start_matches("get ").trim_matches(['[', ']']).to_owned(),
        file: frame.file.as_deref().unwrap_or_default().to_owned(),
        line: frame.line,
    }
}

/// The thread that says it is at rest.
fn at_rest(runtime: &RuntimeStrands) -> &Strand {
    let found =
        runtime.strands.iter().find(|strand| strand.frames.iter().any(|frame| &*frame.function == "rest"));
    found.unwrap_or_else(|| panic!("{} has no thread at rest: {runtime:#?}", runtime.label()))
}

/// The program compared with another run of it: how many frames are equal, of how many, and how many of those have no line.
fn compare(node: &Path, mode: &str) -> (usize, usize, usize) {
    let loud = start(node, &[mode, "loud"]);
    let said =
        loud.ready_line().split_once(' ').map(|(_, said)| said.replace("\\n", "\n")).unwrap_or_default();
    let mut truth: Vec<Shown> = said.lines().filter_map(theirs).collect();
    drop(loud);
    let silent = start(node, &[mode]);
    let survival = Survival::before(silent.pid()).threads_may_change().files_may_change();
    let runtime = runtime(silent.pid(), RuntimeKind::Node);
    survival.assert_unharmed();
    let strand = at_rest(&runtime);
    let rest = |frame: &&StrandFrame| &*frame.function != "rest";
    let mut seen: Vec<Shown> = strand.frames.iter().skip_while(rest).map(ours).collect();
    // The one asked `say` for its stack where the other one rests.
    assert_eq!((truth.remove(0).function.as_str(), seen.remove(0).function.as_str()), ("say", "rest"));
    // What calls promises back is shown by V8 in some versions only.
    seen.retain(|frame| frame.function != "runMicrotasks");
    truth.retain(|frame| frame.function != "runMicrotasks");
    let same = |(ours, theirs): &(&Shown, &Shown)| {
        let named = ours.function == theirs.function || theirs.function.is_empty();
        named && (ours.file == theirs.file) && (ours.line == theirs.line || ours.line.is_none())
    };
    let equal = seen.iter().zip(&truth).filter(same).count();
    let all = seen.len().max(truth.len());
    let without =
        seen.iter().zip(&truth).filter(|(ours, theirs)| ours.line.is_none() && theirs.line.is_some()).count();
    for (number, pair) in seen.iter().zip(&truth).enumerate().filter(|(_, pair)| !same(pair)) {
        println!("{mode}: {number} differs: {:?}, itself {:?}", pair.0, pair.1);
    }
    if seen.len() != truth.len() {
        println!(
            "{mode}: {} frames, itself {}; {:?} {:?}",
            seen.len(),
            truth.len(),
            seen.last(),
            truth.last()
        );
    }
    (equal, all, without)
}

#[test]
fn frames_are_those_that_the_program_says() {
    if !there() {
        return;
    }
    let (mut equal, mut all, mut without) = (0, 0, 0);
    for node in nodes() {
        for mode in MODES {
            let (same, here, no_line) = compare(&node, mode);
            println!("{} {mode}: {same} of {here} frames, {no_line} of them without a line", node.display());
            (equal, all, without) = (equal + same, all + here, without + no_line);
        }
    }
    println!("{equal} of {all} frames as the program says, {without} of them without a line");
    assert!(all > 100 && equal * 1_000 >= all * EQUAL, "{equal} of {all}");
}

#[test]
fn an_event_loop_that_waits_has_no_frames_and_says_so() {
    if !there() {
        return;
    }
    let mut command = Command::new("node");
    command.args(["-e", "process.stdin.resume(); setTimeout(() => console.log('READY'), 50)"]);
    let target = TargetProcess::spawn(command);
    // Ready is said from inside of a function; until it is over, the loop does not wait.
    let waits = (0..100).any(|_| {
        let runtime = runtime(target.pid(), RuntimeKind::Node);
        let [strand] = runtime.strands.as_slice() else { panic!("one thread: {runtime:#?}") };
        strand.frames.is_empty()
            && strand.state == StrandState::Waiting
            && strand.wait.as_ref().is_some_and(|wait| wait.kind == WaitKind::Idle)
    });
    assert!(waits);
}

#[test]
fn a_worker_that_waits_to_be_notified_says_so() {
    if !there() {
        return;
    }
    let target = start(Path::new("node"), &["worker"]);
    let _ready = target.ready_line();
    let waits = |strand: &Strand| {
        let wait = strand.wait.as_ref().filter(|wait| wait.reason == "Atomics.wait");
        wait.is_some_and(|wait| wait.kind == WaitKind::Condition && !wait.ends_by_itself)
            && strand.frames.iter().any(|frame| &*frame.function == "rest")
    };
    let found = (0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        runtime(target.pid(), RuntimeKind::Node).strands.iter().any(waits)
    });
    assert!(found, "{:#?}", runtime(target.pid(), RuntimeKind::Node).strands);
}
