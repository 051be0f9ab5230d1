//! Tests of decisions over made-up processes, and of what is read over a made-up `/proc`.

use std::time::Duration;

use biopsy_model::{BootId, Pid, ProcessKey};

use super::decide::decide;
use super::subject::{Machine, Subject};
use super::tasks::TaskLimit;
use super::threads::Threads;
use super::together;
use crate::address_space::PresentCounts;
use crate::freeze::headroom::{Headroom, LimitedBy};
use crate::freeze::{FreezeOptions, Method, ProcessPlan};
use crate::preflight::access::Allowed;
use crate::preflight::{Check, Status};

const GIB: u64 = 1 << 30;

fn subject() -> Subject {
    Subject {
        key: ProcessKey { boot_id: BootId("x".to_owned()), pid: Pid(7), start_ticks: 1 },
        memory_access: Allowed::Full,
        threads: Threads { count: 21, looked_at: 1, on_safe_stack: 1, ..Threads::default() },
        frozen_group: None,
        userfaultfd: false,
        counts: Some(pages(1 << 18, 0)),
        shared_bytes: 0,
        promised_bytes: 2 * GIB,
        headroom: Some(Headroom { bytes: 8 * GIB, by: LimitedBy::Machine }),
        one_for_all: None,
        tasks: Some(TaskLimit { left: 1000, by: "kernel.pid_max".to_owned() }),
        orphans_are_taken: true,
    }
}

fn pages(pages_4k: u64, huge_pages: u64) -> PresentCounts {
    PresentCounts { pages_4k, huge_pages, mappings: 100, exact: true, ..PresentCounts::default() }
}

fn machine() -> Machine {
    Machine {
        may_read_filters: true,
        commit_left: None,
        own_headroom: Some(Headroom { bytes: 8 * GIB, by: LimitedBy::Machine }),
        copy_rate: 2 * GIB,
    }
}

fn planned(subject: &Subject) -> ProcessPlan {
    decide(subject, &machine(), &FreezeOptions::default())
}

fn check<'a>(plan: &'a ProcessPlan, name: &str) -> &'a Check {
    plan.checks
        .iter()
        .find(|check| check.name == name)
        .unwrap_or_else(|| panic!("no {name}: {:#?}", plan.checks))
}

#[track_caller]
fn refused(subject: &Subject, name: &str, why: &str) {
    let plan = planned(subject);
    assert_eq!(plan.method, Method::Refused);
    assert_eq!(check(&plan, name).status, Status::Missing);
    assert!(plan.why.contains(why), "{}", plan.why);
}

#[track_caller]
fn copied(subject: &Subject, machine: &Machine, name: &str, why: &str) {
    let plan = decide(subject, machine, &FreezeOptions::default());
    assert_eq!(plan.method, Method::StopAndCopy, "{plan:#?}");
    assert_eq!(check(&plan, name).status, Status::Limited);
    assert!(plan.why.contains(why), "{}", plan.why);
    assert!(plan.copy_limit > 0 && plan.predicted_pause <= Duration::from_millis(250), "{plan:#?}");
    let never = FreezeOptions { allow_stop_and_copy: false, ..FreezeOptions::default() };
    assert_eq!(decide(subject, machine, &never).method, Method::Refused);
}

#[test]
fn a_usual_process_forks() {
    let plan = planned(&subject());
    assert_eq!(plan.method, Method::CopyOnWrite);
    assert!((10..=30).contains(&plan.predicted_pause.as_millis()), "{:?}", plan.predicted_pause);
    assert_eq!((plan.threads, plan.small_pages, plan.present_bytes), (21, 1 << 18, GIB));
    assert!(plan.memory_needed > GIB && plan.memory_needed < GIB + (16 << 20));
    assert!(plan.checks.iter().all(|check| check.status == Status::Ok), "{:#?}", plan.checks);
}

