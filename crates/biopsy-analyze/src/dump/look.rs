//! What of a dump belongs into a recording of the same process: what only memory tells.

use biopsy_model::look::{Look, LookFinding};
use biopsy_model::{MonoNanos, Pid};

use super::DumpAnalysis;
use crate::{Finding, FindingId};

/// Findings that a recording of time cannot make. What threads do and what memory is, it shows better.
const KEPT: [FindingId; 7] = [
    FindingId::Deadlock,
    FindingId::AbandonedLock,
    FindingId::LockQueue,
    FindingId::FinalizerBlocked,
    FindingId::PoolStarvation,
    FindingId::WaitingOperations,
    FindingId::FullChannel,
];

impl DumpAnalysis {
    /// What is kept of it in a recording.
    #[must_use]
    pub fn look(&self, pid: Pid, time: MonoNanos) -> Look {
        let operations = self.managed.as_ref().and_then(|managed| managed.operations.as_ref());
        Look {
            pid,
            name: self.identity.name.clone(),
            time,
            pause: self.identity.pause.unwrap_or_default(),
            threads: self.threads.len() as u64,
            operations: operations.map(|operations| operations.pending),
            findings: self.findings.iter().filter(|one| KEPT.contains(&one.id)).map(kept).collect(),
            undetermined: self.undetermined.clone(),
        }
    }
}

/// The id of a finding that was kept: what is read from a file may be any text.
pub(crate) fn known_id(id: &str) -> Option<FindingId> {
    FindingId::parse(id).filter(|id| KEPT.contains(id))
}

fn kept(finding: &Finding) -> LookFinding {
    LookFinding {
        id: finding.id.as_str().to_owned(),
        severity: finding.severity.word().to_owned(),
        impact: finding.impact,
        title: finding.title.clone(),
        explanation: finding.explanation.clone(),
        evidence: finding.evidence.iter().map(|one| one.text.clone()).collect(),
        next_steps: finding.next_steps.clone(),
    }
}
