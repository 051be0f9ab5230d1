//! Writers of a bounded channel wait for a reader that does not come.

use crate::dump::DumpAnalysis;
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
    let severity = if some_get_through(analysis, &writers) { graded.min(Severity::Notice) } else { graded };
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

/// An operation that writes in the same method has just got through, and waits for time to pass: then somebody reads. One look at a channel
/// that is full does not tell a slow reader from none.
fn some_get_through(analysis: &DumpAnalysis, writers: &[&OperationGroup]) -> bool {
    let Some(operations) = analysis.managed.as_ref().and_then(|managed| managed.operations.as_ref()) else {
        return false;
    };
    let writes = |group: &&OperationGroup| {
        group
            .methods
            .first()
            .is_some_and(|method| writers.iter().any(|writer| writer.methods.first() == Some(method)))
    };
    operations.groups.iter().filter(writes).any(|group| group.awaits == DELAY)
}
