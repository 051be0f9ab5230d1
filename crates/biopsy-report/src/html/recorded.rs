//! What the page has of a recording beside its report: charts, flame graphs, threads, lines.

use super::numbers::{cut, round};
use super::{charts, flames, functions, live_bytes, runtime_charts, traced};
use crate::assemble::{Assembly, brief};
use crate::schema::{self, Context};
use crate::units::counted;
use crate::{when, words};
use biopsy_analyze::Analysis;
use biopsy_model::Nanos;
use biopsy_model::capture::Capture;
use biopsy_model::log::LogLevel;
use biopsy_model::order::Order as _;
use serde::Serialize;

/// Threads with a row in the page; a person does not read more, and all are in `report.json`.
const THREADS: usize = 500;
/// Processes whose runtimes are in the page.
const RUNTIMES: usize = 8;
/// Log lines on the time axis.
const LINES: usize = 600;
/// Bytes of one log line in the page.
const LINE_TEXT: usize = 600;
/// Bytes of one context text in the page.
const CONTEXT_TEXT: usize = 24_000;
/// Bytes of all context texts in the page.
const CONTEXT_ALL: usize = 400_000;

/// What is drawn over time.
#[derive(Serialize)]
pub(super) struct Recorded {
    started: Option<String>,
    ended_by: Option<String>,
    /// Wall clock at the start of the window, milliseconds since 1970, and the zone's offset in seconds.
    wall_ms: Option<f64>,
    utc_offset: i32,
    window_ms: f64,
    functions: functions::Functions,
    flames: Vec<flames::Flame>,
    threads: Vec<Row>,
    bucket_ms: f64,
    charts: charts::Charts,
    lanes: Vec<runtime_charts::Lane>,
    lines: Vec<Line>,
    context: Vec<Context>,
    reasons: Vec<(&'static str, &'static str)>,
    lost: Vec<(&'static str, &'static str)>,
}

/// A thread with its strip: three hexadecimal digits a bucket, running, ready and waiting in fifteenths.
#[derive(Serialize)]
struct Row {
    tid: u32,
    pid: u32,
    name: String,
    group: usize,
    /// Milliseconds: running, ready, waiting, by samples.
    times: [f64; 4],
    /// Switches while waiting, switches while ready, times woken.
    switches: [u64; 3],
    top: Option<usize>,
    top_share: f64,
    /// Milliseconds from the start of the window.
    born: Option<f64>,
    exit: Option<f64>,
    strip: String,
}

/// A log line on the time axis.
#[derive(Serialize)]
struct Line {
    at: f64,
    level: &'static str,
    log: usize,
    line: usize,
    text: String,
}

/// The recording as the page has it: what is drawn, and its report, cut to what a person reads. `notes`: what was left out.
/// Leaves the positions of functions in the assembly.
pub(super) fn recorded(assembly: &mut Assembly<'_>, notes: &mut Vec<String>) -> (Recorded, schema::Recorded) {
    let (capture, analysis) = (assembly.capture, assembly.analysis);
    let functions = functions::functions(assembly);
    let assembly = &*assembly;
    let mut report = brief(assembly);
    report.metrics.summary = assembly.metric_summary();
    report.metrics.summary.truncate(800);
    if report.runtimes.len() > RUNTIMES {
        let left = to_u64(report.runtimes.len() - RUNTIMES);
        notes.push(format!(
            "{} are left out of this page; all are in report.json",
            counted(left, "runtime", "runtimes")
        ));
        report.runtimes.truncate(RUNTIMES);
    }
    let mut charts = charts::charts(assembly);
    traced::add(assembly, &mut charts);
    runtime_charts::add(assembly, &mut charts);
    live_bytes::add(assembly, &mut charts);
    let window = assembly.window.1.since(assembly.window.0);
    let recorded = Recorded {
        started: when::for_people(&capture.header.start),
        ended_by: Some(words::ended_by(&capture.header.ended_by).to_owned()).filter(|text| !text.is_empty()),
        wall_ms: when::wall_nanos(&capture.header, assembly.window.0).map(millis),
        utc_offset: capture.header.start.utc_offset_seconds,
        window_ms: window.as_secs_f64() * 1e3,
        flames: flames::flames(assembly),
        threads: rows(assembly, notes),
        bucket_ms: analysis.threads.bucket.as_secs_f64() * 1e3,
        charts,
        lanes: runtime_charts::lanes(assembly),
        lines: lines(assembly, notes),
        context: context(capture, notes),
        reasons: reasons(analysis),
        lost: losses(),
        functions,
    };
    (recorded, report)
}

