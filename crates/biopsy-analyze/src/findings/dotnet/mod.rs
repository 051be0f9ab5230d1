//! What the runtime's events and the managed stacks tell together.

mod allocation;
mod collections;
mod exceptions;
mod growth;
mod locks;
mod pool;
mod quality;
mod regex;
mod requests;

use super::Detector;
use super::scene::Scene;
use super::words::{seconds, shorten};
use crate::finding::{Evidence, Reference};
use crate::runtimes::{RuntimePlace, RuntimeSummary};
use biopsy_model::Nanos;
use biopsy_model::runtime_trace::RuntimeTrace;

pub(super) const DETECTORS: &[Detector] = &[
    pool::starvation,
    locks::blocked,
    locks::finalizer,
    locks::contention,
    exceptions::storm,
    regex::backtracking,
    collections::pinned,
    allocation::storm,
    collections::pauses,
    collections::induced,
    growth::timers_pile_up,
    growth::heap,
    growth::holes,
    requests::many_commands,
    requests::slow_dependency,
    requests::unanswered,
    requests::failed,
    requests::slow,
    quality::messages,
    quality::incomplete,
];

/// A summary with its recording.
struct Heard<'a> {
    summary: &'a RuntimeSummary,
    trace: &'a RuntimeTrace,
}

/// The runtimes that were heard.
fn heard<'a>(scene: &Scene<'a>) -> impl Iterator<Item = Heard<'a>> {
    let capture = scene.capture;
    scene
        .analysis
        .runtimes
        .iter()
        .filter_map(move |summary| Some(Heard { summary, trace: capture.runtimes.get(summary.trace)? }))
        .filter(|heard| heard.summary.seconds > 0.5)
}

/// Seconds that the trace covers. On a busy machine attaching takes a while, and the recording is longer than its trace.
fn traced(scene: &Scene<'_>) -> f64 {
    let table = &scene.analysis.threads;
    let known = table.rows.iter().map(|row| (row.running + row.ready + row.waiting).as_secs_f64());
    let longest = if table.exact { known.fold(0.0, f64::max) } else { 0.0 };
    if longest > 0.0 { longest.min(scene.seconds) } else { scene.seconds }
}

/// A managed name for a sentence, in backticks.
fn code(name: &str) -> String {
    format!("`{}`", shorten(name).replace('`', "'"))
}

/// Other text from the recording for a sentence, in backticks, not too long.
fn quoted(text: &str) -> String {
    let clean: String = text.chars().map(|c| if c == '`' || c.is_control() { '\'' } else { c }).collect();
    match clean.char_indices().nth(120) {
        Some((end, _)) => format!("`{}…`", clean.get(..end).unwrap_or_default()),
        None => format!("`{clean}`"),
    }
}

/// ` in ...`, or nothing where there is no stack.
fn in_place(place: &RuntimePlace) -> String {
    if place.function.is_empty() { String::new() } else { format!(" in {}", code(&place.function)) }
}

/// `12.3 ms`.
fn time(time: Nanos) -> String {
    seconds(time.as_secs_f64())
}

/// A table of a runtime as a place to look at.
fn table(summary: &RuntimeSummary, table: &'static str, row: Option<usize>) -> Reference {
    Reference::Runtime { runtime: summary.trace, table, row }
}

/// Evidence in a table.
fn in_table(
    summary: &RuntimeSummary,
    name: &'static str,
    row: usize,
    text: String,
    value: Option<crate::finding::Value>,
) -> Evidence {
    super::scene::at(table(summary, name, Some(row)), text, value)
}

/// Which process, where several were heard: ` (process 4711)`.
fn of_process(scene: &Scene<'_>, summary: &RuntimeSummary) -> String {
    if scene.analysis.runtimes.len() > 1 { format!(" (process {})", summary.pid) } else { String::new() }
}
