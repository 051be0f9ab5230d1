//! Requests fail.

use crate::findings::dotnet::{code, heard, in_place, in_table, of_process};
use crate::findings::evidence::{grade, steps};
use crate::findings::finding::{Finding, FindingId, Value};
use crate::findings::requests::name;
use crate::findings::scene::Scene;
use crate::words::{number, percent};

/// Share of failed requests, and the fewest of them, from which on somebody should look.
const FAILED: [f64; 3] = [0.5, 0.05, 0.01];
const FAILED_LEAST: u64 = 5;

pub(crate) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let (heard, at_row) = heard(scene)
        .filter_map(|heard| {
            let rows =
                heard.summary.requests.iter().enumerate().filter(|(_, row)| row.failed >= FAILED_LEAST);
            let (number, row) = rows.max_by_key(|(_, row)| row.failed)?;
            Some((row.failed, heard, number))
        })
        .max_by_key(|(failed, _, number)| (*failed, std::cmp::Reverse(*number)))
        .map(|(_, heard, number)| (heard, number))?;
    let summary = heard.summary;
    let row = summary.requests.get(at_row)?;
    let share = row.failed as f64 / row.count.max(row.failed).max(1) as f64;
    let severity = grade(share, FAILED)?;
    let mut evidence = vec![in_table(
        summary,
        "requests",
        at_row,
        format!(
            "{} of {} answers of {} were failures",
            number(row.failed as f64),
            number(row.count as f64),
            name(row)
        ),
        Some(Value::Share(share)),
    )];
    if let Some((number_of_row, exception)) = summary.exceptions.iter().enumerate().next() {
        evidence.push(in_table(
            summary,
            "exceptions",
            number_of_row,
            format!(
                "most frequent exception: {}{}, {} times",
                code(&exception.type_name),
                in_place(&exception.place),
                number(exception.count as f64)
            ),
            Some(Value::Count(exception.count as f64)),
        ));
    }
    Some(Finding {
        id: FindingId::FailedRequests,
        severity,
        impact: share,
        title: format!(
            "{} of the requests to {} fail{}",
            percent(share),
            name(row),
            of_process(scene, summary)
        ),
        explanation: "They ended with a status of 500 and above, or without an answer.".to_owned(),
        evidence,
        next_steps: steps(&["See exceptions and messages of these moments in the tables"]),
    })
}
