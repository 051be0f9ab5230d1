//! `biopsy analyze`: the report on whatever a file holds.

use biopsy_analyze::Diagnosis;
use biopsy_capture::place::write_new;
use biopsy_capture::{Failure, FailureKind};
use biopsy_redact::Redactor;
use biopsy_report::{Mask, render_html, render_json, render_markdown, render_text};

use super::input::{bad_input, look};
use crate::cli::AnalyzeArgs;
use crate::exit_codes::Code;
use crate::render::out;
use crate::render::terminal::Terminal;

/// Rows in the table of a heap's types.
const TYPES: usize = 50;

/// Runs `biopsy analyze`.
pub(crate) fn analyze(args: &AnalyzeArgs, terminal: Terminal) -> Result<Code, Failure> {
    let roots = args.symbols.roots()?;
    let redactor = Redactor::new(biopsy_redact::Options::default())
        .map_err(|error| Failure::from_error(FailureKind::Bug, &error))?;
    let diagnosis = Diagnosis::of(&mut look(&args.file)?, &roots, Some(&redactor)).map_err(bad_input)?;
    let mask = |text: &str| redactor.text(text).text.into_owned();
    // What was recorded was masked when it was.
    let from_memory = !diagnosis.dumps.is_empty() || !diagnosis.heaps.is_empty();
    let mask: Option<Mask<'_>> = from_memory.then_some(&mask);
    if let Some(path) = &args.html {
        write_new(path, render_html(&diagnosis, mask).as_bytes())?;
    }
    if args.json {
        out::json(render_json(&diagnosis, mask).into_bytes())?;
    } else if args.markdown {
        out::text(&render_markdown(&diagnosis, mask), terminal.colour)?;
    } else {
        out::text(&render_text(&diagnosis, TYPES, terminal.for_reports()), terminal.colour)?;
    }
    Ok(if diagnosis.is_damaged() { Code::Partial } else { Code::Ok })
}
