//! All threads that one function of the program starts wait for futures: the work that would keep these lies behind them.
//!
//! A pool of C, C++ or Rust is threads with one outermost function; its queue is the program's own and not known. Where none of its
//! threads is left that could take from it, and nobody else that could answer, what they wait for is most likely in it.

use std::collections::BTreeMap;

use crate::dump::DumpAnalysis;
use crate::findings::dump::{NAMED, at, in_functions, place};
use crate::findings::evidence::{fact, steps};
use crate::findings::finding::{Finding, FindingId, Reference, Severity, Value};
use crate::whose::Whose;
use biopsy_model::Tid;

use super::super::stuck_wait::groups;
use super::full_channel::{JOINS, may_act};

/// What [`groups`] says of those who wait for the outcome of work.
const FUTURE: &str = "a future";
/// With one thread it is as likely a client that waits as a pool.
const WORKERS: usize = 2;

pub(crate) fn find(analysis: &DumpAnalysis) -> Option<Finding> {
    if analysis.crash.is_some() {
        return None;
    }
    let all = groups(analysis);
    let who = |awaited: &str| -> Vec<Tid> {
        let groups = all.iter().filter(|((what, _), _)| what == awaited);
        groups.flat_map(|(_, group)| group.tids.iter().copied()).collect()
    };
    let (waiting, joining) = (who(FUTURE), who(JOINS));
    // Clients of an event loop wait so, too: there somebody is left who answers.
    let idle = |tid: Tid| waiting.contains(&tid) || joining.contains(&tid);
    if analysis.threads.iter().any(|thread| !idle(thread.tid) && may_act(analysis, thread)) {
        return None;
    }
    let mut pools: BTreeMap<&str, Vec<Tid>> = BTreeMap::new();
    for thread in analysis.threads.iter().filter(|thread| thread.tid.0 != analysis.identity.pid.0) {
        if let Some(start) = start_of(analysis, thread.group) {
            pools.entry(start).or_default().push(thread.tid);
        }
    }
    let starved = |tids: &Vec<Tid>| tids.len() >= WORKERS && tids.iter().all(|tid| waiting.contains(tid));
    let (start, tids) = pools.iter().filter(|(_, tids)| starved(tids)).max_by_key(|(_, tids)| tids.len())?;
    // Who works in the function itself, and is not called by it, is a client of futures, and no worker.
    if tids.iter().all(|tid| analysis.place(*tid).is_some_and(|place| *start == place.function)) {
        return None;
    }
    let count = tids.len();
    let mut evidence: Vec<_> = tids
        .iter()
        .take(NAMED)
        .filter_map(|tid| {
            let label = analysis.thread(*tid)?.label();
            Some(at(
                Reference::Thread(*tid),
                format!("{label} waits for a future, in {}", place(analysis, *tid)?),
            ))
        })
        .collect();
    evidence.push(fact(
        format!("all {count} threads that run `{start}` wait so: none is left to take work"),
        Some(Value::Count(count as f64)),
    ));
    Some(Finding {
        id: FindingId::PoolStarvation,
        severity: Severity::Warning,
        impact: (count as f64 / analysis.threads.len().max(1) as f64).max(0.5),
        title: format!(
            "All {count} workers of a pool wait for futures{}: likely for tasks that are queued for the same pool",
            in_functions(analysis, tids)
        ),
        explanation: "A task that waits inside of a pool for another task of the same pool keeps the worker that would do it. When all workers \
                      wait so, none of these tasks is ever begun. The queue is the program's own and was not read: that what they wait \
                      for lies in it is inferred from nobody being left."
            .to_owned(),
        evidence,
        next_steps: steps(&[
            "Look where these futures are made: are their tasks given to the same pool?",
            "Do not wait inside of a pool for tasks of the same pool: give them a pool of their own, or go on when they are done",
        ]),
    })
}

/// The outermost function of the program in a stack.
fn start_of(analysis: &DumpAnalysis, group: usize) -> Option<&str> {
    let rows = analysis.groups.get(group)?.frames.iter().rev();
    rows.filter(|row| row.whose == Whose::Program && !row.managed).find_map(|row| row.function.as_deref())
}
