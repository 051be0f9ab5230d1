//! What rules on .NET share: the runtimes that were heard, their tables, their names.

use crate::findings::evidence::at;
use crate::findings::finding::{Evidence, Finding, Reference, Value};
use crate::findings::scene::Scene;
use crate::runtimes::{RuntimePlace, RuntimeSummary, find_counter};
use crate::trace::function::FunctionHandle;
use crate::words::{number, percent, seconds, shorten};
use biopsy_model::Nanos;
use biopsy_model::runtime_trace::{RuntimeTrace, SampledKind};

/// A summary with its recording.
pub(super) struct Heard<'a> {
    pub(super) summary: &'a RuntimeSummary,
    pub(super) trace: &'a RuntimeTrace,
}

/// The runtimes that were heard.
pub(super) fn heard<'a>(scene: &Scene<'a>) -> impl Iterator<Item = Heard<'a>> {
    let capture = scene.capture;
    scene
        .analysis
        .runtimes
        .iter()
        .filter_map(move |summary| Some(Heard { summary, trace: capture.runtimes.get(summary.trace)? }))
        .filter(|heard| heard.summary.seconds > 0.5)
}

/// Seconds that the trace covers. On a busy machine attaching takes a while, and the recording is longer than its trace.
pub(super) fn traced(scene: &Scene<'_>) -> f64 {
    let table = &scene.analysis.threads;
    let known = table.rows.iter().map(|row| (row.running + row.ready + row.waiting).as_secs_f64());
    let longest = if table.exact { known.fold(0.0, f64::max) } else { 0.0 };
    if longest > 0.0 { longest.min(scene.seconds) } else { scene.seconds }
}

/// What is missing of the time, from which on a count is said to be of a part.
const IN_PART: f64 = 0.02;

/// The share of the time in which events of a kind were heard, where a noticeable part of it is missing.
fn heard_share(trace: &RuntimeTrace, seconds: f64, kinds: &[SampledKind]) -> Option<f64> {
    let of_kind = trace.sampled.iter().filter(|one| kinds.contains(&one.what));
    let missing: f64 = of_kind.map(|one| one.to.since(one.from).as_secs_f64() * (1.0 - one.share)).sum();
    (missing > seconds * IN_PART).then(|| (1.0 - missing / seconds.max(1e-9)).clamp(0.0, 1.0))
}

/// Which events the numbers of a table are made from.
fn kinds_of(table: &str) -> &'static [SampledKind] {
    match table {
        "requests" | "outgoing" | "coincidences" => &[SampledKind::Requests],
        "commands" => &[SampledKind::Commands, SampledKind::Requests],
        "messages" => &[SampledKind::Messages],
        "allocations" => &[SampledKind::Allocations, SampledKind::Runtime],
        "collections" | "contention" | "exceptions" => &[SampledKind::Runtime],
        _ => &[],
    }
}

/// `at least `, in front of a number of this table where its events were heard for a part of the time only.
pub(super) fn at_least(heard: &Heard<'_>, table: &str) -> &'static str {
    match heard_share(heard.trace, heard.summary.seconds, kinds_of(table)) {
        Some(_) => "at least ",
        None => "",
    }
}

/// Says of each finding whose evidence leads to events that were heard for a part of the time only that its numbers are of that part.
pub(super) fn say_what_was_heard_in_part(scene: &Scene<'_>, findings: &mut [Finding]) {
    for finding in findings {
        let shares = finding.evidence.iter().filter_map(|evidence| {
            let Reference::Runtime { runtime, table, .. } = &evidence.reference else { return None };
            let trace = scene.capture.runtimes.get(*runtime)?;
            let summary = scene.analysis.runtimes.iter().find(|summary| summary.trace == *runtime)?;
            heard_share(trace, summary.seconds, kinds_of(table))
        });
        let Some(share) = shares.min_by(f64::total_cmp) else { continue };
        finding.explanation.push_str(&format!(
            " These events were listened to in turns, not all the time but {} of it: numbers, rates and sums made from them are at least what \
             is said.",
            percent(share)
        ));
    }
}

/// A managed name for a sentence, in backticks.
pub(super) fn code(name: &str) -> String {
    format!("`{}`", shorten(name).replace('`', "'"))
}

/// Other text from the recording for a sentence, in backticks, not too long.
pub(super) fn quoted(text: &str) -> String {
    let clean: String = text.chars().map(|c| if c == '`' || c.is_control() { '\'' } else { c }).collect();
    match clean.char_indices().nth(120) {
        Some((end, _)) => format!("`{}…`", clean.get(..end).unwrap_or_default()),
        None => format!("`{clean}`"),
    }
}

/// ` in ...`, or nothing where there is no stack.
pub(super) fn in_place(place: &RuntimePlace) -> String {
    if place.function.is_empty() { String::new() } else { format!(" in {}", code(&place.function)) }
}

/// `12.3 ms`.
pub(super) fn time(time: Nanos) -> String {
    seconds(time.as_secs_f64())
}

/// A table of a runtime as a place to look at.
pub(super) fn table(summary: &RuntimeSummary, table: &'static str, row: Option<usize>) -> Reference {
    Reference::Runtime { runtime: summary.trace, table, row }
}

/// Evidence in a table.
pub(super) fn in_table(
    summary: &RuntimeSummary,
    name: &'static str,
    row: usize,
    text: String,
    value: Option<Value>,
) -> Evidence {
    at(table(summary, name, Some(row)), text, value)
}

/// Which process, where several were heard: ` (process 4711)`.
pub(super) fn of_process(scene: &Scene<'_>, summary: &RuntimeSummary) -> String {
    if scene.analysis.runtimes.len() > 1 { format!(" (process {})", summary.pid) } else { String::new() }
}

/// How often, and how long everything stood still.
pub(super) fn pace(summary: &RuntimeSummary) -> Evidence {
    let collections = &summary.collections;
    let young =
        collections.generations.iter().filter(|row| row.generation == 0).map(|row| row.count).sum::<u64>();
    at(
        table(summary, "collections", None),
        format!(
            "{} collections, {:.1} a second, {} of them of generation 0; everything stood still {} of the time{}",
            number(collections.total as f64),
            summary.rate(collections.total),
            number(young as f64),
            percent(collections.pause_share),
            collections
                .longest
                .map_or(String::new(), |(longest, _)| format!(", {} at most at once", time(longest)))
        ),
        Some(Value::Share(collections.pause_share)),
    )
}

/// Timers that are started and never disposed keep what they call: their number at first and at last, if it grew.
pub(super) fn timers(trace: &biopsy_model::runtime_trace::RuntimeTrace) -> Option<[f64; 2]> {
    let readings = find_counter(trace, "System.Runtime", "active-timer-count")?;
    let (first, last) = (readings.points.first()?.1, readings.points.last()?.1);
    (last - first >= 50.0 && last >= 1.5 * first).then_some([first, last])
}

/// Name of the place, for other detectors.
pub(super) fn place_of(scene: &Scene<'_>, function: Option<FunctionHandle>) -> Option<String> {
    scene.row(function?).map(|row| code(&row.name))
}
