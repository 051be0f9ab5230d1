//! A result that is a file with a report, for people and for programs.

use std::path::Path;

use biopsy_analyze::Diagnosis;
use biopsy_capture::Failure;
use biopsy_capture::words::size;
use biopsy_model::printable::printable;
use serde::Serialize;
use serde_json::value::RawValue;

use super::out;
use super::terminal::{ColorChoice, Terminal};
use crate::exit_codes::Code;

/// The result for programs.
#[derive(Serialize)]
struct Summary {
    /// Version of this document.
    version: u32,
    path: String,
    bytes: u64,
    /// As it is in `report.json`.
    report: Option<Box<RawValue>>,
}

/// The report as it is in `report.json`: parsing it again would take more memory than the recording did.
pub(crate) fn report(diagnosis: &Diagnosis) -> Option<Box<RawValue>> {
    RawValue::from_string(biopsy_report::render_json(diagnosis, None)).ok()
}

/// Shows what was made. `json`: as this version of the document. `top`: types that are listed.
pub(crate) fn show(
    diagnosis: &Diagnosis,
    (path, bytes): (&Path, u64),
    json: Option<u32>,
    top: usize,
    color: ColorChoice,
) -> Result<Code, Failure> {
    if let Some(version) = json {
        let path = path.to_string_lossy().into_owned();
        return out::document(&Summary { version, path, bytes, report: report(diagnosis) });
    }
    let terminal = Terminal::of_stdout(color);
    let mut shown = biopsy_report::render_text(diagnosis, top, terminal.for_reports());
    shown.push_str(&format!("\n{} ({})\n", printable(&path.to_string_lossy()), size(bytes)));
    out::text(&shown, terminal.colour)
}
