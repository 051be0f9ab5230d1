//! Requests are accepted and never answered.

use crate::findings::dotnet::{Heard, heard, in_table, of_process, quoted};
use crate::findings::evidence::{at, fact, steps};
use crate::findings::finding::{Finding, FindingId, Reference, Severity, Value};
use crate::findings::requests::open_time;
use crate::findings::scene::Scene;
use crate::runtimes::find_counter;
use crate::words::{number, seconds};
use biopsy_model::runtime_trace::{Request, Sampled};

/// A request that is open this long, and five times as long as its like usually takes, is called unanswered.
const OPEN: f64 = 3.0;
/// How many times as long as its like.
const TIMES_USUAL: f64 = 5.0;
/// One or two open requests may be web sockets or long polls.
const SEVERAL: f64 = 3.0;

pub(crate) fn find(scene: &Scene<'_>) -> Option<Finding> {
    heard(scene).filter_map(|heard| unanswered_of(scene, &heard)).max_by(|a, b| {
        (a.severity, a.impact).partial_cmp(&(b.severity, b.impact)).unwrap_or(std::cmp::Ordering::Equal)
    })
}

fn unanswered_of(scene: &Scene<'_>, heard: &Heard<'_>) -> Option<Finding> {
    let summary = heard.summary;
    let end = summary.span?.1;
    let of = |item: &Request| {
        let route = item.route.as_deref().unwrap_or(&item.path);
        summary.requests.iter().position(|row| row.method == item.method && row.route == route)
    };
    let stuck: Vec<(&Request, f64, Option<usize>)> = heard
        .trace
        .requests
        .items
        .iter()
        .filter(|item| item.duration.is_none())
        .map(|item| (item, end.since(item.start).as_secs_f64(), of(item)))
        .filter(|(_, age, row)| {
            let usual =
                row.and_then(|row| summary.requests.get(row)).map_or(0.0, |row| row.p99.as_secs_f64());
            *age >= OPEN && *age >= TIMES_USUAL * usual
        })
        .collect();
    let held = held(heard);
    let most = (stuck.len() as f64).max(held.map_or(0.0, |(least, _)| least));
    if most < 1.0 {
        return None;
    }
    let mut evidence = Vec::new();
    let oldest = stuck.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let mut route = String::new();
    if let Some((item, age, row)) = oldest {
        let text =
            quoted(format!("{} {}", item.method, item.route.as_deref().unwrap_or(&item.path)).trim_start());
        route = format!(" to {text}");
        let text = format!(
            "{} open requests are older than {}, the oldest{route} {}",
            stuck.len(),
            seconds(OPEN),
            seconds(*age)
        );
        let value = Some(Value::Count(stuck.len() as f64));
        evidence.push(match row {
            Some(row) => in_table(summary, "requests", *row, text, value),
            None => at(Reference::Time { from: item.start, to: end }, text, value),
        });
    }
    if let Some((least, ended)) = held {
        evidence.push(fact(
            format!(
                "{} requests whose start was not recorded were being served all the time, while {} others were",
                number(least),
                number(ended)
            ),
            Some(Value::Count(least)),
        ));
    }
    let blocked = scene.facts.managed.iter().any(|row| row.time.as_secs_f64() >= scene.seconds * 0.5);
    if scene.capture.timeline.is_some() && !blocked {
        evidence.push(fact("no thread was seen waiting for a lock or a task meanwhile", None));
    }
    // One open request may be a web socket or a long poll.
    let mostly = stuck
        .iter()
        .filter_map(|(_, _, row)| summary.requests.get((*row)?))
        .any(|row| row.unanswered >= row.count.max(1));
    let severity =
        if most >= SEVERAL && (mostly || stuck.is_empty()) { Severity::Warning } else { Severity::Notice };
    Some(Finding {
        id: FindingId::RequestsUnanswered,
        severity,
        impact: 0.5,
        title: format!(
            "{}{route} {} not answered{}",
            if most < 1.5 { "One request".to_owned() } else { format!("{} requests", number(most)) },
            if most < 1.5 { "is" } else { "are" },
            of_process(scene, summary)
        ),
        explanation: if blocked {
            "They were accepted and had no answer at the end. Threads that block, in other findings, may be why."
        } else {
            "They were accepted and had no answer at the end, and no thread works on them or waits for them: most likely \
             asynchronous code awaits something that does not come (a full channel, a semaphore that is not released, a task that \
             nobody completes). Web sockets and long polling look the same and are fine."
        }
        .to_owned(),
        evidence,
        next_steps: steps(&[
            &format!("`biopsy stacks {}` shows the asynchronous operations under way and what each awaits", summary.pid),
            "Give requests a timeout, so that such a thing shows as an error",
        ]),
    })
}

/// Requests that were there at every reading and began before the recording: their number, and how many others there were.
fn held(heard: &Heard<'_>) -> Option<(f64, f64)> {
    let current = find_counter(heard.trace, "Microsoft.AspNetCore.Hosting", "current-requests")?;
    let total = find_counter(heard.trace, "Microsoft.AspNetCore.Hosting", "total-requests")?;
    if current.points.len() < 3 || total.points.len() < 2 {
        return None;
    }
    let least = current.points.iter().map(|point| point.1).fold(f64::INFINITY, f64::min);
    let began = total.points.last()?.1 - total.points.first()?.1;
    // `total-requests` counts those that began.
    if least >= 1.0 && began < 1.0 {
        return Some((least, began.max(0.0)));
    }
    // Others are answered meanwhile: so many would be there at a time if those were all. A gap of some milliseconds, where a
    // session was replaced, hides few.
    let is_long = |one: &Sampled| one.to.0.saturating_sub(one.from.0) > 1_000_000_000;
    if heard.trace.sampled.iter().any(is_long) {
        return None;
    }
    let summary = heard.summary;
    let served: f64 = summary.requests.iter().map(|row| row.total.as_secs_f64()).sum::<f64>()
        + open_time(&heard.trace.requests.items, summary.span?.1);
    let explained = served / summary.seconds.max(1e-9);
    (least >= 2.0 && least >= 2.0 * explained + 1.0).then(|| ((least - explained).floor(), began.max(0.0)))
}
