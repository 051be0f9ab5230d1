//! Each trigger fires on a sick program, and not before it is sick.

#![allow(clippy::disallowed_methods, reason = "tests open what they wrote, and files of proc")]

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use biopsy_image::Image;
use biopsy_model::{Pid, ProcessKey};
use biopsy_record::triggers::{Fired, Trigger, Watch, WatchEnd, WatchError, WatchOptions, Watched, wait_for};
use biopsy_target::identity::key_of;
use biopsy_target::{ProcRoot, Selector};
use biopsy_testkit::{GrandChild, Privilege, Program, Signal, Survival, TempDir, require, require_all};

const LONG: Duration = Duration::from_secs(20);
/// Long enough for several readings.
const A_WHILE: Duration = Duration::from_millis(1200);

fn key(pid: u32) -> ProcessKey {
    key_of(&ProcRoot::live(), Pid(pid)).expect("the process is there")
}

fn options() -> WatchOptions {
    WatchOptions { interval: Some(Duration::from_millis(100)), ..WatchOptions::default() }
}

fn watch(pid: u32, triggers: &[&str], options: WatchOptions) -> Watch {
    let triggers = triggers.iter().map(|text| Trigger::parse(text).unwrap()).collect();
    Watch::new(&key(pid), triggers, options).unwrap()
}

/// A shell that does `script` when it is told to go on. The folder holds the script.
fn shell(script: &str) -> (GrandChild, TempDir) {
    shell_after(":", script)
}

/// As [`shell`], with something to do before it says READY.
fn shell_after(first: &str, script: &str) -> (GrandChild, TempDir) {
    let folder = biopsy_testkit::temp_dir("script");
    let path = folder.path().join("script");
    std::fs::write(&path, format!("{first}; echo READY $$; read go; {script}; read rest\n")).unwrap();
    let mut child = GrandChild::spawn("/bin/sh", &[path.to_str().unwrap()]);
    child.wait_until_ready();
    (child, folder)
}

