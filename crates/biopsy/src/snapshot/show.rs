//! What the user sees: the table of types.

use biopsy_capture::Failure;
use biopsy_capture::snapshot::Snapshot;
use biopsy_capture::words::size;
use biopsy_model::printable::printable;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::exit_codes::Code;
use crate::render::out;
use crate::render::terminal::{ColorChoice, Terminal};

use super::args::SnapshotArgs;

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

/// Shows what was made.
pub(super) fn show(args: &SnapshotArgs, made: &Snapshot, color: ColorChoice) -> Result<Code, Failure> {
    let Snapshot { diagnosis, result } = made;
    if args.json {
        out::document(&Summary {
            version: 2,
            path: result.path.to_string_lossy().into_owned(),
            bytes: result.bytes,
            report: RawValue::from_string(biopsy_report::render_json(diagnosis, None)).ok(),
        })?;
    } else {
        let terminal = Terminal::of_stdout(color);
        let mut shown = biopsy_report::render_text(diagnosis, args.top, terminal.for_reports());
        let path = printable(&result.path.to_string_lossy());
        shown.push_str(&format!("\n{path} ({})\n", size(result.bytes)));
        out::text(&shown, terminal.colour)?;
    }
    Ok(if diagnosis.is_damaged() { Code::Partial } else { Code::Ok })
}
