//! Circles of waits, against everything that could go on tried one by one.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn waits(pairs: &[(u32, &[u32])]) -> Vec<Waiting> {
    let one = |(thread, others): &(u32, &[u32])| Waiting {
        thread: Tid(*thread),
        for_threads: others.iter().map(|other| Tid(*other)).collect(),
        perhaps: Vec::new(),
        any_is_enough: false,
        timed: false,
        closed: false,
    };
    pairs.iter().map(one).collect()
}

fn found(waiting: &[Waiting]) -> Vec<Vec<u32>> {
    circles(waiting).iter().map(|circle| circle.iter().map(|tid| tid.0).collect()).collect()
}

#[test]
fn circles_are_found_once_whoever_leads_into_them() {
    let waiting =
        waits(&[(1, &[3]), (2, &[3]), (3, &[5]), (5, &[4]), (4, &[3]), (7, &[8]), (9, &[9]), (10, &[9])]);
    assert_eq!(found(&waiting), [vec![3, 5, 4], vec![9]]);
}

#[test]
fn a_chain_is_no_circle() {
    assert!(circles(&waits(&[(1, &[2]), (2, &[3]), (3, &[4])])).is_empty());
    assert!(circles::<Tid>(&[]).is_empty());
}

#[test]
fn one_of_several_holders_is_enough_to_be_stuck() {
    // 1 waits for all readers, of whom 2 waits for 1, and 3 runs.
    assert_eq!(found(&waits(&[(1, &[3, 2]), (2, &[1])])), [vec![1, 2]]);
}

#[test]
fn who_waits_for_any_is_stuck_only_with_all_of_them() {
    let mut waiting = waits(&[(1, &[2, 3]), (2, &[1])]);
    waiting[0].any_is_enough = true;
    assert!(circles(&waiting).is_empty(), "3 runs, and may help");
    let mut waiting = waits(&[(1, &[2, 3]), (2, &[1]), (3, &[1])]);
    waiting[0].any_is_enough = true;
    assert_eq!(found(&waiting), [vec![1, 2]]);
    waiting[0].perhaps = vec![Tid(4)];
    assert!(circles(&waiting).is_empty(), "4 may help too");
}

#[test]
fn a_wait_with_a_limit_ends_and_with_it_those_behind() {
    let mut waiting = waits(&[(1, &[2]), (2, &[3]), (3, &[1])]);
    waiting[1].timed = true;
    assert!(circles(&waiting).is_empty());
}

#[test]
fn a_hundred_thousand_waits_are_no_trouble() {
    const ALL: u32 = 100_000;
    let next: Vec<[u32; 1]> = (1..=ALL).map(|thread| [thread % ALL + 1]).collect();
    let ring: Vec<(u32, &[u32])> = (1..=ALL).zip(next.iter().map(<[u32; 1]>::as_slice)).collect();
    assert_eq!(found(&waits(&ring)).first().map(Vec::len), Some(ALL as usize));
    let star: Vec<(u32, &[u32])> = (2..=ALL).map(|thread| (thread, &[1][..])).collect();
    assert!(circles(&waits(&star)).is_empty());
}

/// Threads 0 to 7, each with those it waits for, those that may help, and whether one is enough, there is a limit, nobody else is there.
type Drawn = Vec<(BTreeSet<u32>, BTreeSet<u32>, bool, bool, bool)>;

fn drawn() -> impl Strategy<Value = Drawn> {
    let some = || prop::collection::btree_set(0_u32..9, 0..3);
    let flags = (prop::bool::ANY, prop::bool::weighted(0.1), prop::bool::ANY);
    prop::collection::vec((some(), some(), flags), 0..9).prop_map(|all| {
        all.into_iter().map(|(one, other, (any, timed, closed))| (one, other, any, timed, closed)).collect()
    })
}

/// Who never goes on: all that is left when whoever can goes on, again and again.
fn left(drawn: &Drawn) -> BTreeSet<u32> {
    let mut goes_on: BTreeSet<u32> = (0..9).collect();
    for (thread, (sure, perhaps, _, timed, closed)) in (0..).zip(drawn) {
        let knows_nobody = sure.is_empty() && (perhaps.is_empty() || !closed);
        if !timed && !knows_nobody {
            goes_on.remove(&thread);
        }
    }
    loop {
        let more = (0..).zip(drawn).find(|(thread, (sure, perhaps, any, ..))| {
            let mut all = sure.iter().chain(perhaps);
            let is_free =
                if *any { all.any(|to| goes_on.contains(to)) } else { all.all(|to| goes_on.contains(to)) };
            !goes_on.contains(thread) && is_free
        });
        match more {
            Some((thread, _)) => goes_on.insert(thread),
            None => return (0..9).filter(|thread| !goes_on.contains(thread)).collect(),
        };
    }
}

proptest! {
    #[test]
    fn circles_are_of_those_that_never_go_on(drawn in drawn()) {
        let waiting: Vec<Waiting<u32>> = (0..)
            .zip(&drawn)
            .map(|(thread, (sure, perhaps, any, timed, closed))| Waiting {
                thread,
                for_threads: sure.iter().copied().collect(),
                perhaps: perhaps.iter().copied().collect(),
                any_is_enough: *any,
                timed: *timed,
                closed: *closed,
            })
            .collect();
        let left = left(&drawn);
        prop_assert_eq!(stuck(&waiting).into_iter().collect::<BTreeSet<_>>(), left.clone());
        let waits_for = |from: u32, to: u32| {
            left.contains(&from) && left.contains(&to) && drawn[from as usize].0.contains(&to)
        };
        // Who reaches whom, by all steps there are.
        let mut reach = [[false; 9]; 9];
        for (from, to) in (0..9).flat_map(|from| (0..9).map(move |to| (from, to))) {
            reach[from as usize][to as usize] = waits_for(from, to);
        }
        for over in 0..9 {
            for from in 0..9 {
                for to in 0..9 {
                    reach[from][to] |= reach[from][over] && reach[over][to];
                }
            }
        }
        // Each that reaches itself is in one group with all that it reaches and that reach it; its circle begins with the smallest.
        let mut firsts = BTreeSet::new();
        for thread in (0..9).filter(|thread| reach[*thread][*thread]) {
            firsts.extend((0..9).find(|other| reach[thread][*other] && reach[*other][thread]));
        }
        let found = circles(&waiting);
        let starts: Vec<usize> = found.iter().filter_map(|circle| circle.first()).map(|first| *first as usize).collect();
        prop_assert_eq!(starts, firsts.into_iter().collect::<Vec<_>>());
        for circle in &found {
            let next = circle.iter().cycle().skip(1);
            prop_assert!(circle.iter().zip(next).all(|(from, to)| waits_for(*from, *to)), "{:?}", circle);
            prop_assert_eq!(circle.iter().collect::<BTreeSet<_>>().len(), circle.len(), "nobody twice");
            prop_assert_eq!(circle.iter().min(), circle.first());
        }
    }
}
