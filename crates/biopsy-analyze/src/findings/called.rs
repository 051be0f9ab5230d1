//! What of libraries a function of the program calls: the name that a person knows, where the innermost function is some inner part of it.

use crate::findings::evidence::at;
use crate::findings::finding::{Evidence, Reference, Value};
use crate::findings::scene::Scene;
use crate::trace::cost_names::{Cost, WORDS, cost_of};
use crate::trace::flame::FlameKind;
use crate::trace::function::{FunctionHandle, FunctionKind};
use crate::whose::Whose;
use crate::words::percent;
use std::collections::BTreeMap;

/// It is named from this share of the function's time on.
const CALLEE: f64 = 0.4;

/// A function of a library that a function of the program calls.
pub(super) struct Called {
    function: FunctionHandle,
    /// In backticks.
    pub(super) name: String,
    /// Of the program's function's CPU time.
    share: f64,
    /// What it is there for, where its name says so.
    pub(super) cost: Option<Cost>,
}

impl Called {
    /// `of` is what the share is of: "that", or "the CPU time of" the program's function.
    pub(super) fn evidence(&self, of: &str) -> Evidence {
        let words = WORDS.iter().find(|(cost, _)| Some(*cost) == self.cost);
        let words = words.map_or(String::new(), |(_, words)| format!(": {words}"));
        let text = format!("{} of {of} is in {}, which it calls{words}", percent(self.share), self.name);
        at(Reference::Function(self.function), text, Some(Value::Share(self.share)))
    }
}

/// Where most of the CPU time of a function of the program goes, of what it calls itself.
pub(super) fn largest(scene: &Scene<'_>, program: FunctionHandle) -> Option<Called> {
    let tree = &scene.analysis.flames.all.cpu;
    let is_other = |function| {
        let known = scene.row(function).filter(|row| row.named && row.whose != Whose::Program);
        known.is_some_and(|row| matches!(row.kind, FunctionKind::Native | FunctionKind::Jit))
    };
    let mut sums: BTreeMap<FunctionHandle, f64> = BTreeMap::new();
    let mut all = 0.0;
    for node in tree.nodes.iter().filter(|node| node.kind == FlameKind::Function(program)) {
        all += node.total.as_secs_f64();
        for child in node.children.iter().filter_map(|&child| tree.nodes.get(child as usize)) {
            if let FlameKind::Function(function) = child.kind
                && is_other(function)
            {
                *sums.entry(function).or_default() += child.total.as_secs_f64();
            }
        }
    }
    let (function, time) = sums.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let share = time / all.max(1e-9);
    let name = scene.function_name(Some(function))?;
    let cost = scene.row(function).and_then(cost_of);
    (share >= CALLEE).then_some(Called { function, name, share, cost })
}
