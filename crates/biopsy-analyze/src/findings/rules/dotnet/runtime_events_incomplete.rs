//! Events of the runtime are missing.

use crate::findings::evidence::{fact, grade, steps};
use crate::findings::finding::{Finding, FindingId, Value};
use crate::findings::scene::Scene;
use crate::words::{number, percent};

/// Lost events from which on totals are not to be trusted.
const LOST: [f64; 3] = [f64::INFINITY, 0.2, 0.01];

#[expect(clippy::cast_precision_loss, reason = "counts for people")]
pub(crate) fn find(scene: &Scene<'_>) -> Option<Finding> {
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
            worst = worst.max(LOST[2]);
            evidence.push(fact(format!("the events of process {} end in the middle", trace.pid), None));
        }
    }
    let severity = grade(worst, LOST)?;
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
