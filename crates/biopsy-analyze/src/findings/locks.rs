//! Lock convoys and lock contention.

use super::grade;
use super::scene::{Scene, at, fact, steps};
use super::words::{percent, seconds, threads};
use crate::finding::{Evidence, Finding, Reference, Value};
use crate::wait_sums::is_lock_like;
use crate::waits::{Convoy, Party, WaitReason};

/// Fewer threads than this make no queue.
const QUEUE: usize = 3;

/// Many threads queue for one lock, and few get anything done.
pub(super) fn convoy(scene: &Scene<'_>) -> Option<Finding> {
    let convoy = scene
        .analysis
        .waits
        .convoys
        .iter()
        .filter(|convoy| convoy.threads >= QUEUE && convoy.mean_queue >= 1.5)
        .max_by(|a, b| a.time.cmp(&b.time))?;
    // A fifth of the time of all these threads is a lot to lose; half of it makes the lock the main thing they do.
    let severity = grade(convoy.share, 0.5, 0.2, 0.1)?;
    let place = scene.function_name(convoy.function);
    let in_place = place.as_ref().map_or(String::new(), |place| format!(" in {place}"));
    let reason = reason_of(scene, convoy);
    let lock = if reason == WaitReason::KernelLock { "a lock inside the kernel" } else { "a lock" };
    Some(Finding {
        id: "lock-convoy",
        severity,
        impact: convoy.share,
        title: format!(
            "Lock convoy{in_place}: {} wait {} of the time for {lock}",
            threads(convoy.threads),
            percent(convoy.share)
        ),
        explanation: format!(
            "On average {:.1} threads queue there at the same time, so what the lock protects runs one at a time. Most \
             likely the lock is held too long or taken too often. It is not a deadlock: the threads do get on, and it \
             is not the CPU that is short.",
            convoy.mean_queue
        ),
        evidence: convoy_evidence(scene, convoy),
        next_steps: steps(&[
            "See what runs while the lock is held: input, output or sleeping under a lock is the usual cause",
            "Hold the lock for less, split it, or take it less often",
            "See under `activated by` who hands the lock on",
        ]),
    })
}

fn reason_of(scene: &Scene<'_>, convoy: &Convoy) -> WaitReason {
    let rows = &scene.analysis.waits.functions;
    let row = rows.iter().find(|row| row.function == convoy.function && is_lock_like(row.reason));
    row.map_or(WaitReason::Lock, |row| row.reason)
}

fn convoy_evidence(scene: &Scene<'_>, convoy: &Convoy) -> Vec<Evidence> {
    let mut evidence = vec![at(
        convoy.function.map_or(Reference::Recording, Reference::WaitFunction),
        format!(
            "{} waited there for {} in all, {:.1} at a time on average",
            threads(convoy.threads),
            seconds(convoy.time.as_secs_f64()),
            convoy.mean_queue
        ),
        Some(Value::Time(convoy.time)),
    )];
    let rows = &scene.analysis.waits.functions;
    if let Some(row) = rows.iter().find(|row| row.function == convoy.function && is_lock_like(row.reason))
        && !row.groups.is_empty()
    {
        evidence.push(fact(format!("the waiting threads are `{}`", row.groups.join("`, `")), None));
    }
    if let Some(handed_on) = convoy.handed_on {
        evidence.push(fact(
            format!(
                "{} of the wake-ups there came from a thread that queues there too: the lock is handed on",
                percent(handed_on)
            ),
            Some(Value::Share(handed_on)),
        ));
    }
    evidence.extend(activation_evidence(scene));
    evidence.extend(holder_evidence(scene, convoy));
    if let Some(used) = scene.cores {
        evidence.push(fact(
            format!("meanwhile {} of {} CPUs are used", super::words::cores(used), scene.cpus),
            Some(Value::Cores(used)),
        ));
    }
    evidence
}

/// What the thread that hands the lock on had waited for just before: most likely while it held the lock.
fn holder_evidence(scene: &Scene<'_>, convoy: &Convoy) -> Option<Evidence> {
    let rows = scene.analysis.waits.behind.iter();
    let row = rows
        .filter(|row| row.function == convoy.function && is_lock_like(row.reason))
        .max_by_key(|row| row.count)?;
    if row.share < 0.2 {
        return None;
    }
    let place = scene.function_name(row.cause_function).map_or(String::new(), |name| format!(" in {name}"));
    Some(at(
        row.cause_function.map_or(Reference::Recording, Reference::WaitFunction),
        format!(
            "in {} of the waits the thread that handed the lock on had just waited for {}{place}: most likely while it held the lock",
            percent(row.share),
            row.cause.words()
        ),
        Some(Value::Share(row.share)),
    ))
}

fn activation_evidence(scene: &Scene<'_>) -> Option<Evidence> {
    let best = scene.analysis.waits.activations.iter().find(|row| is_lock_like(row.reason))?;
    let groups = &scene.analysis.threads.groups;
    let woken = &groups.get(best.woken)?.name;
    let waker = match &best.waker {
        Party::Group(group) => format!("`{}`", groups.get(*group)?.name),
        Party::Interrupt => "an interrupt".to_owned(),
        Party::Elsewhere => "another process".to_owned(),
    };
    Some(at(
        Reference::Group(best.woken),
        format!("`{woken}` was activated by {waker} {} times", super::words::number(best.count as f64)),
        Some(Value::Count(best.count as f64)),
    ))
}

/// Much waiting for locks, in no one place.
pub(super) fn contention(scene: &Scene<'_>) -> Option<Finding> {
    if convoy(scene).is_some() {
        return None;
    }
    let sure = |reason| matches!(reason, WaitReason::Lock | WaitReason::KernelLock);
    let waits = scene.thread_waits(sure);
    let waits: Vec<_> = waits.iter().filter(|wait| wait.share >= 0.05).collect();
    let total: f64 = waits.iter().map(|wait| wait.share).sum();
    let share = total / (waits.len().max(1) as f64);
    if waits.len() < QUEUE || total < 1.0 {
        return None;
    }
    let severity = grade(share, f64::INFINITY, 0.2, 0.1)?;
    let rows = scene.analysis.waits.functions.iter().filter(|row| sure(row.reason)).take(3);
    let evidence = rows
        .map(|row| {
            let name = scene.function_name(row.function).unwrap_or_else(|| "an unknown function".to_owned());
            at(
                row.function.map_or(Reference::Recording, Reference::WaitFunction),
                format!(
                    "{} wait in {name} for {}: {}",
                    threads(row.threads),
                    row.reason.words(),
                    seconds(row.time.as_secs_f64())
                ),
                Some(Value::Time(row.time)),
            )
        })
        .collect();
    Some(Finding {
        id: "lock-contention",
        severity,
        impact: share,
        title: format!("{} wait {} of the time for locks", threads(waits.len()), percent(share)),
        explanation: "The waiting is spread over several places, so most likely over several locks, or one lock that is \
                      taken in many places. It is not a deadlock: the threads get on."
            .to_owned(),
        evidence,
        next_steps: steps(&["Look at the waiting flame graph for the callers of the lock functions"]),
    })
}
