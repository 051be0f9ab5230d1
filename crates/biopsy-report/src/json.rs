//! The report as JSON, and the data of the page.

use biopsy_analyze::Diagnosis;
use biopsy_model::printable::printable_json;
use serde::Serialize;

use crate::mask::{Mask, masked};

pub(crate) fn render(diagnosis: &Diagnosis, mask: Option<Mask<'_>>) -> String {
    let report = crate::assemble::report(diagnosis);
    let written = match mask {
        None => serde_json::to_string_pretty(&report),
        Some(mask) => serde_json::to_string_pretty(&masked(&report, mask)),
    };
    let mut text = written.expect("the schema's types serialise to a string");
    text.push('\n');
    printable_json(text)
}

/// The same without line ends, for the page.
pub(crate) fn data(page: &impl Serialize, mask: Option<Mask<'_>>) -> String {
    let written = match mask {
        None => serde_json::to_string(page),
        Some(mask) => serde_json::to_string(&masked(page, mask)),
    };
    written.expect("the page's types serialise to a string")
}
