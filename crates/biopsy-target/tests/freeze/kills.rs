//! SIGKILL of biopsy at every stage and at random moments: the target lives, is untraced, and nothing of it has changed.
//!
//! `BIOPSY_KILLS=1000` sets how many random moments are tried (150).

use std::io::{BufRead, BufReader, Write};
use std::time::Duration;

use biopsy_target::freeze::Stage;
use biopsy_testkit::{Program, Signal, Survival, TargetProcess, send_signal};

use crate::support::{
    accomplice, alone, assert_intact, assert_no_child_lives, assert_untraced, at_stages, children,
    freeze_once, is_orphaned, number, options, ready, start_registers, try_freeze, wait_for_no_child,
};

/// Not a test by itself: what the test program does when it was started by [`accomplice`]. Orders: a pid, and the number
/// of the stage at which to die; or `forever`.
#[test]
fn the_one_that_is_killed() {
    let Ok(orders) = std::env::var("BIOPSY_TEST_ORDERS") else { return };
    let (pid, what) = orders.split_once(' ').expect("two words");
    let pid: u32 = pid.parse().expect("a pid");
    let options = match what.parse::<usize>() {
        Ok(index) => {
            let fatal = Stage::ALL[index];
            at_stages(move |stage| {
                if stage == fatal {
                    send_signal(std::process::id(), Signal::KILL);
                    loop {
                        std::thread::park();
                    }
                }
            })
        }
        Err(_) => options(),
    };
    // From now on it freezes.
    #[expect(clippy::disallowed_methods, reason = "a test's own words to a test")]
    let mut out = std::io::stdout();
    out.write_all(b"\nBEGIN\n").and_then(|()| out.flush()).expect("somebody reads it");
    loop {
        // A target that is being let go by the one that was killed before may still be traced.
        if let Ok(all) = try_freeze(&[pid], &options) {
            drop(all);
            if options.at_stage.is_some() {
                // It never came to that stage.
                return;
            }
        }
    }
}

/// Kills an accomplice at its own hand and looks at the target.
pub(crate) fn die_at(stage: usize, target: &mut TargetProcess) {
    let mut child = accomplice(&format!("{} {stage}", target.pid()));
    let status = child.wait().expect("it was started");
    // Only where there is no process in the middle, some stages do not come.
    let is_over = status.success() && !is_orphaned(target.pid());
    assert!(status.code().is_none() || is_over, "{status} at {:?}", Stage::ALL[stage]);
    assert_intact(target);
    assert_untraced(target.pid());
    assert_nothing_left(target.pid());
}

/// Where copies of it are orphans, none is left, and no zombie either, whatever killed us.
fn assert_nothing_left(pid: u32) {
    assert_no_child_lives(pid);
    if is_orphaned(pid) {
        wait_for_no_child(pid);
    }
}

fn sweep(target: &mut TargetProcess, rounds: usize) {
    let survival = Survival::before(target.pid());
    for stage in 0..Stage::ALL.len() {
        for _ in 0..rounds {
            die_at(stage, target);
        }
    }
    survival.assert_unharmed();
    // What the dead left behind goes with the next freeze.
    let left = children(target.pid()).len();
    assert!(left == 0 || !is_orphaned(target.pid()));
    let report = freeze_once(target.pid(), &options());
    assert_eq!(report.leftovers as usize, left, "{report:?}");
    assert_intact(target);
}

#[test]
fn p1_killed_at_every_stage() {
    let _one = alone();
    if !ready() {
        return;
    }
    let mut target = start_registers(&["2"]);
    sweep(&mut target, 3);
    target.stop();
}

#[test]
fn p1_killed_at_every_stage_with_a_single_thread_in_a_read() {
    let _one = alone();
    if !ready() {
        return;
    }
    let mut target = start_registers(&["single"]);
    sweep(&mut target, 3);
    target.stop();
}

/// What is killed while a stub is written leaves the stub, and the next freeze takes it away.
#[test]
fn killed_at_every_stage_of_a_program_without_usable_instructions() {
    let _one = alone();
    if !ready() {
        return;
    }
    let mut target = TargetProcess::start(Program::NoGadgets, &[]);
    sweep(&mut target, 1);
    target.stop();
}

#[test]
fn killed_at_random_moments() {
    let _one = alone();
    if !ready() {
        return;
    }
    let kills = std::env::var("BIOPSY_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(150);
    let mut target = start_registers(&["2"]);
    let survival = Survival::before(target.pid());
    let before = number(&assert_intact(&mut target), "rounds");
    // A well-mixed sequence: the same moments in every run, as far as the machine allows.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for kill in 0..kills {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut child = accomplice(&format!("{} forever", target.pid()));
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        assert!(lines.map_while(Result::ok).any(|line| line == "BEGIN"), "it begins");
        std::thread::sleep(Duration::from_micros((state >> 33) % 40_000));
        child.kill().expect("it was started");
        child.wait().expect("it was started");
        if kill % 10 == 0 {
            assert_intact(&mut target);
            assert_untraced(target.pid());
            assert_nothing_left(target.pid());
        }
    }
    assert_nothing_left(target.pid());
    assert!(number(&assert_intact(&mut target), "rounds") > before);
    survival.assert_unharmed();
    let report = freeze_once(target.pid(), &options());
    assert!(u64::from(report.leftovers) <= kills);
    target.stop();
}
