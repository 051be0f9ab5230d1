//! Findings, the most important first.

use biopsy_analyze::{Finding, Severity, Source};

use super::page::Page;
use crate::units::counted;

/// Findings of no consequence that are printed; all are in the report.
const INFOS: usize = 3;
/// Pieces of evidence of a finding in a dump.
const EVIDENCE: usize = 5;

/// Prints the findings: all of some consequence, and some notes if `notes` are wanted.
pub(crate) fn findings(page: &mut Page, findings: &[(Source, &Finding)], notes: bool) {
    if findings.is_empty() && notes {
        page.line("info", "2", "nothing stands out");
    }
    let mut infos = 0;
    for (source, finding) in findings {
        let paint = match finding.severity {
            Severity::Critical => "1;31",
            Severity::Warning => "1;33",
            Severity::Notice => "1;34",
            Severity::Info => {
                infos += 1;
                if infos > INFOS || !notes {
                    continue;
                }
                "2"
            }
        };
        page.line(finding.severity.word(), paint, &finding.title);
        let serious = finding.severity >= Severity::Warning;
        // Of a moment there is nothing else that would show it; of a recording there are charts.
        let shown = if serious && *source != Source::Recorded { EVIDENCE } else { 0 };
        for evidence in finding.evidence.iter().take(shown) {
            page.line("", "", &format!("· {}", evidence.text));
        }
        if let Some(step) = finding.next_steps.first().filter(|_| serious) {
            page.line("", "", &format!("→ {}", step));
        }
    }
    if infos > INFOS && notes {
        let more = counted((infos - INFOS) as u64, "more note", "more notes");
        page.line("", "", &format!("and {more} in the report"));
    }
}
