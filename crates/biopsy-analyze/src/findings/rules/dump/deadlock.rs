//! Threads wait for each other in a circle.

use crate::dump::{DumpAnalysis, LockKind, WaitGraph};
use crate::findings::dump::{at, label, place, share};
use crate::findings::evidence::{fact, steps};
use crate::findings::finding::{Evidence, Finding, FindingId, Reference, Severity, Value};
use crate::words::threads;
use biopsy_model::Tid;

/// Members of a circle that are named one by one.
const NAMED: usize = 12;

pub(crate) fn find(analysis: &DumpAnalysis) -> Option<Finding> {
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
