//! `biopsy analyze`: the report on whatever a file holds.

use std::path::PathBuf;

use biopsy_analyze::analyze_opened;
use biopsy_analyze::dump::DumpAnalysis;
use biopsy_capture::place::write_new;
use biopsy_capture::{Failure, FailureKind};
use biopsy_import::Evidence;
use biopsy_import::heap::Heap;
use biopsy_model::capture::Capture;
use biopsy_redact::Redactor;

use super::input::{bad_input, look};
use crate::cli::AnalyzeArgs;
use crate::exit_codes::Code;
use crate::render::out;
use crate::render::terminal::Terminal;
use crate::snapshot::show;

/// Runs `biopsy analyze`.
pub(crate) fn analyze(args: &AnalyzeArgs, terminal: Terminal) -> Result<Code, Failure> {
    let roots = args.symbols.roots()?;
    let evidence = look(&args.file)?;
    if evidence.dumps() > 0 {
        return dumps(evidence, &roots, args, terminal);
    }
    match evidence.heap().map_err(bad_input)? {
        Some(heap) => show_heap(&heap, args, terminal),
        None => show_capture(&evidence.capture(&roots).map_err(bad_input)?, args, terminal),
    }
}

fn show_capture(capture: &Capture, args: &AnalyzeArgs, terminal: Terminal) -> Result<Code, Failure> {
    let analysis = biopsy_analyze::analyze(capture);
    if let Some(path) = &args.html {
        write_new(path, biopsy_report::render_html(capture, &analysis).as_bytes())?;
    }
    if args.json {
        return out::json(biopsy_report::render_json(capture, &analysis).into_bytes());
    }
    let text = if args.markdown {
        biopsy_report::render_markdown(capture, &analysis)
    } else {
        let options =
            biopsy_report::TextOptions { width: terminal.width.unwrap_or(100), color: terminal.colour };
        biopsy_report::render_text_with(capture, &analysis, options)
    };
    out::text(&text, terminal.colour)
}

/// One dump, or those of a recording.
fn dumps(
    mut evidence: Evidence,
    roots: &[PathBuf],
    args: &AnalyzeArgs,
    terminal: Terminal,
) -> Result<Code, Failure> {
    let redactor = Redactor::new(biopsy_redact::Options::default())
        .map_err(|error| Failure::from_error(FailureKind::Bug, &error))?;
    let warnings = evidence.warnings();
    let mut damaged = false;
    for number in 0..evidence.dumps() {
        let dump = evidence.dump(number).map_err(bad_input)?;
        let mut analysis = analyze_opened(&dump.opened, dump.file_bytes, roots.to_vec(), Some(&redactor));
        analysis.add_undetermined(&warnings);
        show_dump(&analysis, number == 0, args, terminal)?;
        damaged |= analysis.damaged;
    }
    Ok(if damaged { Code::Partial } else { Code::Ok })
}

/// One page holds one dump, the first; the others of a recording have theirs beside them.
fn show_dump(
    analysis: &DumpAnalysis,
    first: bool,
    args: &AnalyzeArgs,
    terminal: Terminal,
) -> Result<Code, Failure> {
    if let Some(path) = args.html.as_ref().filter(|_| first) {
        write_new(path, biopsy_report::dump::render_dump_html(analysis).as_bytes())?;
    }
    if args.json {
        return out::json(biopsy_report::dump::render_dump_json(analysis).into_bytes());
    }
    let text = if args.markdown {
        biopsy_report::dump::render_dump_markdown(analysis)
    } else {
        dump_text(analysis, terminal)
    };
    out::text(&text, terminal.colour)
}

/// The report on a dump as text for a terminal.
pub(crate) fn dump_text(analysis: &DumpAnalysis, terminal: Terminal) -> String {
    let options =
        biopsy_report::TextOptions { width: terminal.width.unwrap_or(100).min(120), color: terminal.colour };
    biopsy_report::dump::render_dump_text(analysis, options)
}

fn show_heap(heap: &Heap, args: &AnalyzeArgs, terminal: Terminal) -> Result<Code, Failure> {
    /// Types that are listed.
    const TOP: usize = 50;
    if args.json {
        out::document(&show::document(&heap.facts, &heap.graph, 0))?;
    } else {
        let mut shown = Vec::new();
        // Writing to a Vec does not fail.
        let _ = show::text(&mut shown, &heap.name, &heap.facts, &heap.graph, TOP, terminal);
        out::bytes_of_text(&shown, terminal.colour)?;
    }
    Ok(if heap.facts.whole { Code::Ok } else { Code::Partial })
}
