//! Trees that are pruned keep their sums.

use super::*;
use crate::trace::calls::Purpose;
use crate::trace::frames::FrameTable;
use crate::trace::made::{MS, Made};
use proptest::prelude::*;

/// A tree of stacks with times, pruned to so many nodes.
fn pruned(stacks: &[(Vec<&str>, u64)], limit: usize) -> (FlameTree, usize) {
    let mut made = Made::default();
    let handles: Vec<_> = stacks.iter().map(|(stack, _)| made.stack(stack)).collect();
    let mut frames = FrameTable::new(&made.timeline);
    let tree = CallTree::new(&made.timeline, &mut frames, Purpose::Waiting);
    let mut own = tree.zeros();
    for (handle, (_, ms)) in handles.iter().zip(stacks) {
        let node = &mut own[tree.node_of(*handle) as usize];
        *node = *node + Nanos(ms * MS);
    }
    let with_time = tree.totals(&own).iter().filter(|total| total.0 > 0).count();
    (prune(&tree, &own, limit), with_time)
}

#[test]
fn what_is_pruned_below_a_node_is_one_node() {
    let stacks = [
        (vec!["main", "a"], 50),
        (vec!["main", "b"], 30),
        (vec!["main", "c"], 5),
        (vec!["main", "d", "e"], 4),
    ];
    let (flame, _) = pruned(&stacks, 4);
    assert_eq!((flame.total(), flame.pruned_nodes), (Nanos(89 * MS), 3), "c, d and what d calls");
    let main = &flame.nodes[flame.nodes[0].children[0] as usize];
    let below: Vec<_> = main.children.iter().map(|at| &flame.nodes[*at as usize]).collect();
    let times: Vec<_> =
        below.iter().map(|node| (node.total.0 / MS, node.kind == FlameKind::Pruned)).collect();
    assert_eq!(times, [(50, false), (30, false), (9, true)], "the largest first, what was pruned last");
    let (whole, _) = pruned(&stacks, 100);
    assert_eq!((whole.pruned_nodes, whole.nodes.len()), (0, 7));
    assert!(whole.nodes.iter().all(|node| node.kind != FlameKind::Pruned));
    assert_eq!(pruned(&[(vec!["main"], 0)], 10).0, FlameTree::default(), "nothing to draw");
}

#[test]
fn calls_that_are_too_deep_are_counted_all() {
    let deep: Vec<&str> = std::iter::repeat_n("again", STACK_DEPTH + 5).collect();
    let (flame, _) = pruned(&[(deep.clone(), 7), (deep[..STACK_DEPTH].to_vec(), 2)], 100_000);
    assert_eq!(flame.pruned_nodes, 5, "each of them, and not the first alone");
    let last = flame.nodes.last().expect("a node");
    assert_eq!((last.kind, last.total), (FlameKind::Pruned, Nanos(7 * MS)));
}

proptest! {
    #[test]
    fn sums_stay_true_however_much_is_pruned(
        stacks in prop::collection::vec(
            (prop::collection::vec(prop::sample::select(&["a", "b", "c", "d", "k:read"][..]), 0..7), 0_u64..40), 1..40),
        limit in 1_usize..30,
    ) {
        let (flame, with_time) = pruned(&stacks, limit);
        let whole: u64 = stacks.iter().map(|(_, ms)| ms * MS).sum();
        prop_assert_eq!(flame.total(), Nanos(whole));
        let mut seen = vec![0; flame.nodes.len()];
        for (at, node) in flame.nodes.iter().enumerate() {
            let children: Vec<_> = node.children.iter().map(|child| &flame.nodes[*child as usize]).collect();
            let below: u64 = children.iter().map(|child| child.total.0).sum();
            prop_assert_eq!(node.total.0, node.own.0 + below);
            prop_assert!(node.children.iter().all(|child| *child as usize > at));
            let drawn: Vec<_> = children.iter().filter(|child| child.kind != FlameKind::Pruned).collect();
            prop_assert!(drawn.is_sorted_by(|a, b| a.total >= b.total));
            let pruned = children.len() - drawn.len();
            prop_assert!(pruned <= 1 && (pruned == 0 || children.last().map(|last| last.kind) == Some(FlameKind::Pruned)));
            node.children.iter().for_each(|child| seen[*child as usize] += 1);
        }
        prop_assert!(seen.iter().skip(1).all(|times| *times == 1), "a tree");
        let drawn = flame.nodes.iter().filter(|node| node.kind != FlameKind::Pruned).count();
        prop_assert_eq!(drawn, with_time.min(limit));
        prop_assert_eq!(flame.pruned_nodes, with_time - drawn);
        // No node that was left out is larger than one that is drawn.
        let least = flame.nodes.iter().filter(|node| node.kind != FlameKind::Pruned).map(|node| node.total).min();
        let single = flame.nodes.iter().filter(|node| node.kind == FlameKind::Pruned).map(|node| node.total).max();
        if flame.pruned_nodes == 1 {
            prop_assert!(single <= least);
        }
    }
}
