//! Threads that execute.

use crate::dump::{DumpAnalysis, ThreadState};
use crate::findings::dump::{at, in_functions, share};
use crate::findings::evidence::steps;
use crate::findings::finding::{Finding, FindingId, Reference, Severity};
use crate::words::threads;
use biopsy_model::Tid;

/// Before what all threads do, and behind waits without a limit.
const IMPACT: f64 = 0.505;

pub(crate) fn find(analysis: &DumpAnalysis) -> Option<Finding> {
    if analysis.crash.is_some() {
        return None;
    }
    let running: Vec<Tid> = analysis
        .threads
        .iter()
        .filter(|thread| thread.state == ThreadState::Running)
        .map(|thread| thread.tid)
        .collect();
    let count = running.len();
    if count == 0 {
        return None;
    }
    let place = in_functions(analysis, &running);
    let executes = if count == 1 { "executes code of its own" } else { "execute code of their own" };
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
        // Before what all threads do: where a program does not answer, a loop that does not end is one of the two reasons.
        impact: share(analysis, count).max(IMPACT),
        title: format!("{} of {} {executes}{place}", threads(count), analysis.threads.len()),
        explanation: "They were on a CPU, or ready for one, when the dump was taken. One moment says little about CPU time: a trace does. \
                      If the program does not answer, and a second look finds them in the same place, that is a loop that does not end, or takes long."
            .to_owned(),
        evidence,
        next_steps: steps(&[&format!(
            "`biopsy stacks {} --looks 3 --every 2s` determines whether they stay there, `biopsy trace` what the CPU time goes to",
            analysis.identity.pid
        )]),
    })
}
