//! Workers of the pool block until tasks complete, seen in memory; and of other languages, workers of a pool that all wait for tasks in
//! its own queue.

use crate::dump::DumpAnalysis;
use crate::dump::strands::{Strand, StrandRuntime};
use crate::findings::dump::{NAMED, share};
use crate::findings::evidence::{fact, grade, steps};
use crate::findings::finding::{Evidence, Finding, FindingId, Severity, Value};
use crate::words::threads;
use std::collections::{BTreeMap, BTreeSet};

/// Workers that block at one moment: as many as a small machine's pool has, and twice as many as most machines have CPUs.
const BLOCKED: [usize; 3] = [usize::MAX, 8, 3];

pub(crate) fn find(analysis: &DumpAnalysis) -> Option<Finding> {
    let pool = analysis.managed.as_ref()?.pool.as_ref()?;
    let count = pool.waiting_for_tasks.len();
    let severity = grade(count, BLOCKED)?;
    let mut evidence: Vec<Evidence> = pool
        .places
        .iter()
        .take(NAMED)
        .map(|(place, count)| {
            fact(format!("{} in `{place}`", threads(*count)), Some(Value::Count(*count as f64)))
        })
        .collect();
    evidence.push(fact(
        format!("{} of {} workers wait for work", pool.idle, pool.workers),
        Some(Value::Count(pool.idle as f64)),
    ));
    let place =
        pool.places.first().map_or(String::new(), |(place, _)| format!(", most of them in `{place}`"));
    Some(finding(
        (severity, share(analysis, count)),
        format!("{count} of {} workers of the thread pool block until a task completes{place}", pool.workers),
        "A worker that waits for a task (`.Result`, `.Wait()`, `GetAwaiter().GetResult()`) does nothing, and what it waits \
                      for often needs a worker itself. The pool then adds one or two threads a second: everything gets slow while the \
                      CPU is idle.",
        evidence,
        &["Await these tasks instead of blocking on them, up to the caller that is asynchronous already"],
    ))
}

/// All workers of a pool of another language wait for tasks that lie in the queue of that pool.
pub(crate) fn of_strands(analysis: &DumpAnalysis) -> Option<Finding> {
    analysis.strands.iter().find_map(of_runtime)
}

fn of_runtime(runtime: &StrandRuntime) -> Option<Finding> {
    let pools = starved(&runtime.runtime.strands);
    let (pool, workers) = pools.iter().max_by_key(|(_, workers)| workers.len())?;
    let own = workers.iter().all(|worker| queue(worker) == Some(*pool));
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for worker in workers {
        *places.entry(runtime.place(worker).unwrap_or_default()).or_default() += 1;
    }
    let behind =
        runtime.runtime.strands.iter().filter(|one| !workers.iter().any(|worker| worker.id == one.id));
    let behind = behind.filter(|one| queue(one).is_some_and(|queue| pools.contains_key(&queue))).count();
    let most = places.iter().max_by_key(|(_, count)| **count)?.0;
    let count = workers.len();
    let whose = if own { "the same pool" } else { "pools whose workers all wait likewise" };
    let all = if count == 1 {
        "The only worker of a pool waits".to_owned()
    } else {
        format!("All {count} workers of a pool wait")
    };
    let mut evidence: Vec<Evidence> = places
        .iter()
        .take(NAMED)
        .map(|(place, count)| fact(format!("{count} wait in {place}"), Some(Value::Count(*count as f64))))
        .collect();
    let first = workers.first()?;
    if let Some(wait) = &first.wait {
        let at = wait.address.map_or(String::new(), |at| format!(" at {at:#x}"));
        let object = wait.object.as_deref().unwrap_or("task");
        evidence.push(fact(
            format!(
                "{} waits for the `{object}`{at}, which nobody has begun: it lies in the queue",
                runtime.label(first)
            ),
            None,
        ));
    }
    if behind > 0 {
        evidence.push(fact(
            format!("{behind} more threads wait for tasks of it"),
            Some(Value::Count(behind as f64)),
        ));
    }
    Some(finding(
        (Severity::Critical, (count as f64 / runtime.runtime.strands.len().max(1) as f64).max(0.5)),
        format!("{all} in {most} for tasks that are queued for {whose}"),
        "Each of these tasks would have to be begun by a worker that waits for such a task itself, so that none ever is. What \
                      they wait for was found in the queue.",
        evidence,
        &[
            "Do not wait inside of a pool for tasks of the same pool: give them a pool of their own, or go on when they are done",
            "They do not recover, unless the pool gets more workers",
        ],
    ))
}

fn queue(strand: &Strand) -> Option<u64> {
    strand.wait.as_ref().filter(|wait| !wait.ends_by_itself)?.queued_in
}

/// Pools of which no worker can go on: each waits for a task in the queue of such a pool.
fn starved(strands: &[Strand]) -> BTreeMap<u64, Vec<&Strand>> {
    let mut pools: BTreeMap<u64, Vec<&Strand>> = BTreeMap::new();
    for strand in strands {
        if let Some(pool) = strand.pool {
            pools.entry(pool).or_default().push(strand);
        }
    }
    loop {
        let known: BTreeSet<u64> = pools.keys().copied().collect();
        pools.retain(|_, workers| {
            workers.iter().all(|worker| queue(worker).is_some_and(|queue| known.contains(&queue)))
        });
        if pools.len() == known.len() {
            return pools;
        }
    }
}

fn finding(
    (severity, impact): (Severity, f64),
    title: String,
    explanation: &str,
    evidence: Vec<Evidence>,
    next_steps: &[&str],
) -> Finding {
    Finding {
        id: FindingId::PoolStarvation,
        severity,
        impact,
        title,
        explanation: explanation.to_owned(),
        evidence,
        next_steps: steps(next_steps),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dump::strands::{StrandId, StrandKind, StrandWait, WaitKind};

    /// Workers: pool, and the pool in whose queue lies what they wait for.
    fn workers(all: &[(u64, Option<u64>)]) -> Vec<Strand> {
        let worker = |(number, (pool, queue)): (usize, &(u64, Option<u64>))| {
            let mut strand = Strand::new(StrandId(number as u64), StrandKind::Thread);
            strand.pool = Some(*pool);
            strand.wait = queue
                .map(|queue| StrandWait { queued_in: Some(queue), ..StrandWait::of(WaitKind::Future, "") });
            strand
        };
        all.iter().enumerate().map(worker).collect()
    }

    fn found(all: &[(u64, Option<u64>)]) -> Vec<u64> {
        starved(&workers(all)).into_keys().collect()
    }

    #[test]
    fn a_pool_is_starved_only_if_all_of_its_workers_wait_for_starved_pools() {
        assert_eq!(found(&[(1, Some(1)), (1, Some(1))]), [1]);
        assert!(found(&[(1, Some(1)), (1, None)]).is_empty(), "one works, or waits for work");
        assert!(found(&[(1, Some(2)), (2, None)]).is_empty(), "the other pool goes on");
        assert_eq!(found(&[(1, Some(2)), (2, Some(1))]), [1, 2]);
        assert!(found(&[(1, Some(2)), (2, Some(3)), (3, None)]).is_empty());
        assert!(found(&[(1, Some(9))]).is_empty(), "nobody is known to work for it");
    }

    #[test]
    fn a_wait_with_a_limit_ends() {
        let mut all = workers(&[(1, Some(1))]);
        all[0].wait.as_mut().unwrap().ends_by_itself = true;
        assert!(starved(&all).is_empty());
    }
}
