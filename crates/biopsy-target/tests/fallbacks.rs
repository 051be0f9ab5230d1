//! Processes that must not fork, or hardly can: they are told apart, copied or refused, and run on as before.

#![allow(clippy::disallowed_methods, reason = "tests open what they wrote, and files of proc")]

use std::time::{Duration, Instant};

use biopsy_image::write::module_ranges;
use biopsy_image::{Absence, Image, MemoryExt, ReadError};
use biopsy_model::{Avma, Pid, ProcessKey, Tid};
use biopsy_target::freeze::{
    FreezeError, FreezeOptions, FreezePlan, FrozenProcess, Method, collapse, freeze, plan,
};
use biopsy_target::identity::key_of;
use biopsy_target::{ProcRoot, Status};
use biopsy_testkit::{GroupLimit, Privilege, Program, Survival, TargetProcess, require_all};

fn key(target: &TargetProcess) -> ProcessKey {
    key_of(&ProcRoot::live(), Pid(target.pid())).expect("it runs")
}

/// Generous: what is tested is what happens, not how fast, and the machine may be busy.
fn patient() -> FreezeOptions {
    FreezeOptions { max_pause: Duration::from_secs(5), ..FreezeOptions::default() }
}

fn planned(target: &TargetProcess, options: &FreezeOptions) -> FreezePlan {
    plan(&[key(target)], options).expect("it runs")
}

fn frozen(plan: FreezePlan, options: &FreezeOptions) -> FrozenProcess {
    freeze(plan, options).unwrap_or_else(|error| panic!("{error}")).pop().expect("one process")
}

/// All bytes that the process had written are in the image, and equal to what it still has. (The target is idle, but the
/// kernel writes to it: the CPU it runs on, in its 32 bytes for restartable sequences.)
fn assert_whole(image: &FrozenProcess, pid: u32) {
    let (mut ours, mut its) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    let mut compared = 0usize;
    let mut different = Vec::new();
    for mapping in image.mappings().iter().filter(|one| one.is_anonymous() && one.protection.read) {
        // Below the stack pointer the frames of the freeze may have been written.
        let is_stack =
            matches!(&mapping.backing, biopsy_image::Backing::Anonymous { label } if label == "[stack]");
        let mut runs = Vec::new();
        image.written(mapping.range(), &mut runs).unwrap();
        for run in runs {
            let mut at = run.start;
            while at < run.end {
                let length = usize::try_from(run.end - at).unwrap().min(ours.len());
                image.read_exact(at, &mut ours[..length]).unwrap();
                let read = biopsy_sys::memory::read(Tid(pid), Avma(at), &mut its[..length]).unwrap();
                assert_eq!(read, length);
                let pairs = ours[..length].iter().zip(&its[..length]).zip(at..);
                different
                    .extend(pairs.filter(|((one, other), _)| !is_stack && one != other).map(|(_, at)| at));
                compared += length;
                at += length as u64;
            }
        }
    }
    assert!(compared > 0);
    let (first, last) = (different.first().copied(), different.last().copied());
    assert!(last.unwrap_or(0) - first.unwrap_or(0) < 32, "{different:x?}");
}

/// P3: a filter that kills for a fork.
fn sandboxed(program: Program) {
    if !require_all(&[Privilege::Cc, Privilege::Root]) {
        return;
    }
    let target = TargetProcess::start(program, &[]);
    let survival = Survival::before(target.pid());
    let plan = planned(&target, &patient());
    let check = plan.processes[0].checks.iter().find(|check| check.name == "seccomp").expect("it is said");
    assert_eq!(check.status, Status::Ok);

    let image = frozen(plan.clone(), &patient());
    assert_eq!(image.method(), Method::StopAndCopy);
    assert_eq!(image.child(), None);
    let address =
        target.ready_line().split_ascii_whitespace().nth(2).unwrap().trim_start_matches("0x").to_owned();
    let address = u64::from_str_radix(&address, 16).unwrap();
    let mut secret = vec![0; 64 << 10];
    image.read_exact(address, &mut secret).unwrap();
    assert!(secret.iter().all(|&byte| byte == 0x5a));
    assert_whole(&image, target.pid());
    let registers = image.threads()[0].registers.expect("it stood still");
    assert!(image.read_u64(registers.rsp).is_ok(), "its stack is there");
    assert!(image.read_u64(registers.rip & !7).is_ok(), "its code is there, from the file");
    drop(image);
    survival.assert_unharmed();

    let never = FreezeOptions { allow_stop_and_copy: false, ..patient() };
    let error = freeze(plan, &never).unwrap_err();
    assert!(matches!(&error, FreezeError::NoSafeThread { .. }), "{error}");
    assert!(error.to_string().contains("seccomp filter"), "{error}");
    survival.assert_unharmed();
}

#[test]
fn p3_a_process_whose_filter_kills_for_a_fork_is_copied_and_lives() {
    sandboxed(Program::SeccompKill);
}

