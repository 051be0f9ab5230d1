//! What the user sees: progress, and the result.

use std::io::Write;
use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use biopsy_image::Image;
use biopsy_image::write::CoreSummary;
use biopsy_model::printable::printable;
use biopsy_record::dump::{DumpFacts, Dumped};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::exit_codes::Code;
use crate::failure::Failure;
use crate::render::out;
use crate::render::terminal::{ColorChoice, Terminal};
pub(crate) use crate::session::progress::size;

use super::act::Alone;
use super::args::DumpArgs;
use super::conclude::Concluded;

/// How often the line is drawn.
const REDRAW: Duration = Duration::from_millis(150);

/// A bar over the bytes of one core.
pub(crate) struct Meter {
    bar: ProgressBar,
    finished: (Mutex<bool>, Condvar),
}

impl Meter {
    pub(crate) fn start(image: &dyn Image, quiet: bool, terminal: Terminal) -> Self {
        let bar = ProgressBar::new(0);
        if quiet || !crate::render::terminal::stderr_is_terminal() {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        let style = ProgressStyle::with_template("{bar:20} {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .progress_chars(if terminal.unicode { "━╸─" } else { "=> " });
        bar.set_style(style);
        bar.set_message(format!("writing process {}", image.process().pid));
        Self { bar, finished: (Mutex::new(false), Condvar::new()) }
    }

    pub(crate) fn update(&self, done: u64, total: u64) {
        self.bar.set_length(total);
        self.bar.set_position(done);
    }

    /// Waits until the next time to draw, or until it is over.
    pub(crate) fn rest(&self) {
        let (finished, told) = &self.finished;
        let guard = finished.lock().unwrap_or_else(PoisonError::into_inner);
        if !*guard {
            drop(told.wait_timeout(guard, REDRAW));
        }
    }

    pub(crate) fn is_finished(&self) -> bool {
        *self.finished.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finishes when the value is dropped.
    pub(crate) fn finish_at_the_end(&self) -> impl Drop + '_ {
        struct Finish<'a>(&'a Meter);
        impl Drop for Finish<'_> {
            fn drop(&mut self) {
                self.0.finish();
            }
        }
        Finish(self)
    }

    fn finish(&self) {
        *self.finished.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.finished.1.notify_all();
        self.bar.finish_and_clear();
    }
}

/// `820 µs`, `14 ms`, `1.3 s`
pub(crate) fn pause_text(pause: Duration) -> String {
    let micros = pause.as_micros();
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..10_000 => format!("{:.1} ms", pause.as_secs_f64() * 1e3),
        10_000..1_000_000 => format!("{:.0} ms", pause.as_secs_f64() * 1e3),
        _ => format!("{:.1} s", pause.as_secs_f64()),
    }
}

/// The result for programs.
#[derive(Serialize)]
struct Document<'a> {
    /// Version of this document.
    version: u32,
    path: String,
    is_bundle: bool,
    bytes: u64,
    dumps: Vec<&'a DumpFacts>,
    masked: Vec<(String, u64)>,
}

/// Shows what was made.
pub(crate) fn show(args: &DumpArgs, concluded: &Concluded, color: ColorChoice) -> Result<Code, Failure> {
    if args.json {
        let document = Document {
            version: 1,
            path: concluded.path.to_string_lossy().into_owned(),
            is_bundle: concluded.is_bundle,
            bytes: concluded.bytes,
            dumps: concluded.dumps.iter().map(|dumped| &dumped.facts).collect(),
            masked: concluded.masked.clone(),
        };
        print_document(&document)?;
    } else {
        let mut shown = Vec::new();
        // Writing to a Vec does not fail.
        let _ = text(&mut shown, concluded, color);
        out::bytes_of_text(&shown, Terminal::of_stdout(color).colour)?;
    }
    for why in &concluded.not_read {
        out::say(format_args!("note: {why}"));
    }
    let whole = concluded.not_read.is_empty()
        && concluded.dumps.iter().all(|dumped| dumped.facts.whole && dumped.facts.scrubbed == args.scrub);
    Ok(if whole && !concluded.dumps.is_empty() { Code::Ok } else { Code::Partial })
}

fn text(out: &mut dyn Write, concluded: &Concluded, color: ColorChoice) -> std::io::Result<()> {
    let terminal = Terminal::of_stdout(color);
    if let Some(report) = &concluded.report {
        writeln!(out, "{}\n", crate::commands::core::text(report, terminal).trim_end())?;
    }
    for dumped in &concluded.dumps {
        line(out, dumped)?;
    }
    let scrubbed = concluded.dumps.iter().all(|dumped| dumped.facts.scrubbed);
    if let Some(line) = masked_text(&concluded.masked, scrubbed) {
        writeln!(out, "{line}")?;
    }
    let path = printable(&concluded.path.to_string_lossy());
    if concluded.is_bundle {
        writeln!(out, "{path} ({}): report.html in it opens in any browser", size(concluded.bytes))
    } else {
        writeln!(out, "{path} ({}): open {path}/report.html in a browser", size(concluded.bytes))
    }
}

