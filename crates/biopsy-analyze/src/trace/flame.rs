//! Flame graphs: call trees merged from the root, pruned to a bounded number of nodes with the sums kept true.

use crate::limits::STACK_DEPTH;
use crate::trace::calls::CallTree;
use crate::trace::frames::as_u32;
use crate::trace::function::FunctionHandle;
use biopsy_model::order::Order as _;
use biopsy_model::{Nanos, Pid, Tid};
use rustc_hash::FxHashMap;

/// The flame graphs of a recording.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Flames {
    /// Of all threads.
    pub all: FlamePair,
    /// Of the busiest threads, busiest first.
    pub threads: Vec<ThreadFlames>,
}

/// CPU and waiting.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FlamePair {
    /// CPU time by function.
    pub cpu: FlameTree,
    /// Waiting time by function. Comes from off-CPU samples, or else from recorded waits with stacks.
    pub waiting: FlameTree,
}

/// The flame graphs of one thread.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ThreadFlames {
    /// Who.
    pub tid: Tid,
    /// Of which process.
    pub pid: Pid,
    /// Its name.
    pub name: String,
    /// The graphs.
    pub flames: FlamePair,
}

/// A tree in one vector: node 0 is the root (all time), a child's index is always larger than its parent's.
/// Empty: nothing to draw.
///
/// For every node: `total == own + sum of the children's totals`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FlameTree {
    /// The nodes.
    pub nodes: Vec<FlameNode>,
    /// How many nodes were folded into `Pruned` ones.
    pub pruned_nodes: usize,
}

/// What a node stands for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FlameKind {
    /// All time of the tree.
    Root,
    /// A function.
    Function(FunctionHandle),
    /// Calls too small to be drawn one by one, below the same parent.
    Pruned,
}

/// One node.
#[derive(Clone, PartialEq, Debug)]
pub struct FlameNode {
    /// What it stands for.
    pub kind: FlameKind,
    /// Time in it and below.
    pub total: Nanos,
    /// Time in it alone.
    pub own: Nanos,
    /// Indices of its children, largest first, a `Pruned` one last.
    pub children: Vec<u32>,
}

impl FlameTree {
    /// All time of the tree.
    #[must_use]
    pub fn total(&self) -> Nanos {
        self.nodes.first().map_or(Nanos(0), |root| root.total)
    }
}

/// Prunes `tree` (with `own` time by node) to at most `limit` nodes that are drawn one by one.
pub(crate) fn prune(tree: &CallTree, own: &[Nanos], limit: usize) -> FlameTree {
    let totals = tree.totals(own);
    let mut order: Vec<u32> = (0..as_u32(totals.len()))
        .filter(|&at| totals.get(at as usize).is_some_and(|total| total.0 > 0))
        .collect();
    if order.is_empty() {
        return FlameTree::default();
    }
    // A parent's total is never less than its child's and its index is smaller: it is kept before its child.
    let key = |at: &u32| (std::cmp::Reverse(totals.get(*at as usize).copied().unwrap_or_default()), *at);
    let seen = order.len();
    if seen > limit {
        order.select_nth_unstable_by_key(limit, key);
        order.truncate(limit);
    }
    order.sort_unstable();
    let mut flame =
        FlameTree { nodes: Vec::with_capacity(order.len() * 2), pruned_nodes: seen - order.len() };
    let mut place: FxHashMap<u32, (u32, u32)> = FxHashMap::default();
    for &at in &order {
        let (Some(node), Some(&total)) = (tree.nodes.get(at as usize), totals.get(at as usize)) else {
            continue;
        };
        let (kind, depth) = if at == 0 {
            (FlameKind::Root, 0)
        } else {
            // What is too deep, and all below it.
            let parent = place.get(&node.parent).filter(|(_, depth)| (*depth as usize) < STACK_DEPTH);
            let Some(&(parent, depth)) = parent else {
                flame.pruned_nodes += 1;
                continue;
            };
            if let Some(parent) = flame.nodes.get_mut(parent as usize) {
                parent.children.push(as_u32(place.len()));
            }
            (FlameKind::Function(node.function), depth + 1)
        };
        place.insert(at, (as_u32(flame.nodes.len()), depth));
        let own = own.get(at as usize).copied().unwrap_or_default();
        flame.nodes.push(FlameNode { kind, total, own, children: Vec::new() });
    }
    add_remainders(&mut flame);
    flame
}

/// What a node's total has beyond its own time and its kept children was pruned.
fn add_remainders(flame: &mut FlameTree) {
    for at in 0..flame.nodes.len() {
        let Some(node) = flame.nodes.get(at) else { continue };
        let mut children = node.children.clone();
        let time = |child: &u32| flame.nodes.get(*child as usize).map_or(Nanos(0), |node| node.total);
        children.order_by_key(|child| std::cmp::Reverse(time(child)));
        let known = children.iter().fold(node.own, |sum, child| sum + time(child));
        let missing = Nanos(node.total.0.saturating_sub(known.0));
        if missing.0 > 0 {
            children.push(as_u32(flame.nodes.len()));
            let pruned =
                FlameNode { kind: FlameKind::Pruned, total: missing, own: missing, children: Vec::new() };
            flame.nodes.push(pruned);
        }
        if let Some(node) = flame.nodes.get_mut(at) {
            node.children = children;
        }
    }
}

#[cfg(test)]
mod tests;