#[test]
fn what_forbids_any_freeze() {
    let no = Allowed::No { why: "it is a 32-bit program".to_owned(), hint: None };
    refused(&Subject { memory_access: no, ..subject() }, "memory-access", "32-bit");
    let threads = |change: fn(&mut Threads)| {
        let mut subject = subject();
        change(&mut subject.threads);
        subject
    };
    refused(&threads(|threads| threads.tracer = 99), "debugger", "traced by process 99");
    refused(&threads(|threads| threads.uninterruptible = 21), "uninterruptible", "all of its threads");
    refused(&threads(|threads| *threads = Threads::default()), "process", "none of its threads");
    let broken = |threads: &mut Threads| threads.not_listed = Some("EIO".to_owned());
    refused(&threads(broken), "threads", "its threads cannot be listed (EIO)");
    let frozen = Some("/sys/fs/cgroup/a".to_owned());
    refused(&Subject { frozen_group: frozen, ..subject() }, "frozen-group", "`/sys/fs/cgroup/a` is frozen");
    refused(&Subject { counts: None, ..subject() }, "pages", "cannot be counted");
}

#[test]
fn what_forbids_the_fork() {
    let threads = |change: fn(&mut Threads)| {
        let mut subject = subject();
        change(&mut subject.threads);
        subject
    };
    copied(&threads(|threads| threads.shadow_stack = 21), &machine(), "shadow-stack", "shadow stacks");
    copied(&threads(|threads| threads.strict = 21), &machine(), "seccomp", "no calls but");
    let blind = Machine { may_read_filters: false, ..machine() };
    copied(&threads(|threads| threads.filtered = 21), &blind, "seccomp", "cannot be read");
    copied(&Subject { userfaultfd: true, ..subject() }, &machine(), "userfaultfd", "page faults");
    let full = TaskLimit { left: 0, by: "`/x/pids.max`".to_owned() };
    copied(&Subject { tasks: Some(full), ..subject() }, &machine(), "tasks", "`/x/pids.max` leaves 0");
    let strict = Machine { commit_left: Some(GIB), ..machine() };
    copied(&subject(), &strict, "commit", "2.0 GiB anew, and the kernel has 1.0 GiB left");
    let group = LimitedBy::Group("/g".into());
    let little = Some(Headroom { bytes: 33 << 20, by: group });
    copied(&Subject { headroom: little, ..subject() }, &machine(), "memory", "in its control group `/g`");
    copied(
        &Subject { headroom: None, ..subject() },
        &machine(),
        "memory",
        "the copy could not be ended in time",
    );
}

/// The copy goes first when memory is short; where others go with it, it must not become short.
#[test]
fn where_one_kill_takes_all_there_must_be_room_for_all_that_may_be_written() {
    let policy = || Some("the kernel would end all of it together".to_owned());
    let with = |bytes| Subject {
        headroom: Some(Headroom { bytes, by: LimitedBy::Group("/g".into()) }),
        one_for_all: policy(),
        ..subject()
    };
    // One GiB is its own.
    let why = "1.0 GiB while it lives";
    let plan = decide(&with(GIB), &machine(), &FreezeOptions::default());
    assert_eq!(plan.method, Method::StopAndCopy);
    assert!(
        plan.why.contains(why) && plan.why.contains("can be spared in its control group `/g`"),
        "{}",
        plan.why
    );
    assert!(plan.why.contains("end all of it together"), "{}", plan.why);
    assert_eq!(planned(&Subject { one_for_all: None, ..with(GIB) }).method, Method::CopyOnWrite);
    let plan = planned(&with(3 * GIB));
    assert_eq!(plan.method, Method::CopyOnWrite);
    assert_eq!(check(&plan, "out-of-memory").status, Status::Ok);
    // Enough for one, and not for two at the same time.
    let both = together(vec![planned(&with(2 * GIB)), planned(&with(2 * GIB))], &FreezeOptions::default());
    let refused = both.processes.iter().find(|one| one.method == Method::Refused).expect("one is refused");
    assert!(refused.why.starts_with("2 copies at the same time need up to 2.0 GiB"), "{}", refused.why);
}

