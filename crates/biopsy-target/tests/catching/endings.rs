//! Each way a short life can end, by both ways of catching.

use std::time::Duration;

use biopsy_image::Image;
use biopsy_model::Avma;
use biopsy_target::catch::{CatchOn, Cause, Way};
use biopsy_testkit::{Privilege, Survival, require_all};

use super::{has_mark, launcher, next, said, short_lived};

const WAYS: [Way; 2] = [Way::Gate, Way::Parent];
const NEEDED: [Privilege; 3] = [Privilege::Root, Privilege::Ptrace, Privilege::Cc];

/// What the program does; wait status for its parent; why it is held; how many threads.
const ENDINGS: [(&str, i32, Cause, usize); 8] = [
    ("0", 0, Cause::Exit { code: 0 }, 1),
    ("3", 3 << 8, Cause::Exit { code: 3 }, 1),
    ("threads", 7 << 8, Cause::Exit { code: 7 }, 9),
    ("leaver", 8 << 8, Cause::Exit { code: 8 }, 1),
    ("abort", 6, Cause::Signal { signal: 6 }, 1),
    ("null", 11, Cause::Signal { signal: 11 }, 1),
    ("kill", 9, Cause::Killed { signal: 9 }, 1),
    ("caught", 9 << 8, Cause::Exit { code: 9 }, 1),
];

#[test]
fn each_ending_is_held_with_all_memory_and_the_parent_learns_the_same() {
    if !require_all(&NEEDED) {
        return;
    }
    for way in WAYS {
        let (mut parent, mut catcher) = launcher(way, CatchOn::EXIT);
        let survival = Survival::before(parent.pid()).threads_may_change().files_may_change();
        for (mode, status, cause, threads) in ENDINGS {
            parent.say(&format!("1 0 {status} {} {mode}", short_lived()));
            let caught = next(&mut catcher);
            assert_eq!(caught.cause(), cause, "{way:?} {mode}");
            assert_eq!(caught.threads().len(), threads, "{way:?} {mode}: {:?}", caught.warnings());
            for thread in caught.threads() {
                let registers = thread.registers.expect("it stands still");
                assert!(caught.mappings().iter().any(|one| one.contains(registers.rsp)), "{way:?} {mode}");
                assert!(thread.extended.len() >= 512, "{way:?} {mode}");
            }
            assert!(has_mark(&caught), "{way:?} {mode}: its memory is not there");
            assert!(
                caught.modules().iter().any(|module| module.path.ends_with(b"short-lived") && module.is_elf)
            );
            assert_eq!(parent.next_line(Duration::from_millis(50)), None, "its parent waits");
            let signal = caught.threads()[0].signal.clone();
            assert_eq!(signal.as_ref().map(|signal| signal.number), caught.signal(), "{way:?} {mode}");
            if mode == "null" {
                assert_eq!(signal.and_then(|signal| signal.address), Some(Avma(16)));
            }
            caught.release();
            let done = said(&parent, "DONE");
            assert!(done.starts_with("DONE as-expected 1 of 1"), "{way:?} {mode}: {done}");
        }
        let statistics = catcher.statistics();
        assert_eq!(statistics.missed, 0, "{:?}", statistics.notes);
        catcher.finish();
        survival.assert_unharmed();
        parent.stop();
    }
}

#[test]
fn a_program_that_executes_itself_is_one_life() {
    if !require_all(&NEEDED) {
        return;
    }
    for way in WAYS {
        let (mut parent, mut catcher) = launcher(way, CatchOn::EXIT);
        parent.say(&format!("1 0 {} {} again", 11 << 8, short_lived()));
        let caught = next(&mut catcher);
        assert_eq!(caught.cause(), Cause::Exit { code: 11 });
        drop(caught);
        assert!(said(&parent, "DONE").starts_with("DONE as-expected 1 of 1"));
        catcher.finish();
        parent.stop();
    }
}

#[test]
fn only_what_was_asked_for_is_held() {
    if !require_all(&NEEDED) {
        return;
    }
    for way in WAYS {
        let (mut parent, mut catcher) = launcher(way, CatchOn::FAILURE);
        parent.say(&format!("3 0 0 {} 0", short_lived()));
        assert!(said(&parent, "DONE").starts_with("DONE as-expected 3 of 3"));
        parent.say("1 0 256 /bin/false");
        assert!(
            said(&parent, "DONE").starts_with("DONE as-expected 1 of 1"),
            "another program is left alone"
        );
        assert!(catcher.next(Duration::ZERO).unwrap().is_none(), "nothing has failed");
        parent.say(&format!("1 0 512 {} 2", short_lived()));
        assert_eq!(next(&mut catcher).exit_code(), Some(2));
        assert!(said(&parent, "DONE").starts_with("DONE as-expected 1 of 1"));
        catcher.finish();

        let (mut other, mut catcher) = launcher(way, CatchOn::CRASH);
        other.say(&format!("1 0 512 {} 2", short_lived()));
        assert!(said(&other, "DONE").starts_with("DONE as-expected 1 of 1"));
        assert!(catcher.next(Duration::ZERO).unwrap().is_none(), "an exit is no crash");
        catcher.finish();
        parent.stop();
        other.stop();
    }
}

#[test]
fn after_a_time_it_is_held_in_the_middle_of_its_work_and_goes_on() {
    if !require_all(&NEEDED) {
        return;
    }
    for way in WAYS {
        let on = CatchOn { after: Some(Duration::from_millis(100)), ..CatchOn::default() };
        let (mut parent, mut catcher) = launcher(way, on);
        parent.say(&format!("1 0 0 {} sleep 1500", short_lived()));
        let caught = next(&mut catcher);
        assert_eq!(caught.cause(), Cause::Time);
        assert_eq!(caught.threads().len(), 1);
        assert!(has_mark(&caught));
        caught.release();
        assert!(said(&parent, "DONE").starts_with("DONE as-expected 1 of 1"));
        catcher.finish();
        parent.stop();
    }
}

#[test]
fn a_script_answers_to_its_own_name() {
    if !require_all(&NEEDED) {
        return;
    }
    let folder = biopsy_testkit::temp_dir("script");
    let script = folder.path().join("short-lived");
    std::fs::write(&script, "#!/bin/sh\nexit 5\n").unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for way in WAYS {
        let (mut parent, mut catcher) = launcher(way, CatchOn::EXIT);
        parent.say(&format!("1 0 {} {}", 5 << 8, script.display()));
        let caught = next(&mut catcher);
        assert_eq!(caught.exit_code(), Some(5));
        drop(caught);
        assert!(said(&parent, "DONE").starts_with("DONE as-expected 1 of 1"));
        catcher.finish();
        parent.stop();
    }
}
