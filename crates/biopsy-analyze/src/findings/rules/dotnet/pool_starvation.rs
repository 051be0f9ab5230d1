//! The thread pool starves: work waits because its threads wait.

use crate::findings::dotnet::{Heard, heard, in_table, of_process, table, time, traced};
use crate::findings::evidence::{at, fact, steps};
use crate::findings::finding::{Evidence, Finding, FindingId, Reference, Severity, Value};
use crate::findings::scene::{Scene, is_worth_naming};
use crate::managed_names::is_pool_thread;
use crate::runtimes::find_counter;
use crate::trace::flame::{FlameKind, FlameTree};
use crate::trace::function::{FunctionHandle, FunctionKind};
use crate::trace::managed_waits::ManagedWait;
use crate::words::{cores, cpus, number, percent};
use biopsy_model::{Nanos, Tid};
use rustc_hash::{FxHashMap, FxHashSet};

/// Fewer blocked threads on average than this leave the pool room.
const BLOCKED: f64 = 2.0;
/// Adjustments for want of threads from which on events alone are believed. The pool makes one by itself now and then.
const ADJUSTMENTS: u64 = 4;
/// Share of the time of all threads of the pool that is spent blocked: below, others take the work.
const SHARE: f64 = 0.2;
/// As many blocked as there are CPUs, which is how many the pool has by itself; small machines have four at least after a moment.
const LEAST_POOL: f64 = 4.0;
/// Half of the pool's time, and nothing gets on.
const CRITICAL_SHARE: f64 = 0.5;
/// One piece of work that waits is on its way.
const QUEUE: f64 = 2.0;

/// Threads of the pool that stand still until tasks are complete.
struct Blocked {
    /// On average.
    mean: f64,
    /// Share of the time of all pool threads.
    share: f64,
    threads: usize,
    pool: usize,
    place: Option<FunctionHandle>,
    /// Share of the blocked time at that place.
    place_share: f64,
}

fn blocked(scene: &Scene<'_>) -> Option<Blocked> {
    let rows = &scene.analysis.threads.rows;
    let end = scene.analysis.window.map(|(_, end)| end)?;
    let pool: FxHashMap<Tid, Nanos> = rows
        .iter()
        .filter(|row| is_pool_thread(&row.name))
        .map(|row| (row.tid, row.exit.unwrap_or(end).since(row.start)))
        .collect();
    let lived: f64 = pool.values().map(|time| time.as_secs_f64()).sum();
    let mut sum = 0.0;
    let mut threads: FxHashSet<Tid> = FxHashSet::default();
    let mut places: FxHashMap<FunctionHandle, f64> = FxHashMap::default();
    for row in
        scene.facts.managed.iter().filter(|row| row.how == ManagedWait::Task && pool.contains_key(&row.tid))
    {
        let time = row.time.as_secs_f64();
        sum += time;
        threads.insert(row.tid);
        if let Some(function) = row.function {
            *places.entry(function).or_default() += time;
        }
    }
    let (place, longest) = places
        .into_iter()
        .max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))
        .map_or((None, 0.0), |(f, t)| (Some(f), t));
    (sum > 0.0).then(|| Blocked {
        mean: sum / traced(scene),
        share: (sum / lived.max(1e-9)).min(1.0),
        threads: threads.len(),
        pool: pool.len(),
        place,
        place_share: longest / sum,
    })
}

pub(crate) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let blocked = blocked(scene).filter(|blocked| blocked.mean >= BLOCKED && blocked.share >= SHARE);
    let heard = heard(scene).max_by_key(|heard| heard.summary.pool.starved + heard.summary.pool.blocked);
    let (starved, blocking) =
        heard.as_ref().map_or((0, 0), |heard| (heard.summary.pool.starved, heard.summary.pool.blocked));
    if blocked.is_none() && starved + blocking < ADJUSTMENTS {
        return None;
    }
    let mut evidence = Vec::new();
    let place = blocked.as_ref().and_then(|blocked| scene.function_name(blocked.place));
    if let Some(blocked) = &blocked {
        evidence.push(at(
            blocked.place.map_or(Reference::Recording, Reference::WaitFunction),
            format!(
                "{} of {} pool threads stood still until a task was complete, {:.1} at a time on average, {} of the pool's time",
                blocked.threads,
                blocked.pool,
                blocked.mean,
                percent(blocked.share)
            ),
            Some(Value::Share(blocked.share)),
        ));
        if let Some((place, function)) = place.as_ref().zip(blocked.place) {
            evidence.push(at(
                Reference::WaitFunction(function),
                format!(
                    "{} of that is below {place}, which waits in `Wait`, `Result` or `GetResult`",
                    percent(blocked.place_share)
                ),
                Some(Value::Share(blocked.place_share)),
            ));
        }
    }
    let called = blocked.as_ref().and_then(|blocked| called_by(scene, blocked.place?));
    evidence.extend(called.iter().map(|(evidence, _)| evidence.clone()));
    let through = called.map_or(String::new(), |(_, name)| format!(", which calls {name},"));
    if let Some(heard) = &heard {
        evidence.extend(of_events(heard));
    }
    if let Some(used) = scene.cores {
        evidence.push(fact(
            format!("meanwhile {} of {} are used", cores(used), cpus(scene.cpus)),
            Some(Value::Cores(used)),
        ));
    }
    let severity = match &blocked {
        Some(blocked)
            if blocked.mean >= scene.cpus.max(LEAST_POOL)
                && (blocked.share >= CRITICAL_SHARE || starved > 0) =>
        {
            Severity::Critical
        }
        Some(_) => Severity::Warning,
        None if starved >= ADJUSTMENTS => Severity::Warning,
        None => Severity::Notice,
    };
    let title = match (&blocked, &place) {
        (Some(blocked), Some(place)) => format!(
            "Thread pool starvation: {:.0} pool threads on average block in {place}{through} until a task is complete (sync over async)",
            blocked.mean
        ),
        (Some(blocked), None) => format!(
            "Thread pool starvation: {:.0} pool threads on average block until a task is complete (sync over async)",
            blocked.mean
        ),
        (None, _) => format!(
            "The thread pool had too few threads {} times{}",
            number((starved + blocking) as f64),
            heard.as_ref().map_or(String::new(), |heard| of_process(scene, heard.summary))
        ),
    };
    Some(Finding {
        id: FindingId::PoolStarvation,
        severity,
        impact: blocked.as_ref().map_or(0.3, |blocked| blocked.share),
        title,
        explanation: "What would complete these tasks needs threads of the same pool, and they are taken by those who wait. The \
                      pool adds one or two threads a second, so everything gets slow while the CPU is idle. Most likely a method \
                      waits for an asynchronous one with `Result`, `Wait()` or `GetAwaiter().GetResult()`. More CPUs do not \
                      help; a larger minimum of threads hides it for a while."
            .to_owned(),
        evidence,
        next_steps: steps(&[
            "Make the method asynchronous and `await` the call, and so its callers, up to the request",
            "Until then, `ThreadPool.SetMinThreads` (or `System.Threading.ThreadPool.MinThreads`) above the number of blocked threads shortens the pain",
            "See the waiting flame graph of the pool's threads",
        ]),
    })
}

