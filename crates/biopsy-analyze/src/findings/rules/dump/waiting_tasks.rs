//! Many tasks of an event loop, or calls of asynchronous functions, stand at the same `await`.

use crate::dump::DumpAnalysis;
use crate::dump::strands::{StrandKind, StrandState, WaitKind};
use crate::findings::evidence::{fact, grade, steps};
use crate::findings::finding::{Finding, FindingId, Value};

/// Tasks in one place of the program: what a busy server has under way is tens.
const TASKS: [usize; 3] = [usize::MAX, 200, 20];

pub(crate) fn find(analysis: &DumpAnalysis) -> Option<Finding> {
    let groups =
        analysis.strands.iter().flat_map(|runtime| runtime.groups.iter().map(move |group| (runtime, group)));
    let (runtime, group) = groups
        .filter(|(runtime, group)| {
            runtime.first(group).is_some_and(|first| {
                let future = first
                    .wait
                    .as_ref()
                    .filter(|wait| wait.kind == WaitKind::Future && wait.owners.is_empty());
                first.kind == StrandKind::Task
                    && first.state == StrandState::Waiting
                    && future.is_some_and(|wait| !wait.ends_by_itself)
                    // Queues, sockets and clocks are awaited in the library: who waits there waits for work, or for time.
                    && runtime.stands_in_program(first)
            })
        })
        .max_by_key(|(_, group)| group.members.len())?;
    let count = group.members.len();
    let severity = grade(count, TASKS)?;
    let first = runtime.first(group)?;
    let wait = first.wait.as_ref()?;
    let place = runtime.place(first)?;
    let object = wait.object.as_deref().unwrap_or("future");
    let outer =
        first.frames.iter().skip(1).take(3).map(|frame| frame.function.to_string()).collect::<Vec<_>>();
    let mut evidence = Vec::new();
    if !outer.is_empty() {
        evidence.push(fact(format!("awaited by `{}`", outer.join("`, `")), None));
    }
    evidence.extend(wait.awaited.iter().map(|awaited| fact(format!("what is awaited: `{awaited}`"), None)));
    evidence.push(fact(
        format!(
            "{count} of {} that are under way",
            runtime.runtime.strands.iter().filter(|one| one.kind == StrandKind::Task).count()
        ),
        Some(Value::Count(count as f64)),
    ));
    Some(Finding {
        id: FindingId::WaitingOperations,
        severity,
        impact: count as f64 / runtime.runtime.strands.len().max(1) as f64,
        title: format!("{count} tasks await a `{object}` each, in {place}"),
        explanation: "No thread shows these: each stands at an `await` of the program itself, for something that the program has to complete. \
                      When their number grows from one look to the next, that never happens: an answer that is not matched to its \
                      request, a promise that nobody resolves, one that waits for another in a circle."
            .to_owned(),
        evidence,
        next_steps: steps(&[
            "Look again in a while: does the number grow?",
            "See who should complete what they await, and on which ways it does not",
        ]),
    })
}
