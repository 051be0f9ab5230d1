//! Dumps of real programs, made by gdb: what is said of them, and that stacks are those that gdb shows.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use biopsy_analyze::analyze_dump;
use biopsy_analyze::dump::{DumpAnalysis, DumpFacts};
use biopsy_image::write::{CoreKind, CoreOptions, CoreOutput, NoProgress, write_core};
use biopsy_image::{Limits, Opened, open, open_bytes};
use biopsy_stacks::image::{ImageStacks, Options, walk};
use biopsy_testkit::{Privilege, Program, Survival, TargetProcess, require_all};

const NEEDED: &[Privilege] = &[Privilege::Cc, Privilege::Gdb, Privilege::Ptrace];

struct Dump {
    core: PathBuf,
    opened: Opened,
    stacks: ImageStacks,
    _folder: tempfile::TempDir,
}

/// With the files of this machine.
fn here() -> Options<'static> {
    Options { roots: vec!["/".into()], ..Options::default() }
}

impl Dump {
    fn new(folder: tempfile::TempDir, core: PathBuf) -> Self {
        let opened = open(&core, &Limits::default()).expect("a core of gdb opens");
        let stacks = walk(&*opened.image, &here());
        Self { core, opened, stacks, _folder: folder }
    }

    /// Of a running program.
    fn of(target: &TargetProcess) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let prefix = folder.path().join("core");
        let output = Command::new("gcore")
            .arg("-o")
            .arg(&prefix)
            .arg(target.pid().to_string())
            .output()
            .expect("gcore");
        let core = folder.path().join(format!("core.{}", target.pid()));
        assert!(core.exists(), "gcore: {}", String::from_utf8_lossy(&output.stderr));
        Self::new(folder, core)
    }

    /// Of a program at the signal that it dies of.
    fn of_crash(mode: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let core = folder.path().join("core");
        let output = Command::new("gdb")
            .args(["-q", "-batch", "-nx", "-ex", "handle SIGUSR2 nostop noprint", "-ex", "run", "-ex"])
            .arg(format!("generate-core-file {}", core.display()))
            .args(["-ex", "kill", "--args"])
            .arg(Program::Crashes.path())
            .args([mode, "0"])
            .stdin(Stdio::null())
            .output()
            .expect("gdb");
        assert!(core.exists(), "gdb: {}", String::from_utf8_lossy(&output.stderr));
        Self::new(folder, core)
    }

    fn analyze(&self) -> DumpAnalysis {
        let redact = |text: &str| text.to_owned();
        let facts = DumpFacts { redact: Some(&redact), ..DumpFacts::of(&self.opened) };
        analyze_dump(&*self.opened.image, &self.stacks, &facts)
    }

    /// Each thread with the instruction pointers of its frames, by gdb; frames that are inlined left out.
    fn by_gdb(&self, program: &Path) -> Vec<(u32, Vec<u64>)> {
        const SCRIPT: &str = "
import gdb
gdb.execute('set backtrace past-main on')
gdb.execute('set backtrace past-entry on')
for thread in gdb.selected_inferior().threads():
    thread.switch()
    print('THREAD', thread.ptid[1])
    frame = gdb.newest_frame()
    while frame is not None:
        if frame.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME):
            print('FRAME', hex(frame.pc()))
        frame = frame.older()
";
        let script = self.core.with_extension("py");
        std::fs::write(&script, SCRIPT).expect("a script");
        let output = Command::new("gdb")
            .args(["-q", "-batch", "-nx", "-ex"])
            .arg(format!("source {}", script.display()))
            .arg(program)
            .arg(&self.core)
            .output()
            .expect("gdb");
        let mut threads: Vec<(u32, Vec<u64>)> = Vec::new();
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            match line.split_once(' ') {
                Some(("THREAD", tid)) => threads.push((tid.parse().expect("a thread id"), Vec::new())),
                Some(("FRAME", pc)) => {
                    let pc = u64::from_str_radix(pc.trim_start_matches("0x"), 16).expect("an address");
                    threads.last_mut().expect("a thread comes first").1.push(pc);
                }
                _ => {}
            }
        }
        threads
    }

    fn assert_like_gdb(&self, program: &Path) {
        let theirs = self.by_gdb(program);
        assert!(!theirs.is_empty());
        for (tid, frames) in theirs {
            let ours = self
                .stacks
                .threads
                .iter()
                .find(|stack| stack.tid.0 == tid)
                .expect("every thread has a stack");
            let ours: Vec<u64> = ours.frames.iter().map(|frame| frame.ip.0).collect();
            assert_eq!(ours, frames, "thread {tid}");
        }
    }
}

