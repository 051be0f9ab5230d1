//! Threads that wait for each other.

use std::collections::BTreeMap;

use biopsy_model::Tid;
use rustc_hash::FxHashSet;

use super::{at, fact, severity_by, share, steps};
use crate::dump::locks::{LockKind, LockOwner};
use crate::dump::{DumpAnalysis, DumpThread, WaitGraph};
use crate::finding::{Evidence, Finding, FindingId, Reference, Severity, Value};
use crate::findings::words::threads;

/// Members of a circle that are named one by one.
const NAMED: usize = 12;

fn label(analysis: &DumpAnalysis, tid: Tid) -> String {
    analysis.thread(tid).map_or_else(|| format!("thread {tid}"), DumpThread::label)
}

/// Where the thread waits: the innermost function outside of the C library and of frameworks, and who called it.
fn place(analysis: &DumpAnalysis, tid: Tid) -> Option<String> {
    analysis.groups.get(analysis.thread(tid)?.group)?.place()
}

pub(super) fn deadlock(analysis: &DumpAnalysis) -> Option<Finding> {
    let first = analysis.waits.cycles.first()?;
    let members: usize = analysis.waits.cycles.iter().map(Vec::len).sum();
    let all: Vec<Tid> = analysis.waits.cycles.iter().flatten().copied().collect();
    let behind = WaitGraph::behind(&analysis.waits.waiters(), &all).len();
    let title = match (analysis.waits.cycles.len(), first.as_slice()) {
        (1, [one]) => format!("Deadlock: {} waits for a lock that it holds itself", label(analysis, *one)),
        (1, [one, other]) => {
            format!("Deadlock: {} and {} wait for each other", label(analysis, *one), label(analysis, *other))
        }
        (1, cycle) => format!("Deadlock: {} wait for each other in a circle", threads(cycle.len())),
        (count, _) => format!("{count} deadlocks: {} wait for each other in circles", threads(members)),
    };
    let mut evidence: Vec<Evidence> = Vec::new();
    for tid in analysis.waits.cycles.iter().flatten().take(NAMED) {
        let Some(lock) = analysis.thread(*tid).and_then(|thread| thread.lock.as_ref()) else { continue };
        let owner = lock.thread().map_or_else(String::new, |owner| label(analysis, owner));
        let what = match lock.kind {
            LockKind::Join => format!("the end of {owner}"),
            _ => format!("{}, which {owner} holds", lock.what()),
        };
        let place = place(analysis, *tid).map_or(String::new(), |place| format!(", in {place}"));
        evidence
            .push(at(Reference::Thread(*tid), format!("{} waits for {what}{place}", label(analysis, *tid))));
    }
    if members > NAMED {
        evidence.push(fact(format!("and {} more in circles", threads(members - NAMED)), None));
    }
    if behind > 0 {
        evidence.push(fact(
            format!("{} more wait behind them, directly or through others", threads(behind)),
            Some(Value::Count(behind as f64)),
        ));
    }
    if let Some(lock) = first.first().and_then(|tid| analysis.thread(*tid)?.lock.as_ref()) {
        evidence.push(fact(format!("how the owner is known: {}", lock.proof), None));
    }
    Some(Finding {
        id: FindingId::Deadlock,
        severity: Severity::Critical,
        impact: share(analysis, members + behind).max(0.5),
        title,
        explanation: "Each of these threads waits for something that only the next one can give, so that none of them goes on by \
                      itself. The owners were read from the locks in memory, not guessed from names."
            .to_owned(),
        evidence,
        next_steps: steps(&[advice(analysis, first), "The process does not recover: it has to be restarted"]),
    })
}

fn advice(analysis: &DumpAnalysis, cycle: &[Tid]) -> &'static str {
    let mut locks = cycle.iter().filter_map(|tid| analysis.thread(*tid)?.lock.as_ref());
    if cycle.len() == 1 {
        "Do not lock it again while it is held, or make it recursive"
    } else if locks.any(|lock| lock.kind == LockKind::Join) {
        "Do not wait for a thread's end while it may wait for what the waiting thread holds or is"
    } else {
        "Take these locks in the same order everywhere, or hold only one of them at a time"
    }
}

pub(super) fn abandoned(analysis: &DumpAnalysis) -> Option<Finding> {
    let queue = analysis.waits.queues.iter().find(|queue| matches!(queue.owner, LockOwner::Elsewhere(_)))?;
    let LockOwner::Elsewhere(owner) = queue.owner else { return None };
    Some(Finding {
        id: FindingId::AbandonedLock,
        severity: Severity::Critical,
        impact: share(analysis, queue.waiters.len()).max(0.4),
        title: format!(
            "{} wait for {} whose owner, thread {owner}, is not there any more",
            threads(queue.waiters.len()),
            queue.kind.words()
        ),
        explanation: "The thread that holds the lock is not among the threads of the dump: it ended without giving the lock back, \
                      or, when the lock is shared between processes, it is of another process. In the first case the waiting \
                      never ends."
            .to_owned(),
        evidence: queue
            .waiters
            .iter()
            .take(5)
            .map(|tid| {
                let place = place(analysis, *tid).map_or(String::new(), |place| format!(" in {place}"));
                at(Reference::Thread(*tid), format!("{} waits{place}", label(analysis, *tid)))
            })
            .chain([fact(format!("how the owner is known: {}", queue.proof), None)])
            .collect(),
        next_steps: steps(&["Look for a thread that returns, is cancelled or throws between locking and unlocking"]),
    })
}

/// Many wait for one that is not stuck itself.
pub(super) fn queue(analysis: &DumpAnalysis) -> Option<Finding> {
    let stuck = analysis.waits.stuck();
    let waiting: FxHashSet<Tid> = analysis.waits.edges.iter().map(|(waiter, _)| *waiter).collect();
    let waiters = analysis.waits.waiters();
    // By the thread that everybody waits for in the end.
    let mut roots: BTreeMap<Tid, usize> = BTreeMap::new();
    for queue in &analysis.waits.queues {
        if let (LockOwner::Thread(owner), false) = (queue.owner, queue.kind == LockKind::Join)
            && !waiting.contains(&owner)
            && !stuck.contains(&owner)
        {
            roots.entry(owner).or_insert_with(|| WaitGraph::behind(&waiters, &[owner]).len());
        }
    }
    let (owner, waiting) = roots.into_iter().max_by_key(|(_, waiting)| *waiting)?;
    let severity = severity_by(waiting, usize::MAX, 5, 2)?;
    let queue = analysis.waits.queues.iter().find(|queue| queue.owner == LockOwner::Thread(owner))?;
    let does = analysis.thread(owner).map(|thread| thread.words()).unwrap_or_default();
    let inside = place(analysis, owner).map_or(String::new(), |place| format!(", in {place}"));
    Some(Finding {
        id: FindingId::LockQueue,
        severity,
        impact: share(analysis, waiting),
        title: format!("{} wait for {}, which holds {}", threads(waiting), label(analysis, owner), queue.kind.words()),
        explanation: "At the moment of the dump one thread has what the others need. That is a moment, not a proof: when it stays \
                      so in a second dump, what the holder does is the reason. It is not a deadlock."
            .to_owned(),
        evidence: vec![
            at(Reference::Thread(owner), format!("meanwhile {} {does}{inside}", label(analysis, owner))),
            fact(format!("how the owner is known: {}", queue.proof), Some(Value::Count(waiting as f64))),
        ],
        next_steps: steps(&["Take a second dump, or a trace, to see whether it stays so", "Do less while the lock is held"]),
    })
}
