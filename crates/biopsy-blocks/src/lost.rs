//! Blocks that nothing leads to: each that nobody refers to is a root of its own, and one of each circle.

use biopsy_dotnet::graph::{Bits, RootKind};

use crate::edges::Edges;
use crate::heap::Heap;
use crate::roots::Found;

/// What they are called.
pub(crate) const LOST: &str = "lost";

/// Adds a root for each. With stacks of some bytes for each block that waits, so circles and chains of any length are harmless.
pub(crate) fn find(heap: &Heap, edges: &Edges, found: &mut Found) {
    let mut reached = Bits::new(heap.len());
    let mut waiting: Vec<u32> = Vec::new();
    for root in &found.list {
        reach(root.block, edges, &mut reached, &mut waiting);
    }
    let mut referred_to = Bits::new(heap.len());
    let unreached = |reached: &Bits, number: &u32| !reached.contains(*number as usize);
    let all = || 0..heap.len() as u32;
    for number in all().filter(|number| unreached(&reached, number)) {
        for target in edges.of(number).iter().filter(|target| **target != number) {
            referred_to.insert(*target as usize);
        }
    }
    let heads: Vec<u32> = all()
        .filter(|number| unreached(&reached, number) && !referred_to.contains(*number as usize))
        .collect();
    for head in heads {
        found.add_named(head, RootKind::Other, LOST, heap.start(head).unwrap_or_default(), 0);
        reach(head, edges, &mut reached, &mut waiting);
    }
    // What is left are circles, and what they lead to. What a walk leaves last nothing but its own circle leads to.
    for number in left_last_first(&reached, edges, heap.len()) {
        if unreached(&reached, &number) {
            found.add_named(number, RootKind::Other, LOST, heap.start(number).unwrap_or_default(), 0);
            reach(number, edges, &mut reached, &mut waiting);
        }
    }
}

/// All blocks that are not reached, the one first that a walk into the depth leaves last.
fn left_last_first(reached: &Bits, edges: &Edges, count: usize) -> Vec<u32> {
    let mut entered = Bits::new(count);
    let mut left = Vec::new();
    // A block, and how many of its references have been gone.
    let mut way: Vec<(u32, u32)> = Vec::new();
    for start in (0..count as u32).filter(|number| !reached.contains(*number as usize)) {
        if entered.insert(start as usize) {
            way.push((start, 0));
        }
        while let Some((number, gone)) = way.last_mut() {
            let next = edges.of(*number).get(*gone as usize).copied();
            *gone += 1;
            match next {
                None => {
                    left.push(*number);
                    way.pop();
                }
                Some(next) if !reached.contains(next as usize) && entered.insert(next as usize) => {
                    way.push((next, 0));
                }
                Some(_) => {}
            }
        }
    }
    left.reverse();
    left
}

fn reach(from: u32, edges: &Edges, reached: &mut Bits, waiting: &mut Vec<u32>) {
    if reached.insert(from as usize) {
        waiting.push(from);
    }
    while let Some(number) = waiting.pop() {
        for target in edges.of(number) {
            if reached.insert(*target as usize) {
                waiting.push(*target);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use biopsy_allocators::UsedBlock;
    use biopsy_model::Avma;
    use proptest::prelude::*;

    use super::*;

    /// Blocks with what they refer to, and the blocks that roots refer to; which are lost.
    fn lost(blocks: &[&[u32]], roots: &[u32]) -> Vec<u32> {
        let used =
            (0..blocks.len() as u64).map(|number| UsedBlock { start: Avma(0x1000 + number * 64), size: 56 });
        let heap = Heap::new(used.collect());
        let edges = Edges::made(blocks);
        let mut found = Found::default();
        roots.iter().for_each(|root| found.add_named(*root, RootKind::Static, "global all", 8, 0));
        let before = found.list.len();
        find(&heap, &edges, &mut found);
        found.list[before..].iter().map(|root| root.block).collect()
    }

    #[test]
    fn what_nobody_refers_to_and_one_of_each_circle_are_lost() {
        assert!(lost(&[&[1], &[2], &[]], &[0]).is_empty());
        assert_eq!(lost(&[&[1], &[2], &[]], &[1]), [0]);
        assert_eq!(lost(&[&[0]], &[]), [0], "it refers to itself");
        assert_eq!(lost(&[&[], &[2], &[1], &[1]], &[0]), [3], "a circle below one that nobody refers to");
        assert_eq!(lost(&[&[], &[2], &[1]], &[0]), [1], "a circle");
        assert_eq!(
            lost(&[&[], &[2], &[1, 0]], &[]),
            [1],
            "what a circle leads to is held by it, wherever it lies"
        );
        let two = lost(&[&[3], &[2], &[1, 0], &[0]], &[]);
        assert_eq!(two, [1], "a circle that another one leads to");
    }

    /// Which block leads to which, by any way.
    fn ways(blocks: &[Vec<u32>]) -> Vec<Vec<bool>> {
        let count = blocks.len();
        let mut leads = vec![vec![false; count]; count];
        for (from, targets) in blocks.iter().enumerate() {
            leads[from][from] = true;
            targets.iter().for_each(|to| leads[from][*to as usize] = true);
        }
        for over in 0..count {
            for from in 0..count {
                for to in 0..count {
                    leads[from][to] |= leads[from][over] && leads[over][to];
                }
            }
        }
        leads
    }

    proptest! {
        #[test]
        fn all_is_held_by_a_root_or_by_what_is_lost_and_no_more_is_lost_than_has_to_be(
            blocks in (1..12_usize).prop_flat_map(|count| {
                proptest::collection::vec(proptest::collection::vec(0..count as u32, 0..3), count)
            }),
            roots in proptest::collection::vec(any::<proptest::sample::Index>(), 0..3),
        ) {
            let count = blocks.len();
            let roots: Vec<u32> = roots.iter().map(|root| root.index(count) as u32).collect();
            let targets: Vec<&[u32]> = blocks.iter().map(Vec::as_slice).collect();
            let found = lost(&targets, &roots);
            let leads = ways(&blocks);
            let is_held = |block: usize, by: &[u32]| by.iter().any(|root| leads[*root as usize][block]);
            let free: Vec<usize> = (0..count).filter(|block| !is_held(*block, &roots)).collect();
            prop_assert!(free.iter().all(|block| is_held(*block, &found)));
            prop_assert!(found.iter().all(|one| free.contains(&(*one as usize))));
            // Nothing leads to the circle of one that is lost but that circle itself; of each such circle it is the only one.
            for one in &found {
                let one = *one as usize;
                prop_assert!(free.iter().all(|other| !leads[*other][one] || leads[one][*other]), "{one} is led to");
                prop_assert!(found.iter().all(|other| *other as usize == one || !leads[*other as usize][one]));
            }
        }
    }

    #[test]
    fn a_chain_and_a_circle_of_half_a_million_are_gone_through_without_recursion() {
        const COUNT: u32 = 500_000;
        let next: Vec<[u32; 1]> = (0..COUNT).map(|number| [(number + 1) % COUNT]).collect();
        let mut targets: Vec<&[u32]> = next.iter().map(|one| &one[..]).collect();
        assert_eq!(lost(&targets, &[]), [0]);
        targets[COUNT as usize - 1] = &[];
        assert_eq!(lost(&targets, &[]), [0]);
        assert_eq!(lost(&targets, &[COUNT / 2]), [0]);
    }
}
