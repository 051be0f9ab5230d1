//! What holds much, and where it piles up: Eclipse MAT's rules for leak suspects, on the tree of holders.
//!
//! A suspect is what retains a tenth of the heap. From there one goes down while one branch has most of what is above it, to the last
//! node of which there are few: what is below it are the many. Of one moment nobody can say whether that is a leak.

use super::holders::{HolderNode, HolderTree};
use super::names::Step;
use biopsy_dotnet::graph::ObjectIndex;

/// The share of the live bytes from which something is suspect (MAT's).
const SUSPECT: f64 = 0.1;
/// The share of a node that its largest branch must have for one to go on there (MAT's).
const MOST_OF_IT: f64 = 0.7;
/// So many times as many objects below a node as there are of it: they pile up there.
const PILE: u64 = 8;
/// Suspects that are told.
const TOLD: usize = 5;

/// What holds much.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Suspect {
    /// From the root to what holds.
    pub way: Vec<Step>,
    /// Objects that hold.
    pub holders: u64,
    /// Bytes that live because of them.
    pub retained: u64,
    /// Objects that live because of them, themselves among them.
    pub objects: u64,
    /// One of them.
    pub example: Option<ObjectIndex>,
    /// Where several hold it: one way to one of them.
    pub one_way: Vec<Step>,
    /// What is held the most: how, and of which type. `None`: nothing piles up, the holders are it.
    pub held: Option<HeldType>,
}

/// What is held.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HeldType {
    /// How it is held, and its type.
    pub step: Step,
    /// How many.
    pub objects: u64,
    /// Bytes that live because of them.
    pub retained: u64,
}

impl Suspect {
    /// All of a tree, the largest first.
    #[must_use]
    pub fn all(tree: &HolderTree) -> Vec<Self> {
        let whole = tree.nodes.first().map_or(0, |top| top.retained);
        let below = branches(tree);
        let least = (whole as f64 * SUSPECT) as u64;
        let of = |number: u32| &tree.nodes[number as usize];
        let top = below.first().into_iter().flatten();
        let mut found: Vec<Self> = top
            .filter(|number| whole > 0 && of(**number).retained >= least)
            .map(|number| follow(tree, &below, *number))
            .collect();
        found.sort_by_key(|one| std::cmp::Reverse(one.retained));
        found.truncate(TOLD);
        found
    }
}

/// What is below each node, the most first.
pub(super) fn branches(tree: &HolderTree) -> Vec<Vec<u32>> {
    let mut below = vec![Vec::new(); tree.nodes.len()];
    for (number, node) in tree.nodes.iter().enumerate().skip(1) {
        below[node.parent as usize].push(number as u32);
    }
    for branches in &mut below {
        branches.sort_by_key(|number: &u32| std::cmp::Reverse(tree.nodes[*number as usize].retained));
    }
    below
}

/// Objects of a node and of all below it.
fn objects_below(below: &[Vec<u32>], tree: &HolderTree, from: u32) -> u64 {
    let (mut sum, mut open) = (0_u64, vec![from]);
    while let Some(at) = open.pop() {
        sum = sum.saturating_add(tree.nodes[at as usize].objects);
        open.extend_from_slice(&below[at as usize]);
    }
    sum
}

fn follow(tree: &HolderTree, below: &[Vec<u32>], from: u32) -> Suspect {
    let of = |number: u32| -> &HolderNode { &tree.nodes[number as usize] };
    let mut at = from;
    let mut held = None;
    while let Some(largest) = below[at as usize].first().copied() {
        let (holder, branch) = (of(at), of(largest));
        if branch.retained as f64 <= holder.retained as f64 * MOST_OF_IT {
            break;
        }
        if branch.objects >= holder.objects.saturating_mul(PILE) {
            held = Some(HeldType {
                step: Step { via: branch.via.clone(), of: branch.of.clone(), times: 1 },
                objects: branch.objects,
                retained: branch.retained,
            });
            break;
        }
        at = largest;
    }
    let holder = of(at);
    Suspect {
        way: tree.way(at),
        holders: holder.objects,
        retained: holder.retained,
        objects: objects_below(below, tree, at),
        example: holder.example,
        one_way: of(from).one_way.clone(),
        held,
    }
}
