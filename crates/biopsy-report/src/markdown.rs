//! The report as Markdown: short enough for a ticket, readable as it is in a terminal.

pub(crate) mod allocations;
mod dump;
mod escape;
mod footprint;
pub(crate) mod heap;
mod managed;
mod privacy;
mod recorded;
mod runtimes;

use std::fmt::Write as _;

use biopsy_analyze::{Diagnosis, Source};

use crate::units::{counted, evidence_text};
pub(crate) use escape::plain;

/// Dumps that are written whole.
const DUMPS: usize = 5;

pub(crate) fn render(diagnosis: &Diagnosis) -> String {
    let mut text = String::new();
    let (recorded, dumps, heaps) = (diagnosis.recorded.as_ref(), &diagnosis.dumps, &diagnosis.heaps);
    let alone = recorded.is_none() && dumps.len() == 1 && heaps.is_empty();
    match (recorded, dumps.as_slice()) {
        (Some(recorded), _) => recorded::head(&mut text, &recorded.capture, &recorded.analysis),
        (None, [only]) if alone => dump::head(&mut text, only, "#"),
        (None, _) => {
            let _ = writeln!(text, "# biopsy report: {}", plain(diagnosis.name()));
        }
    }
    findings(&mut text, diagnosis);
    if let Some(recorded) = recorded {
        recorded::body(&mut text, &recorded.capture, &recorded.analysis);
    }
    for analysis in dumps.iter().take(DUMPS) {
        if alone {
            dump::body(&mut text, analysis, "##");
        } else {
            text.push('\n');
            dump::head(&mut text, analysis, "##");
            dump::body(&mut text, analysis, "###");
        }
    }
    if dumps.len() > DUMPS {
        let more = counted((dumps.len() - DUMPS) as u64, "more dump is", "more dumps are");
        let _ = writeln!(text, "\n{more} in the page.");
    }
    if let Some(growth) = &diagnosis.growth {
        text.push('\n');
        heap::growth(&mut text, &crate::assemble::heap_growth(growth), "##");
    }
    for summary in heaps {
        text.push('\n');
        heap::heap(&mut text, summary, "##");
    }
    for summary in &diagnosis.footprints {
        text.push('\n');
        footprint::footprint(&mut text, summary, "##");
    }
    privacy::write(&mut text, diagnosis);
    if !diagnosis.undetermined.is_empty() {
        text.push_str("\n## What could not be determined\n\n");
        for one in &diagnosis.undetermined {
            let _ = writeln!(text, "- {}", plain(one));
        }
    }
    text
}

fn findings(text: &mut String, diagnosis: &Diagnosis) {
    let found = diagnosis.findings();
    if found.is_empty() && diagnosis.recorded.is_none() {
        return;
    }
    text.push_str("\n## Findings\n\n");
    if found.is_empty() {
        text.push_str("Nothing stands out.\n");
    }
    for (index, (source, finding)) in found.into_iter().enumerate() {
        let of = match source {
            Source::Dump(dump) if diagnosis.dumps.len() > 1 => {
                let identity = diagnosis.dumps.get(dump).map(|dump| &dump.identity);
                identity.map_or_else(String::new, |of| format!(" ({}, pid {})", plain(&of.name), of.pid))
            }
            _ => String::new(),
        };
        let _ =
            writeln!(text, "{}. **{}: {}**{of}", index + 1, finding.severity.word(), plain(&finding.title));
        if !finding.explanation.is_empty() {
            let _ = writeln!(text, "   {}", plain(&finding.explanation));
        }
        for evidence in &finding.evidence {
            let _ = writeln!(text, "   - {}", plain(&evidence_text(evidence)));
        }
        for step in &finding.next_steps {
            let _ = writeln!(text, "   - *next:* {}", plain(step));
        }
    }
}
