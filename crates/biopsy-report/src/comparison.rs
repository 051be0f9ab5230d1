//! Two recordings held against each other: as text, Markdown, JSON and a page.

mod markdown;
mod text;
mod words;

use biopsy_analyze::Diagnosis;
use biopsy_analyze::compare::{self, Comparison, Quantity, Unit};
use biopsy_analyze::heap::Growth;
use biopsy_model::printable::printable_json;
use jiff::Timestamp;
use serde::Serialize;

use crate::schema::comparison as schema;
use crate::text::TextOptions;

/// The comparison in the types of the schema. `files`: what both were read from, as they were named.
fn assemble(comparison: &Comparison, files: [&str; 2]) -> schema::Comparison {
    let side = |side: &compare::Side, file: &str| schema::Side {
        file: file.to_owned(),
        name: side.name.clone(),
        start: start(side.start_unix_nanos),
        seconds: side.seconds,
        cores: side.cores,
        samples: side.samples,
        requests: side.requests,
    };
    let calls = comparison.cpu.nodes.iter().map(|node| schema::Call {
        parent: node.parent,
        name: node.name.clone(),
        module: node.module.clone(),
        before: node.before,
        after: node.after,
    });
    schema::Comparison {
        schema: "biopsy-comparison".to_owned(),
        version: 1,
        before: side(&comparison.before, files[0]),
        after: side(&comparison.after, files[1]),
        unit: match comparison.unit {
            Unit::Second => "second",
            Unit::Request => "request",
        }
        .to_owned(),
        differences: comparison.differences.iter().map(|one| difference(one, true)).collect(),
        unchanged: comparison.unchanged.iter().map(|one| difference(one, false)).collect(),
        compared: comparison.compared,
        calls: calls.collect(),
        remarks: comparison.remarks.clone(),
        refused: comparison.refused.clone(),
    }
}

fn start(unix_nanos: i128) -> Option<String> {
    let time = Timestamp::from_nanosecond(unix_nanos).ok().filter(|_| unix_nanos != 0)?;
    Some(time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
}

fn difference(one: &compare::Difference, is_claimed: bool) -> schema::Difference {
    let (kind, name, module, reason) = match &one.quantity {
        Quantity::Function { module, name, .. } => ("function", name.clone(), module.clone(), None),
        Quantity::Wait { reason, function } => {
            let kind = if one.quantity.is_lock() { "lock" } else { "wait" };
            (kind, function.clone().unwrap_or_default(), String::new(), Some(reason.words().to_owned()))
        }
        Quantity::Request { route } => ("request", route.clone(), String::new(), None),
    };
    schema::Difference {
        kind: kind.to_owned(),
        name,
        module,
        reason,
        before: one.before,
        after: one.after,
        change: one.ratio(),
        noise: one.noise,
        became: is_claimed.then(|| if one.change() > 0.0 { "slower" } else { "faster" }.to_owned()),
    }
}

/// The document of `biopsy compare --json`.
#[must_use]
pub fn render_comparison_json(comparison: &Comparison, files: [&str; 2]) -> String {
    let text =
        serde_json::to_string_pretty(&assemble(comparison, files)).expect("the schema's types serialise");
    printable_json(text + "\n")
}

/// The document of `biopsy compare --json` for heaps.
#[must_use]
pub fn render_heap_growth_json(growth: &Growth, files: &[&str]) -> String {
    let document = schema::HeapComparison {
        schema: "biopsy-heap-comparison".to_owned(),
        version: 1,
        files: files.iter().map(|file| (*file).to_owned()).collect(),
        growth: crate::assemble::heap_growth(growth),
    };
    let text = serde_json::to_string_pretty(&document).expect("the schema's types serialise");
    printable_json(text + "\n")
}

/// Heaps for the terminal.
#[must_use]
pub fn render_heap_growth_text(diagnosis: &Diagnosis, options: TextOptions) -> String {
    /// Types that are listed.
    const TYPES: usize = 25;
    let Some(growth) = &diagnosis.growth else { return String::new() };
    let mut page = crate::text::Page::new(options);
    let found = diagnosis.findings();
    if !found.is_empty() {
        crate::text::findings(&mut page, &found, true);
        page.text.push('\n');
    }
    crate::text::growth(&mut page, &crate::assemble::heap_growth(growth), TYPES);
    if diagnosis.footprints.len() > 1 {
        page.text.push('\n');
        crate::footprint_growth::growth(&mut page, &diagnosis.footprints);
    }
    page.text
}

/// Heaps for a ticket.
#[must_use]
pub fn render_heap_growth_markdown(growth: &Growth) -> String {
    let mut text = String::new();
    crate::markdown::heap::growth(&mut text, &crate::assemble::heap_growth(growth), "#");
    text
}

/// For the terminal.
#[must_use]
pub fn render_comparison_text(comparison: &Comparison, files: [&str; 2], options: TextOptions) -> String {
    text::render(&assemble(comparison, files), options)
}

/// Short, for tickets.
#[must_use]
pub fn render_comparison_markdown(comparison: &Comparison, files: [&str; 2]) -> String {
    markdown::render(&assemble(comparison, files))
}

/// As one self-contained page.
#[must_use]
pub fn render_comparison_html(comparison: &Comparison, files: [&str; 2]) -> String {
    #[derive(Serialize)]
    struct Page {
        comparison: schema::Comparison,
    }
    let comparison = assemble(comparison, files);
    let (title, plain) = (format!("{} compared", comparison.after.name), markdown::render(&comparison));
    crate::html::shell(&crate::json::data(&Page { comparison }, None), &title, &plain)
}
