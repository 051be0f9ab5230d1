//! Threads are started and do not end.

use crate::findings::evidence::{at, fact, metric, process_of_key, steps};
use crate::findings::finding::{Evidence, Finding, FindingId, Reference, Severity, Value};
use crate::findings::scene::Scene;
use crate::managed_names::{is_pool_thread, is_runtime_thread};
use crate::trace::function::FunctionHandle;
use crate::words::{number, percent, seconds};

/// New threads: pools start some with the first load.
const MORE: usize = 8;
/// They are at least this part of those that were there (a third), and this part of them (a tenth) came in the last third of the
/// recording: a pool that has filled up starts no more.
const PART_OF_ALL: usize = 3;
const PART_LATE: usize = 10;
/// Share of the starter's CPU time from which on a function is most likely where it starts them.
const MOST: f64 = 0.4;
/// Threads from which on, if they are three times as many as at first, a limit is near.
const CRITICAL: f64 = 100.0;

pub(super) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let table = &scene.analysis.threads;
    let of_runtime = of_runtime(scene);
    let trend = scene.analysis.metrics.trends.iter().find(|trend| {
        let more = trend.last - trend.first - of_runtime as f64;
        let many = more >= MORE as f64 && more * PART_OF_ALL as f64 >= trend.first;
        trend.column == "threads" && trend.growing && many
    });
    let by_trace = scene.capture.timeline.is_some() && grows(scene, of_runtime);
    if !by_trace && trend.is_none() {
        return None;
    }
    let (first, last) = if by_trace {
        (table.count_at_start as f64, table.count_at_end as f64)
    } else {
        trend.map_or((0.0, 0.0), |trend| (trend.first, trend.last))
    };
    let per_minute = (last - first) / scene.seconds * 60.0;
    let mut evidence = vec![fact(
        format!(
            "threads: {} at the start, {} at the end, {} more a minute",
            number(first),
            number(last),
            number(per_minute)
        ),
        Some(Value::Count(last - first)),
    )];
    if let Some(trend) = trend {
        evidence.push(at(
            metric(&trend.table, &trend.column, &trend.key),
            format!("the thread count of {} rises steadily", process_of_key(&trend.key)),
            Some(Value::Count(trend.last)),
        ));
    }
    let creator = creator(scene);
    evidence.extend(creator.iter().map(|creator| creator.evidence.clone()));
    let (what_they_do, waits_in) = newcomers(scene);
    evidence.extend(what_they_do);
    let waits_in = waits_in.map_or(String::new(), |place| format!("; they wait in {place}"));
    let by = creator.map_or(String::new(), |creator| format!(", started by {}", creator.words));
    let severity =
        if last >= CRITICAL && last >= 3.0 * first { Severity::Critical } else { Severity::Warning };
    Some(Finding {
        id: FindingId::RunawayThreads,
        severity,
        impact: ((last - first) / last.max(1.0)).clamp(0.0, 1.0),
        title: format!(
            "Threads pile up: from {} to {} in {}{by}{waits_in}",
            number(first),
            number(last),
            seconds(scene.seconds)
        ),
        explanation: "New threads are started and do not end. Most likely each piece of work gets a thread of its own and \
                      something keeps them from finishing. Each thread costs memory, and in the end the limit of the process \
                      or cgroup stops it. A pool that fills up to its limit looks the same for a while."
            .to_owned(),
        evidence,
        next_steps: steps(&[
            "See what the new threads do or wait for (thread table, newest first)",
            "Use a pool with a limit in the place that starts them",
        ]),
    })
}

/// New threads that no work piles up in: those that the runtime starts while somebody listens to its events are ours, and they stay
/// that many; those of the runtime's own pool are bounded by it, and have a rule of their own where they do not suffice, unless they
/// are as many as no load of a healthy server needs.
fn of_runtime(scene: &Scene<'_>) -> usize {
    let table = &scene.analysis.threads;
    let pool_fills = (table.count_at_end as f64) < CRITICAL;
    let known = |name: &str| is_runtime_thread(name) || pool_fills && is_pool_thread(name);
    table.rows.iter().filter(|row| row.born && row.exit.is_none() && known(&row.name)).count()
}

