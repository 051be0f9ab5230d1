//! Registers, vectors, stacks, signal state: all as before, after many freezes.

use biopsy_testkit::{Program, Signal, Survival, TargetProcess};

use crate::support::{
    alone, assert_intact, assert_untraced, at_stages, freeze_once, frozen, number, options, ready,
    start_registers,
};

#[test]
fn p6_p7_registers_vectors_and_signal_stacks_survive_fifty_freezes() {
    let _one = alone();
    if !ready() {
        return;
    }
    let mut target = start_registers(&["3"]);
    let survival = Survival::before(target.pid());
    let before = number(&assert_intact(&mut target), "rounds");
    for _ in 0..50 {
        freeze_once(target.pid(), &options());
    }
    let after = assert_intact(&mut target);
    assert!(number(&after, "rounds") > before, "its threads go on");
    survival.assert_unharmed();
    target.stop();
}

#[test]
fn p8_no_call_is_broken_off() {
    let _one = alone();
    if !ready() {
        return;
    }
    // Its waits have time limits, which only the kernel can take up again, and one is epoll_wait.
    let mut target = start_registers(&["1"]);
    assert_intact(&mut target);
    for _ in 0..50 {
        let one = frozen(target.pid(), &options());
        assert_eq!(one.warnings(), []);
        assert!(one.release().reaped);
    }
    assert_eq!(number(&assert_intact(&mut target), "eintr"), 0);
    target.stop();
}

#[test]
fn a_single_thread_in_a_read() {
    let _one = alone();
    if !ready() {
        return;
    }
    let mut target = start_registers(&["single"]);
    let survival = Survival::before(target.pid());
    for _ in 0..30 {
        freeze_once(target.pid(), &options());
        assert_intact(&mut target);
    }
    survival.assert_unharmed();
    target.stop();
}

#[test]
fn a_single_thread_that_computes() {
    let _one = alone();
    if !ready() {
        return;
    }
    let mut target = TargetProcess::start(Program::BusyLoop, &["1"]);
    let survival = Survival::before(target.pid());
    for _ in 0..30 {
        freeze_once(target.pid(), &options());
    }
    survival.assert_unharmed();
    target.stop();
}

#[test]
fn signals_that_come_in_the_window_are_delivered_once_each() {
    let _one = alone();
    if !ready() {
        return;
    }
    let mut target = start_registers(&["2"]);
    let pid = target.pid();
    let sent = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let mut expected = 0;
    // Standard signals do not queue: one freeze at a time, one signal each, at another stage each.
    for stage in biopsy_target::freeze::Stage::ALL {
        let counter = std::sync::Arc::clone(&sent);
        let hook = move |reached| {
            let first = counter.fetch_add(u64::from(reached == *stage), std::sync::atomic::Ordering::Relaxed);
            if reached == *stage && first == 0 {
                biopsy_testkit::send_signal(pid, Signal::USR1);
            }
        };
        sent.store(0, std::sync::atomic::Ordering::Relaxed);
        freeze_once(pid, &at_stages(hook));
        expected += 1;
        let line = target.ask(&format!("signals {expected}"), "INTACT", crate::support::PATIENCE);
        let line = line.unwrap_or_else(|| panic!("a signal sent at {stage:?} was lost"));
        assert_eq!(number(&line, "signals"), expected, "{stage:?}");
    }
    assert_untraced(pid);
    target.stop();
}
