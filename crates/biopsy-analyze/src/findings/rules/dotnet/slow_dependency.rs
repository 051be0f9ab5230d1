//! What is served waits for what is asked.

use crate::findings::dotnet::{Heard, heard, in_table, of_process, time};
use crate::findings::evidence::{fact, grade, steps};
use crate::findings::finding::{Finding, FindingId, Severity, Value};
use crate::findings::requests::{name, open_time};
use crate::findings::scene::Scene;
use crate::runtimes::RequestRow;
use crate::words::{cores, cpus, number, percent, seconds};
use rustc_hash::FxHashMap;

/// Faster dependencies than this are not called slow.
const SLOW_DEPENDENCY: f64 = 0.2;
/// A second is what people wait for a page.
const VERY_SLOW: f64 = 1.0;
/// Share of the time of all that is asked that goes to this server, and of what is served that goes to asking.
const SHARE: f64 = 0.5;
/// Nor are single calls, however long, and not what is asked once in a while.
const FEWEST: f64 = 4.0;
const AT_A_TIME: f64 = 0.5;

pub(crate) fn find(scene: &Scene<'_>) -> Option<Finding> {
    heard(scene)
        .filter_map(|heard| slow_dependency_of(scene, &heard))
        .max_by(|a, b| a.impact.total_cmp(&b.impact))
}

/// Host and port that a request was sent to.
fn server(row: &RequestRow) -> &str {
    row.route.split('/').next().unwrap_or_default()
}

fn slow_dependency_of(scene: &Scene<'_>, heard: &Heard<'_>) -> Option<Finding> {
    let summary = heard.summary;
    let end = summary.span?.1;
    let open_out = open_time(&heard.trace.outgoing.items, end);
    let open_in = open_time(&heard.trace.requests.items, end);
    let spent = |row: &RequestRow| row.total.as_secs_f64() + row.unanswered as f64;
    // By server first, then by what is asked of it.
    let mut servers: FxHashMap<&str, f64> = FxHashMap::default();
    for row in &summary.outgoing {
        *servers.entry(server(row)).or_default() += spent(row);
    }
    let (slowest, of_server) =
        servers.into_iter().max_by(|a, b| a.1.total_cmp(&b.1).then_with(|| b.0.cmp(a.0)))?;
    let all_out: f64 = summary.outgoing.iter().map(spent).sum();
    let (at_row, row) = summary
        .outgoing
        .iter()
        .enumerate()
        .filter(|(_, row)| server(row) == slowest)
        .max_by(|a, b| spent(a.1).total_cmp(&spent(b.1)).then(b.0.cmp(&a.0)))?;
    let total = row.total.as_secs_f64() + if row.unanswered > 0 { open_out } else { 0.0 };
    let calls = row.count.saturating_add(row.unanswered).max(1) as f64;
    // Those under way have not taken their whole time yet.
    let each = (total / calls).max(row.mean.as_secs_f64());
    let served: f64 = summary.requests.iter().map(|row| row.total.as_secs_f64()).sum::<f64>() + open_in;
    let outgoing: f64 = summary.outgoing.iter().map(|row| row.total.as_secs_f64()).sum::<f64>() + open_out;
    let share = (outgoing / served.max(1e-9)).min(1.0);
    let at_a_time = total / summary.seconds;
    if calls < FEWEST
        || each < SLOW_DEPENDENCY
        || at_a_time < AT_A_TIME
        || of_server < all_out * SHARE
        || (served > 0.0 && share < SHARE)
    {
        return None;
    }
    // What nobody here waits for may be slow on purpose: long polling, a stream.
    let severity =
        if served > 0.0 { grade(each, [VERY_SLOW, SLOW_DEPENDENCY, 0.0])? } else { Severity::Notice };
    let mut evidence = vec![in_table(
        summary,
        "outgoing",
        at_row,
        format!(
            "{} was asked {} times, {} each{}, {} without an answer yet",
            name(row),
            number(calls),
            seconds(each),
            if row.count > 0 { format!(", 95 of 100 below {}", time(row.p95)) } else { String::new() },
            number(row.unanswered as f64)
        ),
        Some(Value::Count(each)),
    )];
    let mut waiting = String::new();
    if served > 0.0 {
        let callers =
            summary.requests.iter().enumerate().filter(|(_, row)| row.total.0 > 0 || row.unanswered > 0);
        if let Some((number_of_row, caller)) = callers.max_by_key(|(_, row)| (row.total, row.unanswered)) {
            waiting = format!(", and requests such as {} wait for it", name(caller));
            let mean =
                if caller.count > 0 { time(caller.mean) } else { "longer than the recording".to_owned() };
            evidence.push(in_table(
                summary,
                "requests",
                number_of_row,
                format!("{} takes {mean} on average", name(caller)),
                Some(Value::Time(caller.mean)),
            ));
        }
        evidence.push(fact(
            format!("waiting for answers of others is {} of the time of all requests served", percent(share)),
            Some(Value::Share(share)),
        ));
    }
    if let Some(used) = scene.cores {
        evidence.push(fact(
            format!("meanwhile {} of {} are used", cores(used), cpus(scene.cpus)),
            Some(Value::Cores(used)),
        ));
    }
    Some(Finding {
        id: FindingId::SlowDependency,
        severity,
        impact: share,
        title: format!("Slow dependency: {} takes {}{waiting}{}", name(row), seconds(each), of_process(scene, summary)),
        explanation: "The time goes to another server, or to the network towards it: this process only waits, without holding \
                      threads. Neither its CPU nor its thread pool is what is short."
            .to_owned(),
        evidence,
        next_steps: steps(&[
            "Look at that server, or record it at the same moments",
            "Ask for less, for several things at a time, or keep answers; set a timeout that fits",
        ]),
    })
}