/// What happens until `time` is over.
fn within(watch: &mut Watch, stop: &Arc<AtomicBool>, time: Duration) -> Watched {
    let begun = Instant::now();
    let is_over = Arc::clone(stop);
    let timer = std::thread::spawn(move || {
        while begun.elapsed() < time && !is_over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(10));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let watched = watch.next().unwrap();
    stop.store(true, Ordering::Relaxed);
    timer.join().unwrap();
    stop.store(false, Ordering::Relaxed);
    watched
}

/// Nothing fires while the program is well; then it is told to fall ill, and the trigger fires.
#[track_caller]
fn fires_once_ill(target: &mut GrandChild, trigger: &str, fall_ill: impl FnOnce(&mut GrandChild)) -> Fired {
    let survival = Survival::before(target.pid()).threads_may_change().files_may_change();
    let before_all = command_line(target.pid());
    let well = options();
    let mut before = watch(target.pid(), &[trigger], well.clone());
    let watched = within(&mut before, &well.stop, A_WHILE);
    assert!(matches!(watched, Watched::Ended(WatchEnd::Stopped)), "`{trigger}` fired too early: {watched:?}");
    let ill = options();
    let mut after = watch(target.pid(), &[trigger], ill.clone());
    fall_ill(target);
    let watched = within(&mut after, &ill.stop, LONG);
    let Watched::Fired(fired) = watched else { panic!("`{trigger}` did not fire: {watched:?}") };
    assert_eq!(fired.trigger.to_string(), trigger);
    assert!(matches!(after.next().unwrap(), Watched::Ended(WatchEnd::Done | WatchEnd::ProcessEnded { .. })));
    // What became another program by itself is not what it was.
    let is_the_same = command_line(target.pid()) == before_all;
    if fired.caught.is_none() && is_the_same {
        survival.assert_unharmed();
    }
    *fired
}

fn command_line(pid: u32) -> Vec<u8> {
    std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()
}

fn go(target: &mut GrandChild) {
    target.tell();
}

#[test]
fn cpu() {
    let (mut target, _folder) = shell("while :; do :; done");
    let fired = fires_once_ill(&mut target, "cpu>20%:500ms", go);
    assert!(fired.value.unwrap() > 20.0);
    assert!(fired.reason.starts_with("CPU > 20% for 500ms, last "), "{}", fired.reason);
}

#[test]
fn descriptors() {
    let (mut target, _folder) =
        shell("exec 3</dev/null 4</dev/null 5</dev/null 6</dev/null 7</dev/null 8</dev/null");
    let fired = fires_once_ill(&mut target, "fds>8", go);
    assert!(fired.value.unwrap() > 8.0);
}

#[test]
fn threads_and_memory() {
    if !require(Privilege::Cc) {
        return;
    }
    for (program, trigger) in [(Program::RunawayThreads, "threads>30"), (Program::MemoryGrowth, "memory>30M")]
    {
        let target = GrandChild::start(program, &["100"]);
        let mut watch = watch(target.pid(), &[trigger], options());
        let Watched::Fired(fired) = watch.next().unwrap() else { panic!("`{trigger}` did not fire") };
        let bound = if program == Program::MemoryGrowth { 30.0 * 1024.0 * 1024.0 } else { 30.0 };
        let value = fired.value.unwrap();
        // It grows by twenty threads or ten megabytes a second: the first reading above the bound is not far above.
        assert!(value > bound && value < bound * 2.5, "{}", fired.reason);
    }
}

#[test]
fn hang_by_a_lock() {
    if !require(Privilege::Ptrace) {
        return;
    }
    let folder = biopsy_testkit::temp_dir("hang");
    let lock = folder.path().join("lock");
    // Without a fork: what is ended below is what holds the lock.
    let mut holder = Command::new("flock").arg("--no-fork").arg(&lock).args(["sleep", "60"]).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let (mut target, _folder) = shell(&format!("exec flock {} true", lock.display()));
    let fired = fires_once_ill(&mut target, "hang:1s", go);
    // Which of the two it is depends on whether the shell was seen while it read its next command.
    let reasons = [
        "all 1 threads wait for locks of the process itself",
        "(`flock`) used to wait for events and waits for a lock instead",
    ];
    assert!(fired.reason.starts_with("nothing moved for 1s: "), "{}", fired.reason);
    assert!(reasons.iter().any(|reason| fired.reason.ends_with(reason)), "{}", fired.reason);
    holder.kill().unwrap();
    holder.wait().unwrap();
}

/// The main thread goes on reading, as a server would: only two of its threads are stuck, and others behind them.
#[test]
fn hang_of_some_threads_while_the_rest_goes_on() {
    if !require_all(&[Privilege::Ptrace, Privilege::Cc]) {
        return;
    }
    for (how, why) in [
        ("abba", "2 threads wait for locks of each other: thread "),
        ("ring", "5 threads wait for locks of each other: thread "),
        ("self", "waits for a lock that it holds itself"),
        ("none", ""),
    ] {
        let mut target = GrandChild::start(Program::Deadlock, &[how]);
        let survival = Survival::before(target.pid());
        let options = options();
        let mut watch = watch(target.pid(), &["hang:500ms"], options.clone());
        let time = if why.is_empty() { A_WHILE * 2 } else { LONG };
        let watched = within(&mut watch, &options.stop, time);
        match watched {
            Watched::Fired(fired) => {
                assert!(!why.is_empty() && fired.reason.contains(why), "{how}: {}", fired.reason);
            }
            other => assert!(why.is_empty(), "{how}: {other:?}"),
        }
        survival.assert_unharmed();
        target.close();
    }
}

#[test]
fn hang_by_a_stop() {
    let (mut target, _folder) = shell(":");
    let survival = Survival::before(target.pid());
    let fired_at_stop = {
        let options = options();
        let mut watch = watch(target.pid(), &["hang:1s"], options.clone());
        target.signal(Signal::STOP);
        within(&mut watch, &options.stop, LONG)
    };
    target.signal(Signal::CONT);
    let Watched::Fired(fired) = fired_at_stop else { panic!("{fired_at_stop:?}") };
    assert!(fired.reason.ends_with("is stopped"), "{}", fired.reason);
    while std::fs::read_to_string(format!("/proc/{}/stat", target.pid())).unwrap().contains(") T ") {
        std::thread::yield_now();
    }
    survival.assert_unharmed();
    target.close();
}

#[test]
fn lines_of_a_file_and_of_stderr() {
    let folder = biopsy_testkit::temp_dir("log");
    let log = folder.path().join("log");
    std::fs::write(&log, "ERROR of yesterday\n").unwrap();
    let trigger = format!("log:{}:ERROR [0-9]+", log.display());
    let (mut target, _folder) =
        shell(&format!("echo 'all is well' >> {0}; echo 'ERROR 17' >> {0}", log.display()));
    let fired = fires_once_ill(&mut target, &trigger, go);
    assert_eq!(fired.line.as_deref(), Some(&b"ERROR 17"[..]));

    let (mut target, _folder) = shell_after(&format!("exec 2>> {}", log.display()), "echo ERROR 18 >&2");
    let fired = fires_once_ill(&mut target, "log:ERROR 18", go);
    assert_eq!(fired.line.as_deref(), Some(&b"ERROR 18"[..]));

    let (target, _folder) = shell(":");
    let error =
        Watch::new(&key(target.pid()), vec![Trigger::parse("log:x").unwrap()], options()).unwrap_err();
    assert!(matches!(error, WatchError::NoOutputFile { .. }));
    assert!(error.hint().is_some());
}

#[test]
fn a_crash_is_held_and_ends_as_it_would_have() {
    if !require_all(&[Privilege::Ptrace, Privilege::Cc]) {
        return;
    }
    let mut target = GrandChild::start(Program::Crashes, &["null"]);
    let fired = fires_once_ill(&mut target, "crash", go);
    assert_eq!(fired.reason, "SIGSEGV is about to end it");
    let caught = fired.caught.expect("it is held");
    assert_eq!(target.ended(Duration::from_millis(50)), None);
    assert!(caught.threads().len() >= 2);
    drop(caught);
    assert_eq!(target.ended(LONG), Some(11));
}

#[test]
fn ends_are_held() {
    if !require(Privilege::Ptrace) {
        return;
    }
    for (trigger, script, code) in [("exit", "exit 0", 0), ("exit!=0", "exit 3", 3), ("exit", "exit 4", 4)] {
        let (mut target, _folder) = shell(script);
        let fired = fires_once_ill(&mut target, trigger, go);
        let caught = fired.caught.expect("it is held");
        assert_eq!(caught.exit_code(), Some(code));
        assert_eq!(target.ended(Duration::from_millis(50)), None);
        drop(caught);
        assert_eq!(target.ended(LONG), Some(code << 8));
    }
    let (mut target, _folder) = shell("exit 0");
    let mut watch = watch(target.pid(), &["exit!=0"], options());
    target.tell();
    assert!(matches!(watch.next().unwrap(), Watched::Ended(WatchEnd::ProcessEnded { status: Some(0) })));
}

#[test]
fn the_process_is_untraced_when_another_trigger_than_a_crash_fired() {
    if !require(Privilege::Ptrace) {
        return;
    }
    let (mut target, _folder) = shell(":");
    let survival = Survival::before(target.pid());
    let options = WatchOptions { count: Some(3), ..options() };
    let mut watch = watch(target.pid(), &["crash", "after:300ms"], options);
    for _ in 0..2 {
        let Watched::Fired(fired) = watch.next().unwrap() else { panic!("it did not fire") };
        assert_eq!(fired.trigger, Trigger::parse("after:300ms").unwrap());
        survival.assert_unharmed();
    }
    // And followed again.
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| watch.next().unwrap());
        target.signal(Signal::QUIT);
        let fired = waiting.join().unwrap();
        // Whether the signal or the time came first; a signal that came between is the end.
        assert!(
            matches!(fired, Watched::Fired(_) | Watched::Ended(WatchEnd::ProcessEnded { .. })),
            "{fired:?}"
        );
    });
    assert_eq!(target.ended(LONG), Some(3));
}

