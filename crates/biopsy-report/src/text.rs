//! The summary for a terminal: findings first, then a few lines on each kind of evidence.

mod dump;
mod findings;
mod footprint;
mod heap;
mod managed;
mod page;
mod recorded;
mod stacks;
mod strands;

use biopsy_analyze::Diagnosis;

use crate::units::counted;
pub(crate) use findings::findings;
pub(crate) use heap::growth;
pub(crate) use page::{Page, clean};
pub use page::{StacksOptions, TextOptions};
pub(crate) use stacks::stacks;

/// Dumps that get lines of their own.
const DUMPS: usize = 3;

/// `types`: rows in the table of a heap's types; 0: all.
pub(crate) fn render(diagnosis: &Diagnosis, types: usize, options: TextOptions) -> String {
    let mut page = Page::new(options);
    let (recorded, dumps) = (diagnosis.recorded.as_ref(), &diagnosis.dumps);
    if let [only] = dumps.as_slice()
        && recorded.is_none()
    {
        dump::head(&mut page, only);
    }
    let found = diagnosis.findings();
    if recorded.is_some() || !found.is_empty() {
        findings(&mut page, &found, true);
        page.text.push('\n');
    }
    if let Some(recorded) = recorded {
        recorded::body(&mut page, &recorded.capture, &recorded.analysis);
    }
    for analysis in dumps.iter().take(DUMPS) {
        if recorded.is_some() || dumps.len() > 1 {
            page.text.push('\n');
            dump::head(&mut page, analysis);
        }
        dump::body(&mut page, analysis);
    }
    if dumps.len() > DUMPS {
        let more = counted((dumps.len() - DUMPS) as u64, "more dump", "more dumps");
        page.line("", "2", &format!("and {more} in the report"));
    }
    if let Some(growth) = &diagnosis.growth {
        heap::growth(&mut page, &crate::assemble::heap_growth(growth), types);
    }
    // Of several the last one is shown: what differs stands above.
    let skipped = if diagnosis.growth.is_some() { diagnosis.heaps.len() - 1 } else { 0 };
    for summary in diagnosis.heaps.iter().skip(skipped) {
        if !page.text.is_empty() {
            page.text.push('\n');
        }
        heap::heap(&mut page, summary, types, options);
    }
    for summary in &diagnosis.footprints {
        if !page.text.is_empty() {
            page.text.push('\n');
        }
        footprint::footprint(&mut page, summary, options);
    }
    for one in &diagnosis.undetermined {
        page.line("not known", "2", one);
    }
    page.text
}
