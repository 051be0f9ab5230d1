//! The finalizer thread waits, seen over time.

use crate::findings::evidence::{at, steps};
use crate::findings::finding::{Finding, FindingId, Reference, Severity, Value};
use crate::findings::scene::{Scene, is_worth_naming};
use crate::trace::function::FunctionKind;
use crate::words::percent;

/// A finalizer may take a lock for a moment; half of the time is no moment.
const SHARE: f64 = 0.5;

pub(crate) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let waits = scene.thread_waits(|_| true);
    let wait = waits.iter().find(|wait| {
        scene.thread(wait.tid).is_some_and(|row| row.name.starts_with(".NET Finalizer"))
            && wait.share >= SHARE
            && wait
                .function
                .and_then(|function| scene.row(function))
                .is_some_and(|row| row.kind == FunctionKind::Jit && is_worth_naming(row))
    })?;
    let place = scene.function_name(wait.function)?;
    Some(Finding {
        id: FindingId::FinalizerBlocked,
        severity: Severity::Critical,
        impact: wait.share,
        title: format!("The finalizer thread is blocked in {place}: nothing is finalized any more"),
        explanation: "There is one finalizer thread for the whole process. While it waits, every object with a finalizer stays in \
                      memory with all that it refers to, so memory grows without a leak that references would show. A finalizer \
                      must not wait for locks, threads or input."
            .to_owned(),
        evidence: vec![at(
            wait.function.map_or(Reference::Thread(wait.tid), Reference::WaitFunction),
            format!("{} waited {} of the time in {place} for {}", scene.thread_name(wait.tid), percent(wait.share), wait.reason.words()),
            Some(Value::Share(wait.share)),
        )],
        next_steps: steps(&[
            &format!("`biopsy stacks {}` shows who holds what it waits for", scene.pid()),
            "Implement `IDisposable`, or `SafeHandle`, and leave the finalizer without locks",
        ]),
    })
}
