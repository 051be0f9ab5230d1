//! The report as JSON.

use crate::schema::Report;
use biopsy_analyze::Analysis;
use biopsy_model::capture::Capture;

pub(crate) fn render(_capture: &Capture, _analysis: &Analysis) -> String {
    serde_json::to_string_pretty(&Report::default()).unwrap_or_default()
}
