//! Call trees against stacks that are walked one by one.

use super::*;
use crate::trace::made::{MS, Made};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const BY_TIMER: Purpose = Purpose::Cpu { by_timer: true };
const BY_CYCLES: Purpose = Purpose::Cpu { by_timer: false };

/// The path of a node's names, outermost first.
fn path(tree: &CallTree, frames: &FrameTable, node: NodeIndex) -> Vec<String> {
    let mut names = Vec::new();
    let mut at = node;
    while at != 0 {
        let node = tree.nodes[at as usize];
        names.push(frames.row(node.function).expect("a function").name.clone());
        at = node.parent;
    }
    names.reverse();
    names
}

#[test]
fn frames_of_the_scheduler_and_of_the_timer_are_folded_by_purpose() {
    #[rustfmt::skip]
    let table: &[(Purpose, &[&str], &[&str])] = &[
        (BY_TIMER, &["main", "b<a"], &["main", "a", "b"]),
        (BY_TIMER, &["main", "k:__schedule", "k:finish_task_switch.isra.0"], &["main", "kernel: scheduling"]),
        // All that the scheduler calls is part of switching.
        (BY_TIMER, &["main", "k:schedule", "k:ext4_write", "k:memcpy"], &["main", "kernel: scheduling"]),
        (BY_TIMER, &["main", "k:_raw_spin_unlock_irqrestore"], &["main"]),
        (BY_CYCLES, &["main", "k:_raw_spin_unlock_irqrestore"], &["main", "_raw_spin_unlock_irqrestore"]),
        // There is nobody around it that it could be taken for.
        (BY_TIMER, &["k:_raw_spin_unlock_irqrestore"], &["_raw_spin_unlock_irqrestore"]),
        (Purpose::Waiting, &["main", "k:do_poll", "k:schedule", "k:__schedule"], &["main", "do_poll"]),
        (Purpose::Waiting, &["k:schedule", "k:do_poll"], &["schedule", "do_poll"]),
        (Purpose::Waiting, &["main", "k:_raw_spin_unlock_irq"], &["main", "_raw_spin_unlock_irq"]),
        // A function of the program that happens to be called like one of the kernel's.
        (BY_TIMER, &["main", "schedule"], &["main", "schedule"]),
        (BY_TIMER, &[], &["(no stack)"]),
    ];
    for (purpose, stack, expected) in table {
        let mut made = Made::default();
        let handle = made.stack(stack);
        let mut frames = FrameTable::new(&made.timeline);
        let tree = CallTree::new(&made.timeline, &mut frames, *purpose);
        assert_eq!(path(&tree, &frames, tree.node_of(handle)), *expected, "{purpose:?} {stack:?}");
    }
}

#[test]
fn stacks_that_are_not_there_have_the_node_of_none() {
    let mut made = Made::default();
    let handle = made.stack(&["main", "work"]);
    // A caller that comes after its callee would be a cycle.
    made.timeline.stacks[0].caller = handle;
    let mut frames = FrameTable::new(&made.timeline);
    let tree = CallTree::new(&made.timeline, &mut frames, BY_TIMER);
    assert_eq!(path(&tree, &frames, tree.node_of(handle)), ["main", "work"]);
    let none = tree.node_of(None);
    assert_eq!(tree.node_of(Some(StackHandle(77))), none);
    assert_eq!(path(&tree, &frames, none), ["(no stack)"]);
}

const NAMES: &[&str] = &["a", "b", "c", "b<a", "k:read", "k:schedule", "jit!Shop.Run", "?"];

proptest! {
    #[test]
    fn times_of_functions_are_those_of_the_stacks_they_are_on(
        stacks in prop::collection::vec(
            (prop::collection::vec(prop::sample::select(NAMES), 0..9), 1_u64..50), 1..30),
    ) {
        let mut made = Made::default();
        let handles: Vec<_> = stacks.iter().map(|(stack, _)| made.stack(stack)).collect();
        let mut frames = FrameTable::new(&made.timeline);
        let tree = CallTree::new(&made.timeline, &mut frames, BY_TIMER);
        let mut own = tree.zeros();
        for (handle, (_, ms)) in handles.iter().zip(&stacks) {
            let node = &mut own[tree.node_of(*handle) as usize];
            *node = *node + Nanos(ms * MS);
        }
        // Of each stack by itself: the innermost has it, and each on it has it once, however often it calls itself.
        let mut expected: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for (handle, (_, ms)) in handles.iter().zip(&stacks) {
            let path = path(&tree, &frames, tree.node_of(*handle));
            expected.entry(path.last().expect("never empty").clone()).or_default().0 += ms;
            for name in path.iter().collect::<BTreeSet<_>>() {
                expected.entry(name.clone()).or_default().1 += ms;
            }
        }
        let found = tree.by_function(&own, frames.functions.len());
        for (row, (in_it, below)) in frames.functions.iter().zip(&found) {
            let (self_ms, total_ms) = expected.get(&row.name).copied().unwrap_or_default();
            prop_assert_eq!((in_it.0 / MS, below.0 / MS), (self_ms, total_ms), "{}", &row.name);
        }
        prop_assert!(tree.nodes.iter().enumerate().skip(1).all(|(at, node)| (node.parent as usize) < at));
        let paths: BTreeSet<_> = (1..tree.nodes.len() as u32).map(|at| path(&tree, &frames, at)).collect();
        prop_assert_eq!(paths.len(), tree.nodes.len() - 1, "a node for each path");
        let whole: u64 = stacks.iter().map(|(_, ms)| ms * MS).sum();
        prop_assert_eq!(tree.totals(&own)[0], Nanos(whole));
    }
}
