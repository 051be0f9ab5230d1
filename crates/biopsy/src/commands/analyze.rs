//! `biopsy analyze`: the report on whatever files hold.

use biopsy_capture::Failure;
use biopsy_report::{Mask, render_html, render_json, render_markdown, render_text};

use super::input::diagnose;
use crate::render::{Form, for_reports, show};
use biopsy_cli::AnalyzeArgs;
use biopsy_foreground::Code;
use biopsy_terminal::terminal::Terminal;

/// Rows in the table of a heap's types.
const TYPES: usize = 50;

/// Runs `biopsy analyze`.
pub(crate) fn analyze(args: &AnalyzeArgs, terminal: Terminal) -> Result<Code, Failure> {
    let read = diagnose(&args.files, &args.symbols)?;
    let diagnosis = &read.diagnosis;
    let mask = |text: &str| read.mask(text);
    let mask: Option<Mask<'_>> = read.is_unmasked().then_some(&mask);
    show(
        Form { html: args.html.as_deref(), json: args.json, markdown: args.markdown },
        terminal,
        || render_html(diagnosis, mask),
        || render_json(diagnosis, mask),
        || render_markdown(diagnosis, mask),
        || render_text(diagnosis, TYPES, for_reports(terminal)),
    )?;
    Ok(if diagnosis.is_damaged() { Code::Partial } else { Code::Ok })
}