#[test]
fn filters_that_can_be_read_are_left_to_the_window() {
    let mut subject = subject();
    subject.threads.filtered = 21;
    let plan = planned(&subject);
    assert_eq!(plan.method, Method::CopyOnWrite);
    assert!(check(&plan, "seccomp").detail.contains("simulated"));
    // One thread without any can carry the fork.
    subject.threads.filtered = 20;
    let blind = Machine { may_read_filters: false, ..machine() };
    assert_eq!(decide(&subject, &blind, &FreezeOptions::default()).method, Method::CopyOnWrite);
}

#[test]
fn little_memory_is_said() {
    let group = LimitedBy::Group("/g".into());
    let some = Some(Headroom { bytes: 300 << 20, by: group });
    let plan = planned(&Subject { headroom: some, ..subject() });
    assert_eq!(plan.method, Method::CopyOnWrite);
    let memory = check(&plan, "memory");
    assert_eq!(memory.status, Status::Limited);
    // What is kept in reserve depends on the number of processors.
    let (left, rest) = memory.detail.split_once(' ').unwrap();
    assert!(left.parse::<u64>().is_ok_and(|left| left < 300), "{}", memory.detail);
    assert!(rest.starts_with("MiB are left in its control group `/g`"), "{}", memory.detail);
}

#[test]
fn a_pause_that_is_too_long_names_the_ways_out() {
    let large = Subject { counts: Some(pages(16 << 18, 0)), ..subject() };
    let plan = planned(&large);
    assert_eq!(plan.method, Method::Refused);
    assert!(plan.predicted_pause > Duration::from_millis(250));
    let hint = check(&plan, "pause").hint.clone().unwrap();
    for way in ["`--collapse`", "`--kind stacks`", "`--max-pause "] {
        assert!(hint.contains(way), "{hint}");
    }
    let collapse = FreezeOptions { collapse: true, ..FreezeOptions::default() };
    let plan = decide(&large, &machine(), &collapse);
    assert_eq!(plan.method, Method::CopyOnWrite);
    assert!(plan.predicted_pause < Duration::from_millis(250));
    let patient = FreezeOptions { max_pause: Duration::from_secs(5), ..FreezeOptions::default() };
    assert_eq!(decide(&large, &machine(), &patient).method, Method::CopyOnWrite);
    let stacks = FreezeOptions { stacks_only: true, ..FreezeOptions::default() };
    let plan = decide(&large, &machine(), &stacks);
    assert_eq!(plan.method, Method::StopAndCopy);
    assert!(plan.predicted_pause < Duration::from_millis(10), "{:?}", plan.predicted_pause);
}

#[test]
fn a_copy_takes_what_fits() {
    let mut large = subject();
    large.threads.strict = 21;
    large.counts = Some(pages(16 << 18, 0));
    let plan = planned(&large);
    assert_eq!(plan.method, Method::StopAndCopy);
    assert!(plan.copy_limit < GIB && plan.copy_limit > 128 << 20, "{}", plan.copy_limit);
    let copy = check(&plan, "copy");
    assert_eq!(copy.status, Status::Limited);
    assert!(copy.detail.ends_with("the rest is left out") && copy.hint.is_some(), "{copy:?}");

    let poor =
        Machine { own_headroom: Some(Headroom { bytes: 1 << 20, by: LimitedBy::Machine }), ..machine() };
    assert_eq!(decide(&large, &poor, &FreezeOptions::default()).method, Method::Refused);
    let hasty = FreezeOptions { max_pause: Duration::from_micros(900), ..FreezeOptions::default() };
    let plan = decide(&large, &machine(), &hasty);
    assert_eq!(plan.method, Method::Refused);
    assert!(plan.why.starts_with("not even its stacks"), "{}", plan.why);
}

