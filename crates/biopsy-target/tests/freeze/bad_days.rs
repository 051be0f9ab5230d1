//! What can go wrong: the target ends, is stopped, is traced, may not fork, has signals, waits in the kernel.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use biopsy_image::Image;
use biopsy_target::freeze::{FreezeError, Stage};
use biopsy_testkit::{Program, Signal, Survival, TargetProcess, compile_c, send_signal};

use crate::support::{
    alone, assert_intact, assert_untraced, at_stages, children, freeze_once, frozen, options, ready,
    start_registers, state, try_freeze, wait_until,
};

/// Killed and waited for in any case.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn target_ends_at_every_stage() {
    let _one = alone();
    if !ready() {
        return;
    }
    for fatal in Stage::ALL {
        let mut target = Killed(
            Program::Registers
                .command()
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .spawn()
                .expect("compiled"),
        );
        let pid = target.0.id();
        wait_for_threads(pid, 7);
        let options = at_stages(move |stage| {
            if stage == *fatal {
                send_signal(pid, Signal::KILL);
            }
        });
        match try_freeze(&[pid], &options) {
            // Frozen before its end. The copy ends with it: what was not read by then is missing.
            Ok(all) => {
                assert!(*fatal >= Stage::MiddleMade, "{fatal:?}");
                for one in all {
                    assert!(!one.mappings().is_empty(), "{fatal:?}");
                    one.release();
                }
            }
            Err(error) => {
                let told = matches!(
                    error,
                    FreezeError::Ended { .. }
                        | FreezeError::NotStopped { .. }
                        | FreezeError::NoSafeThread { .. }
                        | FreezeError::NoGadget { .. }
                        | FreezeError::Step { .. }
                        | FreezeError::ForkRefused { .. }
                );
                assert!(told, "{fatal:?}: {error:?}");
            }
        }
        let status = target.0.wait().expect("it was started");
        assert!(!status.success(), "{fatal:?}");
    }
}

fn wait_for_threads(pid: u32, count: usize) {
    let started = || std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count) >= count;
    wait_until(&format!("process {pid} starts its threads"), started);
}

#[test]
fn threads_that_are_born_and_end_in_the_window() {
    let _one = alone();
    if !ready() {
        return;
    }
    let program = compile_c("thread-storm", STORM, &["-O1"]);
    let mut target = TargetProcess::spawn(Command::new(program));
    for _ in 0..30 {
        let one = frozen(target.pid(), &options());
        assert!(!one.threads().is_empty());
        assert!(one.release().reaped);
        assert_intact(&mut target);
    }
    assert_untraced(target.pid());
    assert_eq!(children(target.pid()), []);
    target.stop();
}

const STORM: &str = r#"
#include "target.h"
static void *brief(void *unused) { (void)unused; return NULL; }
static void *storm(void *unused) {
    (void)unused;
    for (;;) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, brief, NULL) == 0) pthread_join(thread, NULL);
    }
    return NULL;
}
int main(void) {
    limit_own_life();
    start_thread(storm, NULL);
    start_thread(storm, NULL);
    say_ready();
    char line[64];
    while (fgets(line, sizeof line, stdin) != NULL) { printf("INTACT\n"); fflush(stdout); }
    _exit(0);
}
"#;

#[test]
fn a_process_stopped_by_sigstop_stays_stopped() {
    let _one = alone();
    if !ready() {
        return;
    }
    let mut target = start_registers(&["1"]);
    let pid = target.pid();
    target.signal(Signal::STOP);
    wait_for_state(pid, 'T');
    for _ in 0..5 {
        freeze_once(pid, &options());
        wait_for_state(pid, 'T');
        assert_untraced(pid);
    }
    target.signal(Signal::CONT);
    assert_intact(&mut target);
    target.stop();
}

