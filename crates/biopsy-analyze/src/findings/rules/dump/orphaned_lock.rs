//! The only thread of a process waits for a lock that was copied by fork while somebody else held it.

use crate::dump::DumpAnalysis;
use crate::findings::dump::{at, in_functions, label, place};
use crate::findings::evidence::{fact, steps};
use crate::findings::finding::{Finding, FindingId, Reference, Severity};

pub(crate) fn find(analysis: &DumpAnalysis) -> Option<Finding> {
    let orphan = analysis.orphaned.as_ref()?;
    let thread = analysis.thread(orphan.waiter)?;
    let lock = thread.lock.as_ref()?;
    let whom = match orphan.owner {
        Some(owner) => format!("thread {owner} of its parent held when the process was forked"),
        None => "nobody in the process can give back".to_owned(),
    };
    let place = place(analysis, orphan.waiter).map_or(String::new(), |place| format!(", in {place}"));
    Some(Finding {
        id: FindingId::OrphanedLock,
        severity: Severity::Critical,
        impact: 1.0,
        title: format!(
            "The only thread waits for {}, which {whom}{}",
            lock.kind.words(),
            in_functions(analysis, &[orphan.waiter])
        ),
        explanation: "`fork` copies locks as they are, and only the thread that called it. What another thread held stays locked for ever \
                      in the child. The process has one thread, the lock is its own, and the wait has no limit: nobody is there who \
                      could end it."
            .to_owned(),
        evidence: vec![
            at(
                Reference::Thread(orphan.waiter),
                format!("{} waits for {}{place}", label(analysis, orphan.waiter), lock.what()),
            ),
            fact(format!("how that is known: {}", orphan.proof), None),
        ],
        next_steps: steps(&[
            "After `fork` in a program with threads, call nothing but what is safe in signal handlers until `exec`",
            "Start programs with `posix_spawn`, or take the lock in `pthread_atfork`",
            "The process does not recover: it has to be ended",
        ]),
    })
}
