//! `biopsy compare`: what differs between two recordings. What they hold decides what is compared.

use biopsy_cli::{CompareArgs, SymbolArgs};
use std::path::{Path, PathBuf};

use biopsy_analyze::compare::{Comparable, compare as hold_against};
use biopsy_analyze::{Diagnosis, HeapSummary, Recorded};
use biopsy_capture::{Failure, FailureKind};
use biopsy_report::{
    render_comparison_html, render_comparison_json, render_comparison_markdown, render_comparison_text,
    render_heap_growth_json, render_heap_growth_markdown, render_heap_growth_text, render_html,
};

use super::input::{bad_input, look, roots};
use crate::render::{Form, for_reports, show};
use biopsy_foreground::Code;
use biopsy_terminal::terminal::Terminal;

/// Runs `biopsy compare`.
pub(crate) fn compare(args: &CompareArgs, terminal: Terminal) -> Result<Code, Failure> {
    let roots = roots(&args.symbols)?;
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
    show(
        form(args),
        terminal,
        || render_html(&diagnosis, None),
        || render_heap_growth_json(growth, &names),
        || render_heap_growth_markdown(growth),
        || render_heap_growth_text(&diagnosis, for_reports(terminal)),
    )?;
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
    show(
        form(args),
        terminal,
        || render_comparison_html(&comparison, files),
        || render_comparison_json(&comparison, files),
        || render_comparison_markdown(&comparison, files),
        || render_comparison_text(&comparison, files, for_reports(terminal)),
    )?;
    Ok(if comparison.refused.is_some() { Code::Partial } else { Code::Ok })
}

/// Reads what a file holds.
fn read(path: &Path, symbols: &SymbolArgs, roots: &[PathBuf]) -> Result<Comparable, Failure> {
    Comparable::of(&look(path, symbols)?, roots).map_err(bad_input)?.ok_or_else(|| {
        let hint = "dumps of one process at several moments are for `biopsy analyze FIRST SECOND`, which says what moved";
        let message = format!("`{}` holds nothing that was recorded over time", path.display());
        Failure::new(FailureKind::BadInput, message).with_hint(Some(hint))
    })
}

fn form(args: &CompareArgs) -> Form<'_> {
    Form { html: args.html.as_deref(), json: args.json, markdown: args.markdown }
}
