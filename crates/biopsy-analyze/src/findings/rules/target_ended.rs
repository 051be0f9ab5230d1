//! The target ended while it was recorded.

use crate::findings::evidence::{at, steps};
use crate::findings::finding::{Evidence, Finding, FindingId, Reference, Severity};
use crate::findings::scene::{Scene, is_worth_naming};
use crate::managed_names::is_runtime_thread;
use crate::trace::frames::FrameTable;
use crate::trace::function::FunctionHandle;
use crate::words::{seconds, shorten};
use biopsy_model::capture::EndedBy;
use biopsy_model::order::Order as _;
use biopsy_model::stack::StackHandle;
use biopsy_model::timeline::{Sample, Timeline, TimelineEvent};
use biopsy_model::{MonoNanos, Tid};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;

/// What counts as last, in seconds.
const LAST: f64 = 0.3;
/// Samples of a thread in this time from which on they say something.
const SAMPLES: u64 = 3;
/// Seconds before the end in which an error in the logs may have to do with it.
const LAST_ERROR: f64 = 5.0;

pub(super) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let header = &scene.capture.header;
    let target = header.target.as_ref().map(|key| key.pid);
    let timeline = scene.capture.timeline.as_ref();
    let exit = timeline.and_then(|timeline| {
        timeline.process_events.iter().find_map(|event| match event {
            TimelineEvent::ProcessExit { time, pid } if Some(*pid) == target => Some(*time),
            _ => None,
        })
    });
    if exit.is_none() && header.ended_by != EndedBy::TargetExited {
        return None;
    }
    let (from, to) = scene.analysis.window?;
    let when = exit.unwrap_or(to);
    // A program that was launched for the recording is expected to end.
    let launched = target.is_some_and(|pid| scene.has_start_of(pid));
    let at_second = when.since(from).as_secs_f64();
    let last_error = scene
        .capture
        .logs
        .iter()
        .enumerate()
        .flat_map(|(log, file)| file.lines.iter().enumerate().map(move |(line, text)| (log, line, text)))
        .filter(|(_, _, line)| line.level == biopsy_model::log::LogLevel::Error)
        .filter(|(_, _, line)| {
            let is_last = |time| time <= when && when.since(time).as_secs_f64() < LAST_ERROR;
            line.time.is_some_and(is_last)
        })
        .max_by_key(|(log, number, line)| (line.time, *log, *number));
    let mut evidence = vec![at(
        Reference::Time { from: when, to: to.max(when) },
        format!("it ended {} after the start of the recording", seconds(at_second)),
        None,
    )];
    if let Some((log, line, text)) = last_error {
        let text: String = text.text.chars().take(200).collect();
        evidence.push(at(Reference::Log { log, line }, format!("the last error before: {text}"), None));
    }
    let mut doing = String::new();
    if !launched {
        if let Some((seen, name)) = last_run(scene, when) {
            evidence.push(seen);
            doing = format!("; last it ran {name}");
        }
        if let Some((seen, what)) = last_exception(scene, when) {
            evidence.push(seen);
            doing.push_str(&what);
        }
        // The runtime starts this thread to print the stack of the one that has no room left.
        if let Some(row) =
            scene.analysis.threads.rows.iter().find(|row| row.name.starts_with(".NET Stack over"))
        {
            let text = format!("the runtime started {}: a stack overflow", scene.thread_name(row.tid));
            evidence.push(at(Reference::Thread(row.tid), text, None));
            doing = format!("; it died of a stack overflow{doing}");
        }
    }
    let mut next_steps =
        steps(&["See the last log lines, and the journal of the service for the exit status or signal"]);
    if !launched && !scene.capture.runtimes.is_empty() {
        next_steps.push(
            "If it happens again: `biopsy dump NAME --on unhandled-exception` (or `--on crash`) beforehand holds it at that moment"
                .to_owned(),
        );
    }
    Some(Finding {
        id: FindingId::TargetEnded,
        severity: if launched { Severity::Info } else { Severity::Warning },
        impact: if launched { 0.1 } else { 0.9 },
        title: format!("{} ended {} into the recording{doing}", capitalised(&scene.name), seconds(at_second)),
        explanation: "Whether it crashed, was stopped or had finished, the recording alone does not tell; the logs and the \
                      exit status its parent saw do."
            .to_owned(),
        evidence,
        next_steps,
    })
}

