//! The gate closes whatever the process that has it does meanwhile: at a gate that is open and served by nobody, no program of
//! the machine starts any more.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use biopsy_target::catch::{CatchOn, CatchOptions, Catcher, Way};
use biopsy_testkit::{Privilege, require_all};

use super::key;

const NEEDED: [Privilege; 2] = [Privilege::Root, Privilege::Ptrace];

fn at_the_gate() -> Catcher {
    let options = CatchOptions::new("another-name", CatchOn::EXIT).below(key(std::process::id()));
    Catcher::new(&CatchOptions { way: Way::Gate, ..options }).unwrap()
}

/// Places of the descriptors in a folder like `/proc/self/fd`.
fn places(folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().filter_map(Result::ok);
    let links = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    links.map(|link| link.to_string_lossy().into_owned()).collect()
}

fn gates(folder: &str) -> usize {
    places(folder).iter().filter(|place| place.contains("fanotify")).count()
}

#[test]
fn one_thread_alone_has_the_gate_open() {
    if !require_all(&NEEDED) {
        return;
    }
    let descriptors = places("/proc/self/fd").len();
    let catcher = at_the_gate();
    assert_eq!(gates("/proc/self/fd"), 0, "a child would have a copy");
    let mut keepers = 0;
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        let task = task.unwrap().path().display().to_string();
        if gates(&format!("{task}/fd")) > 0 {
            keepers += 1;
            let name = std::fs::read_to_string(format!("{task}/comm")).unwrap();
            assert_eq!(name.trim(), "launch-gate");
            // Standard streams, the gate, and what wakes it; for a moment a program that somebody starts, too.
            super::until("it has nothing else", || places(&format!("{task}/fd")).len() <= 5);
        }
    }
    assert_eq!(keepers, 1);
    catcher.finish();
    // Threads that only looked end a moment later.
    super::until("everything is closed", || places("/proc/self/fd").len() <= descriptors);
}

#[test]
fn it_closes_while_this_process_starts_programs() {
    if !require_all(&NEEDED) {
        return;
    }
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let starter = scope.spawn(|| {
            let mut started = 0;
            while !ends.load(Ordering::Relaxed) {
                let status = Command::new("/bin/true").stdin(Stdio::null()).status().unwrap();
                assert!(status.success());
                started += 1;
            }
            started
        });
        for _ in 0..50 {
            drop(at_the_gate());
        }
        ends.store(true, Ordering::Relaxed);
        assert!(starter.join().unwrap() > 0);
    });
}