/// What was masked, by rule; `None`: nothing.
fn masked_text(masked: &[(String, u64)], scrubbed: bool) -> Option<String> {
    let all: u64 = masked.iter().map(|(_, count)| count).sum();
    let rules: Vec<String> = masked.iter().map(|(rule, count)| format!("{count} {rule}")).collect();
    let rules = rules.join(", ");
    let (word, rest) = if scrubbed {
        ("scrubbed", "not clean: only known shapes are found")
    } else {
        ("not scrubbed", "values that are known to be secret are left")
    };
    (all > 0).then(|| format!("{word}: {all} values masked ({rules}); {rest}"))
}

fn line(out: &mut dyn Write, dumped: &Dumped) -> std::io::Result<()> {
    let facts = &dumped.facts;
    let threads = if facts.threads == facts.threads_with_registers {
        format!("{} threads", facts.threads)
    } else {
        format!("{} of {} threads with registers", facts.threads_with_registers, facts.threads)
    };
    match &dumped.result {
        Ok(summary) => writeln!(
            out,
            "{}: {} of {} memory in {}, {threads}; pause {}{}",
            dumped.member,
            size(summary.written_bytes),
            size(summary.contents.total()),
            pause_text(summary.total),
            pause_text(Duration::from_secs_f64(facts.pause_ms / 1e3)),
            missing_text(facts.missing.iter().map(|missing| missing.bytes).sum()),
        ),
        Err(_) => writeln!(
            out,
            "{}: not whole: {}",
            dumped.member,
            facts.error.as_deref().unwrap_or("it ends early")
        ),
    }
}

fn missing_text(bytes: u64) -> String {
    if bytes > 0 { format!("; {} could not be read", size(bytes)) } else { String::new() }
}

/// How much of the memory that was to be in it could not be read.
pub(crate) fn missing_bytes(summary: &CoreSummary) -> u64 {
    summary.missing.iter().map(|one| one.range.end.saturating_sub(one.range.start)).sum()
}

/// Says what is in a file that holds one core alone.
pub(crate) fn show_alone(args: &DumpArgs, path: &str, done: &Alone) -> Result<Code, Failure> {
    #[derive(Serialize)]
    struct AloneDocument<'a> {
        version: u32,
        path: &'a str,
        bytes: u64,
        memory_bytes: u64,
        pause_ms: f64,
        predicted_pause_ms: Option<f64>,
        total_ms: f64,
        whole: bool,
        missing_bytes: u64,
        warnings: &'a [String],
        masked: Vec<(String, u64)>,
        masked_values_left: u64,
    }
    let Alone { summary, origin, masked, left, .. } = done;
    let missing = missing_bytes(summary);
    let masked: Vec<(String, u64)> = masked.iter().map(|one| (one.rule.clone(), one.count)).collect();
    if args.json {
        print_document(&AloneDocument {
            version: 1,
            path,
            bytes: summary.written_bytes,
            memory_bytes: summary.contents.total(),
            pause_ms: origin.pause.as_secs_f64() * 1e3,
            predicted_pause_ms: origin.predicted_pause.map(|pause| pause.as_secs_f64() * 1e3),
            total_ms: summary.total.as_secs_f64() * 1e3,
            whole: summary.is_whole(),
            missing_bytes: missing,
            warnings: &origin.warnings,
            masked,
            masked_values_left: *left,
        })?;
    } else {
        let mut text = format!(
            "{path}: {} of {} memory in {}; pause {}{}\n",
            size(summary.written_bytes),
            size(summary.contents.total()),
            pause_text(summary.total),
            pause_text(origin.pause),
            missing_text(missing)
        );
        if let Some(line) = masked_text(&masked, *left == 0) {
            text.push_str(&line);
            text.push('\n');
        }
        out::text(&text, false)?;
    }
    Ok(if summary.is_whole() && *left == 0 { Code::Ok } else { Code::Partial })
}

/// Prints a value as one JSON document.
pub(crate) fn print_document<T: Serialize>(document: &T) -> Result<(), Failure> {
    let mut json = serde_json::to_vec_pretty(document)
        .map_err(|error| Failure::new(Code::Bug, format!("cannot write the result: {error}")))?;
    json.push(b'\n');
    out::json(json).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_for_people() {
        assert_eq!(pause_text(Duration::from_micros(820)), "820 µs");
        assert_eq!(pause_text(Duration::from_micros(1_870)), "1.9 ms");
        assert_eq!(pause_text(Duration::from_millis(14)), "14 ms");
        assert_eq!(pause_text(Duration::from_millis(1300)), "1.3 s");
    }
}
