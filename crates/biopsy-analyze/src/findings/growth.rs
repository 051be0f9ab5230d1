//! What grows: threads, memory.

use super::scene::{Scene, at, fact, metric, steps};
use super::words::{bytes, number, percent, seconds};
use crate::finding::{Evidence, Finding, FindingId, Reference, Severity, Value};
use crate::function::FunctionKind;
use crate::metrics::Trend;

/// Threads are started and do not end.
pub(super) fn threads(scene: &Scene<'_>) -> Option<Finding> {
    let table = &scene.analysis.threads;
    let trend = scene.analysis.metrics.trends.iter().find(|trend| trend.column == "threads" && trend.growing);
    let by_trace = scene.capture.timeline.is_some() && grows(scene);
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
            format!("the thread count of process {} rises steadily", trend.key),
            Some(Value::Count(trend.last)),
        ));
    }
    let creator = creator(scene);
    evidence.extend(creator.iter().map(|creator| creator.evidence.clone()));
    let (what_they_do, waits_in) = newcomers(scene);
    evidence.extend(what_they_do);
    let waits_in = waits_in.map_or(String::new(), |place| format!("; they wait in {place}"));
    let by = creator.map_or(String::new(), |creator| format!(", started by {}", creator.words));
    let severity = if last >= 100.0 && last >= 3.0 * first { Severity::Critical } else { Severity::Warning };
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

/// From this many new threads on, and by at least a third, and until the end of the recording.
fn grows(scene: &Scene<'_>) -> bool {
    let table = &scene.analysis.threads;
    // Threads that the runtime starts while somebody listens to its events are ours, and they stay that many.
    let of_runtime =
        table.rows.iter().filter(|row| row.born && crate::managed::is_runtime_thread(&row.name)).count();
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
    more >= 8 && more * 3 >= table.count_at_start && alive_late * 10 >= more && agrees
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
    if let Some(place) =
        scene.thread_waits(|_| true).iter().find(|wait| wait.tid == tid).and_then(|wait| wait.function)
    {
        let place = scene.function_name(Some(place)).unwrap_or_default();
        text.push_str(&format!("; when it waits it is mostly in {place}"));
        words.push_str(&format!(", most likely in {place}"));
    }
    Some(Creator { words, evidence: at(Reference::Thread(tid), text, Some(Value::Count(count as f64))) })
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

/// Memory of a process grows steadily.
pub(super) fn memory(scene: &Scene<'_>) -> Option<Finding> {
    let trends =
        || scene.analysis.metrics.trends.iter().filter(|trend| trend.growing && trend.table == "processes");
    let largest = |column: &'static str| {
        trends()
            .filter(move |trend| trend.column == column)
            .max_by(|a, b| a.per_minute.total_cmp(&b.per_minute))
    };
    let trend = largest("memory.anon").or_else(|| largest("memory.rss"))?;
    let what =
        if trend.column == "memory.anon" { "anonymous memory (heap, stacks)" } else { "resident memory" };
    let mut evidence = vec![at(
        metric(&trend.table, &trend.column, &trend.key),
        format!(
            "{what} of process {} rose from {} to {}, {} a minute, in a {} straight line",
            trend.key,
            bytes(trend.first),
            bytes(trend.last),
            bytes(trend.per_minute),
            if trend.fit >= 0.95 { "nearly" } else { "roughly" }
        ),
        Some(Value::Bytes(trend.last - trend.first)),
    )];
    let touched = touched_by(scene);
    let toucher = touched.as_ref().and_then(|(_, name)| name.clone());
    evidence.extend(touched.map(|(evidence, _)| evidence));
    let left = left(scene, trend);
    if let Some((left, limit)) = &left {
        let text = format!("at this rate {limit} is reached in about {}", seconds(*left));
        evidence.push(fact(text, Some(Value::Count(*left))));
    }
    // A few seconds say little about the next hour.
    let horizon = if scene.seconds >= 30.0 { 3_600.0 } else { 600.0 };
    let soon = left.is_some_and(|(left, _)| left < horizon);
    let grown = trend.last - trend.first;
    let share = grown / trend.last.max(1.0);
    let runtime = runtime_of(scene, trend);
    let managed = runtime.is_some();
    let fills = runtime.is_some_and(|runtime| runtime.collections.total < FEW_COLLECTIONS);
    if fills {
        if grown < BUDGET {
            return None;
        }
        evidence.push(fact(
            "its runtime made fewer than three collections meanwhile: until then a managed heap only fills the room it gave itself, \
             and which of it is kept cannot be told",
            None,
        ));
    }
    // Buffers of events and of the collector come and go by so much.
    let small = managed && grown < BUDGET / 2.0;
    let heap = runtime.and_then(|runtime| managed_growth(scene, runtime));
    let native = heap.is_some_and(|heap| grown >= BUDGET && heap < grown * 0.25);
    if let Some(heap) = heap.filter(|_| native) {
        evidence.push(fact(
            format!("the managed heap grew by {} only: the rest is outside of it (native code, buffers, threads' stacks)", bytes(heap.max(0.0))),
            Some(Value::Bytes(heap)),
        ));
    }
    Some(Finding {
        id: FindingId::MemoryGrowth,
        severity: match (soon, fills || small) {
            (_, true) => Severity::Notice,
            (true, false) => Severity::Critical,
            (false, false) => Severity::Warning,
        },
        impact: share.clamp(0.05, 1.0),
        title: format!(
            "Memory grows steadily: {} → {} in {} ({} a minute){}{}",
            bytes(trend.first),
            bytes(trend.last),
            seconds(scene.seconds),
            bytes(trend.per_minute),
            if native { ", outside of the managed heap" } else { "" },
            toucher.map_or(String::new(), |name| format!("; most of it is first touched below {name}"))
        ),
        explanation: "This is growth, which need not be a leak: a cache that fills, a warm-up or more work in progress look the \
                      same. Most likely it is a leak if it goes on when the load is steady and after a collection of garbage."
            .to_owned(),
        evidence,
        next_steps: next_steps(trend, managed, native),
    })
}