#[test]
fn a_tree_waits_for_the_sum() {
    let options = FreezeOptions { max_pause: Duration::from_millis(40), ..FreezeOptions::default() };
    let one = || decide(&subject(), &machine(), &options);
    assert!(together(vec![one()], &options).is_possible());
    let three = together(vec![one(), one(), one()], &options);
    assert!(!three.is_possible());
    assert!(three.predicted_pause > options.max_pause);
    let refused = three.processes.iter().find(|one| one.method == Method::Refused).unwrap();
    assert!(refused.why.starts_with("all processes together would stand still for"), "{}", refused.why);
}

#[test]
fn what_is_enough_for_each_may_not_be_enough_for_all() {
    let group = |folder: &str| LimitedBy::Group(folder.into());
    let one = |bytes, by: &LimitedBy| {
        let headroom = Some(Headroom { bytes, by: by.clone() });
        planned(&Subject { counts: Some(pages(1 << 12, 0)), headroom, ..subject() })
    };
    let options = FreezeOptions::default();
    let plan = |processes: Vec<ProcessPlan>| together(processes, &options);
    let said = |plan: &crate::freeze::FreezePlan| {
        let all = plan.processes.iter().flat_map(|one| &one.checks);
        all.filter(|check| check.name == "memory-of-all").map(|check| check.status).collect::<Vec<_>>()
    };
    // 16 MiB each, and some 100 MiB to spare.
    let tight = (100 << 20) + Headroom { bytes: 0, by: group("/a") }.reserve(320 << 20);
    assert_eq!(said(&plan(vec![one(tight, &group("/a"))])), []);
    assert_eq!(said(&plan(vec![one(tight, &group("/a")); 3])), []);
    let many = plan(vec![one(tight, &group("/a")); 20]);
    assert!(many.is_possible());
    assert_eq!(said(&many), [Status::Limited], "{many:#?}");
    // Others have limits of their own.
    let apart: Vec<_> = (0..20).map(|at| one(tight, &group(&format!("/g{at}")))).collect();
    assert_eq!(said(&plan(apart)), []);
    // A group below it takes from it; a group beside it, whose name only begins like it, does not.
    let mut nested = vec![one(tight, &group("/a"))];
    nested.extend((0..19).map(|_| one(8 * GIB, &group("/a/b"))));
    assert_eq!(said(&plan(nested)), [Status::Limited]);
    let mut beside = vec![one(tight, &group("/a"))];
    beside.extend((0..19).map(|_| one(8 * GIB, &group("/ab"))));
    assert_eq!(said(&plan(beside)), []);
    // Not even the page tables of all of them fit.
    let least =
        plan(vec![
            one(Headroom { bytes: 0, by: group("/a") }.reserve(64 << 20) + (2 << 20), &group("/a"));
            4
        ]);
    assert!(!least.is_possible());
    assert_eq!(said(&least), [Status::Missing], "{least:#?}");
}

mod over_proc {
    use super::*;
    use crate::fake_proc::{ELF_32, FakeProc};
    use crate::preflight::Facts;
    use crate::process::identity::key_of;
    use crate::process::proc_root::ProcRoot;

