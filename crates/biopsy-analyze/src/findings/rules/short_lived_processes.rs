//! Processes are started that end at once: starting them is what takes the time.

use crate::findings::evidence::{at, fact, steps};
use crate::findings::finding::{Evidence, Finding, FindingId, Reference, Severity, Value};
use crate::findings::scene::{Scene, ThreadWait};
use crate::findings::spent::on;
use crate::trace::cost_names::Cost;
use crate::trace::waits::WaitReason;
use crate::words::{cores, number, percent, seconds};
use biopsy_model::order::Order as _;
use biopsy_model::timeline::TimelineEvent;
use biopsy_model::{MonoNanos, Pid};
use std::collections::{BTreeMap, BTreeSet};

/// Processes a second: from the first on starting them is what the program does, from the second on it is worth a word.
const RATE: [f64; 2] = [20.0, 8.0];
/// Seconds that most of them live at most.
const LIFE: f64 = 0.25;
/// Share of the time that who starts them waits for them, or CPUs' worth that they use, from which on it is a warning.
const HELD: f64 = 0.3;

/// Processes that began and ended while it was recorded.
struct Lives {
    lived: Vec<f64>,
    parents: BTreeMap<Pid, usize>,
    names: BTreeMap<String, usize>,
    pids: BTreeSet<Pid>,
}

pub(super) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let lives = lives(scene)?;
    let count = lives.lived.len();
    let rate = count as f64 / scene.seconds;
    let median = *lives.lived.get(count / 2)?;
    if rate < RATE[1] || median > LIFE {
        return None;
    }
    let (parent, _) = lives.parents.iter().max_by_key(|(pid, count)| (**count, std::cmp::Reverse(**pid)))?;
    let table = &scene.analysis.threads.rows;
    let used: f64 =
        table.iter().filter(|row| lives.pids.contains(&row.pid)).map(|row| row.running.as_secs_f64()).sum();
    let used = used / scene.seconds;
    let waits = scene.thread_waits(|reason| {
        matches!(reason, WaitReason::Child | WaitReason::Pipe | WaitReason::Descriptor)
    });
    let waiter = waits.iter().find(|wait| scene.thread(wait.tid).is_some_and(|row| row.pid == *parent));
    let held = waiter.map_or(0.0, |wait| wait.share);
    let started = on(scene, &[(Cost::Processes, "starting and ending processes")]);
    let function = place(waiter, count, started.as_ref().and_then(|spent| spent.place));
    let place = scene.function_name(function);
    let what = lives.names.iter().max_by_key(|(name, count)| (**count, std::cmp::Reverse(*name)));
    let what = what.map_or(String::new(), |(name, _)| format!(" (`{name}`)"));
    let mut evidence = vec![fact(
        format!(
            "{count} processes{what} were started and ended in {}; half of them lived less than {}",
            seconds(scene.seconds),
            seconds(median.max(1e-6))
        ),
        Some(Value::Count(count as f64)),
    )];
    evidence.extend(waiter.filter(|wait| wait.share >= 0.1).map(|wait| waits_for(scene, wait)));
    evidence.push(fact(format!("together they use {}", cores(used)), Some(Value::Cores(used))));
    evidence.extend(started.into_iter().flat_map(|spent| spent.evidence));
    Some(Finding {
        id: FindingId::ShortLivedProcesses,
        severity: if rate >= RATE[0] && held.max(used) >= HELD { Severity::Warning } else { Severity::Notice },
        impact: held.max(used / scene.cpus).min(1.0),
        title: format!(
            "Short-lived processes: {} starts {} a second{what}{}, each ends after some {}",
            scene.name,
            number(rate),
            place.map_or(String::new(), |place| format!(" in {place}")),
            seconds(median.max(1e-6))
        ),
        explanation: "To start a process costs a copy of tables of memory, loading of a program and its libraries, and their end: a few \
                      milliseconds each, whatever it does then. Most likely the work is done faster in the process itself, or by one child \
                      that stays and is given the work."
            .to_owned(),
        evidence,
        next_steps: steps(&[
            "See what is started, and whether a library does the same",
            "Give many pieces of work to one child",
        ]),
    })
}

/// Where who starts them waits for them says more than where the kernel copies; a wait at a pipe may be for anything.
fn place(
    waiter: Option<&ThreadWait>,
    count: usize,
    started: Option<crate::trace::function::FunctionHandle>,
) -> Option<crate::trace::function::FunctionHandle> {
    let of_child = waiter.filter(|wait| wait.reason == WaitReason::Child);
    of_child
        .and_then(|wait| wait.function)
        .or(started)
        .or(waiter.filter(|wait| wait.count as usize * 2 >= count).and_then(|wait| wait.function))
}

fn waits_for(scene: &Scene<'_>, wait: &ThreadWait) -> Evidence {
    let place = scene.function_name(wait.function).map_or(String::new(), |name| format!(" in {name}"));
    at(
        wait.function.map_or(Reference::Thread(wait.tid), Reference::WaitFunction),
        format!(
            "{} waits {} of the time for child processes{place}",
            scene.thread_name(wait.tid),
            percent(wait.share)
        ),
        Some(Value::Share(wait.share)),
    )
}

fn lives(scene: &Scene<'_>) -> Option<Lives> {
    let events = &scene.capture.timeline.as_ref()?.process_events;
    let mut born: BTreeMap<Pid, (MonoNanos, Pid, Option<&str>)> = BTreeMap::new();
    let mut lives =
        Lives { lived: Vec::new(), parents: BTreeMap::new(), names: BTreeMap::new(), pids: BTreeSet::new() };
    for event in events {
        match event {
            TimelineEvent::ProcessStart { time, pid, parent } => {
                born.insert(*pid, (*time, *parent, None));
            }
            TimelineEvent::Exec { pid, name, .. } => {
                if let Some(life) = born.get_mut(pid) {
                    life.2 = Some(name);
                }
            }
            TimelineEvent::ProcessExit { time, pid } => {
                let Some((from, parent, name)) = born.remove(pid) else { continue };
                lives.lived.push(time.since(from).as_secs_f64());
                *lives.parents.entry(parent).or_default() += 1;
                *lives.names.entry(name.unwrap_or("a copy of itself").to_owned()).or_default() += 1;
                lives.pids.insert(*pid);
            }
            _ => {}
        }
    }
    lives.lived.order_by(f64::total_cmp);
    (!lives.lived.is_empty()).then_some(lives)
}
