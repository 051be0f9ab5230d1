//! Threads wait for each other in a circle.

use crate::dump::{DumpAnalysis, LockKind, WaitGraph};
use crate::findings::dump::{at, in_functions, label, place, share};
use crate::findings::evidence::{fact, steps};
use crate::findings::finding::{Evidence, Finding, FindingId, Reference, Severity, Value};
use crate::words::threads;
use biopsy_model::{Confidence, Tid};

/// Members of a circle that are named one by one.
const NAMED: usize = 12;

pub(crate) fn find(analysis: &DumpAnalysis) -> Option<Finding> {
    let first = analysis.waits.cycles.first()?;
    let members: usize = analysis.waits.cycles.iter().map(Vec::len).sum();
    let all: Vec<Tid> = analysis.waits.cycles.iter().flatten().copied().collect();
    let behind = WaitGraph::behind(&analysis.waits.waiters(), &all).len();
    let sure = analysis.waits.circles.first().map_or(Confidence::Certain, |circle| circle.confidence);
    let begin = match sure {
        Confidence::Certain => "Deadlock".to_owned(),
        other => format!("Deadlock, {}", other.words()),
    };
    let title = match (analysis.waits.cycles.len(), first.as_slice()) {
        (1, [one]) => format!(
            "{begin}: {} waits{} for a lock that it holds itself",
            label(analysis, *one),
            if analysis.thread(*one).is_some_and(|one| one.interrupted.is_some()) {
                " in a signal handler"
            } else {
                ""
            }
        ),
        (1, [one, other]) => {
            format!("{begin}: {} and {} wait for each other", label(analysis, *one), label(analysis, *other))
        }
        (1, cycle) => format!("{begin}: {} wait for each other in a circle", threads(cycle.len())),
        (count, _) => format!("{count} deadlocks: {} wait for each other in circles", threads(members)),
    };
    let title = format!("{title}{}", in_functions(analysis, &all));
    let mut evidence: Vec<Evidence> = Vec::new();
    for cycle in &analysis.waits.cycles {
        let next = cycle.iter().cycle().skip(1);
        for (tid, holder) in cycle.iter().zip(next) {
            if evidence.len() < NAMED {
                evidence.extend(edge(analysis, *tid, *holder));
            }
        }
    }
    evidence.extend(all.iter().filter_map(|tid| handler(analysis, *tid)).take(NAMED));
    if members > NAMED {
        evidence.push(fact(format!("and {} more in circles", threads(members - NAMED)), None));
    }
    if behind > 0 {
        evidence.push(fact(
            format!("{} more wait behind them, directly or through others", threads(behind)),
            Some(Value::Count(behind as f64)),
        ));
    }
    let weakest = analysis.waits.circles.first().map(|circle| circle.weakest.0);
    if let Some(lock) = weakest.or(first.first().copied()).and_then(|tid| analysis.thread(tid)?.lock.as_ref())
    {
        evidence.push(fact(format!("how the owner is known: {}", lock.proof), None));
    }
    Some(Finding {
        id: FindingId::Deadlock,
        severity: Severity::Critical,
        impact: share(analysis, members + behind).max(0.5),
        title,
        explanation: explanation(sure),
        evidence,
        next_steps: steps(&[advice(analysis, first), "The process does not recover: it has to be restarted"]),
    })
}

fn explanation(sure: Confidence) -> String {
    const EACH: &str = "Each of these threads waits for something that only the next one can give, so that none of them goes on by itself.";
    let owners = match sure {
        Confidence::Certain => "The owners were read from the locks in memory, not guessed from names.",
        Confidence::AlmostCertain | Confidence::VeryLikely | Confidence::Possible => {
            "Some of these locks do not say who holds them: there the owner is the thread whose machine code gives the lock back on \
             its way out. That would be wrong if the code that gives it back is never reached."
        }
    };
    format!("{EACH} {owners}")
}

/// One edge of a circle: who waits, for what, and where the other one holds it.
fn edge(analysis: &DumpAnalysis, waiter: Tid, holder: Tid) -> Option<Evidence> {
    let lock = analysis.thread(waiter)?.lock.as_ref()?;
    let owner = label(analysis, holder);
    let known = lock.known_holders().into_iter().find(|known| known.thread == holder);
    let sure = match known.as_ref().map_or(Confidence::Certain, |known| known.confidence) {
        Confidence::Certain => String::new(),
        other => format!("{} ", other.words()),
    };
    let inside = known.and_then(|known| known.site).map_or(String::new(), |site| format!(" since `{site}`"));
    let what = match lock.kind {
        LockKind::Join => format!("the end of {owner}"),
        LockKind::Semaphore => format!("{}, which {owner} {sure}gives", lock.what()),
        _ if waiter == holder => format!("{}, which it {sure}holds itself{inside}", lock.what()),
        _ => format!("{}, which {owner} {sure}holds{inside}", lock.what()),
    };
    let place = place(analysis, waiter).map_or(String::new(), |place| format!(", in {place}"));
    Some(at(Reference::Thread(waiter), format!("{} waits for {what}{place}", label(analysis, waiter))))
}

/// A member that a signal handler interrupted: what it had then, it has still.
fn handler(analysis: &DumpAnalysis, tid: Tid) -> Option<Evidence> {
    let function = analysis.thread(tid)?.interrupted.as_ref()?;
    let text = format!("a signal handler runs on {}: it interrupted `{function}`", label(analysis, tid));
    Some(at(Reference::Thread(tid), text))
}

fn advice(analysis: &DumpAnalysis, cycle: &[Tid]) -> &'static str {
    let mut locks = cycle.iter().filter_map(|tid| analysis.thread(*tid)?.lock.as_ref());
    let alone = cycle.len() == 1;
    if cycle.iter().any(|tid| analysis.thread(*tid).is_some_and(|thread| thread.interrupted.is_some())) {
        return "Take no lock in a signal handler, and call nothing that takes one (`malloc`, `printf`, `localtime`: see signal-safety(7)); note \
                that it came (a flag, `write` to a pipe, `signalfd`) and do the work outside";
    }
    if locks.clone().any(|lock| matches!(lock.kind, LockKind::Once | LockKind::Initialization)) {
        return "Let what is made once not ask, directly or through others, for what is still being made: make the one before the other";
    }
    if alone && locks.clone().any(|lock| matches!(lock.kind, LockKind::RwLockRead | LockKind::RwLockWrite)) {
        "Let go of the read lock before the write lock is taken, and do not read-lock twice: a writer may come in between"
    } else if alone {
        "Do not lock it again while it is held, or make it recursive"
    } else if locks.any(|lock| lock.kind == LockKind::Join) {
        "Do not wait for a thread's end while it may wait for what the waiting thread holds or is"
    } else {
        "Take these locks in the same order everywhere, or hold only one of them at a time"
    }
}
