//! What the user sees at the end.

use std::time::Duration;

use biopsy_capture::Failure;
use biopsy_capture::dump::{Alone, Dumps};
use biopsy_capture::words::{pause_text, size};
use biopsy_record::dump::Dumped;
use biopsy_recording::DumpDocument;
use serde::Serialize;

use crate::render::{for_reports, result};
use biopsy_foreground::{Code, out};
use biopsy_terminal::terminal::{ColorChoice, Terminal};

use biopsy_cli::DumpArgs;

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
        let terminal = Terminal::of_stdout(color);
        out::text(&text(dumps, terminal), terminal.colour)?;
    }
    for why in &dumps.not_read {
        out::say(format_args!("note: {why}"));
    }
    let whole = dumps.not_read.is_empty()
        && dumps.dumps.iter().all(|dumped| dumped.facts.whole && dumped.facts.scrubbed == args.scrub);
    Ok(if whole && !dumps.dumps.is_empty() { Code::Ok } else { Code::Partial })
}

fn text(dumps: &Dumps, terminal: Terminal) -> String {
    let mut text = String::new();
    if !dumps.diagnosis.dumps.is_empty() {
        let shown = biopsy_report::render_text(&dumps.diagnosis, 0, for_reports(terminal));
        text.push_str(&format!("{}\n\n", shown.trim_end()));
    }
    text.extend(dumps.dumps.iter().map(line));
    let scrubbed = dumps.dumps.iter().all(|dumped| dumped.facts.scrubbed);
    text.extend(masked_text(&dumps.masked, scrubbed));
    text + &result::place(&dumps.result)
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
    (all > 0).then(|| format!("{word}: {all} values masked ({rules}); {rest}\n"))
}

fn line(dumped: &Dumped) -> String {
    let facts = &dumped.facts;
    let threads = if facts.threads == facts.threads_with_registers {
        format!("{} threads", facts.threads)
    } else {
        format!("{} of {} threads with registers", facts.threads_with_registers, facts.threads)
    };
    let Ok(summary) = &dumped.result else {
        let why = facts.error.as_deref().unwrap_or("it ends early");
        return format!("{}: not whole: {why}\n", dumped.member);
    };
    format!(
        "{}: {} of {} memory in {}, {threads}; pause {}{}\n",
        dumped.member,
        size(summary.written_bytes),
        size(summary.contents.total()),
        pause_text(summary.total),
        pause_text(Duration::from_secs_f64(facts.pause_ms / 1e3)),
        missing_text(facts.missing.iter().map(|missing| missing.bytes).sum()),
    )
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
        text.extend(masked_text(&masked, *left == 0));
        out::text(&text, false)?;
    }
    Ok(if summary.is_whole() && *left == 0 { Code::Ok } else { Code::Partial })
}
