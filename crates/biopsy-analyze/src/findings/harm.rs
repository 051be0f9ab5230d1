//! Whether anybody waits for what is busy: a server whose CPU is used up keeps others waiting, a batch does its work.

use crate::findings::scene::{Scene, ThreadWait};
use crate::managed_names::is_runtime_thread;
use crate::trace::function::FunctionRow;
use crate::trace::waits::WaitReason;
use biopsy_model::Tid;

/// A thread that waits less is not counted.
const COUNTED: f64 = 0.3;
/// A busy thread for which others may wait.
const BUSY: f64 = 0.5;
/// Threads that wait for the busy ones: one waits for the end of every job.
const WAITING: f64 = 1.5;

/// The process answers others, or several of its threads wait for the busy ones. `true` where its sockets were not recorded.
pub(super) fn harms(scene: &Scene<'_>) -> bool {
    let Some(busiest) = scene.analysis.threads.rows.first() else { return true };
    let Some(sides) = scene.sides_of(busiest.tid) else { return true };
    let busy =
        scene.analysis.threads.rows.iter().filter(|row| row.running.as_secs_f64() / scene.seconds >= BUSY);
    sides.serves() || busy.map(|row| waiting_for(scene, row.tid).0).sum::<f64>() >= WAITING
}

/// Mean number of threads that wait for another one at locks and conditions, and how many do so much of the time. Workers of a pool that
/// wait for something to do, and a runtime's own threads, wait for nobody.
pub(super) fn waiting_for(scene: &Scene<'_>, tid: Tid) -> (f64, usize) {
    let Some(ended) = scene.facts.waits.ended_by.get(&tid) else { return (0.0, 0) };
    let waits =
        |reason| matches!(reason, WaitReason::Lock | WaitReason::Condition | WaitReason::LockOrCondition);
    let idle = |wait: &ThreadWait| {
        let place = wait.function.and_then(|function| scene.row(function));
        let helper = scene.thread(wait.tid).is_some_and(|row| is_runtime_thread(&row.name));
        helper || place.is_some_and(is_of_runtime)
    };
    let all = scene.thread_waits(waits);
    let (sure, count) = all
        .iter()
        .filter(|wait| wait.share >= COUNTED && wait.tid != tid && !idle(wait))
        .fold((0.0, 0), |(sum, count), wait| (sum + wait.share, count + 1));
    (scene.mean_threads(ended.time).min(sure), count)
}

/// A runtime's own code: its helpers wait there for something to do.
fn is_of_runtime(row: &FunctionRow) -> bool {
    const MODULES: &[&str] = &["libcoreclr", "libjvm", "libnode", "libuv", "libv8", "node"];
    const NAMES: &[&str] = &["node::", "uv_", "uv__", "v8::"];
    MODULES.iter().any(|prefix| row.module.starts_with(prefix))
        || NAMES.iter().any(|prefix| row.name.starts_with(prefix))
}

/// Names of places where workers wait for something to do.
pub(super) fn waits_for_work(name: &str) -> bool {
    const PARTS: &[&str] = &[
        "park",
        "idle",
        "queue",
        "worker",
        "task",
        "pop",
        "take",
        "fetch",
        "next",
        "pool",
        "schedul",
        "awaitwork",
        "commit",
    ];
    let name = name.to_ascii_lowercase();
    PARTS.iter().any(|part| name.contains(part))
}
