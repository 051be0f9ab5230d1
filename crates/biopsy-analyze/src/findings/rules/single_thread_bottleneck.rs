//! One thread at its limit while others wait for it.

use crate::findings::evidence::{at, fact, grade, steps};
use crate::findings::finding::{Finding, FindingId, Reference, Value};
use crate::findings::harm::waiting_for;
use crate::findings::scene::Scene;
use crate::words::{percent, threads_wait};

/// A thread that runs this much has no room left.
const FULL: f64 = 0.85;
/// Mean number of threads that wait for it. One waits for the end of every job; several are a queue.
const WAITING: [f64; 3] = [3.0, 1.5, 0.8];
/// Share of the waits for locks and conditions that it ends: less, and others are in the way too.
const ENDED: f64 = 0.5;
/// Share of its CPU time from which on a function is what it does.
const OWN: f64 = 0.2;

pub(super) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let row = scene.analysis.threads.rows.first()?;
    let running = row.running.as_secs_f64() / scene.seconds;
    let next =
        scene.analysis.threads.rows.get(1).map_or(0.0, |row| row.running.as_secs_f64() / scene.seconds);
    if running < FULL || next >= FULL {
        return None;
    }
    let ended = scene.facts.waits.ended_by.get(&row.tid)?;
    let (mean, waiting) = waiting_for(scene, row.tid);
    let share = ended.time.as_secs_f64() / scene.facts.waits.ended.time.as_secs_f64().max(1e-9);
    if share < ENDED {
        return None;
    }
    let severity = grade(mean, WAITING)?;
    let name = scene.thread_name(row.tid);
    let mut evidence = vec![
        at(
            Reference::Thread(row.tid),
            format!("{name} runs {} of the time, the next one {}", percent(running), percent(next)),
            Some(Value::Share(running)),
        ),
        fact(
            format!(
                "{} of the time that others waited for locks and conditions was ended by it",
                percent(share)
            ),
            Some(Value::Share(share)),
        ),
        fact(format!("on average {mean:.1} threads wait for it"), Some(Value::Count(mean))),
    ];
    // A library's function is what the program's one calls.
    let own = scene.analysis.flames.threads.iter().find(|thread| thread.tid == row.tid);
    let own = own.and_then(|thread| scene.program_of(&thread.flames.cpu)).filter(|(_, share)| *share >= OWN);
    let own = own.and_then(|(function, share)| Some((function, share, scene.function_name(Some(function))?)));
    let place = row.top_function.and_then(|function| scene.function_name(Some(function)));
    if let Some((function, share, name)) = &own
        && Some(name) != place.as_ref()
    {
        let text = format!(
            "{} of its CPU time is in {name} and what it calls of libraries and the kernel",
            percent(*share)
        );
        evidence.push(at(Reference::Function(*function), text, Some(Value::Share(*share))));
    }
    if let (Some(function), Some(place)) = (row.top_function, &place) {
        evidence.push(at(
            Reference::Function(function),
            format!("it spends {} of its CPU time in {place}", percent(row.top_share)),
            Some(Value::Share(row.top_share)),
        ));
    }
    let place = match (own, place) {
        (Some((_, _, own)), Some(place)) if own != place && row.top_share >= OWN => {
            format!(" (mostly in {own} → {place})")
        }
        (Some((_, _, own)), _) => format!(" (mostly in {own})"),
        (None, Some(place)) => format!(" (mostly in {place})"),
        (None, None) => String::new(),
    };
    Some(Finding {
        id: FindingId::SingleThreadBottleneck,
        severity,
        impact: running,
        title: format!(
            "One thread is the bottleneck: `{}` uses a whole core{place} while {} for it",
            row.name,
            threads_wait(waiting.max(1))
        ),
        explanation: "The others go on only when that thread wakes them, and it has no time left. Most likely its work has \
                      to be made cheaper or be spread over several threads; more CPUs or more waiting threads will not help."
            .to_owned(),
        evidence,
        next_steps: steps(&[
            "Look at that thread's CPU flame graph",
            "See under `activated by` which groups wait for it",
        ]),
    })
}