fn of_events(heard: &Heard<'_>) -> Vec<Evidence> {
    let summary = heard.summary;
    let pool = &summary.pool;
    let mut evidence = Vec::new();
    if pool.starved + pool.blocked > 0 {
        let mut parts = Vec::new();
        if pool.starved > 0 {
            parts.push(format!("{} times because of starvation", number(pool.starved as f64)));
        }
        if pool.blocked > 0 {
            parts.push(format!("{} times because its threads block on tasks", number(pool.blocked as f64)));
        }
        evidence.push(at(
            table(summary, "thread_pool", None),
            format!("the pool added threads {}", parts.join(" and ")),
            Some(Value::Count((pool.starved + pool.blocked) as f64)),
        ));
    }
    if let Some([first, last, _, most]) = pool.threads.filter(|threads| threads[3] > threads[0]) {
        evidence.push(at(
            table(summary, "thread_pool", None),
            format!("the pool had {first} threads at first, {most} at most and {last} at the end"),
            Some(Value::Count(f64::from(most))),
        ));
    }
    let queue = find_counter(heard.trace, "System.Runtime", "threadpool-queue-length");
    let longest = queue.map_or(0.0, |queue| queue.points.iter().map(|point| point.1).fold(0.0, f64::max));
    if longest >= QUEUE {
        evidence.push(fact(
            format!("up to {} pieces of work waited for a thread", number(longest)),
            Some(Value::Count(longest)),
        ));
    }
    if let Some((at_row, row)) =
        summary.requests.iter().enumerate().find(|(_, row)| row.count > 0 || row.unanswered > 0)
    {
        evidence.push(in_table(
            summary,
            "requests",
            at_row,
            format!(
                "`{} {}` took {} on average, {} were not answered",
                row.method.replace('`', "'"),
                row.route.replace('`', "'"),
                time(row.mean),
                number(row.unanswered as f64)
            ),
            Some(Value::Time(row.mean)),
        ));
    }
    evidence
}

/// A method that ends with the call that waits may have left its frame to it (a tail call, once it is compiled with optimization), and
/// is not on the stacks of waiting threads, or not on all of them. It is on those of CPU samples, and on those of threads that called
/// it before: the application's own function that the place calls most.
fn called_by(scene: &Scene<'_>, place: FunctionHandle) -> Option<(Evidence, String)> {
    let flames = &scene.analysis.flames.all;
    let (function, seen, waiting) = own_callee(scene, &flames.waiting, place)
        .map(|function| (function, "other threads wait below it in", true))
        .or_else(|| {
            own_callee(scene, &flames.cpu, place).map(|function| (function, "CPU samples saw it call", false))
        })?;
    let name = scene.function_name(Some(function))?;
    let text = format!(
        "{seen} {name}; if that ends with the call that waits, its frame is not on the stacks of all waiting threads"
    );
    let reference = if waiting { Reference::WaitFunction(function) } else { Reference::Function(function) };
    Some((at(reference, text, None), name))
}

/// The application's own function that `place` calls most.
fn own_callee(scene: &Scene<'_>, tree: &FlameTree, place: FunctionHandle) -> Option<FunctionHandle> {
    let mut sums: FxHashMap<FunctionHandle, Nanos> = FxHashMap::default();
    let here = tree.nodes.iter().filter(|node| node.kind == FlameKind::Function(place));
    for node in here.flat_map(|node| &node.children).filter_map(|&child| tree.nodes.get(child as usize)) {
        let FlameKind::Function(function) = node.kind else { continue };
        let own = scene.row(function).is_some_and(|row| {
            row.kind == FunctionKind::Jit && is_worth_naming(row) && !row.name.ends_with("(async)")
        });
        if own && function != place {
            let sum = sums.entry(function).or_default();
            *sum = *sum + node.total;
        }
    }
    sums.into_iter()
        .max_by_key(|(function, time)| (*time, std::cmp::Reverse(*function)))
        .map(|(function, _)| function)
}
