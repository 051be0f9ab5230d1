//! Allocating and collecting garbage takes the CPU time, in a runtime that does not say so itself.

use crate::findings::evidence::{at, steps};
use crate::findings::finding::{Finding, FindingId, Reference};
use crate::findings::scene::Scene;
use crate::findings::spent::{busy_evidence, collects, on, severity};
use crate::trace::cost_names::Cost;
use crate::trace::function::{FunctionHandle, FunctionKind, FunctionRow};
use crate::words::percent;

/// Share of the CPU time from which on memory is what it goes to. Healthy servers and compilers under full load were at 7 % at most, those whose
/// cause this is at 40 % and more (design note 05).
const SHARE: f64 = 0.3;
/// CPUs that it uses, or wants, below which it harms nobody.
const LEAST_CORES: f64 = 0.3;

const KINDS: &[(Cost, &str)] =
    &[(Cost::Allocation, "allocation of memory"), (Cost::Collection, "garbage collection")];

/// A collector that gives memory back to the kernel takes it again page by page.
const WITH_PAGES: &[(Cost, &str)] = &[
    (Cost::Allocation, "allocation of memory"),
    (Cost::Collection, "garbage collection"),
    (Cost::PageFaults, "page faults of memory that was given back"),
    (Cost::Mappings, "giving memory back to the kernel"),
];
/// Share of the CPU time from which on nothing else is more.
const MOST: f64 = 0.5;
/// Share of the CPU time in making and collecting garbage itself, below which pages alone say nothing of it.
const MADE: f64 = 0.1;

pub(super) fn find(scene: &Scene<'_>) -> Option<Finding> {
    scene.wanted_cores().filter(|&wanted| wanted >= LEAST_CORES)?;
    let made = on(scene, KINDS)?.share;
    let spent = on(scene, WITH_PAGES)?;
    if spent.share < SHARE || made < MADE || !collects(scene) {
        return None;
    }
    let asked = asked_for(scene);
    // A job that makes garbage by the way: what it does takes longer than its garbage, and is what a person would name.
    let worked = scene.facts.costs.iter().filter(|row| row.cost.is_work()).map(|row| row.time.as_secs_f64());
    let worked = worked.fold(0.0, f64::max) / scene.sampled.max(f64::MIN_POSITIVE);
    if asked.is_none() && spent.share < MOST && worked > made {
        return None;
    }
    // Collectors have threads of their own: who waits for them is who makes them work.
    let waits = asked.is_none() && spent.place.is_none();
    let is_wait = |name: &str| WAITS.iter().any(|known| name.starts_with(known));
    let waits = waits.then(|| below(scene, is_wait)).flatten();
    let mut evidence = spent.evidence.clone();
    let place = match (&asked, waits) {
        (Some((asked, name, by)), _) => {
            let text = format!("collections of the whole heap are asked for by `{by}` below {name}");
            evidence.insert(0, at(Reference::Function(*asked), text, None));
            format!(" for `{by}` below {name}")
        }
        (None, Some(function)) => {
            let name = scene.function_name(Some(function)).unwrap_or_default();
            let text = format!("most of those who wait for memory until the collector is done are in {name}");
            evidence.push(at(Reference::Function(function), text, None));
            format!(" while {name} waits for memory")
        }
        (None, None) => spent.in_place(scene),
    };
    evidence.extend(spent.for_what(scene));
    evidence.extend(busy_evidence(scene));
    Some(Finding {
        id: FindingId::GcPressure,
        severity: severity(scene, LEAST_CORES),
        impact: scene.busy(),
        title: format!(
            "Memory pressure on the garbage collector: allocation and collection take {} of the CPU time of {}, most{}",
            percent(spent.share),
            scene.name,
            if place.is_empty() { " in no one place".to_owned() } else { place }
        ),
        explanation: match asked {
            Some(_) => {
                "Each of these collections goes through the whole heap, however little garbage there is, because the program, or a library \
                 that it calls, asks for it: not the number of objects but that request is what takes the time. Room outside of the heap \
                 (direct buffers) that is used up asks for one too."
            }
            None => MANY_OBJECTS,
        }
        .to_owned(),
        evidence,
        next_steps: steps(&[
            "Look in the CPU flame graph at who calls the allocator, and make fewer objects there",
            "Compare with a larger heap (`GOGC`, `-Xmx`, `--max-semi-space-size`): fewer collections, the same allocation",
        ]),
    })
}

const MANY_OBJECTS: &str = "So many short-lived objects are made that making and collecting them takes the time. Most likely fewer of them \
                      (buffers used again, one map for many lines, no copies of strings) help more than a larger heap. It is not \
                      a leak: what is collected is gone.";

/// Functions by which a program asks for a collection: the beginnings of their names.
const ASKS: &[&str] = &[
    "java.lang.System.gc",
    "java.lang.Runtime.gc",
    "JVM_GC",
    "runtime.GC",
    "runtime/debug.FreeOSMemory",
    "System.GC.Collect",
    "gc_collect_impl",
    "v8::internal::GCExtension",
    "v8::internal::Heap::CollectAllAvailableGarbage",
];

/// Where threads of a program wait for the collector.
const WAITS: &[&str] = &[
    "CollectedHeap::",
    "G1CollectedHeap::",
    "GenCollectedHeap::",
    "SerialHeap::",
    "ParallelScavengeHeap::",
    "MemAllocator::",
    "VMThread::execute",
    "SafepointSynchronize::block",
    "SafepointMechanism::process",
    "runtime.gcAssistAlloc",
    "runtime.gcParkAssist",
    "v8::internal::Heap::AllocateRaw",
];

/// The function of the program below which collections are asked for, its name, and by what.
fn asked_for(scene: &Scene<'_>) -> Option<(FunctionHandle, String, String)> {
    // `System.GC.CollectionCount` asks for none.
    let is_of = |name: &str, asks: &str| {
        let rest = name.strip_prefix(asks);
        rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_'))
    };
    let (by, function) =
        ASKS.iter().find_map(|asks| Some((*asks, below(scene, |name| is_of(name, asks))?)))?;
    Some((function, scene.function_name(Some(function))?, by.to_owned()))
}

/// The function of the program below which such a function waits, or else runs.
fn below(scene: &Scene<'_>, is_one: impl Fn(&str) -> bool) -> Option<FunctionHandle> {
    let flames = &scene.analysis.flames.all;
    let is_one = |_, row: &FunctionRow| row.kind != FunctionKind::Kernel && is_one(&row.name);
    let found = [&flames.waiting, &flames.cpu].into_iter().find_map(|tree| scene.caller_of(tree, is_one));
    found.map(|(function, _)| function)
}