fn evidence(analysis: &DumpAnalysis, id: &str) -> String {
    let finding = analysis.findings.iter().find(|finding| finding.id.as_str() == id);
    let finding = finding.unwrap_or_else(|| panic!("no `{id}` among {:#?}", analysis.findings));
    let evidence: Vec<&str> = finding.evidence.iter().map(|evidence| evidence.text.as_str()).collect();
    format!("{}\n{}", finding.title, evidence.join("\n"))
}

#[test]
fn a_deadlock_is_told_with_its_functions_and_those_behind_it() {
    if !require_all(NEEDED) {
        return;
    }
    let target = TargetProcess::start(Program::Deadlock, &["abba"]);
    let before = Survival::before(target.pid());
    let dump = Dump::of(&target);
    before.assert_unharmed();
    dump.assert_like_gdb(&Program::Deadlock.path());
    let analysis = dump.analyze();
    let said = evidence(&analysis, "deadlock");
    assert!(said.contains("`take_journal`") && said.contains("`take_accounts`"), "{said}");
    assert!(said.contains("3 threads more wait behind them"), "{said}");
    assert_eq!(analysis.waits.cycles.len(), 1);
}

#[test]
fn each_way_to_wait_for_ever_is_what_it_is() {
    if !require_all(NEEDED) {
        return;
    }
    let analysis = |mode: &str| {
        let target = TargetProcess::start(Program::Deadlock, &[mode]);
        Dump::of(&target).analyze()
    };
    assert_eq!(analysis("ring").waits.cycles.first().map(Vec::len), Some(5));
    assert_eq!(analysis("rwlock").waits.cycles.first().map(Vec::len), Some(2));
    assert_eq!(analysis("self").waits.cycles.first().map(Vec::len), Some(1));
    assert_eq!(analysis("join").waits.cycles.first().map(Vec::len), Some(2));
    let gone = analysis("gone");
    assert!(evidence(&gone, "abandoned-lock").contains("2 threads wait"));
    let none = analysis("none");
    assert!(none.waits.cycles.is_empty() && none.waits.edges.is_empty(), "{:#?}", none.waits);
    let said = evidence(&none, "overview");
    assert!(said.contains("2 wait at a condition, semaphore or other futex"), "{said}");
}

fn assert_crashes(expected: &[(&str, &str, &str)]) {
    if !require_all(NEEDED) {
        return;
    }
    for (mode, id, words) in expected {
        let dump = Dump::of_crash(mode);
        let said = evidence(&dump.analyze(), id);
        assert!(said.contains("`crash_here`"), "{mode}: {said}");
        assert!(said.contains(words), "{mode}: {said}");
    }
}

#[test]
fn bad_pointers_are_told_apart() {
    assert_crashes(&[
        ("null", "null-pointer", "0x18 was read"),
        ("null-write", "null-pointer", "was written"),
        ("guard", "bad-pointer", "guard page"),
        ("wild-jump", "null-pointer", "0x1234 was executed"),
        ("jump-data", "bad-pointer", "cannot be executed"),
        ("read-only", "bad-pointer", "only be read"),
        ("unmapped", "bad-pointer", "not mapped"),
        ("non-canonical", "bad-pointer", "0xdeadbeef"),
        ("freed", "bad-pointer", "`0xdd"),
        ("bus", "bad-pointer", "behind the file's end"),
    ]);
}

#[test]
fn aborts_and_other_signals_are_told_with_their_reason() {
    assert_crashes(&[
        ("assert", "abort", "an order must be there"),
        ("double-free", "abort", "double free"),
        ("double-free", "abort", "the heap is damaged"),
        ("divide", "fatal-signal", "division by zero"),
        ("illegal", "fatal-signal", "illegal instruction"),
        ("trap", "fatal-signal", "breakpoint"),
    ]);
}

