//! What processes of known truth wait for in each other.

use std::process::Command;
use std::time::{Duration, Instant};

use biopsy_model::Pid;
use biopsy_model::peers::{PeerObject, PeerWait};
use biopsy_target::peers;
use biopsy_testkit::{Privilege, TargetProcess, compile_c, require_all};

const NEEDED: &[Privilege] = &[Privilege::Cc, Privilege::Ptrace];
const SOURCE: &str = include_str!("../../biopsy-testkit/programs/across.c");

/// A program and its child; ends itself by the signal that makes it clean up.
struct Two {
    target: TargetProcess,
    child: Pid,
    _folder: tempfile::TempDir,
}

impl Two {
    fn start(mode: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = Command::new(compile_c("across", SOURCE, &["-O2"]));
        command.arg(mode).arg(folder.path().join("locked"));
        let target = TargetProcess::spawn(command);
        let child = target.ready_line().split_ascii_whitespace().nth(2).and_then(|word| word.parse().ok());
        Self { target, child: Pid(child.expect("READY PID CHILD")), _folder: folder }
    }

    fn parent(&self) -> Pid {
        Pid(self.target.pid())
    }

    /// What the only thread that waits for others in `pid` waits for, once it does.
    fn wait_of(&self, pid: Pid) -> PeerWait {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            let look = peers::look(pid);
            let waits = look.processes.first().into_iter().flat_map(|process| &process.threads);
            if let Some(wait) = waits.filter_map(|thread| thread.wait.clone()).next() {
                return wait;
            }
            assert!(Instant::now() < until, "process {pid} waits for nobody: {look:#?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Two {
    fn drop(&mut self) {
        self.target.signal(biopsy_testkit::Signal::TERM);
        self.target.wait_for_exit(Duration::from_secs(10));
    }
}

/// Who waits at what for whom: of the parent, and of the child.
#[test]
fn each_wait_names_the_process_that_could_end_it() {
    if !require_all(NEEDED) {
        return;
    }
    use PeerObject::{Child, FileLock, PipeData, PipeRoom, Semaphore, SharedLock, Socket};
    type Case = (&'static str, Option<PeerObject>, Option<PeerObject>);
    let cases: &[Case] = &[
        ("pipes", Some(PipeRoom), Some(PipeRoom)),
        ("unix", Some(Socket), Some(Socket)),
        ("tcp", Some(Socket), Some(Socket)),
        ("flock", None, Some(FileLock)),
        ("fcntl", None, Some(FileLock)),
        ("ofd", None, Some(FileLock)),
        ("child", Some(Child), Some(PipeData)),
        ("unread", Some(Child), Some(PipeRoom)),
        ("sysv", None, Some(Semaphore)),
        ("shared", None, Some(SharedLock)),
        ("asleep", Some(Child), None),
    ];
    for (mode, of_parent, of_child) in cases {
        let two = Two::start(mode);
        for (pid, object, other) in
            [(two.parent(), of_parent, two.child), (two.child, of_child, two.parent())]
        {
            let Some(object) = object else { continue };
            let wait = two.wait_of(pid);
            assert_eq!(wait.object, *object, "{mode}: {wait:?}");
            assert_eq!(wait.helpers, [other], "{mode}: {wait:?}");
            assert!(!wait.timed, "{mode}");
        }
    }
}

#[test]
fn a_reader_with_the_only_writing_end_is_its_own_help() {
    if !require_all(NEEDED) {
        return;
    }
    let two = Two::start("own-end");
    assert_eq!(two.wait_of(two.parent()).helpers, [two.parent()]);
}

#[test]
fn processes_that_are_waited_for_are_looked_at_too() {
    if !require_all(NEEDED) {
        return;
    }
    let two = Two::start("unread");
    two.wait_of(two.child);
    two.wait_of(two.parent());
    let look = peers::look(two.parent());
    let pids: Vec<Pid> = look.processes.iter().map(|process| process.pid).collect();
    assert_eq!(pids, [two.parent(), two.child]);
}
