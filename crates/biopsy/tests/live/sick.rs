//! Each sick program is captured, and the first finding says what is wrong with it.

use biopsy_testkit::{CpuLimit, Privilege, Program, TargetProcess, machine_to_myself, require_all};

use crate::support::{assert_diagnosed, capture_unharmed};

/// What each of these tests needs.
const LIVE: &[Privilege] = &[Privilege::Cc, Privilege::Perf, Privilege::Bpf];

#[test]
fn a_hot_function_is_named_with_its_callers() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let mut target = TargetProcess::start(Program::HotFunction, &[]);
    let captured = capture_unharmed(&target, "3s", &[]);
    target.stop();
    captured.assert_burns_cpu_in("compute_checksum_bit_by_bit", &["compute_checksum_bit_by_bit"]);
    assert!(captured.text().contains("verify_package"), "{:#}", captured.report["functions"]);
    assert!(captured.reaching_root() >= 0.99, "{}", captured.reaching_root());
}

#[test]
fn a_lock_convoy_is_named_with_the_function_that_holds_the_lock() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let mut target = TargetProcess::start(Program::LockConvoy, &[]);
    assert_diagnosed(&target, "4s", "lock-convoy", &["append_under_lock"]);
    target.stop();
}

#[test]
fn waiting_for_the_disk_is_named() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    // Not the temporary folder of the system, which may be in memory and never waits.
    let folder = biopsy_testkit::TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut target = TargetProcess::start(Program::DiskBound, &[folder.path().to_str().unwrap()]);
    assert_diagnosed(&target, "4s", "disk-bound", &["flush_journal"]);
    target.stop();
}

#[test]
fn a_slow_peer_is_named() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let mut target = TargetProcess::start(Program::SlowPeer, &[]);
    assert_diagnosed(&target, "4s", "slow-peer", &["fetch_from_peer"]);
    target.stop();
}

#[test]
fn runaway_threads_are_named() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let mut target = TargetProcess::start(Program::RunawayThreads, &[]);
    let survival = biopsy_testkit::Survival::before(target.pid()).threads_may_change().files_may_change();
    let captured = crate::support::capture(target.pid(), "6s", &[]);
    survival.assert_unharmed();
    target.stop();
    captured.assert_diagnosis("runaway-threads", &["watchdog"]);
}

#[test]
fn memory_growth_is_named() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let mut target = TargetProcess::start(Program::MemoryGrowth, &[]);
    assert_diagnosed(&target, "8s", "memory-growth", &[]);
    target.stop();
}

#[test]
fn throttling_by_a_cgroup_is_named() {
    if !require_all(LIVE) || !require_all(&[Privilege::Cgroup]) {
        return;
    }
    let _machine = machine_to_myself();
    let limit = CpuLimit::new(20).unwrap();
    let mut target = TargetProcess::start(Program::BusyLoop, &[]);
    limit.add(target.pid()).unwrap();
    let captured = assert_diagnosed(&target, "5s", "cgroup-throttled", &[]);
    target.stop();
    assert!(captured.text().contains("count_some"));
}

#[test]
fn an_idle_program_is_called_idle() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let mut target = TargetProcess::start(Program::Idle, &[]);
    assert_diagnosed(&target, "3s", "idle", &[]);
    target.stop();
}

#[test]
fn a_storm_of_switches_is_named() {
    if !require_all(LIVE) {
        return;
    }
    let _machine = machine_to_myself();
    let mut target = TargetProcess::start(Program::SwitchStorm, &[]);
    let captured = capture_unharmed(&target, "3s", &[]);
    target.stop();
    assert!(captured.finding_ids().contains(&"switch-storm"), "{:#}", captured.report["findings"]);
    assert!(captured.text().contains("throw_and_catch"));
}
