//! The report as JSON.

use biopsy_analyze::Analysis;
use biopsy_model::capture::Capture;
use biopsy_model::printable::printable_json;

pub(crate) fn render(capture: &Capture, analysis: &Analysis) -> String {
    let report = crate::assemble::report(capture, analysis);
    let mut text = serde_json::to_string_pretty(&report).expect("the schema's types serialise to a string");
    text.push('\n');
    printable_json(text)
}