#[test]
fn a_process_whose_filter_refuses_a_fork_is_copied() {
    sandboxed(Program::SeccompErrno);
}

#[test]
fn a_process_that_may_start_no_more_processes_is_copied() {
    if !require_all(&[Privilege::Cc, Privilege::Root, Privilege::Cgroup]) {
        return;
    }
    let target = TargetProcess::start(Program::Idle, &[]);
    let limit = GroupLimit::tasks(1).expect("a group can be made");
    limit.add(target.pid()).unwrap();
    let survival = Survival::before(target.pid());
    let plan = planned(&target, &patient());
    assert_eq!(plan.processes[0].method, Method::StopAndCopy, "{plan:#?}");
    assert!(plan.processes[0].why.contains("pids.max"), "{}", plan.processes[0].why);

    // Should the limit come between plan and window, the fork is refused, and the copy is made all the same.
    let mut hasty = plan.clone();
    hasty.processes[0].method = Method::CopyOnWrite;
    for plan in [plan, hasty] {
        let image = frozen(plan, &patient());
        assert_eq!(image.method(), Method::StopAndCopy);
        assert_whole(&image, target.pid());
    }
    survival.assert_unharmed();
}

/// The kernel names the thread that traces.
fn own_tid() -> String {
    let link = std::fs::read_link("/proc/thread-self").unwrap();
    link.file_name().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn a_process_that_is_traced_is_refused() {
    if !require_all(&[Privilege::Cc, Privilege::Ptrace]) {
        return;
    }
    let target = TargetProcess::start(Program::Idle, &[]);
    let survival = Survival::before(target.pid());
    biopsy_sys::ptrace::seize(Tid(target.pid()), biopsy_sys::ptrace::Options::NONE).unwrap();
    let plan = planned(&target, &patient());
    assert_eq!(plan.processes[0].method, Method::Refused);
    assert_eq!(plan.processes[0].why, format!("it is traced by process {} (a debugger?)", own_tid()));
    assert!(matches!(freeze(plan, &patient()), Err(FreezeError::Refused { .. })));
    biopsy_sys::ptrace::interrupt(Tid(target.pid())).unwrap();
    biopsy_sys::ptrace::wait::take(Tid(target.pid())).unwrap();
    while biopsy_sys::ptrace::detach(Tid(target.pid()), 0).is_err() {
        std::thread::yield_now();
    }
    assert_eq!(planned(&target, &patient()).processes[0].method, Method::CopyOnWrite);
    survival.assert_unharmed();
}

#[test]
fn a_process_that_has_ended_cannot_be_planned() {
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let key = key_of(&ProcRoot::live(), Pid(child.id())).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(matches!(plan(&[key], &patient()), Err(FreezeError::Ended { .. })));
}

#[test]
fn stacks_alone_are_copied_and_the_rest_is_said_to_be_left_out() {
    if !require_all(&[Privilege::Cc, Privilege::Root]) {
        return;
    }
    let target = TargetProcess::start(Program::WriteHeavy, &["64"]);
    let survival = Survival::before(target.pid());
    let options = FreezeOptions { stacks_only: true, ..patient() };
    let mut plan = planned(&target, &options);
    // On a quiet machine the fork of so small a process may be the shorter one.
    if plan.processes[0].method == Method::CopyOnWrite {
        plan.processes[0].method = Method::StopAndCopy;
        plan.processes[0].copy_limit = 1 << 20;
    }
    let image = frozen(plan, &options);
    for thread in image.threads() {
        let registers = thread.registers.expect("it stood still");
        assert!(image.read_u64(registers.rsp).is_ok(), "the stack of {}", thread.tid);
        assert!(image.read_u64(registers.fs_base).is_ok(), "what is local to {}", thread.tid);
    }
    let mut runs = Vec::new();
    image.written(0..1 << 47, &mut runs).unwrap();
    let heap = runs.into_iter().max_by_key(|run| run.end - run.start).unwrap();
    assert!(heap.end - heap.start >= 64 << 20, "what was left out still counts as written");
    let error = image.read(heap.start + (32 << 20), &mut [0; 8]).unwrap_err();
    assert!(matches!(error, ReadError::Missing { why: Absence::NotOfKind, .. }), "never zeros: {error}");
    // Variables of the dynamic linker and pages that it relocated: a dump of stacks has them too, and was called not whole.
    let modules = module_ranges(&image);
    assert!(modules.len() > 3, "{modules:x?}");
    for range in modules {
        let mut bytes = vec![0; usize::try_from(range.end - range.start).unwrap()];
        image.read_exact(range.start, &mut bytes).unwrap_or_else(|error| panic!("{range:x?}: {error}"));
    }
    drop(image);
    survival.assert_unharmed();
}

/// `stacks` names the owner of a mutex by its words in memory, which are on no stack. Seen on a processor without XSAVE, where no
/// thread could carry the fork: the owner was not named, and nothing said so.
#[test]
fn the_locks_that_threads_wait_for_are_copied_with_the_stacks() {
    if !require_all(&[Privilege::Cc, Privilege::Root]) {
        return;
    }
    let target = TargetProcess::start(Program::Deadlock, &["ring", "8"]);
    let survival = Survival::before(target.pid());
    let options = FreezeOptions { stacks_only: true, ..patient() };
    let mut plan = planned(&target, &options);
    plan.processes[0].method = Method::StopAndCopy;
    plan.processes[0].copy_limit = 1 << 20;
    let image = frozen(plan, &options);
    let tids: Vec<u32> = image.threads().iter().map(|thread| thread.tid.0).collect();
    let registers = image.threads().iter().filter_map(|thread| thread.registers);
    let futexes: Vec<u64> = registers.filter(|one| one.orig_rax == 202).map(|one| one.rdi).collect();
    assert_eq!(futexes.len(), 8, "every member of the ring waits");
    for futex in futexes {
        let owner = image.read_u32(futex + 8).expect("the lock was copied");
        assert!(tids.contains(&owner), "{owner} is a thread of the process");
    }
    drop(image);
    survival.assert_unharmed();
}

#[test]
fn memory_is_turned_into_huge_pages_and_stays_as_it_is() {
    if !require_all(&[Privilege::Cc, Privilege::Root]) {
        return;
    }
    let mut target = TargetProcess::start(Program::WriteHeavy, &["32", "can-be-huge"]);
    let survival = Survival::before(target.pid());
    let before = planned(&target, &patient());
    let report = match collapse(&key(&target), Duration::from_secs(10)) {
        Ok(report) => report,
        // Linux before 6.1.
        Err(error) => {
            assert!(matches!(error, FreezeError::Step { step: "process_madvise", .. }), "{error}");
            return;
        }
    };
    let after = planned(&target, &patient());
    let pages = |plan: &FreezePlan| (plan.processes[0].small_pages, plan.processes[0].huge_pages);
    // Where no huge page is free, the kernel refuses, and that is said.
    assert!(report.made > 0 || report.refused > 0, "{report:?}");
    if report.made > 4 {
        assert!(pages(&after).1 > pages(&before).1, "{report:?} {:?} {:?}", pages(&before), pages(&after));
        assert!(after.predicted_pause < before.predicted_pause);
    }
    assert!(target.ask("", "ROUNDS", Duration::from_secs(30)).is_some(), "it goes on");
    survival.assert_unharmed();
}

/// P5 and the watchdog: a group with little room, and a process that writes to all of its memory while it is frozen.
#[test]
fn p5_a_process_in_a_full_group_lives_and_the_copy_ends() {
    if !require_all(&[Privilege::Cc, Privilege::Root, Privilege::Cgroup]) {
        return;
    }
    const MIB: u64 = 1 << 20;
    let mut target = TargetProcess::start(Program::WriteHeavy, &["256"]);
    // Its memory is charged where it was made; a copy of a page is charged to where the process is now. So the group has
    // room for 128 MiB of copies, and the process will want 256.
    let limit = GroupLimit::memory(128 * MIB).expect("a group can be made");
    limit.add(target.pid()).unwrap();
    let survival = Survival::before(target.pid());
    let plan = planned(&target, &patient());
    assert_eq!(plan.processes[0].method, Method::CopyOnWrite, "{plan:#?}");
    let memory = plan.processes[0].checks.iter().find(|check| check.name == "memory").unwrap();
    assert_eq!(memory.status, Status::Limited, "{memory:?}");

    let image = frozen(plan, &patient());
    let deadline = Instant::now() + Duration::from_secs(30);
    while image.is_there() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(!image.is_there(), "the copy was ended");
    let left = image.ended_early().expect("by the watchdog, before the kernel had to");
    assert!(left.bytes < left.line(256 * MIB) + 8 * MIB, "{left:?}");
    let heap = image.mappings().iter().find(|one| one.size() >= 256 * MIB).unwrap();
    let error = image.read(heap.start, &mut [0; 8]).unwrap_err();
    assert!(matches!(error, ReadError::Missing { why: Absence::Gone, .. }), "{error}");
    drop(image);
    assert!(target.ask("", "ROUNDS", Duration::from_secs(30)).is_some(), "the process goes on");
    assert!(target.is_running());
    survival.assert_unharmed();
}

#[test]
fn a_group_with_no_room_at_all_means_a_copy() {
    if !require_all(&[Privilege::Cc, Privilege::Root, Privilege::Cgroup]) {
        return;
    }
    let target = TargetProcess::start(Program::Idle, &[]);
    let limit = GroupLimit::memory(8 << 20).expect("a group can be made");
    limit.add(target.pid()).unwrap();
    let survival = Survival::before(target.pid());
    let plan = planned(&target, &patient());
    assert_eq!(plan.processes[0].method, Method::StopAndCopy, "{plan:#?}");
    assert!(plan.processes[0].why.contains("in its control group"), "{}", plan.processes[0].why);
    assert_whole(&frozen(plan, &patient()), target.pid());
    survival.assert_unharmed();
}
