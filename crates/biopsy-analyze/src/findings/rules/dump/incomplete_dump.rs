//! Memory that should be in the dump is not.

use crate::dump::DumpAnalysis;
use crate::findings::evidence::{fact, steps};
use crate::findings::finding::{Finding, FindingId, Severity, Value};
use crate::words::bytes;

pub(crate) fn find(analysis: &DumpAnalysis) -> Option<Finding> {
    let damaged: Vec<_> =
        analysis.memory.missing.iter().filter(|missing| missing.reason.is_damage()).collect();
    let lost: u64 = damaged.iter().map(|missing| missing.bytes).sum();
    if !analysis.damaged {
        return None;
    }
    let what = if lost > 0 {
        format!("{} that should be in it are missing", bytes(lost as f64))
    } else {
        "parts of it contradict themselves or could not be read".to_owned()
    };
    Some(Finding {
        id: FindingId::IncompleteDump,
        severity: Severity::Warning,
        impact: 0.3,
        title: format!("The dump is not whole: {what}"),
        explanation:
            "What is said here rests on what is there. A thread or lock whose memory is missing is not seen."
                .to_owned(),
        evidence: damaged
            .iter()
            .map(|missing| {
                fact(
                    format!("{}: {}", missing.reason.words(), bytes(missing.bytes as f64)),
                    Some(Value::Bytes(missing.bytes as f64)),
                )
            })
            .collect(),
        next_steps: steps(&["Take the dump again, with room for all of it"]),
    })
}
