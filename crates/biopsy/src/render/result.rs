//! A result that is a file with a report, for people and for programs.

use std::path::Path;

use biopsy_analyze::Diagnosis;
use biopsy_capture::words::size;
use biopsy_capture::{Failure, HandedOver};
use biopsy_model::printable::printable;
use biopsy_sys::memory_folder::is_by_descriptor;
use serde::Serialize;
use serde_json::value::RawValue;

use super::for_reports;
use biopsy_foreground::{Code, out};
use biopsy_terminal::terminal::{ColorChoice, Terminal};

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

/// Where a recording with its report is, and what opens it.
pub(crate) fn place(made: &HandedOver) -> String {
    // In memory, until it is sealed: no name of it is of use to anybody.
    if is_by_descriptor(&made.path) {
        return String::new();
    }
    let (path, size) = (printable(&made.path.to_string_lossy()), size(made.bytes));
    if made.is_bundle {
        format!("{path} ({size}): report.html in it opens in any browser\n")
    } else {
        format!("{path} ({size}): open {path}/report.html in a browser\n")
    }
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
    let mut shown = biopsy_report::render_text(diagnosis, top, for_reports(terminal));
    shown.push_str(&format!("\n{} ({})\n", printable(&path.to_string_lossy()), size(bytes)));
    out::text(&shown, terminal.colour)
}
