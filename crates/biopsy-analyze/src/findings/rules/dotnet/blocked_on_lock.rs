//! Threads wait for a lock during the whole recording.

use crate::findings::dotnet::traced;
use crate::findings::evidence::{at, steps};
use crate::findings::finding::{Evidence, Finding, FindingId, Reference, Severity, Value};
use crate::findings::scene::Scene;
use crate::managed_names::is_pool_thread;
use crate::trace::function::FunctionHandle;
use crate::trace::managed_waits::ManagedWait;
use crate::words::{number, threads};
use biopsy_model::Tid;
use biopsy_model::order::Order as _;
use rustc_hash::FxHashMap;

/// A thread that waits for one lock this much of the trace got nothing done. The first look at it comes a little late.
const ALL_THE_TIME: f64 = 0.8;
/// Shorter recordings cannot tell a long wait from an endless one.
const LEAST_SECONDS: f64 = 2.0;

/// Threads that waited for a monitor from the first to the last moment.
fn stuck(scene: &Scene<'_>) -> Vec<(Tid, Option<FunctionHandle>)> {
    let seconds = traced(scene);
    let mut sums: FxHashMap<Tid, (f64, Option<FunctionHandle>)> = FxHashMap::default();
    for row in scene.facts.managed.iter().filter(|row| row.how == ManagedWait::Monitor) {
        // Most time first: the first place is the one.
        let entry = sums.entry(row.tid).or_insert((0.0, row.function));
        entry.0 += row.time.as_secs_f64();
    }
    let mut out: Vec<(Tid, Option<FunctionHandle>)> = sums
        .into_iter()
        .filter(|(tid, (time, _))| {
            let Some(row) = scene.thread(*tid) else { return false };
            // Who queues for a lock that is handed on is switched to again and again.
            let gets_on = scene.analysis.threads.exact
                && (row.voluntary as f64 > 2.0 + seconds * 0.5 || row.running.as_secs_f64() > seconds * 0.01);
            time / seconds >= ALL_THE_TIME && !row.born && !gets_on
        })
        .map(|(tid, (_, function))| (tid, function))
        .collect();
    out.sort_unstable();
    out
}

pub(crate) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let stuck = stuck(scene);
    if stuck.is_empty() || traced(scene) < LEAST_SECONDS {
        return None;
    }
    let mut places: Vec<(Option<FunctionHandle>, Vec<Tid>)> = Vec::new();
    for &(tid, function) in &stuck {
        match places.iter_mut().find(|(known, _)| *known == function) {
            Some((_, tids)) => tids.push(tid),
            None => places.push((function, vec![tid])),
        }
    }
    // Behind a deadlock requests pile up, which are many threads of the pool at one place; those who made it are rather few, and
    // rather threads with a name of their own. Compiled expressions (`lambda_method1`) name nothing.
    let of_pool = |tid: &Tid| scene.thread(*tid).is_some_and(|row| is_pool_thread(&row.name));
    let nameless = |function: &Option<FunctionHandle>| {
        function.and_then(|function| scene.row(function)).is_none_or(|row| row.name.ends_with("(dynamic)"))
    };
    places.order_by_key(|(function, tids)| {
        (nameless(function), tids.iter().all(of_pool), tids.len(), *function)
    });
    let evidence: Vec<Evidence> = places
        .iter()
        .take(6)
        .map(|(function, tids)| {
            let names: Vec<String> = tids.iter().take(4).map(|tid| scene.thread_name(*tid)).collect();
            let more = if tids.len() > 4 { format!(" and {} more", tids.len() - 4) } else { String::new() };
            let place =
                scene.function_name(*function).unwrap_or_else(|| "a function without a name".to_owned());
            at(
                function.map_or(Reference::Thread(tids[0]), Reference::WaitFunction),
                format!(
                    "{}{more} waited in {place} to enter a lock, from beginning to end",
                    names.join(", ")
                ),
                Some(Value::Count(tids.len() as f64)),
            )
        })
        .collect();
    let names: Vec<String> =
        places.iter().take(2).filter_map(|(function, _)| scene.function_name(*function)).collect();
    let more = places.len().saturating_sub(names.len());
    let more = if more > 0 { format!(" and {} more", number(more as f64)) } else { String::new() };
    let in_places =
        if names.is_empty() { String::new() } else { format!(", in {}{more}", names.join(" and ")) };
    let likely = if places.len() > 1 { "most likely a deadlock" } else { "its owner does not let go" };
    Some(Finding {
        id: FindingId::BlockedOnLock,
        severity: if stuck.len() > 1 { Severity::Critical } else { Severity::Warning },
        impact: 0.9,
        title: format!(
            "{} waited for a lock during the whole recording{in_places}: {likely}",
            threads(stuck.len())
        ),
        explanation: "Nobody let them in for as long as was recorded. Threads that wait at different places, each for a lock that \
                      another holds, are a deadlock; at one place they wait for an owner that is itself stuck, or that holds the lock \
                      while it waits for something else. Who holds which lock is not among the events: the process's memory tells."
            .to_owned(),
        evidence,
        next_steps: steps(&[
            &format!("`biopsy stacks {}` shows who holds the locks, and closes the circle if there is one", scene.pid()),
            "Take locks in the same order everywhere; never wait for another thread while holding one",
        ]),
    })
}
