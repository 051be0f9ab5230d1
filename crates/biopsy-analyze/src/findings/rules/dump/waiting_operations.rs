//! Many asynchronous operations stand at the same `await`.

use crate::dump::DumpAnalysis;
use crate::findings::evidence::{fact, grade, steps};
use crate::findings::finding::{Finding, FindingId, Value};
use biopsy_dotnet::tasks::FULL_CHANNEL;

/// Operations that await one object: requests of a busy moment are tens.
const OF_ONE: [usize; 3] = [usize::MAX, 100, 20];
/// Operations that await objects of one kind: each may be on its way.
const OF_A_KIND: [usize; 3] = [usize::MAX, usize::MAX, 50];

pub(crate) fn find(analysis: &DumpAnalysis) -> Option<Finding> {
    let operations = analysis.managed.as_ref()?.operations.as_ref()?;
    // Connections on which nobody sends are not stuck, nor are loops that pause. What only the framework awaits is behind
    // something else.
    const IDLE: &[&str] = &["a socket", "a pipe", "a delay", FULL_CHANNEL];
    let first = operations
        .groups
        .iter()
        .filter(|group| !IDLE.contains(&group.awaits.as_str()) && group.has_own_code())
        .max_by_key(|group| group.count)?;
    let of_one = first.object.as_ref();
    let count = usize::try_from(first.count).unwrap_or(usize::MAX);
    let severity = match of_one {
        Some(_) => grade(count, OF_ONE)?,
        None => grade(count, OF_A_KIND)?,
    };
    let method = first.methods.first().map_or("an async method", String::as_str);
    let what = match of_one {
        Some((address, name)) => format!("one `{name}` at {address}"),
        None => first.awaits.clone(),
    };
    let mut evidence = vec![fact(
        format!("`{}` awaits {}", first.methods.join("`, awaited by `"), first.awaits),
        Some(Value::Count(first.count as f64)),
    )];
    evidence.push(fact(
        format!("{} asynchronous operations are under way in all", operations.pending),
        Some(Value::Count(operations.pending as f64)),
    ));
    if let Some(requests) = operations.requests.filter(|requests| *requests > 0) {
        let text = format!("{requests} requests of clients are being worked on");
        evidence.push(fact(text, Some(Value::Count(requests as f64))));
    }
    Some(Finding {
        id: FindingId::WaitingOperations,
        severity,
        impact: (first.count as f64 / operations.pending.max(1) as f64).min(1.0) * 0.5,
        title: format!("{count} operations of `{method}` await {what}"),
        explanation: "No thread shows these: each is an async method that stands at an `await`. When their number grows from one look to \
                      the next, what they wait for is never given: a semaphore that nobody releases, a channel that nobody reads, a \
                      task that nobody completes."
            .to_owned(),
        evidence,
        next_steps: steps(&[
            "Look again in a while: does the number grow?",
            "See who should release, read or complete what they wait for, and whether an exception goes past it",
        ]),
    })
}
