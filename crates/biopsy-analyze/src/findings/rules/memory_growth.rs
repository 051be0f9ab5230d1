//! Memory of a process grows steadily.

use crate::findings::evidence::{at, fact, metric, process_of_key, steps};
use crate::findings::finding::{Finding, FindingId, Reference, Severity, Value};
use crate::findings::harm::harms;
use crate::findings::jvm_heap;
use crate::findings::scene::{Scene, touched_by};
use crate::managed_names::is_runtime_thread;
use crate::metrics::Trend;
use crate::runtimes::{RuntimeSummary, find_counter};
use crate::trace::cost_names::Cost;
use crate::trace::function::{FunctionHandle, FunctionRow};
use crate::words::{bytes, number, percent, seconds};
use biopsy_model::Tid;
use biopsy_model::process::RuntimeKind;
use std::collections::BTreeMap;

/// With fewer collections growth means little.
const FEW_COLLECTIONS: u64 = 3;
/// What a managed heap may fill without a collection before that is worth a word: its youngest generation is this large, and more on
/// machines with large caches.
const BUDGET: f64 = 64e6;
/// How far ahead a line through this recording may be drawn, in seconds: a few seconds say little about the next hour.
const HORIZON: f64 = 3_600.0;
const SHORT_HORIZON: f64 = 600.0;
const SHORT: f64 = 30.0;
/// From this share of the CPU time on, a function is what the program does.
const MOST: f64 = 0.4;
/// The rest is the runtime's own, for the most part: it compiles, collects, and touches pages.
const MUCH: f64 = 0.15;
/// Further functions that are named beside the first.
const OTHERS: usize = 2;
/// From this share of it on, what allocation there is tells who allocates.
const ALLOCATES: f64 = 0.05;
/// The growth is outside of a managed heap that grew by less than this share of it.
const OUTSIDE: f64 = 0.25;
/// How names of functions begin that take memory beside the heap of a virtual machine.
const OUTSIDE_OF_HEAP: &[&str] = &[
    "java.nio.DirectByteBuffer",
    "java.nio.Bits",
    "java.nio.ByteBuffer.allocateDirect",
    "jdk.internal.misc.Unsafe.allocateMemory",
    "jdk.internal.misc.Unsafe.setMemory",
    "Unsafe_AllocateMemory",
    "java.util.zip.Inflater",
    "java.util.zip.Deflater",
];
/// Share of the time that a job computes.
const WORKS: f64 = 0.6;

