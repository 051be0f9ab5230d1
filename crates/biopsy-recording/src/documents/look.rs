//! `stacks/PID.json`: what was found in the memory of a process.

use biopsy_model::{MonoNanos, Nanos, Pid, look};
use serde::{Deserialize, Serialize};

use super::at_most;

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
    #[serde(deserialize_with = "at_most")]
    findings: Vec<Finding>,
    #[serde(deserialize_with = "at_most")]
    undetermined: Vec<String>,
}

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
struct Finding {
    id: String,
    severity: String,
    impact: f64,
    title: String,
    explanation: String,
    #[serde(deserialize_with = "at_most")]
    evidence: Vec<String>,
    #[serde(deserialize_with = "at_most")]
    next_steps: Vec<String>,
}

impl From<&look::Look> for Look {
    fn from(look: &look::Look) -> Self {
        let finding = |one: &look::LookFinding| Finding {
            id: one.id.clone(),
            severity: one.severity.clone(),
            impact: one.impact,
            title: one.title.clone(),
            explanation: one.explanation.clone(),
            evidence: one.evidence.clone(),
            next_steps: one.next_steps.clone(),
        };
        Self {
            pid: look.pid.0,
            name: look.name.clone(),
            time_ns: look.time.0,
            pause_ns: look.pause.0,
            threads: look.threads,
            operations: look.operations,
            findings: look.findings.iter().map(finding).collect(),
            undetermined: look.undetermined.clone(),
        }
    }
}

impl From<Look> for look::Look {
    fn from(look: Look) -> Self {
        let finding = |one: Finding| look::LookFinding {
            id: one.id,
            severity: one.severity,
            impact: one.impact,
            title: one.title,
            explanation: one.explanation,
            evidence: one.evidence,
            next_steps: one.next_steps,
        };
        Self {
            pid: Pid(look.pid),
            name: look.name,
            time: MonoNanos(look.time_ns),
            pause: Nanos(look.pause_ns),
            threads: look.threads,
            operations: look.operations,
            findings: look.findings.into_iter().map(finding).collect(),
            undetermined: look.undetermined,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let finding = look::LookFinding {
            id: "deadlock".to_owned(),
            severity: "critical".to_owned(),
            impact: 0.5,
            title: "Two threads wait for each other".to_owned(),
            explanation: "For ever.".to_owned(),
            evidence: vec!["thread 7 waits".to_owned()],
            next_steps: vec!["one order".to_owned()],
        };
        let look = look::Look {
            pid: Pid(7),
            name: "server".to_owned(),
            time: MonoNanos(5),
            pause: Nanos(6),
            threads: 12,
            operations: Some(3),
            findings: vec![finding],
            undetermined: vec!["nothing".to_owned()],
        };
        let text = serde_json::to_string(&Look::from(&look)).unwrap();
        assert_eq!(look::Look::from(serde_json::from_str::<Look>(&text).unwrap()), look);
        let empty = look::Look::from(serde_json::from_str::<Look>("{}").unwrap());
        assert_eq!(empty, look::Look::default());
    }
}
