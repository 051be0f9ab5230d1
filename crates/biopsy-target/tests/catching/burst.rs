//! Many short lives on a busy machine: none is lost.

use biopsy_target::catch::{CatchOn, CatchOptions, Catcher, Way};
use biopsy_testkit::{Privilege, Program, Survival, TargetProcess, require_all};

use super::{has_mark, key, launcher, next, said, short_lived};

const NEEDED: [Privilege; 3] = [Privilege::Root, Privilege::Ptrace, Privilege::Cc];

fn two_hundred(way: Way) {
    if !require_all(&NEEDED) {
        return;
    }
    let mut load = TargetProcess::start(Program::BusyLoop, &["2"]);
    let (mut parent, mut catcher) = launcher(way, CatchOn::EXIT);
    let survival = Survival::before(parent.pid()).threads_may_change().files_may_change();
    parent.say(&format!("200 2000 0 {} 0", short_lived()));
    for number in 0..200 {
        let caught = next(&mut catcher);
        assert_eq!(caught.exit_code(), Some(0));
        assert!(has_mark(&caught), "the memory of number {number} is not there");
    }
    assert!(said(&parent, "DONE").starts_with("DONE as-expected 200 of 200"));
    // All at once: what has no place among the held ones waits.
    parent.say(&format!("-40 0 0 {} 0", short_lived()));
    for number in 0..40 {
        assert!(has_mark(&next(&mut catcher)), "the memory of number {number} at once is not there");
    }
    assert!(said(&parent, "DONE").starts_with("DONE as-expected 40 of 40"));
    let statistics = catcher.statistics();
    assert_eq!((statistics.followed, statistics.caught, statistics.missed), (240, 240, 0), "{statistics:?}");
    catcher.finish();
    survival.assert_unharmed();
    parent.stop();
    load.stop();
}

#[test]
fn two_hundred_of_two_hundred_at_the_gate() {
    two_hundred(Way::Gate);
}

#[test]
fn two_hundred_of_two_hundred_by_the_parent() {
    two_hundred(Way::Parent);
}

#[test]
fn what_is_beyond_the_bounds_is_let_go_and_counted() {
    if !require_all(&NEEDED) {
        return;
    }
    let mut parent = TargetProcess::start(Program::Launcher, &[]);
    let mut options = CatchOptions::new("short-lived", CatchOn::EXIT).below(key(parent.pid()));
    (options.max_held, options.max_waiting) = (1, 2);
    let mut catcher = Catcher::new(&options).unwrap();
    parent.say(&format!("-8 0 0 {} 0", short_lived()));
    let first = next(&mut catcher);
    super::until("five are missed", || catcher.statistics().missed == 5);
    drop(first);
    drop(next(&mut catcher));
    drop(next(&mut catcher));
    assert!(said(&parent, "DONE").starts_with("DONE as-expected 8 of 8"));
    catcher.finish();
    parent.stop();
}