fn next_steps(trend: &Trend, managed: bool, native: bool) -> Vec<String> {
    let mut next = Vec::new();
    if managed {
        let pid = trend.key.split(' ').next().unwrap_or_default();
        if native {
            next.push(format!(
                "`biopsy dump {pid}`, then `biopsy analyze`: what the memory outside of the managed heap is"
            ));
        } else {
            next.push(format!(
                "`biopsy snapshot {pid}` twice, some time apart: the types that grow, and what keeps them; asynchronous operations \
                 that never end are told by `biopsy stacks {pid}`"
            ));
        }
        next.push(
            "Record for longer: after a few collections it is known whether what is kept grows".to_owned(),
        );
    }
    next.extend(steps(&["Record again after some time under the same load: does it still grow?"]));
    if !managed {
        next.extend(steps(&[
            "See where new pages are first touched, and what keeps what is allocated there",
        ]));
    }
    next
}

/// With fewer collections growth means little.
const FEW_COLLECTIONS: u64 = 3;
/// What a managed heap may fill without a collection before that is worth a word: its youngest generation is this large, and more on
/// machines with large caches.
const BUDGET: f64 = 64e6;

/// What the runtime of the process said, if it is a managed one.
fn runtime_of<'s>(scene: &'s Scene<'_>, trend: &Trend) -> Option<&'s crate::RuntimeSummary> {
    let pid = trend.key.split(' ').next();
    scene
        .analysis
        .runtimes
        .iter()
        .find(|runtime| runtime.seconds > 0.5 && pid == Some(&runtime.pid.to_string()))
}

/// By how many bytes the managed heap grew, as its runtime counts it.
fn managed_growth(scene: &Scene<'_>, runtime: &crate::RuntimeSummary) -> Option<f64> {
    let trace = scene.capture.runtimes.get(runtime.trace)?;
    let readings = crate::runtimes::find_counter(trace, "System.Runtime", "gc-heap-size")?;
    let of = |point: &(biopsy_model::MonoNanos, f64)| point.1 * 1e6;
    Some(of(readings.points.last()?) - of(readings.points.first()?))
}

/// New memory costs a page fault at its first touch: CPU samples in the kernel's fault handler show where.
/// With a name where most is below one function.
pub(super) fn touched_by(scene: &Scene<'_>) -> Option<(Evidence, Option<String>)> {
    let is_fault = |name: &str| {
        ["exc_page_fault", "asm_exc_page_fault", "do_user_addr_fault", "handle_mm_fault", "do_page_fault"]
            .contains(&name)
    };
    let tree = &scene.analysis.flames.all.cpu;
    let (function, share) =
        scene.caller_of(tree, |_, row| row.kind == FunctionKind::Kernel && is_fault(&row.name))?;
    let name = scene.function_name(Some(function))?;
    let text = format!("{} of the CPU time in page faults is below {name}", percent(share));
    let evidence = at(Reference::Function(function), text, Some(Value::Share(share)));
    Some((evidence, Some(name).filter(|_| share >= 0.4)))
}

/// Seconds until the cgroup's limit or the machine's available memory is used up.
fn left(scene: &Scene<'_>, trend: &Trend) -> Option<(f64, String)> {
    let per_second = trend.per_minute / 60.0;
    let last = |table: &str, column: &str| {
        scene
            .series(table, column)
            .into_iter()
            .filter_map(|series| Some((series.key.clone(), series.points.last()?.1)))
    };
    let limits = last("cgroups", "memory.limit").filter_map(|(key, limit)| {
        let used = last("cgroups", "memory.current").find(|(other, _)| *other == key)?.1;
        Some((limit - used, format!("the limit of cgroup `{key}`")))
    });
    let machine = last("system", "memory.available")
        .map(|(_, free)| (free, "the end of the machine's memory".to_owned()));
    let (room, name) = limits.chain(machine).min_by(|a, b| a.0.total_cmp(&b.0))?;
    (per_second > 0.0).then(|| (room.max(0.0) / per_second, name))
}
