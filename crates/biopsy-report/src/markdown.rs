//! The report as Markdown.

use biopsy_analyze::Analysis;
use biopsy_model::capture::Capture;

pub(crate) fn render(capture: &Capture, _analysis: &Analysis) -> String {
    format!("# {}\n", capture.header.target_name)
}