    fn write(proc: &FakeProc, path: &str, text: &str) {
        let path = proc.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn read(proc: &FakeProc) -> Subject {
        let facts = Facts::read(&ProcRoot::live());
        Subject::read(&proc.root(), &facts, &key_of(&proc.root(), Pid(99_999_999)).unwrap()).unwrap()
    }

    /// A pid that no living process has: what is read of the live system finds nothing.
    const PID: u32 = 99_999_999;

    #[test]
    fn a_32_bit_program() {
        let proc = FakeProc::new();
        proc.process(PID, "old").exe("/bin/old", ELF_32).write();
        let subject = read(&proc);
        assert!(matches!(&subject.memory_access, Allowed::No { why, .. } if why.contains("32-bit")));
    }

    #[test]
    fn frozen_groups_of_both_versions() {
        let proc = FakeProc::new();
        proc.process(PID, "a").cgroup("/outer/inner").write();
        write(&proc, "sys/fs/cgroup/cgroup.controllers", "");
        write(&proc, "sys/fs/cgroup/outer/inner/cgroup.events", "populated 1\nfrozen 0\n");
        assert_eq!(read(&proc).frozen_group, None);
        write(&proc, "sys/fs/cgroup/outer/inner/cgroup.events", "populated 1\nfrozen 1\n");
        assert_eq!(read(&proc).frozen_group.as_deref(), Some("/sys/fs/cgroup/outer/inner"));

        let proc = FakeProc::new();
        proc.process(PID, "a").write();
        write(&proc, &format!("proc/{PID}/cgroup"), "6:freezer:/f/g\n");
        write(&proc, "sys/fs/cgroup/freezer/f/g/freezer.state", "THAWED\n");
        write(&proc, "sys/fs/cgroup/freezer/f/freezer.state", "FROZEN\n");
        assert_eq!(read(&proc).frozen_group.as_deref(), Some("/sys/fs/cgroup/freezer/f"));
    }

    #[test]
    fn threads_by_their_files() {
        let proc = FakeProc::new();
        proc.process(PID, "a").write();
        let line = |tid: u32, state| {
            String::from_utf8(crate::process::stat::tests::line(tid, b"a b) c", state, 1, 3, 5)).unwrap()
        };
        for (tid, state, status) in [
            (PID, 'D', "Seccomp:\t0\nTracerPid:\t0\n"),
            (
                PID - 1,
                'S',
                "Seccomp:\t2\nSeccomp_filters:\t3\nTracerPid:\t12\nx86_Thread_features:\tshstk \n",
            ),
            (PID - 2, 'Z', "Seccomp:\t1\n"),
        ] {
            write(&proc, &format!("proc/{PID}/task/{tid}/stat"), &line(tid, state));
            write(&proc, &format!("proc/{PID}/task/{tid}/status"), status);
        }
        let threads = read(&proc).threads;
        assert_eq!((threads.count, threads.uninterruptible, threads.tracer), (2, 1, 12));
        assert_eq!((threads.filtered, threads.filters, threads.strict, threads.shadow_stack), (1, 3, 0, 1));
    }

    #[test]
    fn a_descriptor_for_page_faults() {
        let proc = FakeProc::new();
        proc.process(PID, "a").write();
        assert!(!read(&proc).userfaultfd);
        let fds = proc.path().join(format!("proc/{PID}/fd"));
        std::fs::create_dir_all(&fds).unwrap();
        std::os::unix::fs::symlink("anon_inode:[userfaultfd]", fds.join("5")).unwrap();
        assert!(read(&proc).userfaultfd);
    }

    #[test]
    fn what_cannot_be_listed_is_not_taken_for_empty() {
        let proc = FakeProc::new();
        proc.process(PID, "a").write();
        write(&proc, &format!("proc/{PID}/fd"), "no folder");
        let _ = std::fs::remove_dir_all(proc.path().join(format!("proc/{PID}/task")));
        write(&proc, &format!("proc/{PID}/task"), "no folder");
        let subject = read(&proc);
        assert!(subject.userfaultfd, "it might have one");
        assert!(subject.threads.not_listed.is_some());
    }
}

#[test]
fn the_copy_is_an_orphan_where_that_is_removed_and_there_is_room_for_two() {
    assert!(planned(&subject()).orphan);
    assert!(!planned(&Subject { orphans_are_taken: false, ..subject() }).orphan);
    let left =
        |left| Subject { tasks: Some(TaskLimit { left, by: "`/x/pids.max`".to_owned() }), ..subject() };
    assert!(planned(&left(3)).orphan);
    let one = planned(&left(2));
    assert!(!one.orphan && one.method == Method::CopyOnWrite);
}
