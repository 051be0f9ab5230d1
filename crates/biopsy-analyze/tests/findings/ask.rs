//! What tests ask of an analysis.

use crate::outline;
use biopsy_analyze::{Analysis, Finding, FindingId, Severity};

pub(crate) fn finding(analysis: &Analysis, id: FindingId) -> Option<&Finding> {
    analysis.findings.iter().find(|finding| finding.id == id)
}

/// How serious it is; `None`: it is not there.
pub(crate) fn severity(analysis: &Analysis, id: FindingId) -> Option<Severity> {
    finding(analysis, id).map(|finding| finding.severity)
}

/// One that is there.
pub(crate) fn there(analysis: &Analysis, id: FindingId) -> &Finding {
    finding(analysis, id).unwrap_or_else(|| panic!("no {id}:\n{}", outline(analysis)))
}

pub(crate) fn texts(finding: &Finding) -> Vec<&str> {
    finding.evidence.iter().map(|evidence| evidence.text.as_str()).collect()
}

/// Whether a line of its evidence has these words.
pub(crate) fn says(finding: &Finding, words: &str) -> bool {
    finding.evidence.iter().any(|evidence| evidence.text.contains(words))
}
