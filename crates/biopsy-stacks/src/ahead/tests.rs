//! Sums over frames.

use super::*;

fn sum(net: i8, lowest: i8) -> Sum {
    Sum { net, lowest, mode: HoldMode::Alone, gave: lowest < 0 }
}

const LOCK: u64 = 0x1000;

fn frames(all: &[(&[Sum], &[Sum])]) -> Vec<(usize, FrameWays)> {
    let sums = |of: &[Sum]| of.iter().map(|sum| paths::Sums::from([(LOCK, *sum)])).collect::<Vec<_>>();
    let frame = |(done, cleanup): &(&[Sum], &[Sum])| FrameWays {
        ahead: Ways { done: sums(done), ..Ways::default() },
        cleanup: sums(cleanup),
    };
    all.iter().map(frame).enumerate().collect()
}

fn held(all: &[(&[Sum], &[Sum])], level: i32, acquires: bool) -> Option<(u8, WaysSay, bool)> {
    hold(&frames(all), LOCK, level, acquires, 0).map(|hold| (hold.times, hold.ways, hold.cleanup))
}

#[test]
fn a_lock_that_is_given_back_ahead_is_held() {
    assert_eq!(held(&[(&[sum(-1, -1)], &[])], 0, false), Some((1, WaysSay::All, false)));
    assert_eq!(held(&[(&[sum(-1, -1)], &[sum(-1, -1)])], 0, false), Some((1, WaysSay::All, true)));
    assert_eq!(held(&[(&[sum(0, 0)], &[])], 0, false), None, "taken and given back");
    assert_eq!(
        held(&[(&[sum(0, -1)], &[])], 0, false),
        Some((1, WaysSay::All, false)),
        "given back, and taken again"
    );
}

#[test]
fn ways_that_disagree_are_said() {
    assert_eq!(held(&[(&[sum(-1, -1), sum(0, 0)], &[])], 0, false), Some((1, WaysSay::Some, false)));
}

#[test]
fn what_is_waited_for_is_given_back_once_more_than_it_is_held() {
    // The frame of the lock's own code, then the caller.
    let own = [sum(1, 0), sum(0, 0)];
    assert_eq!(held(&[(&own, &[]), (&[sum(-1, -1)], &[])], 1, true), None);
    assert_eq!(held(&[(&own, &[]), (&[sum(-2, -2)], &[])], 1, true), Some((1, WaysSay::All, false)));
    // A caller further out holds it.
    let further = held(&[(&own, &[]), (&[sum(-1, -1)], &[]), (&[sum(-1, -1)], &[])], 1, true);
    assert_eq!(further, Some((1, WaysSay::All, false)));
}

#[test]
fn a_mutex_that_is_taken_again_after_a_condition_is_not_held_meanwhile() {
    assert_eq!(held(&[(&[sum(0, 0)], &[]), (&[sum(-1, -1)], &[])], 1, false), None);
    let pad = held(&[(&[sum(0, 0)], &[]), (&[sum(-1, -1)], &[sum(-1, -1)])], 1, false);
    assert_eq!(pad, Some((1, WaysSay::No, true)), "the pad knows nothing of the wait");
}

#[test]
fn a_loop_that_is_lost_ends_nothing_and_one_without_end_does() {
    let outer = || FrameWays {
        ahead: Ways { done: vec![paths::Sums::from([(LOCK, sum(-1, -1))])], ..Ways::default() },
        cleanup: Vec::new(),
    };
    let inner = |lost| FrameWays {
        ahead: Ways { loops: vec![paths::Sums::new()], lost, ..Ways::default() },
        cleanup: Vec::new(),
    };
    assert_eq!(hold(&[(0, inner(false)), (1, outer())], LOCK, 0, false, 0), None, "it never comes there");
    assert!(hold(&[(0, inner(true)), (1, outer())], LOCK, 0, false, 0).is_some());
    assert!(
        hold(&[(0, inner(false)), (1, outer()), (2, outer())], LOCK, 1, true, 0).is_some(),
        "the lock's own loop"
    );
}
