//! Threads that execute.

use crate::dump::{DumpAnalysis, ThreadState};
use crate::findings::dump::{at, share};
use crate::findings::finding::{Finding, FindingId, Reference, Severity};
use crate::words::threads;

pub(crate) fn find(analysis: &DumpAnalysis) -> Option<Finding> {
    if analysis.crash.is_some() {
        return None;
    }
    let count = analysis.threads.iter().filter(|thread| thread.state == ThreadState::Running).count();
    if count == 0 {
        return None;
    }
    let groups = analysis.groups.iter().enumerate().filter(|(_, group)| group.running > 0).take(5);
    let evidence = groups
        .map(|(index, group)| {
            let place = group.place().map_or_else(|| "an unknown place".to_owned(), |place| place.path());
            at(Reference::Group(index), format!("{} in {place}", threads(group.running)))
        })
        .collect();
    Some(Finding {
        id: FindingId::Running,
        severity: Severity::Info,
        impact: share(analysis, count),
        title: format!("{} of {} execute code of their own", threads(count), analysis.threads.len()),
        explanation: "They were on a CPU, or ready for one, when the dump was taken. One moment says little about CPU time: a trace does."
            .to_owned(),
        evidence,
        next_steps: Vec::new(),
    })
}
