//! The guards guard, and the survival check sees harm.

use std::time::Duration;

use biopsy_testkit::{
    CpuLimit, Namespaces, ODD_NAMES, Privilege, Program, Signal, Survival, TargetProcess, as_user,
    copy_under_odd_name, in_namespaces, is_running, require, require_all, send_signal, temp_dir,
};

#[test]
fn every_program_gets_ready_and_ends_when_told() {
    if !require_all(&[Privilege::Cc, Privilege::Rustc]) {
        return;
    }
    let folder = temp_dir("programs");
    for program in Program::ALL {
        let mut target = match program {
            Program::DiskBound => TargetProcess::start(*program, &[folder.path().to_str().unwrap()]),
            // Compiled and started below with fewer threads: 5,000 at once is for the test that needs them.
            Program::ManyThreads => TargetProcess::start(*program, &["50"]),
            _ => TargetProcess::start(*program, &[]),
        };
        let pid = target.pid();
        assert!(is_running(pid), "{program:?}");
        // Without the C library a number is hard to print; some have more to say behind it.
        let announced: Vec<&str> = target.ready_line().split_ascii_whitespace().take(2).collect();
        let pid_text = pid.to_string();
        let expected: &[&str] =
            if *program == Program::NoGadgets { &["READY"] } else { &["READY", pid_text.as_str()] };
        assert_eq!(announced, expected, "{program:?}");
        target.stop();
        assert!(!is_running(pid), "{program:?}");
    }
}

#[test]
fn a_dropped_target_is_gone() {
    if !require(Privilege::Cc) {
        return;
    }
    let target = TargetProcess::start(Program::Idle, &[]);
    let pid = target.pid();
    assert!(is_running(pid));
    drop(target);
    assert!(!is_running(pid));
}

#[test]
fn sigterm_ends_a_target_well() {
    if !require(Privilege::Cc) {
        return;
    }
    let mut target = TargetProcess::start(Program::BusyLoop, &[]);
    target.signal(Signal::TERM);
    let status = target.wait_for_exit(Duration::from_secs(20)).expect("it ends");
    assert!(status.success());
}

#[test]
fn an_untouched_target_is_unharmed_and_a_stopped_one_is_not() {
    if !require(Privilege::Cc) {
        return;
    }
    let folder = temp_dir("watched");
    let target = TargetProcess::start(Program::Idle, &[]);
    let survival = Survival::before(target.pid()).watching(folder.path());
    survival.assert_unharmed();

    send_signal(target.pid(), Signal::STOP);
    let mut harm = survival.differences();
    for _ in 0..1000 {
        if !harm.is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
        harm = survival.differences();
    }
    assert!(harm.iter().any(|line| line.contains("is stopped")), "{harm:?}");
    send_signal(target.pid(), Signal::CONT);

    std::fs::write(folder.path().join("left behind"), "x").unwrap();
    let harm = survival.differences();
    assert!(harm.iter().any(|line| line.contains("new files")), "{harm:?}");
}

#[test]
fn the_end_of_a_target_is_harm() {
    if !require(Privilege::Cc) {
        return;
    }
    let mut target = TargetProcess::start(Program::Idle, &[]);
    let survival = Survival::before(target.pid());
    target.stop();
    assert_eq!(survival.differences(), [format!("process {} is gone", target.pid())]);
}

#[test]
fn the_program_that_execs_announces_its_second_life() {
    if !require(Privilege::Cc) {
        return;
    }
    let mut target = TargetProcess::start(Program::ExecsMidway, &["10"]);
    let line = target.line_starting_with("SECOND-LIFE", Duration::from_secs(60)).expect("it goes on");
    assert_eq!(line, format!("SECOND-LIFE {}", target.pid()));
    target.stop();
}

#[test]
fn odd_names_run_too() {
    if !require(Privilege::Cc) {
        return;
    }
    let folder = temp_dir("odd-names");
    for name in ODD_NAMES {
        let path = copy_under_odd_name(&Program::Idle.path(), folder.path(), name);
        let mut target = TargetProcess::spawn(std::process::Command::new(path));
        let comm = std::fs::read(format!("/proc/{}/comm", target.pid())).unwrap();
        assert_eq!(&comm[..comm.len() - 1], &name[..name.len().min(15)]);
        target.stop();
    }
}

#[test]
fn another_user_is_really_another_user() {
    if !require_all(&[Privilege::OtherUser, Privilege::Cc]) {
        return;
    }
    let folder = temp_dir("other-user");
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let copy = copy_under_odd_name(&Program::Idle.path(), folder.path(), b"idle");
    let mut target = TargetProcess::spawn(as_user(65534, &std::process::Command::new(copy)));
    let status = std::fs::read_to_string(format!("/proc/{}/status", target.pid())).unwrap();
    assert!(status.contains("Uid:\t65534\t65534\t65534\t65534"), "{status}");
    assert!(status.contains("CapEff:\t0000000000000000"), "{status}");
    target.stop();
}

#[test]
fn a_target_in_its_own_pid_namespace_is_found_by_its_outer_pid() {
    if !require_all(&[Privilege::Namespaces, Privilege::Cc]) {
        return;
    }
    let mut target = TargetProcess::spawn(in_namespaces(Namespaces::PidAndMount, &Program::Idle.command()));
    assert_eq!(target.ready_line(), "READY 1");
    assert_ne!(target.pid(), 1);
    let comm = std::fs::read_to_string(format!("/proc/{}/comm", target.pid())).unwrap();
    assert_eq!(comm, "idle\n");
    target.stop();
}

#[test]
fn a_cpu_limit_throttles() {
    if !require_all(&[Privilege::Cgroup, Privilege::Cc]) {
        return;
    }
    let limit = CpuLimit::new(20).unwrap();
    let mut target = TargetProcess::start(Program::BusyLoop, &[]);
    limit.add(target.pid()).unwrap();
    let throttled = |text: &str| {
        text.lines().any(|line| line.strip_prefix("nr_throttled ").is_some_and(|count| count != "0"))
    };
    let seen = (0..2000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        throttled(&std::fs::read_to_string(limit.folder().join("cpu.stat")).unwrap_or_default())
    });
    assert!(seen, "no throttling within 20 s");
    target.stop();
}
