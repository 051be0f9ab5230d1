//! `biopsy compare`: what differs between two recordings. What they hold decides what is compared.

use biopsy_cli::{CompareArgs, SymbolArgs};
use std::path::PathBuf;

use biopsy_analyze::compare::{Comparable, compare as hold_against};
use biopsy_analyze::{Diagnosis, FootprintSummary, HeapSummary, Recorded};
use biopsy_capture::{Failure, FailureKind};
use biopsy_import::Evidence;
use biopsy_report::{
    render_comparison_html, render_comparison_json, render_comparison_markdown, render_comparison_text,
    render_footprint_growth_json, render_footprint_growth_markdown, render_footprint_growth_text,
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
    let (mut heaps, mut footprints) = (Vec::new(), Vec::new());
    let files: Vec<&PathBuf> = std::iter::once(&args.before).chain(&args.after).collect();
    for held in read(&files, &args.symbols, &roots)? {
        match held {
            Comparable::Time(recorded) => times.push(recorded),
            Comparable::Memory { heaps: of_file, footprints: where_it_went } => {
                heaps.extend(of_file);
                footprints.extend(where_it_went);
            }
        }
    }
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    match (times.as_slice(), heaps.as_slice()) {
        ([before, after], []) => compare_times(args, terminal, [before, after], [&names[0], &names[1]]),
        ([], [_, _, ..]) => compare_heaps(args, terminal, heaps, footprints, &names),
        ([], []) if footprints.len() > 1 => compare_footprints(args, terminal, footprints, &names),
        ([], _) => {
            let hint = "`biopsy snapshot TARGET --into FILE` adds a snapshot to a recording";
            Err(Failure::new(FailureKind::Usage, "there is one snapshot, and nothing to compare it with")
                .with_hint(Some(hint.to_owned())))
        }
        (_, []) if footprints.is_empty() => {
            Err(Failure::new(FailureKind::Usage, "recordings over time are compared two at a time"))
        }
        _ => Err(Failure::new(
            FailureKind::BadInput,
            "a recording over time and a snapshot of memory cannot be compared",
        )),
    }
}

/// What grew between heaps.
fn compare_heaps(
    args: &CompareArgs,
    terminal: Terminal,
    heaps: Vec<HeapSummary>,
    footprints: Vec<FootprintSummary>,
    names: &[String],
) -> Result<Code, Failure> {
    let diagnosis = Diagnosis::new(None, Vec::new(), heaps).with_footprints(footprints);
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

/// Where memory went at several moments, of which no heap is known.
fn compare_footprints(
    args: &CompareArgs,
    terminal: Terminal,
    footprints: Vec<FootprintSummary>,
    names: &[String],
) -> Result<Code, Failure> {
    let diagnosis = Diagnosis::new(None, Vec::new(), Vec::new()).with_footprints(footprints);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    show(
        form(args),
        terminal,
        || render_html(&diagnosis, None),
        || render_footprint_growth_json(&diagnosis.footprints, &names),
        || render_footprint_growth_markdown(&diagnosis.footprints),
        || render_footprint_growth_text(&diagnosis.footprints, for_reports(terminal)),
    )?;
    Ok(Code::Ok)
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

/// Reads what files hold.
fn read(files: &[&PathBuf], symbols: &SymbolArgs, roots: &[PathBuf]) -> Result<Vec<Comparable>, Failure> {
    let evidence: Vec<Evidence> = files.iter().map(|file| look(file, symbols)).collect::<Result<_, _>>()?;
    let held = Comparable::all(&evidence, roots).map_err(bad_input)?;
    let known = |(held, path): (Option<Comparable>, &&PathBuf)| {
        held.ok_or_else(|| {
            let hint = "dumps of one process at several moments are for `biopsy analyze FIRST SECOND`, which says what moved";
            let message = format!("`{}` holds nothing that can be compared", path.display());
            Failure::new(FailureKind::BadInput, message).with_hint(Some(hint))
        })
    };
    held.into_iter().zip(files).map(known).collect()
}

fn form(args: &CompareArgs) -> Form<'_> {
    Form { html: args.html.as_deref(), json: args.json, markdown: args.markdown }
}
