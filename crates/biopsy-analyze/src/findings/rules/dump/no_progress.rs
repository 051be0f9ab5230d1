//! Threads want a lock and did not run between several looks.

use crate::dump::{DumpAnalysis, DumpThread, Movement};
use crate::findings::dump::{NAMED, at, label, place, share};
use crate::findings::evidence::{fact, grade, steps};
use crate::findings::finding::{Evidence, Finding, FindingId, Reference, Value};
use crate::findings::looks::times;
use crate::words::{threads, threads_wait};
use biopsy_model::Nanos;

/// Threads: one that gets no lock for so long is reason enough to say so, ten are most likely the trouble.
const STUCK: [usize; 3] = [10, 1, 1];
/// Looks that are nearer together say nothing: locks are held that long.
const LEAST: Nanos = Nanos(1_000_000_000);

pub(crate) fn find(analysis: &DumpAnalysis) -> Option<Finding> {
    let looks = analysis.looks.as_ref()?;
    if looks.span? < LEAST {
        return None;
    }
    let in_circle = analysis.waits.stuck();
    let is_stuck = |thread: &&DumpThread| {
        thread.movement.is_some_and(Movement::may_be_stuck)
            && thread.lock.as_ref().is_some_and(|lock| lock.kind.is_held())
            && !in_circle.contains(&thread.tid)
    };
    let stuck: Vec<&DumpThread> = analysis.threads.iter().filter(is_stuck).collect();
    let severity = grade(stuck.len(), STUCK)?;
    let first = stuck.first()?;
    let in_place = place(analysis, first.tid).map_or(String::new(), |place| format!(", in {place}"));
    let mut evidence: Vec<Evidence> = stuck
        .iter()
        .take(NAMED)
        .map(|thread| {
            let place = place(analysis, thread.tid).map_or(String::new(), |place| format!(", in {place}"));
            at(
                Reference::Thread(thread.tid),
                format!("{} {}{place}", label(analysis, thread.tid), thread.words()),
            )
        })
        .collect();
    if stuck.len() > NAMED {
        let more = format!("and {} more", threads(stuck.len() - NAMED));
        evidence.push(fact(more, Some(Value::Count(stuck.len() as f64))));
    }
    Some(Finding {
        id: FindingId::NoProgress,
        severity,
        impact: share(analysis, stuck.len()),
        title: format!(
            "{} for a lock and stood still {}{in_place}",
            threads_wait(stuck.len()),
            times(looks)
        ),
        explanation: "They want a lock, and got it at none of these moments nor ran in between, as far as that was counted. Most likely its \
                      holder is stuck itself, has ended, or does something that takes very long."
            .to_owned(),
        evidence,
        next_steps: steps(&[
            "Look at who holds the lock, where that is known, and at what it does in all looks",
            "Look at the threads that did not run either: one of them most likely has it",
        ]),
    })
}
