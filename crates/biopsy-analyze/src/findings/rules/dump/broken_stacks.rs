//! Stacks that do not reach their root.

use crate::dump::DumpAnalysis;
use crate::findings::dump::{has_goroutines, share};
use crate::findings::evidence::{fact, steps};
use crate::findings::finding::{Finding, FindingId, Severity};
use crate::words::threads;
use biopsy_model::stack::StackEnd;

/// From this share of all threads on what is said of the rest is in doubt.
const MOST: f64 = 0.5;

pub(crate) fn find(analysis: &DumpAnalysis) -> Option<Finding> {
    let broken: usize = analysis
        .groups
        .iter()
        .filter(|group| !matches!(group.end, StackEnd::Root) && !group.cut)
        .map(|group| group.members.len())
        .sum();
    let part = share(analysis, broken);
    if broken == 0 {
        return None;
    }
    Some(Finding {
        id: FindingId::BrokenStacks,
        severity: match part {
            MOST.. if !has_goroutines(analysis) => Severity::Notice,
            _ => Severity::Info,
        },
        // Behind all that says what the threads do: it is no cause.
        impact: part * 0.1,
        title: format!("The stacks of {} of {} are not whole", threads(broken), analysis.threads.len()),
        explanation: "Their inner frames are right; where they began is not known. Equal stacks may be told apart, or put together, \
                      wrongly."
            .to_owned(),
        evidence: analysis.undetermined.iter().take(4).map(|text| fact(text.clone(), None)).collect(),
        next_steps: steps(&["Put the program's files, or its debug files, where the process had them, and analyse again"]),
    })
}