#[test]
fn a_sigstop_that_comes_in_the_window_stops_it_afterwards() {
    let _one = alone();
    if !ready() {
        return;
    }
    let mut target = start_registers(&["1"]);
    let pid = target.pid();
    for at in [Stage::Seized, Stage::Stopped, Stage::RegistersSet, Stage::Resumed, Stage::Called] {
        let sent = Arc::new(AtomicBool::new(false));
        let hook = move |stage| {
            if stage == at && !sent.swap(true, Ordering::Relaxed) {
                send_signal(pid, Signal::STOP);
            }
        };
        let one = frozen(pid, &at_stages(hook));
        assert!(one.release().reaped, "{at:?}");
        wait_for_state(pid, 'T');
        assert_untraced(pid);
        target.signal(Signal::CONT);
        assert_intact(&mut target);
    }
    target.stop();
}

fn wait_for_state(pid: u32, wanted: char) {
    wait_until(&format!("process {pid} gets to {wanted}"), || state(pid) == Some(wanted));
}

#[test]
fn a_traced_process_is_refused() {
    let _one = alone();
    if !ready() {
        return;
    }
    let mut target = start_registers(&["1"]);
    // The frozen child of one freeze is traced by us; its parent is free again, and its own threads are not.
    let held = frozen(target.pid(), &options());
    let child = held.child().expect("a frozen child").0;
    assert!(try_freeze(&[child], &options()).is_err());
    assert!(held.release().reaped);
    assert_intact(&mut target);
    target.stop();
}

/// Its pid belongs to another process when it is frozen, and that one is left alone.
#[test]
fn a_pid_that_was_given_away_since_it_was_planned() {
    let _one = alone();
    if !ready() {
        return;
    }
    let mut target = start_registers(&["1"]);
    let mut plan = biopsy_target::freeze::plan(&[crate::support::key(target.pid())], &options()).unwrap();
    for process in &mut plan.processes {
        process.key.start_ticks -= 1;
    }
    let frozen = biopsy_target::freeze::freeze(plan, &options()).map(|_| ());
    assert!(matches!(frozen, Err(FreezeError::Ended { .. })), "another one was frozen: {frozen:?}");
    assert_intact(&mut target);
    target.stop();
}

#[test]
fn two_freezes_at_once() {
    let _one = alone();
    if !ready() {
        return;
    }
    let mut target = start_registers(&["1"]);
    let pid = target.pid();
    let first = frozen(pid, &options());
    let second = frozen(pid, &options());
    assert_ne!(first.child(), second.child());
    // The first one must not take the second one's child for a left-over of its own.
    assert!(first.release().reaped);
    assert!(second.is_there());
    assert!(second.release().reaped);
    assert_eq!(children(pid), []);
    assert_intact(&mut target);
    target.stop();
}

/// A thread in vfork waits uninterruptibly until its child executes something.
#[test]
fn a_thread_in_an_uninterruptible_wait() {
    let _one = alone();
    if !ready() {
        return;
    }
    let program = compile_c("in-vfork", IN_VFORK, &["-O1"]);
    let mut target = TargetProcess::spawn(Command::new(program));
    let pid = target.pid();
    let one = frozen(pid, &options());
    let waiting = one
        .warnings()
        .iter()
        .filter(|warning| matches!(warning, biopsy_target::freeze::FreezeWarning::ThreadNotStopped { .. }));
    assert_eq!(waiting.count(), 1, "{:?}", one.warnings());
    assert!(one.release().reaped);
    assert_intact(&mut target);
    // Its wait ends: the thread goes on.
    let line = target.ask("end", "VFORK-ENDED", crate::support::PATIENCE);
    assert!(line.is_some(), "the thread goes on after its wait");
    assert_untraced(pid);
    target.stop();
}

const IN_VFORK: &str = r#"
#include "target.h"
#include <sys/wait.h>
static int ends[2];
static void *waits(void *unused) {
    (void)unused;
    pid_t child = vfork();
    if (child == 0) {
        char byte;
        (void)!read(ends[0], &byte, 1);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    printf("VFORK-ENDED\n");
    fflush(stdout);
    return NULL;
}
int main(void) {
    limit_own_life();
    if (pipe(ends) != 0) return 2;
    start_thread(waits, NULL);
    usleep(200000);
    say_ready();
    char line[64];
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (strncmp(line, "end", 3) == 0) { (void)!write(ends[1], "x", 1); continue; }
        printf("INTACT\n");
        fflush(stdout);
    }
    _exit(0);
}
"#;