pub(super) fn find(scene: &Scene<'_>) -> Option<Finding> {
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
            "{what} of {} rose from {} to {}, {} a minute, in a {} straight line",
            process_of_key(&trend.key),
            bytes(trend.first),
            bytes(trend.last),
            bytes(trend.per_minute),
            if trend.fit >= 0.95 { "nearly" } else { "roughly" }
        ),
        Some(Value::Bytes(trend.last - trend.first)),
    )];
    let of_files = is_of_files(scene, trend);
    if of_files {
        evidence.push(fact(
            "its own memory (heap, stacks) does not grow with it: these are pages of files it has mapped, which the kernel takes back when it \
             needs room",
            None,
        ));
    }
    let touched = touched_by(scene.analysis);
    let toucher = touched.as_ref().and_then(|(_, name)| name.clone());
    evidence.extend(touched.map(|(evidence, _)| evidence));
    let left = left(scene, trend);
    if let Some((left, limit)) = &left {
        let text = format!("at this rate {limit} is reached in about {}", seconds(*left));
        evidence.push(fact(text, Some(Value::Count(*left))));
    }
    let horizon = if scene.seconds >= SHORT { HORIZON } else { SHORT_HORIZON };
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
    // Buffers of events and of the collector come and go by so much; a virtual machine that warms up compiles, and fills what room its
    // heap has.
    let warming = is_virtual_machine(scene, trend);
    let kept = runtime.and_then(kept_growth).filter(|kept| *kept < grown * OUTSIDE);
    let small = managed && grown < BUDGET / 2.0 || (warming || kept.is_some()) && grown < BUDGET;
    if let Some(kept) = kept.filter(|_| !fills) {
        evidence.push(fact(
            format!(
                "what is left after a collection grew by {} only: most of the growth is room of the runtime, compiled code or native memory",
                bytes(kept.max(0.0))
            ),
            Some(Value::Bytes(kept)),
        ));
    }
    // Its pages are touched by the runtime's own threads: what the program does meanwhile is the next best that is known.
    let worker = allocates(scene).or_else(|| {
        scene.program_outside_of_kernel(&scene.analysis.flames.all.cpu).filter(|(_, share)| *share >= MUCH)
    });
    let worker = worker.filter(|_| toucher.is_none() && is_virtual_machine(scene, trend));
    let worker =
        worker.and_then(|(function, share)| Some((function, share, scene.function_name(Some(function))?)));
    let runner = (toucher.is_none() && worker.is_none() && is_virtual_machine(scene, trend))
        .then(|| runs_most(scene, trend))
        .flatten();
    if let Some((function, name, thread)) = &runner {
        let text = format!(
            "of the threads of the program {thread} runs most, in {name}: perhaps what allocates, for allocations were not recorded"
        );
        evidence.push(at(Reference::Function(*function), text, None));
    }
    if let Some((function, share, name)) = &worker {
        let sure = if *share >= MOST { "likely" } else { "the most of any function of its own, so perhaps" };
        evidence.push(at(
            Reference::Function(*function),
            format!(
                "{} of its CPU time meanwhile is in {name} and below it: {sure} what allocates, for allocations were not recorded{}",
                percent(*share),
                if *share >= MOST { String::new() } else { others(scene, *function) }
            ),
            Some(Value::Share(*share)),
        ));
    }
    if warming {
        evidence.push(fact(
            "a virtual machine takes memory from the kernel until its heap has the size that it was given, and collects only then",
            None,
        ));
    }
    // A cache at its bound, work that is done: a managed heap rests between its steps, too.
    let rests = !managed && trend.rests(scene.capture);
    if rests {
        evidence.push(fact("it did not rise any more in the last part of the recording", None));
    }
    // A virtual machine that says what outlives its collections is believed.
    let jvm = (scene.runtime_of_key(&trend.key) == RuntimeKind::Jvm)
        .then(|| jvm_heap::of(scene, trend.key.split(' ').next().unwrap_or_default()))
        .flatten();
    let room = jvm.filter(|jvm| jvm.collections >= 1.0 && jvm.grown() < grown * OUTSIDE);
    // Of memory outside of its heap the virtual machine says nothing.
    let room = room.filter(|_| toucher.is_none() || !is_outside(scene));
    if let Some(jvm) = jvm {
        evidence.push(fact(
            format!(
                "the virtual machine collected {} meanwhile, and what outlives collections went from {} to {}{}",
                times(jvm.collections),
                bytes(jvm.kept[0]),
                bytes(jvm.kept[1]),
                if room.is_some() { ": the heap takes the room it was given, and what fills it is garbage" } else { "" }
            ),
            Some(Value::Bytes(jvm.grown())),
        ));
    }
    let uncollected = jvm.map_or_else(|| is_uncollected(scene, trend), |jvm| jvm.collections < 1.0);
    if uncollected {
        evidence.push(fact(
            "none of its threads that collect garbage ran meanwhile: until they do a heap only fills the room it gave itself, and which of it is \
             kept cannot be told",
            None,
        ));
    }
    // A compiler, a sort: it takes the memory that its work needs, and ends.
    let works = scene.busy() >= WORKS && !harms(scene);
    if works {
        evidence.push(fact("it computes all the time and answers nobody: a job that takes what its work needs looks like this", None));
    }
    let heap = runtime.and_then(|runtime| managed_growth(scene, runtime));
    let native = heap.is_some_and(|heap| grown >= BUDGET && heap < grown * OUTSIDE);
    if let Some(heap) = heap.filter(|_| native) {
        evidence.push(fact(
            format!("the managed heap grew by {} only: the rest is outside of it (native code, buffers, threads' stacks)", bytes(heap.max(0.0))),
            Some(Value::Bytes(heap)),
        ));
    }
    Some(Finding {
        id: FindingId::MemoryGrowth,
        severity: match (soon, fills || small || works || of_files || uncollected || rests || room.is_some()) {
            (_, true) => Severity::Notice,
            (true, false) => Severity::Critical,
            (false, false) => Severity::Warning,
        },
        // Behind whatever else is said.
        impact: if room.is_some() { 0.01 } else { share.clamp(0.05, 1.0) },
        title: format!(
            "Memory grows steadily: {} → {} in {} ({} a minute){}{}",
            bytes(trend.first),
            bytes(trend.last),
            seconds(scene.seconds),
            bytes(trend.per_minute),
            if native { ", outside of the managed heap" } else { "" },
            match (toucher, worker) {
                (Some(name), _) => format!("; most of it is first touched below {name}"),
                (None, Some((_, share, name))) if share >= MOST => format!("; most work meanwhile is in {name}"),
                (None, Some((_, _, name))) => format!("; of its own functions {name} works most meanwhile"),
                (None, None) => runner.map_or(String::new(), |(_, name, _)| {
                    format!("; of its own functions {name} works most meanwhile")
                }),
            }
        ),
        explanation: "This is growth, which need not be a leak: a cache that fills, a warm-up or more work in progress look the \
                      same. Most likely it is a leak if it goes on when the load is steady and after a collection of garbage."
            .to_owned(),
        evidence,
        next_steps: next_steps(trend, managed, native),
    })
}

