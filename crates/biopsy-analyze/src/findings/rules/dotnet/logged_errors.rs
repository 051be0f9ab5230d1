//! What the application logged.

use crate::findings::dotnet::{Heard, at_least, heard, in_table, of_process, quoted};
use crate::findings::evidence::steps;
use crate::findings::finding::{Evidence, Finding, FindingId, Severity, Value};
use crate::findings::scene::Scene;
use crate::runtimes::severity;
use crate::words::number;

/// Errors a second from which on they are no single events.
const RATE: f64 = 5.0;
/// The level of an error, among those of .NET.
const ERROR: u8 = 3;

pub(crate) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let errors = |heard: &Heard<'_>| -> u64 {
        let rows = heard.summary.messages.iter().filter(|row| severity(&row.level) >= ERROR);
        rows.fold(0, |sum, row| sum.saturating_add(row.count))
    };
    let heard = heard(scene).max_by_key(errors)?;
    let count = errors(&heard);
    let rate = heard.summary.rate(count);
    if count == 0 {
        return None;
    }
    let evidence: Vec<Evidence> = heard
        .summary
        .messages
        .iter()
        .enumerate()
        .filter(|(_, row)| severity(&row.level) >= ERROR)
        .take(3)
        .map(|(at, row)| {
            let example = row.example.as_ref().map_or(String::new(), |text| format!(": {}", quoted(text)));
            in_table(
                heard.summary,
                "messages",
                at,
                format!("{} {} from {}{example}", number(row.count as f64), row.level, quoted(&row.category)),
                Some(Value::Count(row.count as f64)),
            )
        })
        .collect();
    Some(Finding {
        id: FindingId::LoggedErrors,
        severity: if rate >= RATE { Severity::Warning } else { Severity::Notice },
        impact: (rate / 100.0).clamp(0.02, 0.3),
        title: format!("The application logged {}{} errors{}", at_least(&heard, "messages"), number(count as f64), of_process(scene, heard.summary)),
        explanation: "Its own words, at levels `Error` and `Critical`. They may be the cause, a consequence, or every day's noise.".to_owned(),
        evidence,
        next_steps: steps(&["Read the messages beside what else happened at that moment"]),
    })
}
