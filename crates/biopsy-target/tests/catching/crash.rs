//! Following a process to its crash.

use std::time::Duration;

use biopsy_image::Image;
use biopsy_model::Avma;
use biopsy_target::catch::{CatchOn, Caught, Cause, Followed, Follower};
use biopsy_testkit::{GrandChild, Privilege, Program, Signal, Survival, require_all};

use super::{LONG, key};

const NEEDED: [Privilege; 2] = [Privilege::Ptrace, Privilege::Cc];

fn follow(target: &GrandChild, on: CatchOn) -> Follower {
    Follower::new(&key(target.pid()), on, Duration::from_secs(60)).unwrap()
}

fn caught(follower: &mut Follower) -> Box<Caught> {
    match follower.next(LONG).unwrap() {
        Followed::Caught(caught) => caught,
        other => panic!("{other:?}"),
    }
}

/// The program crashes when it is told; its wait status as its parent sees it, without the bit for a core dump.
fn crash(mode: &str, follows: bool) -> i32 {
    let mut target = GrandChild::start(Program::Crashes, &[mode]);
    let follower = follows.then(|| follow(&target, CatchOn::CRASH));
    target.tell();
    if let Some(mut follower) = follower {
        let held = caught(&mut follower);
        assert_eq!(target.ended(Duration::from_millis(50)), None, "it is held before its end");
        check_image(&held, mode);
        assert_eq!(held.key().pid.0, target.pid());
        let Cause::Signal { signal } = held.cause() else { panic!("{mode}: {:?}", held.cause()) };
        held.release();
        let status = target.ended(LONG).expect("it crashes");
        assert_eq!(status, signal, "{mode}");
        return status;
    }
    target.ended(LONG).expect("it crashes")
}

fn check_image(held: &Caught, mode: &str) {
    assert!(held.warnings().is_empty(), "{mode}: {:?}", held.warnings());
    let threads = held.threads();
    assert!(threads.len() >= 2, "{mode}: all threads are alive");
    let signal = threads[0].signal.as_ref().expect("the first thread is the one");
    assert_eq!(signal.info.as_ref().map(Vec::len), Some(128));
    assert!(threads.iter().skip(1).all(|thread| thread.signal.is_none()));
    assert!(threads.iter().all(|thread| thread.registers.is_some()));
    assert_eq!(threads[0].name.as_deref(), Some(&b"worker"[..]), "{mode}");
    if mode == "null" {
        assert_eq!(signal.address, Some(Avma(24)));
    }
}

#[test]
fn the_parent_learns_the_same_with_and_without_us() {
    if !require_all(&NEEDED) {
        return;
    }
    for mode in ["null", "stack-overflow", "abort", "divide", "illegal", "trap", "bus", "handler"] {
        let without = crash(mode, false);
        assert_eq!(crash(mode, true), without, "{mode}");
        assert!((1..64).contains(&without), "{mode}");
    }
}

/// The first handler that runs takes itself away: what the others stand at then ends the process, wherever they are.
#[test]
fn threads_that_fault_at_once_are_told_by_a_fault() {
    if !require_all(&NEEDED) {
        return;
    }
    for round in 0..20 {
        let mut target = GrandChild::start(Program::Crashes, &["together"]);
        let mut follower = follow(&target, CatchOn::CRASH);
        target.tell();
        let held = caught(&mut follower);
        let cause = held.cause();
        assert!(matches!(cause, Cause::Signal { signal: 11 } | Cause::Killed { signal: 11 }), "{cause}");
        let faults: Vec<_> = held.threads().iter().filter_map(|thread| thread.signal.as_ref()).collect();
        assert!(!faults.is_empty(), "round {round}, {cause}: which thread it was is lost");
        assert!(
            faults.iter().all(|fault| fault.number == 11 && fault.address == Some(Avma(24))),
            "{faults:?}"
        );
        held.release();
        assert_eq!(target.ended(LONG), Some(11));
    }
}

#[test]
fn an_end_without_a_crash_is_only_told() {
    if !require_all(&NEEDED) {
        return;
    }
    let mut target = GrandChild::start(Program::Idle, &[]);
    let mut follower = follow(&target, CatchOn::CRASH);
    target.close();
    assert!(matches!(follower.next(LONG).unwrap(), Followed::Ended(ended) if ended.status == Some(0)));
    assert!(matches!(follower.next(LONG).unwrap(), Followed::Ended(_)), "and again");
}

#[test]
fn a_signal_from_outside_that_ends_it_is_held_too() {
    if !require_all(&NEEDED) {
        return;
    }
    let mut target = GrandChild::start(Program::BusyLoop, &["3"]);
    let mut follower = follow(&target, CatchOn::CRASH);
    target.signal(Signal::QUIT);
    let held = caught(&mut follower);
    assert_eq!(held.cause(), Cause::Signal { signal: 3 });
    assert_eq!(held.threads().len(), 4);
    assert!(held.threads().iter().all(|thread| thread.registers.is_some()));
    held.release();
    assert_eq!(target.ended(LONG), Some(3));
}

#[test]
fn threads_that_start_and_end_are_followed() {
    if !require_all(&NEEDED) {
        return;
    }
    let mut target = GrandChild::start(Program::RunawayThreads, &["60"]);
    let mut follower = follow(&target, CatchOn::CRASH);
    assert!(matches!(follower.next(Duration::from_secs(1)).unwrap(), Followed::Nothing));
    target.signal(Signal::ABORT);
    let held = caught(&mut follower);
    let tasks = std::fs::read_dir(format!("/proc/{}/task", target.pid())).unwrap().count();
    assert_eq!(held.threads().len(), tasks);
    assert!(tasks > 5, "it starts twenty a second");
    held.release();
    assert_eq!(target.ended(LONG), Some(6));
}

#[test]
fn signals_and_job_control_are_left_as_they_are() {
    if !require_all(&NEEDED) {
        return;
    }
    let mut target = GrandChild::start(Program::BusyLoop, &["2"]);
    let survival = Survival::before(target.pid());
    let mut follower = follow(&target, CatchOn::CRASH);
    for _ in 0..200 {
        // Ignored by default, and seen by a tracer all the same.
        target.signal(Signal::WINCH);
        target.signal(Signal::CHILD);
    }
    target.signal(Signal::STOP);
    super::until("it is stopped", || state(target.pid()) == 't');
    assert!(matches!(follower.next(Duration::from_millis(300)).unwrap(), Followed::Nothing));
    assert_eq!(state(target.pid()), 't', "it stays stopped");
    target.signal(Signal::CONT);
    super::until("it goes on", || state(target.pid()) != 't');
    assert!(follower.statistics().signals_passed >= 2);
    follower.finish();
    survival.assert_unharmed();
    target.close();
    assert_eq!(target.ended(LONG), Some(0));
}

#[test]
fn a_process_that_is_stopped_stays_stopped_when_we_leave() {
    if !require_all(&NEEDED) {
        return;
    }
    let mut target = GrandChild::start(Program::Idle, &[]);
    let follower = follow(&target, CatchOn::CRASH);
    target.signal(Signal::STOP);
    super::until("it is stopped", || state(target.pid()) == 't');
    follower.finish();
    super::until("it is stopped, and untraced", || state(target.pid()) == 'T');
    target.signal(Signal::CONT);
    target.close();
    assert_eq!(target.ended(LONG), Some(0));
}

/// State letter of a process.
fn state(pid: u32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
}
