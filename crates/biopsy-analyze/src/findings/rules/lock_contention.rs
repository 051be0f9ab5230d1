//! Much waiting for locks, in no one place.

use crate::findings::evidence::{at, grade, steps};
use crate::findings::finding::{Finding, FindingId, Reference, Value};
use crate::findings::scene::Scene;
use crate::trace::waits::WaitReason;
use crate::words::{percent, seconds, threads, threads_wait};

/// Mean number of threads that wait for locks: less is in nobody's way.
const AT_A_TIME: f64 = 1.0;
/// A thread that waits less is not counted.
const COUNTED: f64 = 0.05;
/// Share of their time that these threads wait.
const SHARE: [f64; 3] = [f64::INFINITY, 0.2, 0.1];

pub(super) fn find(scene: &Scene<'_>) -> Option<Finding> {
    if super::lock_convoy::find(scene).is_some() {
        return None;
    }
    let sure = |reason| matches!(reason, WaitReason::Lock | WaitReason::KernelLock);
    let waits = scene.thread_waits(sure);
    let waits: Vec<_> = waits.iter().filter(|wait| wait.share >= COUNTED).collect();
    let total: f64 = waits.iter().map(|wait| wait.share).sum();
    let share = total / (waits.len().max(1) as f64);
    if waits.len() < super::lock_convoy::QUEUE || total < AT_A_TIME {
        return None;
    }
    let severity = grade(share, SHARE)?;
    let rows = scene.analysis.waits.functions.iter().filter(|row| sure(row.reason)).take(3);
    let evidence = rows
        .map(|row| {
            let name = scene.function_name(row.function).unwrap_or_else(|| "an unknown function".to_owned());
            at(
                row.function.map_or(Reference::Recording, Reference::WaitFunction),
                format!(
                    "{} in {name} for {}: {}",
                    threads_wait(row.threads),
                    row.reason.words(),
                    seconds(row.time.as_secs_f64())
                ),
                Some(Value::Time(row.time)),
            )
        })
        .collect();
    Some(Finding {
        id: FindingId::LockContention,
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
