//! Nothing is finalized while the one thread for it waits, seen in memory.

use crate::dump::{DumpAnalysis, DumpThread, LockOwner};
use crate::findings::dump::{at, own};
use crate::findings::evidence::steps;
use crate::findings::finding::{Finding, FindingId, Reference, Severity};

pub(crate) fn find(analysis: &DumpAnalysis) -> Option<Finding> {
    let thread =
        analysis.threads.iter().find(|thread| thread.managed.as_ref().is_some_and(|one| one.finalizer))?;
    let lock = thread.lock.as_ref().filter(|lock| lock.object.is_some())?;
    let LockOwner::Thread(owner) = lock.owner else { return None };
    let holder = analysis.thread(owner).map_or_else(|| format!("thread {owner}"), DumpThread::label);
    let place = own(analysis, thread).map_or(String::new(), |place| format!(" in `{place}`"));
    let mut evidence = vec![at(
        Reference::Thread(thread.tid),
        format!("{} waits for {}, which {holder} holds{place}", thread.label(), lock.what()),
    )];
    if let Some(place) = analysis.thread(owner).and_then(|owner| own(analysis, owner)) {
        evidence.push(at(Reference::Thread(owner), format!("meanwhile {holder} is in `{place}`")));
    }
    Some(Finding {
        id: FindingId::FinalizerBlocked,
        severity: Severity::Critical,
        impact: 0.6,
        title: format!("The finalizer thread waits for a lock that {holder} holds{place}"),
        explanation: "One thread runs all finalizers. While it waits, no object that has one is ever freed, and memory and handles grow \
                      until the process ends."
            .to_owned(),
        evidence,
        next_steps: steps(&["Take no locks in finalizers; release resources in `Dispose`, and let a `SafeHandle` do the rest"]),
    })
}
