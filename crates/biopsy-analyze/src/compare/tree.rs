//! The call trees of two recordings as one.

use biopsy_model::order::Order as _;
use rustc_hash::FxHashMap;

use super::difference::{Quantity, Unit};
use super::slices::{Node, Slices};

/// Nodes that are kept.
const NODES: usize = 3_000;
/// Calls below this part of all time are left out.
const SMALLEST: f64 = 0.001;

/// CPU time of both recordings by call: node 0 is the root, a child's index is larger than its parent's.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DifferenceTree {
    /// The nodes.
    pub nodes: Vec<DifferenceNode>,
}

/// One call path.
#[derive(Clone, PartialEq, Debug)]
pub struct DifferenceNode {
    /// Its parent; of the root: itself.
    pub parent: u32,
    /// Name of the function; of the root: empty.
    pub name: String,
    /// Its module.
    pub module: String,
    /// Seconds per unit in it and below, before.
    pub before: f64,
    /// The same, after.
    pub after: f64,
}

/// Puts both together, in seconds per unit.
pub(super) fn merge(before: &Slices, after: &Slices, unit: Unit) -> DifferenceTree {
    let mut nodes: Vec<(u32, Option<&Quantity>, [f64; 2])> = vec![(0, None, [0.0; 2])];
    let mut known: FxHashMap<(u32, &Quantity), u32> = FxHashMap::default();
    for (side, of) in [before, after].into_iter().enumerate() {
        let per = match unit {
            Unit::Second => of.seconds,
            Unit::Request => of.requests.unwrap_or(1).max(1) as f64,
        };
        let mut place = Vec::with_capacity(of.tree.len());
        for (index, Node { parent, function, own }) in of.tree.iter().enumerate() {
            let at = if index == 0 {
                0
            } else {
                let parent = place.get(*parent as usize).copied().unwrap_or(0);
                *known.entry((parent, function)).or_insert_with(|| {
                    nodes.push((parent, Some(function), [0.0; 2]));
                    u32::try_from(nodes.len() - 1).unwrap_or(u32::MAX)
                })
            };
            place.push(at);
            if let Some(node) = nodes.get_mut(at as usize) {
                node.2[side] += own / per.max(f64::MIN_POSITIVE);
            }
        }
    }
    for index in (1..nodes.len()).rev() {
        let (parent, _, times) = nodes[index];
        if let Some(parent) = nodes.get_mut(parent as usize) {
            parent.2[0] += times[0];
            parent.2[1] += times[1];
        }
    }
    keep(&nodes)
}

/// The heaviest nodes: a parent is never lighter than its child, so they are a tree.
fn keep(nodes: &[(u32, Option<&Quantity>, [f64; 2])]) -> DifferenceTree {
    let weight = |times: &[f64; 2]| times[0].max(times[1]);
    let whole = nodes.first().map_or(0.0, |root| weight(&root.2));
    let mut heavy: Vec<usize> =
        (1..nodes.len()).filter(|at| weight(&nodes[*at].2) >= SMALLEST * whole).collect();
    heavy.order_by(|a, b| weight(&nodes[*b].2).total_cmp(&weight(&nodes[*a].2)).then(a.cmp(b)));
    heavy.truncate(NODES);
    heavy.push(0);
    heavy.sort_unstable();
    let mut place: FxHashMap<u32, u32> = FxHashMap::default();
    let mut kept = Vec::with_capacity(heavy.len());
    for at in heavy {
        let (parent, function, [before, after]) = nodes[at];
        let Some(parent) = (if at == 0 { Some(0) } else { place.get(&parent).copied() }) else { continue };
        place.insert(u32::try_from(at).unwrap_or(u32::MAX), u32::try_from(kept.len()).unwrap_or(u32::MAX));
        let (name, module) = match function {
            Some(Quantity::Function { name, module, .. }) => (name.clone(), module.clone()),
            _ => (String::new(), String::new()),
        };
        kept.push(DifferenceNode { parent, name, module, before, after });
    }
    DifferenceTree { nodes: kept }
}
