//! What CPU time goes to that is not the program's own work: memory, collections, exceptions, regular expressions, flushes,
//! page faults, sockets. A sample belongs to the outermost such function of its stack, and to the function of the program that called it.

use crate::trace::calls::CallTree;
use crate::trace::cost_names::{Cost, cost_of};
use crate::trace::frames::{FrameTable, Role};
use crate::trace::function::{FunctionHandle, FunctionKind};
use crate::trace::times::add;
use biopsy_model::Nanos;
use biopsy_model::order::Order as _;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// Callers and entries that are kept of each.
const KEPT: usize = 4;

/// CPU time of one kind.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct CostSum {
    pub(crate) cost: Cost,
    pub(crate) time: Nanos,
    /// Functions of the program below which it is, most time first.
    pub(crate) callers: Vec<(FunctionHandle, Nanos)>,
    /// Where it begins: `malloc`, `asm_exc_page_fault`; most time first.
    pub(crate) entries: Vec<(FunctionHandle, Nanos)>,
}

/// What is known of a node's stack from its root on.
#[derive(Clone, Copy, Default)]
struct Path {
    /// The innermost function of the program outside of the cost.
    own: Option<FunctionHandle>,
    cost: Option<(Cost, FunctionHandle)>,
}

#[derive(Default)]
struct Sums {
    time: Nanos,
    callers: FxHashMap<FunctionHandle, Nanos>,
    entries: FxHashMap<FunctionHandle, Nanos>,
}

/// Sums by kind, most time first.
pub(crate) fn sum(tree: &CallTree, own: &[Nanos], frames: &FrameTable) -> Vec<CostSum> {
    let costs: Vec<Option<Cost>> = frames.functions.iter().map(cost_of).collect();
    let mut paths = vec![Path::default(); tree.nodes.len()];
    let mut sums: FxHashMap<Cost, Sums> = FxHashMap::default();
    // A parent's index is smaller than its child's, so its path is known.
    for (at, node) in tree.nodes.iter().enumerate().skip(1) {
        let mut path = paths.get(node.parent as usize).copied().unwrap_or_default();
        let here = costs.get(node.function.0 as usize).copied().flatten();
        match (path.cost, here) {
            (None, Some(cost)) => path.cost = Some((cost, node.function)),
            (Some((outer, _)), Some(cost)) if cost.is_apart_from(outer) => {
                path.cost = Some((cost, node.function));
            }
            (None, None) if is_own(frames, node.function) => path.own = Some(node.function),
            _ => {}
        }
        if let Some(slot) = paths.get_mut(at) {
            *slot = path;
        }
        let time = own.get(at).copied().unwrap_or_default();
        let Some((cost, entry)) = path.cost.filter(|_| time.0 > 0) else { continue };
        let sum = sums.entry(cost).or_default();
        sum.time = sum.time + time;
        add(&mut sum.entries, entry, time);
        if let Some(own) = path.own {
            add(&mut sum.callers, own, time);
        }
    }
    let mut rows: Vec<CostSum> = sums
        .into_iter()
        .map(|(cost, sums)| CostSum {
            cost,
            time: sums.time,
            callers: most(sums.callers),
            entries: most(sums.entries),
        })
        .collect();
    rows.order_by_key(|row| (Reverse(row.time), row.cost));
    rows
}

fn is_own(frames: &FrameTable, function: FunctionHandle) -> bool {
    frames.role(function) == Role::Plain
        && frames
            .row(function)
            .is_some_and(|row| row.named && matches!(row.kind, FunctionKind::Native | FunctionKind::Jit))
}

fn most(times: FxHashMap<FunctionHandle, Nanos>) -> Vec<(FunctionHandle, Nanos)> {
    let mut rows: Vec<_> = times.into_iter().collect();
    rows.order_by_key(|&(function, time)| (Reverse(time), function));
    rows.truncate(KEPT);
    rows
}

#[cfg(test)]
mod tests;