/// The function of the program below which most of the allocating is, where there is enough of it to tell.
fn allocates(scene: &Scene<'_>) -> Option<(FunctionHandle, f64)> {
    let row = scene.facts.costs.iter().find(|row| row.cost == Cost::Allocation)?;
    let (function, time) = row.callers.first()?;
    let (time, all) = (time.as_secs_f64(), row.time.as_secs_f64());
    (all >= scene.sampled * ALLOCATES && time >= all * MOST).then(|| (*function, time / scene.sampled))
}

/// The next functions of the program by their CPU time, where the first one is not most of it.
fn others(scene: &Scene<'_>, first: FunctionHandle) -> String {
    let all = scene.programs_outside_of_kernel(&scene.analysis.flames.all.cpu);
    let named: Vec<String> = all
        .into_iter()
        .filter(|(function, _)| *function != first)
        .filter_map(|(function, share)| {
            Some(format!("{} in {}", percent(share), scene.function_name(Some(function))?))
        })
        .take(OTHERS)
        .collect();
    if named.is_empty() { String::new() } else { format!("; {}", named.join(", ")) }
}

/// Of a program that has few samples: the function in which those of its threads are that ran longest, by the kernel's count, and one of them.
fn runs_most(scene: &Scene<'_>, trend: &Trend) -> Option<(FunctionHandle, String, String)> {
    let pid = trend.key.split(' ').next()?.parse::<u32>().ok()?;
    let threads = scene.analysis.flames.threads.iter();
    let own = threads.filter(|thread| thread.pid.0 == pid && !is_runtime_thread(&thread.name));
    let mut sums: BTreeMap<FunctionHandle, (f64, Tid, f64)> = BTreeMap::new();
    for thread in own {
        let of = |tree| scene.program_of(tree).map(|(function, _)| function);
        let Some(function) = of(&thread.flames.cpu).or_else(|| of(&thread.flames.waiting)) else { continue };
        let ran = scene.thread(thread.tid).map_or(0.0, |row| row.running.as_secs_f64());
        let sum = sums.entry(function).or_insert((0.0, thread.tid, 0.0));
        sum.0 += ran;
        if ran > sum.2 {
            (sum.1, sum.2) = (thread.tid, ran);
        }
    }
    let (function, (_, tid, _)) =
        sums.into_iter().filter(|(_, sum)| sum.0 > 0.0).max_by(|a, b| a.1.0.total_cmp(&b.1.0))?;
    Some((function, scene.function_name(Some(function))?, scene.thread_name(tid)))
}