fn rows(assembly: &Assembly<'_>, notes: &mut Vec<String>) -> Vec<Row> {
    let all = &assembly.analysis.threads.rows;
    if all.len() > THREADS {
        let left = to_u64(all.len() - THREADS);
        notes.push(format!(
            "{} with less CPU time are left out of this page; all are in report.json",
            counted(left, "thread", "threads")
        ));
    }
    let milliseconds = |time: Nanos| round(time.as_secs_f64() * 1e3);
    all.iter()
        .take(THREADS)
        .map(|row| Row {
            tid: row.tid.0,
            pid: row.pid.0,
            name: row.name.clone(),
            group: row.group,
            times: [row.running, row.ready, row.waiting, row.sampled].map(milliseconds),
            switches: [row.voluntary, row.involuntary, row.wakeups],
            top: row.top_function.and_then(|handle| assembly.positions.get(&handle).copied()),
            top_share: round(row.top_share),
            born: row.born.then(|| assembly.at(row.start) * 1e3),
            exit: row.exit.map(|time| assembly.at(time) * 1e3),
            strip: row
                .strip
                .iter()
                .flat_map(|bucket| [bucket.running, bucket.ready, bucket.waiting])
                .map(digit)
                .collect(),
        })
        .collect()
}

/// A share in fifteenths; whatever is there at all is at least one.
fn digit(share: f32) -> char {
    let scaled = (f64::from(share) * 15.0).clamp(0.0, 15.0);
    let fifteenths = if scaled > 0.0 { scaled.round().max(1.0) } else { 0.0 };
    let digit = u32::try_from(crate::units::to_u64(fifteenths)).unwrap_or(0);
    char::from_digit(digit, 16).unwrap_or('0')
}

/// Errors first, then warnings, then what the topics point at; in the order of time.
fn lines(assembly: &Assembly<'_>, notes: &mut Vec<String>) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut left = 0;
    for level in [LogLevel::Error, LogLevel::Warning] {
        for (log, file) in assembly.capture.logs.iter().enumerate() {
            for (index, line) in file.lines.iter().enumerate().filter(|(_, line)| line.level == level) {
                let Some(time) = line.time else { continue };
                if lines.len() >= LINES {
                    left += 1;
                    continue;
                }
                lines.push(Line {
                    at: assembly.at(time) * 1e3,
                    level: words::level(level),
                    log,
                    line: index,
                    text: cut(&line.text, LINE_TEXT).to_owned(),
                });
            }
        }
    }
    if left > 0 {
        notes.push(format!(
            "{} are left out of this page; all are in the recording",
            counted(left, "error or warning line", "error and warning lines")
        ));
    }
    lines.order_by(|a, b| a.at.total_cmp(&b.at));
    lines
}

fn context(capture: &Capture, notes: &mut Vec<String>) -> Vec<Context> {
    let mut room = CONTEXT_ALL;
    let mut texts = Vec::new();
    let mut left = 0;
    for (member, text) in &capture.context {
        let shown = cut(text, CONTEXT_TEXT.min(room));
        if shown.is_empty() && !text.is_empty() {
            left += 1;
            continue;
        }
        room -= shown.len();
        let cut = text.len() - shown.len();
        texts.push(Context { member: member.clone(), text: shown.to_owned(), cut: (cut > 0).then_some(cut) });
    }
    if left > 0 {
        notes.push(format!(
            "{} about the target are left out of this page; all are in the recording",
            counted(left, "text", "texts")
        ));
    }
    texts
}

/// The words for people of the reasons that occur.
fn reasons(analysis: &Analysis) -> Vec<(&'static str, &'static str)> {
    let waits = &analysis.waits;
    let mut reasons: Vec<_> = waits.reasons.iter().map(|row| row.reason).collect();
    reasons.extend(waits.functions.iter().map(|row| row.reason));
    reasons.extend(waits.activations.iter().map(|row| row.reason));
    reasons.extend(waits.behind.iter().flat_map(|row| [row.reason, row.cause]));
    reasons.extend(waits.longest.iter().map(|row| row.reason));
    reasons.sort_unstable();
    reasons.dedup();
    reasons.into_iter().map(|reason| (words::reason(reason), reason.words())).collect()
}

fn losses() -> Vec<(&'static str, &'static str)> {
    use biopsy_model::loss::LossKind::{
        Allocations, Disk, Metrics, Samples, SideBand, StacksSkipped, Switches, Throttled, Waits,
    };
    [Samples, Waits, SideBand, Throttled, StacksSkipped, Metrics, Disk, Allocations, Switches]
        .map(|kind| (words::loss(kind), words::loss_for_people(kind)))
        .to_vec()
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 need 41 bits")]
fn millis(nanos: i128) -> f64 {
    (nanos / 1_000_000) as f64
}

fn to_u64(count: usize) -> u64 {
    count as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_seen() {
        assert_eq!(digit(0.0), '0');
        assert_eq!(digit(0.001), '1');
        assert_eq!(digit(7.0), 'f');
        assert_eq!(digit(f32::NAN), '0');
    }
}
