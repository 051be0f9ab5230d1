//! Text, JSON, Markdown, HTML, and exports to other tools' formats; owns the schema of reports.
//!
//! Everything here is a pure function from a [`Diagnosis`], which is whatever evidence there is with what it says, to bytes: no I/O beyond the
//! writer that is handed in, no clock, no look at this machine. Evidence may be hostile; whatever it holds is treated as
//! text, bounded, and escaped for the format it goes into. What is shown of memory is derived: no contents.
//!
//! - [`render_html`]: one self-contained page for people
//! - [`render_json`]: the stable schema of [`schema`], for programs (`docs/formats/report-schema.md`)
//! - [`render_markdown`]: short, for tickets; [`render_text`]: shorter, for the terminal; [`render_stacks`]: all stacks of a process
//! - [`render_comparison_text`] and its like: two recordings held against each other
//! - [`render_log_lines_text`]: lines of logs in the order of time
//! - [`render_explanation`], [`catalogue`]: what findings mean, and where they were found
//! - [`export`]: the recording in the formats of other tools
//!
//! What it does not: it states nothing that is not in the analysis. Findings are made there.
//!
//! ```
//! use biopsy_analyze::Diagnosis;
//! let diagnosis = Diagnosis::of_capture(biopsy_model::capture::Capture::default());
//! assert!(biopsy_report::render_html(&diagnosis, None).starts_with("<!doctype html>"));
//! ```

#![forbid(unsafe_code)]

mod assemble;
mod comparison;
mod explain;
pub mod export;
mod footprint_growth;
mod heap_answer;
mod html;
mod json;
mod log_lines;
mod markdown;
mod mask;
mod not_searched;
pub mod schema;
#[cfg(test)]
#[path = "../tests/synthetic/mod.rs"]
mod synthetic;
mod text;
pub mod units;
mod when;
mod words;

use biopsy_analyze::Diagnosis;
use biopsy_analyze::dump::DumpAnalysis;

pub use comparison::{
    render_comparison_html, render_comparison_json, render_comparison_markdown, render_comparison_text,
    render_heap_growth_json, render_heap_growth_markdown, render_heap_growth_text,
};
pub use explain::{catalogue, explanations, render_explanation, render_explanations_json, render_ids};
pub use footprint_growth::{
    render_footprint_growth_json, render_footprint_growth_markdown, render_footprint_growth_text,
};
pub use heap_answer::{render_heap_answer_json, render_heap_answer_text};
pub use log_lines::{render_log_lines_json, render_log_lines_text};
pub use mask::Mask;
pub use text::{StacksOptions, TextOptions};

/// The report as one self-contained HTML page: no network, opens from disk.
#[must_use]
pub fn render_html(diagnosis: &Diagnosis, mask: Option<Mask<'_>>) -> String {
    html::render(diagnosis, mask)
}

/// The report as JSON, pretty-printed, in the schema of [`schema::Report`].
#[must_use]
pub fn render_json(diagnosis: &Diagnosis, mask: Option<Mask<'_>>) -> String {
    json::render(diagnosis, mask)
}

/// The report as Markdown: short enough for a ticket, readable in a terminal.
#[must_use]
pub fn render_markdown(diagnosis: &Diagnosis, mask: Option<Mask<'_>>) -> String {
    mask::masked_text(markdown::render(diagnosis), mask)
}

/// The summary for the terminal: findings first, then a few lines. `types`: rows in the table of a heap's types; 0: all.
#[must_use]
pub fn render_text(diagnosis: &Diagnosis, types: usize, options: TextOptions) -> String {
    text::render(diagnosis, types, options)
}

/// Stacks for the terminal: what is wrong first, then every stack.
#[must_use]
pub fn render_stacks(analysis: &DumpAnalysis, options: StacksOptions) -> String {
    text::stacks(analysis, options)
}
