//! `biopsy compare`: what differs between two recordings. What they hold decides what is compared.

use std::path::{Path, PathBuf};

use biopsy_analyze::compare::compare as hold_against;
use biopsy_analyze::{Diagnosis, HeapSummary, Recorded};
use biopsy_capture::place::write_new;
use biopsy_capture::{Failure, FailureKind};
use biopsy_report::{
    render_comparison_html, render_comparison_json, render_comparison_markdown, render_comparison_text,
    render_heap_growth_json, render_heap_growth_markdown, render_heap_growth_text, render_html,
};
use clap::Args;

use super::input::{bad_input, look};
use super::symbols::SymbolArgs;
use biopsy_foreground::Code;
use crate::render::for_reports;
use biopsy_foreground::out;
use biopsy_terminal::terminal::Terminal;

/// Say what got slower or faster between two recordings of one program: functions, waits, locks, requests; in rates, with the noise, and
/// nothing that is below it. Of heap snapshots: what grew, by type and by who holds it.
#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// The earlier one, or the good one: a bundle, a recording's folder, a perf.data file.
    before: PathBuf,
    /// The later one, or the bad one. Of heaps none is needed where the first is a recording with several snapshots, or `.gcdump` files may
    /// follow.
    after: Vec<PathBuf>,
    /// Write the comparison as a page for a browser.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print it as JSON.
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print it as Markdown.
    #[arg(long)]
    markdown: bool,
    #[command(flatten)]
    symbols: SymbolArgs,
}

/// What a file holds that can be compared.
enum Comparable {
    /// A recording over time.
    Time(Box<Recorded>),
    /// Heaps, in the order they were taken.
    Heaps(Vec<HeapSummary>),
}

/// Runs `biopsy compare`.
pub(crate) fn compare(args: &CompareArgs, terminal: Terminal) -> Result<Code, Failure> {
    let roots = args.symbols.roots()?;
    let mut times = Vec::new();
    let mut heaps = Vec::new();
    let files: Vec<&PathBuf> = std::iter::once(&args.before).chain(&args.after).collect();
    for file in &files {
        match read(file, &args.symbols, &roots)? {
            Comparable::Time(recorded) => times.push(recorded),
            Comparable::Heaps(of_file) => heaps.extend(of_file),
        }
    }
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    match (times.as_slice(), heaps.as_slice()) {
        ([before, after], []) => compare_times(args, terminal, [before, after], [&names[0], &names[1]]),
        ([], [_, _, ..]) => compare_heaps(args, terminal, heaps, &names),
        ([], _) => {
            let hint = "`biopsy snapshot TARGET --into FILE` adds a snapshot to a recording";
            Err(Failure::new(FailureKind::Usage, "there is one snapshot, and nothing to compare it with")
                .with_hint(Some(hint.to_owned())))
        }
        (_, []) => Err(Failure::new(FailureKind::Usage, "recordings over time are compared two at a time")),
        _ => Err(Failure::new(FailureKind::BadInput, "a recording over time and a heap cannot be compared")),
    }
}

/// What grew between heaps.
fn compare_heaps(
    args: &CompareArgs,
    terminal: Terminal,
    heaps: Vec<HeapSummary>,
    names: &[String],
) -> Result<Code, Failure> {
    let diagnosis = Diagnosis::new(None, Vec::new(), heaps);
    let Some(growth) = &diagnosis.growth else { return Ok(Code::Ok) };
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    if let Some(path) = &args.html {
        write_new(path, render_html(&diagnosis, None).as_bytes())?;
    }
    if args.json {
        out::json(render_heap_growth_json(growth, &names))?;
    } else if args.markdown {
        out::text(&render_heap_growth_markdown(growth), terminal.colour)?;
    } else {
        out::text(&render_heap_growth_text(&diagnosis, for_reports(terminal)), terminal.colour)?;
    }
    Ok(if diagnosis.is_damaged() { Code::Partial } else { Code::Ok })
}

/// What differs between two recordings over time.
fn compare_times(
    args: &CompareArgs,
    terminal: Terminal,
    [before, after]: [&Recorded; 2],
    files: [&str; 2],
) -> Result<Code, Failure> {
    let comparison = hold_against(before, after);
    if let Some(path) = &args.html {
        write_new(path, render_comparison_html(&comparison, files).as_bytes())?;
    }
    if args.json {
        out::json(render_comparison_json(&comparison, files))?;
    } else if args.markdown {
        out::text(&render_comparison_markdown(&comparison, files), terminal.colour)?;
    } else {
        out::text(&render_comparison_text(&comparison, files, for_reports(terminal)), terminal.colour)?;
    }
    Ok(if comparison.refused.is_some() { Code::Partial } else { Code::Ok })
}

/// Reads what a file holds.
fn read(path: &Path, symbols: &SymbolArgs, roots: &[PathBuf]) -> Result<Comparable, Failure> {
    let evidence = look(path, symbols)?;
    let mut heaps = Vec::new();
    for number in evidence.heaps().map_err(bad_input)? {
        let heap = evidence.heap(number).map_err(bad_input)?;
        heaps.extend(heap.iter().map(|heap| HeapSummary::new(&heap.name, &heap.graph, &heap.facts)));
    }
    if !heaps.is_empty() {
        return Ok(Comparable::Heaps(heaps));
    }
    let capture = if evidence.dumps() > 0 && !evidence.is_recording() {
        None
    } else {
        Some(evidence.capture(roots).map_err(bad_input)?)
    };
    match capture.filter(|capture| capture.holds_time()) {
        Some(capture) => Ok(Comparable::Time(Box::new(Recorded::new(capture)))),
        None => {
            let hint = "dumps of one process at several moments are for `biopsy analyze FIRST SECOND`, which says what moved";
            let message = format!("`{}` holds nothing that was recorded over time", path.display());
            Err(Failure::new(FailureKind::BadInput, message).with_hint(Some(hint.to_owned())))
        }
    }
}
