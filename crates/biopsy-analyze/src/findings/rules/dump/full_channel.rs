//! Writers of a bounded channel wait for a reader that does not come.

use crate::dump::{DumpAnalysis, DumpThread, ThreadState};
use crate::findings::dump::NAMED;
use crate::findings::evidence::{fact, grade, steps};
use crate::findings::finding::{Finding, FindingId, Severity, Value};
use biopsy_dotnet::tasks::{DELAY, FULL_CHANNEL, OperationGroup};

/// Writers that wait: one is as intended for a moment, ten are behind a reader that does not keep up.
const WRITERS: [usize; 3] = [usize::MAX, 10, 1];

pub(crate) fn find(analysis: &DumpAnalysis) -> Option<Finding> {
    let operations = analysis.managed.as_ref()?.operations.as_ref()?;
    let writers: Vec<_> = operations
        .groups
        .iter()
        .filter(|group| group.awaits == FULL_CHANNEL && group.has_own_code())
        .collect();
    let count: u64 = writers.iter().map(|group| group.count).sum();
    let graded = grade(usize::try_from(count).unwrap_or(usize::MAX), WRITERS)?;
    let severity = if somebody_may_read(analysis, &writers) { graded.min(Severity::Notice) } else { graded };
    let method = writers.first()?.methods.first().map_or("an async method", String::as_str);
    let operation = if count == 1 { "operation waits" } else { "operations wait" };
    Some(Finding {
        id: FindingId::FullChannel,
        severity,
        impact: (count as f64 / operations.pending.max(1) as f64).min(1.0) * 0.6,
        title: format!("{count} {operation} for room in a full channel, in `{method}`"),
        explanation: "A bounded channel makes its writers wait while it is full. Now and then that is as intended: it keeps a fast writer \
                      from running ahead. Where writers wait for long, the reader is too slow, has ended, or itself waits for something."
            .to_owned(),
        evidence: writers
            .iter()
            .take(NAMED)
            .map(|group| {
                fact(
                    format!("{} of `{}`", group.count, group.methods.join("`, awaited by `")),
                    Some(Value::Count(group.count as f64)),
                )
            })
            .collect(),
        next_steps: steps(&[
            "Look for the method that reads the channel among the other asynchronous operations: what does it await?",
            "Look again in a while: does the number grow?",
        ]),
    })
}

/// An operation that does not write waits for what comes by itself, or a thread runs code of the program: that may be the reader, on its way
/// to the next one. One look at a channel that is full then does not tell a slow reader from none.
fn somebody_may_read(analysis: &DumpAnalysis, writers: &[&OperationGroup]) -> bool {
    let Some(operations) = analysis.managed.as_ref().and_then(|managed| managed.operations.as_ref()) else {
        return false;
    };
    let writes = |group: &&OperationGroup| {
        let method = group.methods.first();
        writers.iter().any(|writer| writer.methods.first() == method)
    };
    let others = operations.groups.iter().filter(|group| group.has_own_code() && !writes(group));
    let runs = |thread: &DumpThread| {
        thread.state == ThreadState::Running && analysis.place(thread.tid).is_some_and(|place| place.own)
    };
    others.into_iter().any(|group| group.awaits == DELAY) || analysis.threads.iter().any(runs)
}
