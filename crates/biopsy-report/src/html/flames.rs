//! The flame graphs in the page: each tree as three columns in the order of a walk from the root.

use super::numbers::micros;
use crate::assemble::Assembly;
use biopsy_analyze::{FlameKind, FlameTree};
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Flame {
    /// `None`: all threads.
    tid: Option<u32>,
    label: String,
    cpu: Tree,
    waiting: Tree,
}

/// Node 0 is the root; a node's children follow it, one deeper.
#[derive(Serialize, Default)]
struct Tree {
    /// Position in the table of functions; -1: the root, -2: pruned.
    functions: Vec<i64>,
    depths: Vec<u32>,
    /// Microseconds in the node and below.
    totals: Vec<f64>,
    pruned: usize,
}

pub(super) fn flames(assembly: &Assembly<'_>) -> Vec<Flame> {
    let flames = &assembly.analysis.flames;
    let mut views = vec![Flame {
        tid: None,
        label: "all threads".to_owned(),
        cpu: tree(assembly, &flames.all.cpu),
        waiting: tree(assembly, &flames.all.waiting),
    }];
    views.extend(flames.threads.iter().map(|thread| Flame {
        tid: Some(thread.tid.0),
        label: format!("{} ({})", thread.name, thread.tid),
        cpu: tree(assembly, &thread.flames.cpu),
        waiting: tree(assembly, &thread.flames.waiting),
    }));
    views
}

fn tree(assembly: &Assembly<'_>, tree: &FlameTree) -> Tree {
    let mut columns = Tree { pruned: tree.pruned_nodes, ..Tree::default() };
    let mut walk = vec![(0u32, 0u32)];
    while let Some((index, depth)) = walk.pop() {
        let Some(node) = tree.nodes.get(index as usize) else { continue };
        let function = match node.kind {
            FlameKind::Root => -1,
            FlameKind::Pruned => -2,
            FlameKind::Function(handle) => assembly
                .positions
                .get(&handle)
                .and_then(|position| i64::try_from(*position).ok())
                .unwrap_or(-2),
        };
        columns.functions.push(function);
        columns.depths.push(depth);
        columns.totals.push(micros(node.total));
        // A child comes after its parent in the tree; anything else would be a cycle.
        walk.extend(
            node.children.iter().rev().filter(|child| **child > index).map(|child| (*child, depth + 1)),
        );
    }
    columns
}
