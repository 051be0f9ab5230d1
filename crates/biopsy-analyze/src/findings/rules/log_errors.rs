//! Errors in the logs.

use crate::findings::evidence::{at, steps};
use crate::findings::finding::{Finding, FindingId, Reference, Severity, Value};
use crate::findings::scene::Scene;
use crate::words::number;
use biopsy_model::log::LogLevel;

/// Errors a second from which on they are no single events.
const RATE: f64 = 1.0;

pub(super) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let logs = &scene.analysis.logs;
    if logs.errors == 0 {
        return None;
    }
    let rate = logs.errors as f64 / scene.seconds;
    let topics = logs.topics.iter().filter(|topic| topic.level == LogLevel::Error);
    let evidence = topics
        .take(5)
        .map(|topic| {
            let text: String = topic.example.chars().take(200).collect();
            let text = format!("{} ×: {text}", number(topic.count as f64));
            at(
                Reference::Log { log: topic.log, line: topic.line },
                text,
                Some(Value::Count(topic.count as f64)),
            )
        })
        .collect();
    let lines = if logs.errors == 1 {
        "1 error line".to_owned()
    } else {
        format!("{} error lines", number(logs.errors as f64))
    };
    Some(Finding {
        id: FindingId::LogErrors,
        severity: if rate >= RATE { Severity::Warning } else { Severity::Notice },
        impact: (rate / 10.0).min(0.5),
        title: format!("{lines} in the logs while recording"),
        explanation: "Errors may be cause, consequence or daily routine. They are worth a look on the time axis beside the \
                      metrics and thread activity."
            .to_owned(),
        evidence,
        next_steps: steps(&["See the log lines in the report, and what else happened in the same seconds"]),
    })
}
