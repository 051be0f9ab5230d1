//! A route is slow, and what went on meanwhile.

use crate::findings::dotnet::{heard, in_table, of_process, table, time};
use crate::findings::evidence::{at, steps};
use crate::findings::finding::{Evidence, Finding, FindingId, Severity, Value};
use crate::findings::requests::name;
use crate::findings::scene::Scene;
use crate::runtimes::{Coincidence, Meanwhile, RuntimeSummary};
use crate::words::{number, percent};

/// A route of which half the requests take longer than this is slow to everybody.
const SLOW_HALF: f64 = 1.0;
/// Fewer requests have no half.
const FEWEST: u64 = 3;
/// What went on for less of their time is not listed.
const MEANWHILE: f64 = 0.1;

pub(crate) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let (heard, at_row) = heard(scene)
        .filter_map(|heard| {
            let rows = heard.summary.requests.iter().enumerate();
            let slow = rows.filter(|(_, row)| row.count >= FEWEST && row.p50.as_secs_f64() >= SLOW_HALF);
            let (number, row) = slow.max_by_key(|(_, row)| row.total)?;
            Some((row.total, heard, number))
        })
        .max_by_key(|(total, _, number)| (*total, std::cmp::Reverse(*number)))
        .map(|(_, heard, number)| (heard, number))?;
    let summary = heard.summary;
    let row = summary.requests.get(at_row)?;
    let mut evidence = vec![in_table(
        summary,
        "requests",
        at_row,
        format!(
            "{}: {} requests, half of them longer than {}, 5 of 100 longer than {}",
            name(row),
            number(row.count as f64),
            time(row.p50),
            time(row.p95)
        ),
        Some(Value::Time(row.p50)),
    )];
    evidence.extend(meanwhile(summary, &summary.coincidences));
    Some(Finding {
        id: FindingId::SlowRequests,
        severity: Severity::Notice,
        impact: (row.total.as_secs_f64() / scene.seconds / scene.cpus.max(1.0)).clamp(0.05, 0.9),
        title: format!(
            "{} is slow: half of its requests take longer than {}{}",
            name(row),
            time(row.p50),
            of_process(scene, summary)
        ),
        explanation: "What went on at the same time is listed below: it need not be the cause, but a share far above the usual one is a \
                      hint. A long poll is slow on purpose."
            .to_owned(),
        evidence,
        next_steps: steps(&["Look at the slowest requests on the timeline, and at what their threads did then"]),
    })
}

/// What went on while requests were slow, as evidence.
fn meanwhile(summary: &RuntimeSummary, rows: &[Coincidence]) -> Vec<Evidence> {
    rows.iter()
        .filter(|row| row.share >= MEANWHILE)
        .take(3)
        .map(|row| {
            let usual = match row.what {
                Meanwhile::Outgoing | Meanwhile::Command => String::new(),
                Meanwhile::Collection | Meanwhile::Starvation | Meanwhile::Contention => {
                    format!(" (of the whole recording: {})", percent(row.usual))
                }
            };
            at(
                table(summary, "coincidences", None),
                format!(
                    "for {} of the time of slow requests {}{usual}",
                    percent(row.share),
                    row.what.words()
                ),
                Some(Value::Share(row.share)),
            )
        })
        .collect()
}