/// The thread that had most CPU time just before the end, and its function of the program: where a crash happens, that is it most
/// likely, because dying takes time.
fn last_run(scene: &Scene<'_>, when: MonoNanos) -> Option<(Evidence, String)> {
    let timeline = scene.capture.timeline.as_ref()?;
    let mut sums: FxHashMap<Tid, u64> = FxHashMap::default();
    let mut all = 0u64;
    let is_late = |sample: &&Sample| sample.time <= when && when.since(sample.time).as_secs_f64() <= LAST;
    let late: Vec<&Sample> = timeline.samples.iter().filter(is_late).collect();
    for sample in &late {
        *sums.entry(sample.tid).or_default() += 1;
        all += 1;
    }
    // The runtime's own threads (compiling, events) are busy at any time.
    let own = |tid: Tid| scene.thread(tid).is_none_or(|row| !is_runtime_thread(&row.name));
    let (tid, count) = sums
        .into_iter()
        .filter(|(tid, _)| own(*tid))
        .max_by_key(|(tid, count)| (*count, std::cmp::Reverse(*tid)))?;
    if count < SAMPLES || count * 4 < all {
        return None;
    }
    let own = late.iter().filter(|sample| sample.tid == tid).map(|sample| sample.stack);
    let name = format!("`{}`", ran_most(timeline, own)?);
    let text = format!(
        "in its last {} {} ran most, in {name} and what it calls",
        seconds(LAST),
        scene.thread_name(tid)
    );
    Some((at(Reference::Thread(tid), text, None), name))
}

/// The innermost function of the program that is on half of these stacks.
fn ran_most(timeline: &Timeline, stacks: impl Iterator<Item = Option<StackHandle>>) -> Option<String> {
    let frames = FrameTable::new(timeline);
    // On how many of them a function is, and how deep at most.
    let mut seen: FxHashMap<FunctionHandle, (usize, usize)> = FxHashMap::default();
    let mut all = 0;
    for stack in stacks {
        all += 1;
        let innermost_first = timeline.frames_of(stack).flat_map(|frame| frames.of(frame).iter().copied());
        let functions: Vec<FunctionHandle> = innermost_first.collect();
        // What recurses is on a stack once.
        let mut on_stack = FxHashSet::default();
        for (depth, function) in functions.iter().rev().enumerate() {
            let (count, deepest) = seen.entry(*function).or_default();
            *count += usize::from(on_stack.insert(*function));
            *deepest = (*deepest).max(depth);
        }
    }
    let half = seen.into_iter().filter(|(_, (count, _))| count * 2 >= all);
    let named = half.filter_map(|(function, (_, depth))| {
        let row = frames.row(function).filter(|row| is_worth_naming(row))?;
        Some((depth, Reverse(function), shorten(&row.name)))
    });
    named.max().map(|(_, _, name)| name.replace('`', "'"))
}

/// The last exception that was thrown before the end, and words about it for the title if there was no other of its type before.
fn last_exception(scene: &Scene<'_>, when: MonoNanos) -> Option<(Evidence, String)> {
    let (summary, trace, last) = scene
        .analysis
        .runtimes
        .iter()
        .filter_map(|summary| {
            let trace = scene.capture.runtimes.get(summary.trace)?;
            let items = trace.exceptions.items.iter().filter(|item| item.time <= when);
            Some((summary, trace, items.max_by_key(|item| item.time)?))
        })
        .max_by_key(|(_, _, item)| item.time)?;
    let before = when.since(last.time).as_secs_f64();
    if before > 2.0 * LAST {
        return None;
    }
    let of_type = |name: &str| format!("`{}`", name.chars().take(120).collect::<String>().replace('`', "'"));
    // What is thrown again on its way out (by `await`, say) has its first place in the throw before.
    let late = |time: MonoNanos| when.since(time).as_secs_f64() <= 2.0 * LAST;
    let mut thrown: Vec<_> = trace
        .exceptions
        .items
        .iter()
        .filter(|item| item.tid == last.tid && item.time <= when && late(item.time))
        .collect();
    thrown.order_by_key(|item| item.time);
    let places = thrown.iter().filter(|item| item.type_name == last.type_name);
    let place = places
        .filter_map(|item| {
            let function = crate::runtimes::place(trace, item.stack).function;
            if function.is_empty() || function.starts_with("0x") {
                return None;
            }
            // What was compiled a moment before the end may have no name.
            let stack = trace.stacks.get(item.stack?.0 as usize)?;
            let mut names =
                stack.iter().filter_map(|frame| Some(&trace.functions.get(*frame as usize)?.name));
            let nameless = names.find(|name| name.starts_with("0x") || **name == function);
            let how = if nameless.is_some_and(|name| name.starts_with("0x")) { "below" } else { "in" };
            Some(format!(" {how} `{}`", shorten(&function).replace('`', "'")))
        })
        .next()
        .unwrap_or_default();
    let first = thrown.iter().take_while(|item| item.type_name != last.type_name).last();
    let inner = first.map_or(String::new(), |item| format!(", after {}", of_type(&item.type_name)));
    let text = format!(
        "the last exception that was seen: {}{place}{inner}, {} before the end",
        of_type(&last.type_name),
        seconds(before)
    );
    // One of many that the program throws all the time says nothing about its end.
    let rare = summary
        .exceptions
        .iter()
        .filter(|row| row.type_name == last.type_name)
        .all(|row| row.first <= when && late(row.first));
    let what =
        if rare { format!("; last it threw {}{place}", of_type(&last.type_name)) } else { String::new() };
    Some((at(Reference::Time { from: last.time, to: when }, text, None), what))
}

fn capitalised(name: &str) -> String {
    name.strip_prefix("the ").map_or_else(|| name.to_owned(), |rest| format!("The {rest}"))
}