#[test]
fn a_stack_overflow_is_told_with_what_recurses() {
    if !require_all(NEEDED) {
        return;
    }
    let dump = Dump::of_crash("stack-overflow");
    let analysis = dump.analyze();
    let said = evidence(&analysis, "stack-overflow");
    assert!(said.contains("`recurse`"), "{said}");
    let group = &analysis.groups[0];
    assert!(group.crashed && group.depth > 10_000, "{}", group.depth);
    assert!(group.frames[0].repeats.0 > 10_000, "{:?}", group.frames[0]);
    let outer: Vec<String> = group.frames.iter().map(|row| row.label()).collect();
    assert!(outer.contains(&"middle_of_work".to_owned()), "the root is reached: {outer:?}");
}

#[test]
fn a_crash_inside_a_signal_handler_has_the_interrupted_code_below() {
    if !require_all(NEEDED) {
        return;
    }
    let dump = Dump::of_crash("handler");
    dump.assert_like_gdb(&Program::Crashes.path());
    let analysis = dump.analyze();
    let rows: Vec<String> = analysis.groups[0].frames.iter().map(|row| row.label()).collect();
    let at = |name: &str| {
        rows.iter().position(|row| row == name).unwrap_or_else(|| panic!("no {name} in {rows:?}"))
    };
    assert!(at("reads_null_in_handler") < at("<signal handler called>"));
    assert!(at("<signal handler called>") < at("crash_here"));
    assert!(analysis.findings[0].title.contains("`reads_null_in_handler`"), "{}", analysis.findings[0].title);
}

#[test]
fn static_and_stripped_programs_have_the_stacks_that_gdb_shows() {
    if !require_all(NEEDED) {
        return;
    }
    let source = include_str!("../../biopsy-testkit/programs/deadlock.c");
    for (name, flags) in
        [("dead-static", &["-O2", "-static"][..]), ("dead-stripped", &["-O2", "-fomit-frame-pointer", "-s"])]
    {
        let program = biopsy_testkit::compile_c(name, source, flags);
        let mut command = Command::new(&program);
        command.arg("abba");
        let target = TargetProcess::spawn(command);
        let dump = Dump::of(&target);
        dump.assert_like_gdb(&program);
        assert_eq!(dump.analyze().waits.cycles.len(), 1, "{name}");
    }
}

/// Each thread with the instruction pointers of its frames.
fn stacks(opened: &Opened) -> Vec<(u32, Vec<u64>)> {
    let mut options = Options::default();
    options.symbols.debug_folders.clear();
    let walked = walk(&*opened.image, &options);
    let one = |stack: &biopsy_stacks::image::ThreadStack| {
        (stack.tid.0, stack.frames.iter().map(|frame| frame.ip.0).collect())
    };
    walked.threads.iter().map(one).collect()
}

/// On another machine there are none of the process's files: what the dump has of them is enough, in all kinds.
#[test]
fn dumps_of_each_kind_have_the_same_stacks_on_another_machine() {
    if !require_all(NEEDED) {
        return;
    }
    let target = TargetProcess::start(Program::Deadlock, &["abba"]);
    // core(5): all mappings, so that gdb writes text and unwind information too.
    std::fs::write(format!("/proc/{}/coredump_filter", target.pid()), "0x7f").expect("the filter is ours");
    let dump = Dump::of(&target);
    let whole = dump.by_gdb(&Program::Deadlock.path());
    let sorted = |mut stacks: Vec<(u32, Vec<u64>)>| {
        stacks.sort_unstable();
        stacks
    };
    let whole = sorted(whole);
    assert_eq!(sorted(stacks(&dump.opened)), whole, "gdb's core");
    for kind in [CoreKind::Full, CoreKind::Heap, CoreKind::Stacks] {
        let mut bytes = Vec::new();
        write_core(&*dump.opened.image, &CoreOptions::new(kind), CoreOutput::Stream(&mut bytes), &NoProgress)
            .expect("the core is written");
        let opened = open_bytes("written", bytes, &Limits::default()).expect("the core opens");
        assert_eq!(sorted(stacks(&opened)), whole, "{kind:?}");
        let analysis = analyze_dump(&*opened.image, &walk(&*opened.image, &here()), &DumpFacts::of(&opened));
        if kind != CoreKind::Stacks {
            assert_eq!(analysis.waits.cycles.len(), 1, "{kind:?}");
        }
    }
}
