//! Flame graphs: call trees merged from the root, pruned to a bounded number of nodes with the sums kept true.

use crate::function::FunctionHandle;
use biopsy_model::{Nanos, Pid, Tid};

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
    /// Waiting time by function. Comes from looks at waiting threads, or else from recorded waits with stacks.
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
