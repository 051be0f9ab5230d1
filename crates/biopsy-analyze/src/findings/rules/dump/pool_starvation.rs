//! Workers of the pool block until tasks complete, seen in memory.

use crate::dump::DumpAnalysis;
use crate::findings::dump::{NAMED, share};
use crate::findings::evidence::{fact, grade, steps};
use crate::findings::finding::{Evidence, Finding, FindingId, Value};
use crate::words::threads;

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
    Some(Finding {
        id: FindingId::PoolStarvation,
        severity,
        impact: share(analysis, count),
        title: format!("{count} of {} workers of the thread pool block until a task completes{place}", pool.workers),
        explanation: "A worker that waits for a task (`.Result`, `.Wait()`, `GetAwaiter().GetResult()`) does nothing, and what it waits \
                      for often needs a worker itself. The pool then adds one or two threads a second: everything gets slow while the \
                      CPU is idle."
            .to_owned(),
        evidence,
        next_steps: steps(&["Await these tasks instead of blocking on them, up to the caller that is asynchronous already"]),
    })
}
