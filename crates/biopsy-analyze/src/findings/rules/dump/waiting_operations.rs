//! Many asynchronous operations stand at the same `await`.

use crate::dump::DumpAnalysis;
use crate::dump::strands::{Strand, StrandKind, StrandRuntime, StrandState, WaitKind};
use crate::findings::evidence::{fact, grade, steps};
use crate::findings::finding::{Evidence, Finding, FindingId, Severity, Value};
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
    Some(finding(
        (severity, (first.count as f64 / operations.pending.max(1) as f64).min(1.0) * 0.5),
        format!("{count} operations of `{method}` await {what}"),
        "No thread shows these: each is an async method that stands at an `await`. When their number grows from one look to \
                      the next, what they wait for is never given: a semaphore that nobody releases, a channel that nobody reads, a \
                      task that nobody completes.",
        evidence,
        &[
            "Look again in a while: does the number grow?",
            "See who should release, read or complete what they wait for, and whether an exception goes past it",
        ],
    ))
}

/// It awaits what the program has to complete.
fn awaits(runtime: &StrandRuntime, strand: &Strand) -> bool {
    let future = strand.wait.as_ref().filter(|wait| wait.kind == WaitKind::Future && wait.owners.is_empty());
    strand.kind == StrandKind::Task
        && strand.state == StrandState::Waiting
        && future.is_some_and(|wait| !wait.ends_by_itself)
        // Queues, sockets and clocks are awaited in the library: who waits there waits for work, or for time.
        && runtime.stands_in_program(strand)
}

/// Other places that are named.
const OTHERS: usize = 4;

/// Tasks in one place of the program: what a busy server has under way is tens.
const TASKS: [usize; 3] = [usize::MAX, 200, 20];

/// The same of tasks of an event loop, and calls of asynchronous functions.
pub(crate) fn of_tasks(analysis: &DumpAnalysis) -> Option<Finding> {
    let groups = || {
        analysis
            .strands
            .iter()
            .flat_map(|runtime| runtime.groups.iter().map(move |group| (runtime, group)))
            .filter(|(runtime, group)| runtime.first(group).is_some_and(|first| awaits(runtime, first)))
    };
    let (runtime, group) = groups().max_by_key(|(_, group)| group.members.len())?;
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
    // What many wait for is often held up by a few that stand elsewhere.
    let mut others: Vec<(usize, String)> = groups()
        .filter(|(_, other)| !std::ptr::eq(*other, group))
        .filter_map(|(runtime, other)| Some((other.members.len(), runtime.place(runtime.first(other)?)?)))
        .collect();
    others.sort();
    let words: Vec<String> =
        others.iter().take(OTHERS).map(|(count, place)| format!("{count} in {place}")).collect();
    if !words.is_empty() {
        evidence
            .push(fact(format!("others await something too, the fewest first: {}", words.join(", ")), None));
    }
    let what = match wait.awaited.as_deref().filter(|awaited| *awaited != object) {
        Some(awaited) => format!("what `{awaited}` gives, a `{object}` each"),
        None => format!("a `{object}` each"),
    };
    Some(finding(
        (severity, count as f64 / runtime.runtime.strands.len().max(1) as f64),
        format!("{count} tasks await {what}, in {place}"),
        "No thread shows these: each stands at an `await` of the program itself, for something that the program has to complete. \
                      When their number grows from one look to the next, that never happens: an answer that is not matched to its \
                      request, a promise that nobody resolves, one that waits for another in a circle.",
        evidence,
        &[
            "Look again in a while: does the number grow?",
            "See who should complete what they await, and on which ways it does not",
        ],
    ))
}

fn finding(
    (severity, impact): (Severity, f64),
    title: String,
    explanation: &str,
    evidence: Vec<Evidence>,
    next_steps: &[&str],
) -> Finding {
    Finding {
        id: FindingId::WaitingOperations,
        severity,
        impact,
        title,
        explanation: explanation.to_owned(),
        evidence,
        next_steps: steps(next_steps),
    }
}
