//! Many wait for one that is not stuck itself.

use crate::dump::{DumpAnalysis, LockKind, LockQueue, LockWait, WaitGraph, WaitKind};
use crate::findings::dump::{NAMED, at, in_functions, label, place, share};
use crate::findings::evidence::{fact, grade, steps};
use crate::findings::finding::{Evidence, Finding, FindingId, Reference, Severity, Value};
use crate::words::threads;
use biopsy_model::order::Order as _;
use biopsy_model::{Confidence, Tid};
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;

/// Threads behind the one: two at a moment are chance, five hardly.
const WAITING: [usize; 3] = [usize::MAX, 5, 2];
/// What workers at rest weigh.
const OF_TURNS: f64 = 0.05;

pub(crate) fn find(analysis: &DumpAnalysis) -> Option<Finding> {
    let stuck = analysis.waits.stuck();
    // Who waits for work to be done waits for nobody who has it.
    let joins = |lock: &LockWait| {
        lock.kind == LockKind::Join || (lock.kind == LockKind::Semaphore && !lock.gives_back)
    };
    let joining = analysis.threads.iter().filter(|thread| thread.lock.as_ref().is_some_and(joins));
    let joining: FxHashSet<Tid> = joining.map(|thread| thread.tid).collect();
    // What is behind one who waits for an end is held up by that one: it has their lock.
    let waiters = analysis.waits.edges.iter().map(|(waiter, _)| *waiter);
    let waiting: FxHashSet<Tid> = waiters.filter(|waiter| !joining.contains(waiter)).collect();
    let waiters = analysis.waits.waiters();
    // By the thread that everybody waits for in the end.
    let mut roots: BTreeMap<Tid, usize> = BTreeMap::new();
    for (waiter, owner) in &analysis.waits.edges {
        if !joining.contains(waiter) && !waiting.contains(owner) && !stuck.contains(owner) {
            roots.entry(*owner).or_insert_with(|| WaitGraph::behind(&waiters, &[*owner]).len());
        }
    }
    let (owner, waiting) = roots.into_iter().max_by_key(|(_, waiting)| *waiting)?;
    let severity =
        grade(waiting, WAITING).or_else(|| held_in_wait(analysis, owner).then_some(Severity::Info))?;
    let behind = WaitGraph::behind(&waiters, &[owner]);
    let holds = |queue: &&LockQueue| queue.holders.iter().any(|holder| holder.thread == owner);
    let queue = analysis.waits.queues.iter().find(holds)?;
    let holder = queue.holders.iter().find(|holder| holder.thread == owner)?;
    let sure = match holder.confidence {
        Confidence::Certain => String::new(),
        other => format!(" {}", other.words()),
    };
    let since = holder
        .site
        .as_ref()
        .map_or(String::new(), |site| format!("; it took it in `{site}`, or in what that called"));
    let does = analysis.thread(owner).map(|thread| thread.words()).unwrap_or_default();
    let inside = place(analysis, owner).map_or(String::new(), |place| format!(", in {place}"));
    let turns = take_turns(analysis, owner, &behind);
    let mut evidence = vec![at(
        Reference::Thread(owner),
        format!("meanwhile {} {does}{inside}{since}", label(analysis, owner)),
    )];
    evidence.extend(awaited(analysis, owner));
    evidence.extend([
        fact(format!("those who wait stand in {}", standing(analysis, &behind)), None),
        fact(format!("how the owner is known: {}", queue.proof), Some(Value::Count(waiting as f64))),
    ]);
    Some(Finding {
        id: FindingId::LockQueue,
        severity: if turns { severity.min(Severity::Notice) } else { severity },
        // Of one: before what all threads do.
        impact: match severity {
            _ if turns => OF_TURNS,
            Severity::Info => 0.56,
            _ => share(analysis, waiting),
        },
        title: format!(
            "{} for {}, which{sure} holds {}{}{}",
            if waiting == 1 { "1 thread waits".to_owned() } else { format!("{} wait", threads(waiting)) },
            label(analysis, owner),
            held(queue.kind),
            in_functions(analysis, &[owner]),
            if turns { " and waits to be woken: most likely workers that take turns" } else { "" }
        ),
        explanation: "At the moment of the dump one thread has what the others need. That is a moment, not a proof: when it stays \
                      so in a second dump, what the holder does is the reason. It is not a deadlock."
            .to_owned(),
        evidence,
        next_steps: steps(&["Take a second dump, or a trace, to see whether it stays so", "Do less while the lock is held"]),
    })
}

/// What the thread does whose end, or whose signal, the holder waits for.
fn awaited(analysis: &DumpAnalysis, owner: Tid) -> Option<Evidence> {
    let next = analysis.thread(owner)?.lock.as_ref()?.thread().filter(|next| *next != owner)?;
    let thread = analysis.thread(next)?;
    let inside = place(analysis, next).map_or(String::new(), |place| format!(", in {place}"));
    Some(at(
        Reference::Thread(next),
        format!("{}, which it waits for, {}{inside}", thread.label(), thread.words()),
    ))
}

/// Who has the lock waits, without a limit, for something outside: one that waits behind it is told, too.
fn held_in_wait(analysis: &DumpAnalysis, owner: Tid) -> bool {
    let outside =
        [WaitKind::Input, WaitKind::Output, WaitKind::Child, WaitKind::Signal, WaitKind::KernelObject];
    analysis.thread(owner).and_then(|thread| thread.state.wait()).is_some_and(|wait| outside.contains(&wait))
}

/// Who has the lock waits to be woken, by nobody that is known, and stands where all stand that wait for the lock: workers that share a
/// receiver under a mutex. One of them waits for work, the others for their turn, and nothing is wrong with that.
fn take_turns(analysis: &DumpAnalysis, owner: Tid, behind: &[Tid]) -> bool {
    let sleeps = analysis.thread(owner).is_some_and(|thread| thread.state.wait() == Some(WaitKind::Futex));
    let waits_for = |(waiter, _): &(Tid, Tid)| *waiter == owner;
    if !sleeps || analysis.waits.edges.iter().any(waits_for) {
        return false;
    }
    let Some(there) = place(analysis, owner) else { return false };
    let function = |words: &str| words.split(" → ").next().unwrap_or(words).to_owned();
    behind
        .iter()
        .filter(|tid| **tid != owner)
        .all(|tid| place(analysis, *tid).is_some_and(|here| function(&here) == function(&there)))
}

/// The places of threads, the most frequent first.
fn standing(analysis: &DumpAnalysis, tids: &[Tid]) -> String {
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for tid in tids {
        *places.entry(place(analysis, *tid).unwrap_or_else(|| "an unknown place".to_owned())).or_default() +=
            1;
    }
    let mut places: Vec<(String, usize)> = places.into_iter().collect();
    places.order_by_key(|(_, count)| std::cmp::Reverse(*count));
    let named = places.iter().take(NAMED).map(|(place, count)| match count {
        1 => place.clone(),
        count => format!("{place} ({count} threads)"),
    });
    let more = places.len().saturating_sub(NAMED);
    let rest = (more > 0).then(|| format!("{more} other places"));
    named.chain(rest).collect::<Vec<_>>().join(", ")
}

/// What is held, whatever the others want it for.
fn held(kind: LockKind) -> &'static str {
    match kind {
        LockKind::RwLockRead | LockKind::RwLockWrite => "a read-write lock",
        LockKind::Semaphore => "what a semaphore counts",
        kind => kind.words(),
    }
}
