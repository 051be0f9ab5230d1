//! Secrets were masked in the dump.

use crate::dump::DumpAnalysis;
use crate::findings::finding::{Finding, FindingId, Severity};

pub(crate) fn find(analysis: &DumpAnalysis) -> Option<Finding> {
    (analysis.identity.scrubbed == Some(true)).then(|| Finding {
        id: FindingId::Scrubbed,
        severity: Severity::Info,
        impact: 0.0,
        title: "The memory of the dump is scrubbed".to_owned(),
        explanation: "Secrets of known shapes were masked while it was written. That is not a promise that none is left: handle the \
                      file as confidential."
            .to_owned(),
        evidence: Vec::new(),
        next_steps: Vec::new(),
    })
}
