//! `biopsy analyze`: the report on whatever files hold.

use biopsy_capture::Failure;
use biopsy_capture::place::write_new;
use biopsy_report::{Mask, render_html, render_json, render_markdown, render_text};

use super::input::diagnose;
use crate::cli::AnalyzeArgs;
use biopsy_foreground::Code;
use crate::render::for_reports;
use biopsy_foreground::out;
use biopsy_terminal::terminal::Terminal;

/// Rows in the table of a heap's types.
const TYPES: usize = 50;

/// Runs `biopsy analyze`.
pub(crate) fn analyze(args: &AnalyzeArgs, terminal: Terminal) -> Result<Code, Failure> {
    let read = diagnose(&args.files, &args.symbols)?;
    let diagnosis = &read.diagnosis;
    let mask = |text: &str| read.mask(text);
    let mask: Option<Mask<'_>> = read.is_unmasked().then_some(&mask);
    if let Some(path) = &args.html {
        write_new(path, render_html(diagnosis, mask).as_bytes())?;
    }
    if args.json {
        out::json(render_json(diagnosis, mask))?;
    } else if args.markdown {
        out::text(&render_markdown(diagnosis, mask), terminal.colour)?;
    } else {
        out::text(&render_text(diagnosis, TYPES, for_reports(terminal)), terminal.colour)?;
    }
    Ok(if diagnosis.is_damaged() { Code::Partial } else { Code::Ok })
}
