//! Text, JSON, Markdown, HTML, and exports to other tools' formats; owns the schema of reports.
//!
//! Everything here is a pure function from a [`Capture`] and its [`Analysis`] to bytes: no I/O beyond the writer that
//! is handed in, no clock, no look at this machine. A recording may be hostile; whatever it holds is treated as
//! text, bounded, and escaped for the format it goes into.
//!
//! - [`render_html`]: one self-contained page for people
//! - [`render_json`]: the stable schema of [`schema`], for programs (`docs/formats/report-schema.md`)
//! - [`render_markdown`]: short, for tickets; [`render_text`]: shorter, for the terminal after a capture
//! - [`export`]: the recording in the formats of other tools
//!
//! What it does not: it states nothing that is not in the analysis. Findings are made there.
//!
//! ```
//! use biopsy_model::capture::{Capture, CaptureHeader};
//! let capture = Capture {
//!     header: CaptureHeader::default(), processes: vec![], timeline: None, runtimes: vec![], looks: vec![], metrics: vec![], logs: vec![],
//!     context: vec![], warnings: vec![], redactions: vec![],
//! };
//! let analysis = biopsy_analyze::analyze(&capture);
//! assert!(biopsy_report::render_html(&capture, &analysis).starts_with("<!doctype html>"));
//! ```

#![forbid(unsafe_code)]

mod assemble;
pub mod dump;
pub mod export;
mod html;
mod json;
mod markdown;
pub mod schema;
#[cfg(test)]
#[path = "../tests/synthetic/mod.rs"]
mod synthetic;
mod text;
pub mod units;
mod when;
mod words;

use biopsy_analyze::Analysis;
use biopsy_model::capture::Capture;

pub use dump::{render_dump_html, render_dump_json, render_dump_markdown, render_dump_text};
pub use text::TextOptions;

/// The report as one self-contained HTML page: no network, opens from disk.
#[must_use]
pub fn render_html(capture: &Capture, analysis: &Analysis) -> String {
    html::render(capture, analysis)
}

/// The report as JSON, pretty-printed, in the schema of [`schema::Report`].
#[must_use]
pub fn render_json(capture: &Capture, analysis: &Analysis) -> String {
    json::render(capture, analysis)
}

/// The report as Markdown: short enough for a ticket, readable in a terminal.
#[must_use]
pub fn render_markdown(capture: &Capture, analysis: &Analysis) -> String {
    markdown::render(capture, analysis)
}

/// The summary for the terminal, plain: findings first, then a few lines.
#[must_use]
pub fn render_text(capture: &Capture, analysis: &Analysis) -> String {
    text::render(capture, analysis, TextOptions::default())
}

/// The summary for the terminal, with colour and width as the terminal has them.
#[must_use]
pub fn render_text_with(capture: &Capture, analysis: &Analysis, options: TextOptions) -> String {
    text::render(capture, analysis, options)
}
