//! `biopsy explain`: what a finding means, and where it is in a file.

use biopsy_analyze::FindingId;
use biopsy_capture::Failure;
use biopsy_cli::ExplainArgs;
use biopsy_report::{explanations, render_explanation, render_explanations_json, render_ids};

use super::input::{Diagnosed, diagnose};
use crate::render::for_reports;
use biopsy_foreground::{Code, out};
use biopsy_terminal::terminal::Terminal;

/// Runs `biopsy explain`.
pub(crate) fn explain(args: &ExplainArgs, terminal: Terminal) -> Result<Code, Failure> {
    let read = match &args.file {
        Some(file) => {
            Some((diagnose(std::slice::from_ref(file), &args.symbols)?, file.display().to_string()))
        }
        None => None,
    };
    if args.json {
        let ids = args.id.as_ref().map_or(FindingId::ALL, std::slice::from_ref);
        let document = explanations(ids, read.as_ref().map(|(read, _)| &read.diagnosis));
        let masked = |text: &str| read.as_ref().map_or_else(|| text.to_owned(), |(read, _)| read.mask(text));
        let wanted = read.as_ref().is_some_and(|(read, _)| read.is_unmasked());
        return out::json(render_explanations_json(&document, wanted.then_some(&masked)));
    }
    let text = match args.id {
        None => render_ids(for_reports(terminal)),
        Some(id) => {
            let found_in = read.as_ref().map(|(read, file)| (&read.diagnosis, file.as_str()));
            render_explanation(id, found_in, for_reports(terminal))
        }
    };
    out::text(&text, terminal.colour)?;
    let damaged = |(read, _): &(Diagnosed, String)| read.diagnosis.is_damaged();
    Ok(if read.as_ref().is_some_and(damaged) { Code::Partial } else { Code::Ok })
}
