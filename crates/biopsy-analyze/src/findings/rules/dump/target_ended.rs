//! The process ends itself: by `exit`, by `_exit`, or because its runtime does.

use crate::dump::{DumpAnalysis, DumpThread, by_functions};
use crate::findings::dump::{at, place};
use crate::findings::evidence::{fact, steps};
use crate::findings::finding::{Finding, FindingId, Reference, Severity, Value};

/// Functions of the stack that are asked for the reason.
const FRAMES: usize = 64;

pub(crate) fn find(analysis: &DumpAnalysis) -> Option<Finding> {
    if analysis.crash.is_some() {
        return None;
    }
    let (thread, status) = analysis.threads.iter().find_map(|thread| Some((thread, thread.ends_with?)))?;
    let inside = place(analysis, thread.tid).map_or(String::new(), |place| format!(", in {place}"));
    let reason = reason(analysis, thread);
    let because = reason.map_or(String::new(), |reason| format!(": {reason}"));
    let mut evidence = vec![at(
        Reference::Thread(thread.tid),
        format!("{} ends the process with status {status}{inside}", thread.label()),
    )];
    evidence.extend(reason.map(|reason| {
        fact(format!("by the functions on its stack: {reason}"), Some(Value::Count(f64::from(status))))
    }));
    Some(Finding {
        id: FindingId::TargetEnded,
        severity: if status == 0 { Severity::Info } else { Severity::Warning },
        impact: if status == 0 { 0.1 } else { 0.9 },
        title: format!("The process ends itself with status {status}{inside}{because}"),
        explanation: "No signal ends it: its own code, or its runtime, calls `exit`. What led to that is on the stack of that thread, and in what the \
                      program wrote before."
            .to_owned(),
        evidence,
        next_steps: steps(&[
            "Look at the stack of that thread: who decided to end, and on which condition?",
            "Look at the last lines of its log before this moment",
        ]),
    })
}

fn reason(analysis: &DumpAnalysis, thread: &DumpThread) -> Option<&'static str> {
    let rows = analysis.groups.get(thread.group)?.frames.iter().take(FRAMES);
    by_functions(rows.filter_map(|row| row.function.as_deref()))
}
