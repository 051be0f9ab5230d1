//! One request runs the same command again and again.

use crate::findings::dotnet::{heard, in_table, of_process, quoted, time};
use crate::findings::evidence::{grade, steps};
use crate::findings::finding::{Finding, FindingId, Value};
use crate::findings::requests::name;
use crate::findings::scene::Scene;
use crate::words::number;

/// Commands of one text in one request: a page of a list is usually 10 to 50 rows long, and nobody asks for each on purpose.
const COMMANDS: [f64; 3] = [100.0, 15.0, f64::INFINITY];

pub(crate) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let (heard, at_row) = heard(scene)
        .filter_map(|heard| {
            let rows = heard.summary.commands.iter().enumerate();
            let (number, row) = rows.max_by_key(|(_, row)| row.most_in_one_request)?;
            Some((row.most_in_one_request, heard, number))
        })
        .max_by_key(|(most, _, number)| (*most, std::cmp::Reverse(*number)))
        .map(|(_, heard, number)| (heard, number))?;
    let summary = heard.summary;
    let row = summary.commands.get(at_row)?;
    let most = row.most_in_one_request;
    let severity = grade(f64::from(most), COMMANDS)?;
    let mut evidence = vec![in_table(
        summary,
        "commands",
        at_row,
        format!(
            "{} ran {} times, up to {} times within one request, {} each on average, {} in all",
            quoted(&row.text),
            number(row.count as f64),
            number(f64::from(most)),
            time(row.mean),
            time(row.total)
        ),
        Some(Value::Count(f64::from(most))),
    )];
    let request =
        summary.requests.iter().enumerate().filter(|(_, row)| row.children_most >= most / 2).max_by(
            |a, b| {
                (a.1.children_mean, a.1.total)
                    .partial_cmp(&(b.1.children_mean, b.1.total))
                    .unwrap_or(std::cmp::Ordering::Equal)
            },
        );
    let mut of = String::new();
    let mut share = 0.3;
    if let Some((number_of_row, request)) = request {
        of = format!(" of {}", name(request));
        share = (row.total.as_secs_f64() / request.total.as_secs_f64().max(1e-9)).clamp(0.1, 1.0);
        evidence.push(in_table(
            summary,
            "requests",
            number_of_row,
            format!(
                "{} takes {} and runs {} commands and requests at most",
                name(request),
                if request.count > 0 {
                    format!("{} on average", time(request.mean))
                } else {
                    "longer than the recording".to_owned()
                },
                number(f64::from(request.children_most))
            ),
            Some(Value::Time(request.mean)),
        ));
    }
    Some(Finding {
        id: FindingId::NPlusOne,
        severity,
        impact: share,
        title: format!(
            "One request{of} runs the same command up to {} times (N + 1): {}{}",
            number(f64::from(most)),
            quoted(&row.text),
            of_process(scene, summary)
        ),
        explanation: "The commands are equal but for their values: most likely a list is read with one command, and then each of its \
                      rows with one more. Each is fast, together they are the time of the request, and the data base does the work of \
                      many."
            .to_owned(),
        evidence,
        next_steps: steps(&[
            "Read the rows with one command (a join, `WHERE Id IN (...)`, `Include` of Entity Framework), or several at a time",
            "Look for a loop around an `await` of a query, and for lazy loading",
        ]),
    })
}