fn times(count: f64) -> String {
    if count < 1.5 { "once".to_owned() } else { format!("{} times", number(count)) }
}

/// Most of its pages are touched by what allocates outside of the heap: direct buffers, native code.
fn is_outside(scene: &Scene<'_>) -> bool {
    let tree = &scene.analysis.flames.all.cpu;
    let is_one = |_, row: &FunctionRow| OUTSIDE_OF_HEAP.iter().any(|known| row.name.starts_with(known));
    scene.caller_of(tree, is_one).is_some()
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

/// Whether what grows is pages of files: its anonymous memory is known, and grows by less than half as much.
fn is_of_files(scene: &Scene<'_>, trend: &Trend) -> bool {
    let anonymous =
        scene.series(&trend.table, "memory.anon").into_iter().find(|series| series.key == trend.key);
    let grown = anonymous.and_then(|series| Some(series.points.last()?.1 - series.points.first()?.1));
    trend.column == "memory.rss" && grown.is_some_and(|grown| grown < (trend.last - trend.first) / 2.0)
}

/// What the runtime of the process said, if it is a managed one.
fn runtime_of<'s>(scene: &'s Scene<'_>, trend: &Trend) -> Option<&'s RuntimeSummary> {
    let pid = trend.key.split(' ').next();
    scene
        .analysis
        .runtimes
        .iter()
        .find(|runtime| runtime.seconds > 0.5 && pid == Some(&runtime.pid.to_string()))
}

/// Its memory has a collector that says nothing to us.
fn is_virtual_machine(scene: &Scene<'_>, trend: &Trend) -> bool {
    matches!(scene.runtime_of_key(&trend.key), RuntimeKind::Jvm | RuntimeKind::Node | RuntimeKind::Go)
}

/// Java's collector has threads of its own, and none of them ran: nothing has been collected since the recording began.
fn is_uncollected(scene: &Scene<'_>, trend: &Trend) -> bool {
    if scene.runtime_of_key(&trend.key) != RuntimeKind::Jvm {
        return false;
    }
    let pid = trend.key.split(' ').next().and_then(|pid| pid.parse().ok());
    let rows = scene.analysis.threads.rows.iter();
    let mut collectors = rows
        .filter(|row| Some(row.pid.0) == pid && row.name.starts_with("GC Thread#"))
        .map(|row| row.voluntary + row.involuntary + row.running.0)
        .peekable();
    collectors.peek().is_some() && collectors.all(|ran| ran == 0)
}

/// By how many bytes the managed heap grew, as its runtime counts it.
fn managed_growth(scene: &Scene<'_>, runtime: &RuntimeSummary) -> Option<f64> {
    let trace = scene.capture.runtimes.get(runtime.trace)?;
    let readings = find_counter(trace, "System.Runtime", "gc-heap-size")?;
    let of = |point: &(biopsy_model::MonoNanos, f64)| point.1 * 1e6;
    Some(of(readings.points.last()?) - of(readings.points.first()?))
}

/// By how many bytes what is left after a collection grew, where there were enough of them.
fn kept_growth(runtime: &RuntimeSummary) -> Option<f64> {
    let [(_, first), (_, last)] =
        runtime.collections.heap.filter(|_| runtime.collections.total >= FEW_COLLECTIONS)?;
    Some(last as f64 - first as f64)
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