#[test]
fn the_watch_ends_with_the_process_and_goes_on_over_exec() {
    if !require(Privilege::Cc) {
        return;
    }
    let mut target = GrandChild::start(Program::ExecsMidway, &["300"]);
    let mut watch_cpu = watch(target.pid(), &["cpu>30%:2s"], options());
    assert!(matches!(watch_cpu.next().unwrap(), Watched::Fired(_)), "one program after the other is busy");
    let mut watch_memory = watch(target.pid(), &["memory>100G"], options());
    target.close();
    assert!(matches!(watch_memory.next().unwrap(), Watched::Ended(WatchEnd::ProcessEnded { .. })));
}

#[test]
fn waiting_for_a_process_that_does_not_run_yet() {
    let name = format!("biopsy-waits-{}", std::process::id());
    let folder = biopsy_testkit::temp_dir("wait");
    let program = folder.path().join(&name);
    std::fs::copy("/bin/sleep", &program).unwrap();
    let stop = AtomicBool::new(false);
    let selector = Selector::parse(&name).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| wait_for(&selector, Duration::from_millis(50), &stop).unwrap());
        std::thread::sleep(Duration::from_millis(200));
        assert!(!waiting.is_finished());
        let mut child = Command::new(&program).arg("60").spawn().unwrap();
        let found = waiting.join().unwrap().expect("it was not told to stop");
        assert_eq!(found.info.key.pid, Pid(child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
    });
    stop.store(true, Ordering::Relaxed);
    assert!(wait_for(&selector, Duration::from_millis(50), &stop).unwrap().is_none());
}
