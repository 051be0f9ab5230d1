//! The owner of a lock is not there any more.

use crate::dump::{DumpAnalysis, LockOwner};
use crate::findings::dump::{at, in_functions, label, place, share};
use crate::findings::evidence::{fact, steps};
use crate::findings::finding::{Finding, FindingId, Reference, Severity};
use crate::words::threads_wait;

pub(crate) fn find(analysis: &DumpAnalysis) -> Option<Finding> {
    let queue = analysis.waits.queues.iter().find(|queue| matches!(queue.owner, LockOwner::Elsewhere(_)))?;
    let LockOwner::Elsewhere(owner) = queue.owner else { return None };
    // Held by a thread of the parent when it forked: a finding of its own.
    if analysis.orphaned.is_some() {
        return None;
    }
    Some(Finding {
        id: FindingId::AbandonedLock,
        severity: Severity::Critical,
        impact: share(analysis, queue.waiters.len()).max(0.4),
        title: format!(
            "{} for {} whose owner, thread {owner}, is not there any more{}",
            threads_wait(queue.waiters.len()),
            queue.kind.words(),
            in_functions(analysis, &queue.waiters)
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
