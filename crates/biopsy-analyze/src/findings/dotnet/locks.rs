//! Monitors and locks: threads that wait for ever, a finalizer that waits, queues told by the runtime.

use super::{code, heard, in_table, of_process, time, traced};
use crate::finding::{Evidence, Finding, FindingId, Reference, Severity, Value};
use crate::findings::grade;
use crate::findings::scene::{Scene, at, fact, is_worth_naming, steps};
use crate::findings::words::{number, percent, threads};
use crate::function::{FunctionHandle, FunctionKind};
use crate::managed_waits::ManagedWait;
use crate::runtimes::ContentionRow;
use biopsy_model::Tid;
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

/// Threads wait for a lock during the whole recording: a deadlock, or an owner that never lets go.
pub(super) fn blocked(scene: &Scene<'_>) -> Option<Finding> {
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
    let of_pool = |tid: &Tid| scene.thread(*tid).is_some_and(|row| crate::managed::is_pool_thread(&row.name));
    let nameless = |function: &Option<FunctionHandle>| {
        function.and_then(|function| scene.row(function)).is_none_or(|row| row.name.ends_with("(dynamic)"))
    };
    places.sort_by_key(|(function, tids)| {
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

/// The finalizer thread waits for something: nothing is finalized any more.
pub(super) fn finalizer(scene: &Scene<'_>) -> Option<Finding> {
    let waits = scene.thread_waits(|_| true);
    let wait = waits.iter().find(|wait| {
        scene.thread(wait.tid).is_some_and(|row| row.name.starts_with(".NET Finalizer"))
            && wait.share >= 0.5
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

/// Mean number of threads in a queue from which on it is one.
const QUEUE: f64 = 1.5;
/// Fewer waits say little.
const WAITS: u64 = 10;

/// Threads queue for a lock, as the runtime tells it.
pub(super) fn contention(scene: &Scene<'_>) -> Option<Finding> {
    let (heard, number_of_row) = heard(scene)
        .filter_map(|heard| {
            let rows = heard.summary.contention.iter().enumerate();
            let (number, row) =
                rows.filter(|(_, row)| row.count >= WAITS).max_by_key(|(_, row)| row.total)?;
            Some((row.total, heard, number))
        })
        .max_by_key(|(total, _, number)| (*total, std::cmp::Reverse(*number)))
        .map(|(_, heard, number)| (heard, number))?;
    let summary = heard.summary;
    let row = summary.contention.get(number_of_row)?;
    let seconds = summary.seconds.max(1e-9);
    let queue = row.total.as_secs_f64() / seconds;
    if row.threads < 3 || queue < QUEUE {
        return None;
    }
    let share = (row.total.as_secs_f64() / (seconds * row.threads as f64)).min(1.0);
    let severity = grade(share, 0.5, 0.2, 0.05)?;
    let place = super::in_place(&row.place);
    let mut evidence = vec![in_table(
        summary,
        "contention",
        number_of_row,
        format!(
            "{} waits of {} threads{place}, {} in all, {queue:.1} threads at a time on average, {} at most",
            number(row.count as f64),
            row.threads,
            time(row.total),
            time(row.longest)
        ),
        Some(Value::Time(row.total)),
    )];
    evidence.extend(owners(scene, row));
    evidence.extend(holder(scene, row));
    if let Some(used) = scene.cores {
        evidence.push(fact(
            format!("meanwhile {} of {} CPUs are used", crate::findings::words::cores(used), scene.cpus),
            Some(Value::Cores(used)),
        ));
    }
    Some(Finding {
        id: FindingId::LockConvoy,
        severity,
        impact: share,
        title: format!(
            "Lock convoy{place}: {} wait {} of the time for {}{}",
            threads(row.threads),
            percent(share),
            if row.locks == 1 { "one lock" } else { "a lock" },
            of_process(scene, summary)
        ),
        explanation: format!(
            "On average {queue:.1} threads queue there at the same time, so what the lock protects runs one at a time. Most likely \
             the lock is held too long or taken too often. It is not a deadlock: the threads do get on. The runtime itself \
             counted these waits."
        ),
        evidence,
        next_steps: steps(&[
            "See what runs while the lock is held: input, output or sleeping under a lock is the usual cause",
            "Hold the lock for less, split it, or take it less often",
        ]),
    })
}

fn owners(scene: &Scene<'_>, row: &ContentionRow) -> Option<Evidence> {
    let (owner, count) = row.owner?;
    let locks = match row.locks {
        0 => String::new(),
        1 => "one lock; ".to_owned(),
        locks => format!("{locks} locks; "),
    };
    let text = format!(
        "{locks}most often held by {}, in {} of the longest waits",
        scene.thread_name(owner),
        number(count as f64)
    );
    Some(at(Reference::Thread(owner), text, Some(Value::Count(count as f64))))
}

/// What the thread that let others in had waited for just before: most likely while it held the lock.
fn holder(scene: &Scene<'_>, row: &ContentionRow) -> Option<Evidence> {
    let same = |function: Option<FunctionHandle>| {
        super::pool::place_of(scene, function).is_some_and(|name| name == code(&row.place.function))
    };
    let behind = scene
        .analysis
        .waits
        .behind
        .iter()
        .filter(|behind| same(behind.function) && behind.share >= 0.2)
        .max_by_key(|behind| behind.count)?;
    let place =
        scene.function_name(behind.cause_function).map_or(String::new(), |name| format!(" in {name}"));
    Some(at(
        behind.cause_function.map_or(Reference::Recording, Reference::WaitFunction),
        format!(
            "in {} of the waits the thread that handed the lock on had just waited for {}{place}: most likely while it held the lock",
            percent(behind.share),
            behind.cause.words()
        ),
        Some(Value::Share(behind.share)),
    ))
}
