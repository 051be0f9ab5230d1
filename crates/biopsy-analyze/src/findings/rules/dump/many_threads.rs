//! Very many threads.

use crate::dump::DumpAnalysis;
use crate::findings::evidence::{fact, grade, steps};
use crate::findings::finding::{Finding, FindingId, Value};
use crate::words::threads;

/// Threads: pools of servers have hundreds; thousands cost memory and scheduling.
const THREADS: [usize; 3] = [usize::MAX, 2000, 500];

pub(crate) fn find(analysis: &DumpAnalysis) -> Option<Finding> {
    let count = analysis.threads.len();
    let severity = grade(count, THREADS)?;
    Some(Finding {
        id: FindingId::ManyThreads,
        severity,
        impact: (count as f64 / 10_000.0).min(1.0),
        title: format!("The process has {}", threads(count)),
        explanation: "Each thread costs a stack and time of the scheduler. So many are rarely meant: a pool without a limit, or \
                      threads that are started for each request and never end."
            .to_owned(),
        evidence: vec![fact(
            format!("{} different stacks", analysis.groups.len()),
            Some(Value::Count(analysis.groups.len() as f64)),
        )],
        next_steps: steps(&["See in the largest groups of equal stacks who they are"]),
    })
}
