//! What the user sees at the end.

use std::io::Write;
use std::time::Duration;

use biopsy_capture::Failure;
use biopsy_capture::dump::{Alone, Dumps};
use biopsy_capture::words::{pause_text, size};
use biopsy_model::printable::printable;
use biopsy_record::dump::Dumped;
use biopsy_recording::DumpDocument;
use serde::Serialize;

use crate::exit_codes::Code;
use crate::render::out;
use crate::render::terminal::{ColorChoice, Terminal};

use super::args::DumpArgs;

/// The result for programs.
#[derive(Serialize)]
struct Document {
    /// Version of this document.
    version: u32,
    path: String,
    is_bundle: bool,
    bytes: u64,
    dumps: Vec<DumpDocument>,
    masked: Vec<(String, u64)>,
}

/// Shows what was made.
pub(crate) fn show(args: &DumpArgs, dumps: &Dumps, color: ColorChoice) -> Result<Code, Failure> {
    if args.json {
        let document = Document {
            version: 1,
            path: dumps.result.path.to_string_lossy().into_owned(),
            is_bundle: dumps.result.is_bundle,
            bytes: dumps.result.bytes,
            dumps: dumps.dumps.iter().map(|dumped| DumpDocument::from(&dumped.facts)).collect(),
            masked: dumps.masked.clone(),
        };
        out::document(&document)?;
    } else {
        let mut shown = Vec::new();
        // Writing to a Vec does not fail.
        let _ = text(&mut shown, dumps, color);
        out::bytes_of_text(&shown, Terminal::of_stdout(color).colour)?;
    }
    for why in &dumps.not_read {
        out::say(format_args!("note: {why}"));
    }
    let whole = dumps.not_read.is_empty()
        && dumps.dumps.iter().all(|dumped| dumped.facts.whole && dumped.facts.scrubbed == args.scrub);
    Ok(if whole && !dumps.dumps.is_empty() { Code::Ok } else { Code::Partial })
}

fn text(out: &mut dyn Write, dumps: &Dumps, color: ColorChoice) -> std::io::Result<()> {
    let terminal = Terminal::of_stdout(color);
    let shown = biopsy_report::render_text(&dumps.diagnosis, 0, terminal.for_reports());
    if !dumps.diagnosis.dumps.is_empty() {
        writeln!(out, "{}\n", shown.trim_end())?;
    }
    for dumped in &dumps.dumps {
        line(out, dumped)?;
    }
    let scrubbed = dumps.dumps.iter().all(|dumped| dumped.facts.scrubbed);
    if let Some(line) = masked_text(&dumps.masked, scrubbed) {
        writeln!(out, "{line}")?;
    }
    let path = printable(&dumps.result.path.to_string_lossy());
    if dumps.result.is_bundle {
        writeln!(out, "{path} ({}): report.html in it opens in any browser", size(dumps.result.bytes))
    } else {
        writeln!(out, "{path} ({}): open {path}/report.html in a browser", size(dumps.result.bytes))
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
    let Alone { summary, origin, masked, left } = done;
    let missing = done.missing_bytes();
    let masked: Vec<(String, u64)> = masked.iter().map(|one| (one.rule.clone(), one.count)).collect();
    if args.json {
        out::document(&AloneDocument {
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
