//! Many goroutines wait in one place for what another one has to give.

use crate::dump::DumpAnalysis;
use crate::dump::strands::{Strand, StrandGroup, StrandRuntime, StrandState, WaitKind};
use crate::findings::dump::strand_words;
use crate::findings::evidence::{fact, steps};
use crate::findings::finding::{Finding, FindingId, Severity, Value};

/// Behind one lock: two at a moment are chance.
const BEHIND_LOCK: usize = 5;
/// Behind one that waits itself, without a limit, for something outside or for another goroutine.
const BEHIND_WAIT: usize = 2;
/// Senders that nobody takes from: a program that means to wait so has few.
const SENDERS: usize = 100;
/// Receivers are healthy in hundreds (workers, connections); where there are so many, somebody forgets them.
const RECEIVERS: usize = 10_000;
/// Waiting for their turn at a pool: a few at a moment are load.
const AT_POOL: usize = 5;
/// Frames between the wait and the pool's function.
const INNER: usize = 6;
/// Functions of pools that wait until something is given back, what that is, and by what it mostly is not.
const POOLS: &[(&str, &str, &str)] = &[
    (
        "net/http.(*Transport).getConn",
        "a connection of the HTTP client",
        "an answer keeps its connection until its body is read to the end and closed, also where the status is not the one that was expected",
    ),
    (
        "database/sql.(*DB).conn",
        "a connection to the database",
        "rows, statements and transactions keep their connection until they are closed, also where an error is returned",
    ),
    (
        "golang.org/x/sync/semaphore.(*Weighted).Acquire",
        "room in a semaphore",
        "what was acquired has to be released on every way out of the function",
    ),
];

pub(crate) fn find(analysis: &DumpAnalysis) -> Option<Finding> {
    let groups =
        analysis.strands.iter().flat_map(|runtime| runtime.groups.iter().map(move |group| (runtime, group)));
    let graded = groups.filter_map(|(runtime, group)| Some((severity(runtime, group)?, runtime, group)));
    let (severity, runtime, group) =
        graded.max_by_key(|(severity, _, group)| (*severity, group.members.len()))?;
    let first = runtime.first(group)?;
    let wait = first.wait.as_ref()?;
    let (count, word) = (group.members.len(), first.kind.word());
    let place = runtime.place(first).map_or(String::new(), |place| format!(" in {place}"));
    let mut evidence = Vec::new();
    if let Some((holder, owner)) = runtime.owners(first).next() {
        let inside =
            owner.frame.and_then(|frame| holder.frames.get(frame..)).and_then(|frames| frames.first());
        let holds = inside.map_or(String::new(), |frame| format!(", which took it in {}", frame.function));
        let does = runtime.place(holder).map_or(String::new(), |place| format!(" and is in {place}"));
        evidence.push(fact(
            format!(
                "{} has it ({}){holds}{does}, {}",
                runtime.label(holder),
                owner.confidence.words(),
                strand_words(runtime, holder)
            ),
            None,
        ));
        evidence.push(fact(format!("how the owner is known: {}", owner.proof), None));
    }
    if let Some(start) = &first.started_at {
        evidence.push(fact(format!("they were started by {}", start.function), None));
    }
    if wait.never_ends {
        evidence.push(fact("the channel is nil: nothing can ever end this".to_owned(), None));
    }
    let pool = pool(first);
    evidence.extend(pool.map(|(function, _, why)| fact(format!("they wait in `{function}`: {why}"), None)));
    let share = count as f64 / runtime.runtime.strands.len().max(1) as f64;
    evidence.push(fact(
        format!("{count} of {} {word}s of the process", runtime.runtime.total),
        Some(Value::Share(share)),
    ));
    let explanation = match wait.kind {
        _ if pool.is_some() => {
            "All that the pool may hand out is in use. Under load that passes; where it stays so in a second look, those who had it did not give \
             it back."
        }
        WaitKind::ChannelSend => {
            "Each of them waits until somebody takes what it sends. Where nobody does any more, they and all they refer to stay for ever."
        }
        WaitKind::ChannelReceive | WaitKind::Select => {
            "Each of them waits for what somebody sends. So many are seldom meant: where nobody sends or closes any more, they and all they \
             refer to stay for ever."
        }
        _ => {
            "At this moment one has what the others need. When it stays so in a second look, what the holder does is the reason. It is no \
             deadlock."
        }
    };
    Some(Finding {
        id: FindingId::StrandsWait,
        severity,
        // One alone: before what all threads do.
        impact: if severity == Severity::Info { 0.56 } else { share },
        title: match pool {
            Some((function, what, _)) => format!("{count} {word}s wait for {what} (`{function}`){place}"),
            None if count == 1 => format!("1 {word} waits for {}{place}", wait.kind.words()),
            None => format!("{count} {word}s wait for {}{place}", wait.kind.words()),
        },
        explanation: explanation.to_owned(),
        evidence,
        next_steps: steps(&[
            "Look a second time: what did not move is the reason",
            "Give whoever waits a way out: a context, a deadline",
        ]),
    })
}

fn severity(runtime: &StrandRuntime, group: &StrandGroup) -> Option<Severity> {
    let first = runtime.first(group).filter(|first| !first.of_runtime)?;
    let wait = first.wait.as_ref().filter(|wait| !wait.ends_by_itself)?;
    let count = group.members.len();
    match wait.kind {
        WaitKind::ChannelReceive | WaitKind::Select if count >= AT_POOL && pool(first).is_some() => {
            Some(Severity::Notice)
        }
        WaitKind::Mutex | WaitKind::ReadLock | WaitKind::WriteLock
            if count < BEHIND_LOCK && is_held_in_wait(runtime, first) =>
        {
            Some(if count >= BEHIND_WAIT { Severity::Notice } else { Severity::Info })
        }
        WaitKind::ChannelSend if count >= SENDERS => Some(Severity::Warning),
        WaitKind::ChannelReceive | WaitKind::Select if count >= RECEIVERS => Some(Severity::Notice),
        WaitKind::Mutex | WaitKind::ReadLock | WaitKind::WriteLock
            if count >= BEHIND_LOCK && is_held(runtime, first) =>
        {
            Some(Severity::Warning)
        }
        _ => None,
    }
}

/// By one that is known and waits itself, without a limit.
fn is_held_in_wait(runtime: &StrandRuntime, strand: &Strand) -> bool {
    let waits = |holder: &Strand| holder.wait.as_ref().is_some_and(|wait| !wait.ends_by_itself);
    strand.tid.is_none()
        && runtime.owners(strand).any(|(holder, _)| waits(holder))
        && is_held(runtime, strand)
}

/// The pool that a strand waits for.
fn pool(strand: &Strand) -> Option<&'static (&'static str, &'static str, &'static str)> {
    let inner = || strand.frames.iter().take(INNER);
    POOLS.iter().find(|(function, ..)| inner().any(|frame| &*frame.function == *function))
}

/// By somebody who is known and does not just run: threads of the language are in the findings on threads.
fn is_held(runtime: &StrandRuntime, strand: &Strand) -> bool {
    strand.tid.is_none()
        && runtime
            .owners(strand)
            .any(|(holder, _)| !matches!(holder.state, StrandState::Running | StrandState::Runnable))
}
