//! What the application logged, and how whole the runtime's events are.

use super::{heard, in_table, of_process, quoted};
use crate::finding::{Evidence, Finding, FindingId, Severity, Value};
use crate::findings::grade;
use crate::findings::scene::{Scene, fact, steps};
use crate::findings::words::{number, percent};
use crate::runtimes::severity;

/// The application logged errors.
pub(super) fn messages(scene: &Scene<'_>) -> Option<Finding> {
    let errors = |heard: &super::Heard<'_>| -> u64 {
        let rows = heard.summary.messages.iter().filter(|row| severity(&row.level) >= 3);
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
        .filter(|(_, row)| severity(&row.level) >= 3)
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
        severity: grade(rate, f64::INFINITY, 5.0, 0.0).unwrap_or(Severity::Notice),
        impact: (rate / 100.0).clamp(0.02, 0.3),
        title: format!("The application logged {} errors{}", number(count as f64), of_process(scene, heard.summary)),
        explanation: "Its own words, at levels `Error` and `Critical`. They may be the cause, a consequence, or every day's noise.".to_owned(),
        evidence,
        next_steps: steps(&["Read the messages beside what else happened at that moment"]),
    })
}

/// Lost events from which on totals are not to be trusted.
const LOST: [f64; 2] = [0.2, 0.01];

/// Events of the runtime are missing.
#[expect(clippy::cast_precision_loss, reason = "counts for people")]
pub(super) fn incomplete(scene: &Scene<'_>) -> Option<Finding> {
    let mut evidence = Vec::new();
    let mut worst = 0.0f64;
    for summary in &scene.analysis.runtimes {
        let Some(trace) = scene.capture.runtimes.get(summary.trace) else { continue };
        let events = trace.providers.iter().fold(0u64, |sum, row| sum.saturating_add(row.count));
        if trace.lost > 0 {
            let share = trace.lost as f64 / trace.lost.saturating_add(events).max(1) as f64;
            worst = worst.max(share);
            evidence.push(fact(
                format!(
                    "{} events of process {} were lost ({})",
                    number(trace.lost as f64),
                    trace.pid,
                    percent(share)
                ),
                Some(Value::Share(share)),
            ));
        }
        if trace.cut && scene.capture.header.end.is_some() {
            worst = worst.max(LOST[1]);
            evidence.push(fact(format!("the events of process {} end in the middle", trace.pid), None));
        }
    }
    let severity = grade(worst, f64::INFINITY, LOST[0], LOST[1])?;
    Some(Finding {
        id: FindingId::RuntimeEventsIncomplete,
        severity,
        impact: worst,
        title: "Not all events of the runtime were recorded, so its numbers are too small".to_owned(),
        explanation: "The runtime throws events away when they come faster than they can be fetched, or when it ends. Rates and \
                      totals of exceptions, requests, allocations and the like are lower bounds."
            .to_owned(),
        evidence,
        next_steps: steps(&["Record fewer kinds of events, or for a shorter time"]),
    })
}
