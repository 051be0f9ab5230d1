//! `biopsy compare`: what differs between two recordings. What they hold decides what is compared.

use biopsy_cli::{CompareArgs, SymbolArgs};
use std::path::PathBuf;

use biopsy_analyze::compare::{Comparable, NotComparable, Together, compare as hold_against};
use biopsy_analyze::{Diagnosis, Recorded};
use biopsy_capture::{Failure, FailureKind};
use biopsy_import::{Evidence, FileSources};
use biopsy_report::{
    render_comparison_html, render_comparison_json, render_comparison_markdown, render_comparison_text,
    render_footprint_growth_json, render_footprint_growth_markdown, render_footprint_growth_text,
    render_heap_growth_json, render_heap_growth_markdown, render_heap_growth_text, render_html,
};

use super::input::{bad_input, look};
use super::sources::{say, sources};
use crate::render::{Form, for_reports, show};
use biopsy_foreground::Code;
use biopsy_terminal::terminal::Terminal;

/// Runs `biopsy compare`.
pub(crate) fn compare(args: &CompareArgs, terminal: Terminal) -> Result<Code, Failure> {
    let sources = sources(&args.symbols)?;
    let files: Vec<&PathBuf> = std::iter::once(&args.before).chain(&args.after).collect();
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let held = read(&files, &args.symbols, &sources.files)?;
    say(&sources);
    let together = Together::of(held).map_err(|why| {
        let is_usage = why != NotComparable::OfTwoKinds;
        let kind = if is_usage { FailureKind::Usage } else { FailureKind::BadInput };
        Failure::from_error(kind, &why).with_hint(why.hint())
    })?;
    match together {
        Together::Times(before, after) => compare_times(args, terminal, [&before, &after], &names),
        Together::Memory(diagnosis) => compare_memory(args, terminal, &diagnosis, &names),
    }
}

/// What grew between heaps, or where no heap is known where memory went at several moments.
fn compare_memory(
    args: &CompareArgs,
    terminal: Terminal,
    diagnosis: &Diagnosis,
    names: &[&str],
) -> Result<Code, Failure> {
    let html = || render_html(diagnosis, None);
    let Some(growth) = &diagnosis.growth else {
        let footprints = &diagnosis.footprints;
        return show(
            form(args),
            terminal,
            html,
            || render_footprint_growth_json(footprints, names),
            || render_footprint_growth_markdown(footprints),
            || render_footprint_growth_text(footprints, for_reports(terminal)),
        )
        .map(|_| Code::Ok);
    };
    show(
        form(args),
        terminal,
        html,
        || render_heap_growth_json(growth, names),
        || render_heap_growth_markdown(growth),
        || render_heap_growth_text(diagnosis, for_reports(terminal)),
    )?;
    Ok(if diagnosis.is_damaged() { Code::Partial } else { Code::Ok })
}

/// What differs between two recordings over time.
fn compare_times(
    args: &CompareArgs,
    terminal: Terminal,
    [before, after]: [&Recorded; 2],
    names: &[&str],
) -> Result<Code, Failure> {
    let files = [names[0], names[1]];
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
fn read(files: &[&PathBuf], symbols: &SymbolArgs, sources: &FileSources) -> Result<Vec<Comparable>, Failure> {
    let evidence: Vec<Evidence> = files.iter().map(|file| look(file, symbols)).collect::<Result<_, _>>()?;
    let held = Comparable::all(&evidence, sources).map_err(bad_input)?;
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
