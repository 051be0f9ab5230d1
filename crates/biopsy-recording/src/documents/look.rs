//! `stacks/PID.json`: what was found in the memory of a process.

use biopsy_model::{MonoNanos, Nanos, Pid, look};
use serde::{Deserialize, Serialize};

use super::List;

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
pub(crate) struct Look {
    pid: u32,
    name: String,
    time_ns: u64,
    pause_ns: u64,
    threads: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    operations: Option<u64>,
    findings: List<Finding>,
    undetermined: List<String>,
}

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
struct Finding {
    id: String,
    severity: String,
    impact: f64,
    title: String,
    explanation: String,
    evidence: List<String>,
    next_steps: List<String>,
}

impl From<look::LookFinding> for Finding {
    fn from(one: look::LookFinding) -> Self {
        Self {
            id: one.id,
            severity: one.severity.as_str().to_owned(),
            impact: one.impact,
            title: one.title,
            explanation: one.explanation,
            evidence: one.evidence.into(),
            next_steps: one.next_steps.into(),
        }
    }
}

impl From<Finding> for look::LookFinding {
    fn from(one: Finding) -> Self {
        Self {
            id: one.id,
            severity: one.severity.as_str().into(),
            impact: one.impact,
            title: one.title,
            explanation: one.explanation,
            evidence: one.evidence.into(),
            next_steps: one.next_steps.into(),
        }
    }
}

impl From<&look::Look> for Look {
    fn from(look: &look::Look) -> Self {
        Self {
            pid: look.pid.0,
            name: look.name.clone(),
            time_ns: look.time.0,
            pause_ns: look.pause.0,
            threads: look.threads,
            operations: look.operations,
            findings: look.findings.clone().into(),
            undetermined: look.undetermined.clone().into(),
        }
    }
}

impl From<Look> for look::Look {
    fn from(look: Look) -> Self {
        Self {
            pid: Pid(look.pid),
            name: look.name,
            time: MonoNanos(look.time_ns),
            pause: Nanos(look.pause_ns),
            threads: look.threads,
            operations: look.operations,
            findings: look.findings.into(),
            undetermined: look.undetermined.into(),
        }
    }
}