/// From this many new threads on, and by at least a third, and until the end of the recording.
fn grows(scene: &Scene<'_>, of_runtime: usize) -> bool {
    let table = &scene.analysis.threads;
    let more = table.count_at_end.saturating_sub(table.count_at_start).saturating_sub(of_runtime);
    let Some((_, to)) = scene.analysis.window else { return false };
    let late = to - biopsy_model::Nanos((scene.seconds * 1e9 / 3.0) as u64);
    let alive_late =
        table.rows.iter().filter(|row| row.born && row.exit.is_none() && row.start >= late).count();
    // The end of a thread may be missing from the trace. Where the kernel's own count was read, it must agree.
    let counts = scene.series("processes", "threads");
    let counted = counts
        .iter()
        .map(|counts| counts.max() - counts.points.first().map_or(0.0, |point| point.1))
        .sum::<f64>();
    let agrees = counts.is_empty() || counted >= more as f64 / 2.0;
    more >= MORE && more * PART_OF_ALL >= table.count_at_start && alive_late * PART_LATE >= more && agrees
}

struct Creator {
    words: String,
    evidence: Evidence,
}

/// Who starts the threads: the function below which threads are made, or at least the thread.
fn creator(scene: &Scene<'_>) -> Option<Creator> {
    let tree = &scene.analysis.flames.all.cpu;
    let makes = |name: &str| {
        [
            "pthread_create",
            "create_thread",
            "Thread::start",
            "java.lang.Thread.start",
            "System.Threading.Thread.Start",
            "do_start_new_thread",
            "thread::spawn",
            "clone3",
            "do_clone",
            "kernel_clone",
        ]
        .iter()
        .any(|part| name.contains(part))
    };
    if let Some((function, _)) = scene.caller_of(tree, |_, row| makes(&row.name)) {
        let words = scene.function_name(Some(function))?;
        let evidence = at(Reference::Function(function), format!("threads are made below {words}"), None);
        return Some(Creator { words, evidence });
    }
    let mut makers: rustc_hash::FxHashMap<biopsy_model::Tid, u64> = rustc_hash::FxHashMap::default();
    for by in scene.analysis.threads.rows.iter().filter_map(|row| row.by) {
        *makers.entry(by).or_default() += 1;
    }
    let (&tid, &count) = makers.iter().max_by_key(|(tid, count)| (**count, std::cmp::Reverse(**tid)))?;
    let mut words = scene.thread_name(tid);
    let mut text = format!("{words} started {count} of them");
    if let Some((place, share)) = works_in(scene, tid) {
        let place = scene.function_name(Some(place)).unwrap_or_default();
        text.push_str(&format!("; {} of its CPU time is in {place} and what that calls", percent(share)));
        words.push_str(&format!(", most likely in {place}"));
    } else if let Some(place) =
        scene.thread_waits(|_| true).iter().find(|wait| wait.tid == tid).and_then(|wait| wait.function)
    {
        let place = scene.function_name(Some(place)).unwrap_or_default();
        text.push_str(&format!("; when it waits it is mostly in {place}"));
        words.push_str(&format!(", most likely in {place}"));
    }
    Some(Creator { words, evidence: at(Reference::Thread(tid), text, Some(Value::Count(count as f64))) })
}

/// Starting a thread takes CPU time: the function of the program that most of the starter's goes to, sleeping aside.
fn works_in(scene: &Scene<'_>, tid: biopsy_model::Tid) -> Option<(FunctionHandle, f64)> {
    let tree = &scene.analysis.flames.threads.iter().find(|thread| thread.tid == tid)?.flames.cpu;
    scene.program_of(tree).filter(|(_, share)| *share >= MOST)
}

/// What the new threads are called and where they wait; the place once more by itself.
fn newcomers(scene: &Scene<'_>) -> (Vec<Evidence>, Option<String>) {
    let table = &scene.analysis.threads;
    let mut groups = vec![0usize; table.groups.len()];
    for row in table.rows.iter().filter(|row| row.born && row.exit.is_none()) {
        if let Some(count) = groups.get_mut(row.group) {
            *count += 1;
        }
    }
    let Some((group, count)) =
        groups.iter().enumerate().max_by_key(|(at, count)| (**count, std::cmp::Reverse(*at)))
    else {
        return (Vec::new(), None);
    };
    let Some(name) = table.groups.get(group).map(|group| &group.name).filter(|_| *count > 0) else {
        return (Vec::new(), None);
    };
    let mut evidence = vec![at(
        Reference::Group(group),
        format!("{count} of the new threads are called `{name}`"),
        Some(Value::Count(*count as f64)),
    )];
    let place =
        scene.analysis.waits.functions.iter().find(|row| row.function.is_some() && row.groups.contains(name));
    if let Some((row, place)) = place.and_then(|row| Some((row, scene.function_name(row.function)?))) {
        evidence.push(at(
            row.function.map_or(Reference::Recording, Reference::WaitFunction),
            format!("they wait in {place} for {}", row.reason.words()),
            Some(Value::Time(row.time)),
        ));
        return (evidence, Some(place));
    }
    (evidence, None)
}