/// P3: a filter that answers clone with an errno; the target is told of nothing.
#[test]
fn a_fork_that_is_refused() {
    let _one = alone();
    if !ready() {
        return;
    }
    // The kernel refuses a process more than RLIMIT_NPROC allows its user; root is above that, so another user.
    let program = compile_c("no-fork", NO_FORK, &["-O1"]);
    let mut target = TargetProcess::spawn(Command::new(program));
    let survival = Survival::before(target.pid());
    match try_freeze(&[target.pid()], &options()) {
        Err(FreezeError::ForkRefused { source, .. }) => {
            assert_eq!(source.raw_os_error(), Some(11), "EAGAIN");
        }
        Err(FreezeError::Refused { .. }) => {}
        other => panic!("{other:?}"),
    }
    assert_intact(&mut target);
    survival.assert_unharmed();
    target.stop();
}

const NO_FORK: &str = r#"
#include "target.h"
#include <sys/resource.h>
int main(void) {
    limit_own_life();
    struct rlimit one = {1, 1};
    if (setrlimit(RLIMIT_NPROC, &one) != 0) return 2;
    if (setgid(65534) != 0 || setuid(65534) != 0) return 2;
    say_ready();
    char line[64];
    while (fgets(line, sizeof line, stdin) != NULL) { printf("INTACT\n"); fflush(stdout); }
    return 0;
}
"#;

/// One of a tree cannot fork: none is frozen, and of those that could, nothing is left.
#[test]
fn a_tree_of_which_one_cannot_fork() {
    let _one = alone();
    if !ready() {
        return;
    }
    let mut able = start_registers(&["1"]);
    let mut unable = TargetProcess::spawn(Command::new(compile_c("no-fork", NO_FORK, &["-O1"])));
    let survival = (Survival::before(able.pid()), Survival::before(unable.pid()));
    for pids in [[able.pid(), unable.pid()], [unable.pid(), able.pid()]] {
        let outcome = try_freeze(&pids, &options());
        assert!(
            matches!(outcome, Err(FreezeError::ForkRefused { .. } | FreezeError::Refused { .. })),
            "{outcome:?}"
        );
        assert_intact(&mut able);
        assert_intact(&mut unable);
        assert_eq!(children(able.pid()), []);
    }
    survival.0.assert_unharmed();
    survival.1.assert_unharmed();
    able.stop();
    unable.stop();
}

/// The frozen child holds no file of the process open: a peer sees the end of a connection when it is closed.
#[test]
fn files_that_the_process_closes_are_closed() {
    let _one = alone();
    if !ready() {
        return;
    }
    let program = compile_c("closes", CLOSES, &["-O1"]);
    let mut target = TargetProcess::spawn(Command::new(program));
    let one = frozen(target.pid(), &options());
    let line = target.ask("close", "END", crate::support::PATIENCE);
    assert!(line.is_some(), "the other end sees it while the child is held");
    assert!(one.release().reaped);
    target.stop();
}

const CLOSES: &str = r#"
#include "target.h"
static int ends[2];
static void *peer(void *unused) {
    (void)unused;
    char byte;
    if (read(ends[0], &byte, 1) == 0) printf("END\n");
    fflush(stdout);
    return NULL;
}
int main(void) {
    limit_own_life();
    if (pipe(ends) != 0) return 2;
    start_thread(peer, NULL);
    say_ready();
    char line[64];
    while (fgets(line, sizeof line, stdin) != NULL) close(ends[1]);
    _exit(0);
}
"#;

#[test]
fn a_process_that_is_not_there() {
    let _one = alone();
    if !ready() {
        return;
    }
    let mut child = Command::new("true").spawn().expect("it can be started");
    let gone = crate::support::key(child.id());
    child.wait().expect("it was started");
    let error = biopsy_target::freeze::plan(&[gone], &options()).map(|_| ()).unwrap_err();
    assert!(matches!(error, FreezeError::Ended { .. }), "{error:?}");
}
