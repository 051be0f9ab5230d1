//! Processes of which no thread runs: all wait in the kernel, or their control group is frozen. They are refused, and they
//! stay as they were also where that comes only after the plan.

use std::process::Command;

use biopsy_target::freeze::{FreezeError, FreezePlan, Method, freeze, plan};
use biopsy_testkit::{FreezerGroup, Privilege, Program, Survival, TargetProcess, compile_c, require};

use crate::support::{
    PATIENCE, alone, assert_intact, assert_no_child_lives, assert_untraced, children, freeze_once, key,
    options, ready,
};

/// The only thread of the program waits in vfork for a child, which ends when a byte comes on stdin.
const ALL_IN_VFORK: &str = r#"
#include "target.h"
#include <sys/wait.h>
int main(void) {
    limit_own_life();
    static char ready[64];
    int length = snprintf(ready, sizeof ready, "READY %d\n", (int)getpid());
    pid_t child = vfork();
    if (child == 0) {
        char byte;
        (void)!write(1, ready, (size_t)length);
        (void)!read(0, &byte, 1);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    printf("VFORK-ENDED\n");
    fflush(stdout);
    wait_for_stop();
    return 0;
}
"#;

fn refused(pid: u32, check: &str, why: &str) -> FreezePlan {
    let plan = plan(&[key(pid)], &options()).expect("it is there");
    let process = &plan.processes[0];
    assert_eq!(process.method, Method::Refused, "{process:?}");
    assert!(process.why.contains(why), "{}", process.why);
    let check = process.checks.iter().find(|one| one.name == check).expect("it is said");
    assert!(check.hint.is_some(), "{check:?}");
    assert!(matches!(freeze(plan.clone(), &options()), Err(FreezeError::Refused { .. })));
    plan
}

/// As if it had run when the plan was made. The window is left without harm, and soon.
fn fails_in_the_window(mut plan: FreezePlan) {
    plan.processes[0].method = Method::CopyOnWrite;
    let mut options = options();
    options.max_pause = std::time::Duration::from_millis(200);
    match freeze(plan, &options) {
        Err(FreezeError::NoSafeThread { .. } | FreezeError::NotStopped { .. }) => {}
        // A group of version 2 lets threads be stopped and given registers, and they do not go on from there.
        Err(FreezeError::TookTooLong { .. }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn all_of_it_waits_in_the_kernel() {
    let _one = alone();
    if !ready() {
        return;
    }
    let mut target = TargetProcess::spawn(Command::new(compile_c("all-in-vfork", ALL_IN_VFORK, &["-O1"])));
    let pid = target.pid();
    let survival = Survival::before(pid);
    let plan = refused(pid, "uninterruptible", "uninterruptible waits");
    fails_in_the_window(plan);
    assert_eq!(children(pid).len(), 1, "its own child, and none of ours");
    // A thread that is seized while it waits is let go with the one who seized it.
    assert!(target.ask("end", "VFORK-ENDED", PATIENCE).is_some(), "it goes on after its wait");
    assert_untraced(pid);
    survival.assert_unharmed();
    target.stop();
}

#[test]
fn its_control_group_is_frozen() {
    let _one = alone();
    if !ready() || !require(Privilege::Cgroup) {
        return;
    }
    let groups = FreezerGroup::of_each_version();
    assert!(!groups.is_empty(), "control groups of either version can freeze");
    for group in groups {
        let mut target = TargetProcess::start(Program::Registers, &["1"]);
        let pid = target.pid();
        group.add(pid).expect("it can be moved");
        let survival = Survival::before(pid);
        group.freeze().expect("it can be frozen");
        let plan = refused(pid, "frozen-group", "is frozen: it does not run");
        fails_in_the_window(plan);
        group.thaw().expect("it can be thawed");
        assert_intact(&mut target);
        assert_untraced(pid);
        // Where a thread was sent to the call already, its frame carried it home when it was thawed, and the copy ended by
        // itself: what is left is a zombie, and the next freeze removes it.
        assert_no_child_lives(pid);
        freeze_once(pid, &options());
        assert_intact(&mut target);
        survival.assert_unharmed();
        target.stop();
    }
}
