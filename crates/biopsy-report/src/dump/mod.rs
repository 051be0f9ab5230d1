//! The report of a dump: text for the terminal, JSON for programs, Markdown for tickets, one page for people.
//!
//! All are pure functions of a [`DumpAnalysis`]. What they show is derived: no memory contents, no command line but the one
//! that the caller redacted.

mod graph;
mod html;
mod index;
mod managed;
pub mod managed_schema;
mod markdown;
pub mod schema;
mod sections;
mod stacks;
pub mod strands;
mod text;
mod threads;
mod words;

use biopsy_analyze::dump::DumpAnalysis;

use crate::TextOptions;

pub use threads::StacksOptions;

pub use index::{IndexRow, render_index_html, render_index_markdown};

/// The report as one self-contained HTML page: no network, opens from disk, readable without scripts.
#[must_use]
pub fn render_dump_html(analysis: &DumpAnalysis) -> String {
    html::render(analysis)
}

/// The report as JSON, pretty-printed, in the schema of [`schema::DumpReport`].
#[must_use]
pub fn render_dump_json(analysis: &DumpAnalysis) -> String {
    let report = schema::DumpReport::new(analysis);
    let mut json = serde_json::to_string_pretty(&report).expect("the report's types serialise to a string");
    json.push('\n');
    biopsy_model::printable::printable_json(json)
}

/// The report as Markdown: short enough for a ticket.
#[must_use]
pub fn render_dump_markdown(analysis: &DumpAnalysis) -> String {
    markdown::render(analysis)
}

/// The report for the terminal: findings, then the stacks that matter.
#[must_use]
pub fn render_dump_text(analysis: &DumpAnalysis, options: TextOptions) -> String {
    text::render(analysis, options)
}

/// Stacks for the terminal: what is wrong first, then every stack.
#[must_use]
pub fn render_stacks_text(analysis: &DumpAnalysis, options: StacksOptions) -> String {
    threads::render(analysis, options)
}
