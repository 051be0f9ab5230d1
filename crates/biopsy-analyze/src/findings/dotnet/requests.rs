//! Requests: too many commands, slow dependencies, no answer, failures, slowness.

use super::{Heard, heard, in_table, of_process, quoted, time};
use crate::finding::{Evidence, Finding, FindingId, Reference, Severity, Value};
use crate::findings::grade;
use crate::findings::scene::{Scene, at, fact, steps};
use crate::findings::words::{number, percent, seconds};
use crate::runtimes::{Coincidence, Meanwhile, RequestRow, find_counter};
use biopsy_model::MonoNanos;
use biopsy_model::runtime_trace::{Request, Sampled};
use rustc_hash::FxHashMap;

/// Commands of one text in one request: a page of a list is usually 10 to 50 rows long, and nobody asks for each on purpose.
const COMMANDS: [f64; 2] = [100.0, 15.0];

/// `GET /api/releases`, in backticks.
fn name(row: &RequestRow) -> String {
    quoted(format!("{} {}", row.method, row.route).trim_start())
}

/// One request runs the same command again and again.
pub(super) fn many_commands(scene: &Scene<'_>) -> Option<Finding> {
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
    let severity = grade(f64::from(most), COMMANDS[0], COMMANDS[1], f64::INFINITY)?;
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

/// Time of requests that had not been answered at the end, of one kind of list.
fn open_time(items: &[Request], end: MonoNanos) -> f64 {
    items.iter().filter(|item| item.duration.is_none()).map(|item| end.since(item.start).as_secs_f64()).sum()
}

/// Faster dependencies than this are not called slow.
const SLOW_DEPENDENCY: f64 = 0.2;
/// Nor are single calls, however long, and not what is asked once in a while.
const FEWEST: f64 = 4.0;
const AT_A_TIME: f64 = 0.5;

/// What is served waits for what is asked.
pub(super) fn slow_dependency(scene: &Scene<'_>) -> Option<Finding> {
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
        || of_server < all_out * 0.5
        || (served > 0.0 && share < 0.5)
    {
        return None;
    }
    // What nobody here waits for may be slow on purpose: long polling, a stream.
    let severity = if served > 0.0 { grade(each, 1.0, SLOW_DEPENDENCY, 0.0)? } else { Severity::Notice };
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
            format!("meanwhile {} of {} CPUs are used", crate::findings::words::cores(used), scene.cpus),
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

/// A request that is open this long, and five times as long as its like usually takes, is called unanswered.
const OPEN: f64 = 3.0;

/// Requests are accepted and never answered.
pub(super) fn unanswered(scene: &Scene<'_>) -> Option<Finding> {
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
            *age >= OPEN && *age >= 5.0 * usual
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
                "{} requests that nobody saw begin were being served all the time, while {} others were",
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
        if most >= 3.0 && (mostly || stuck.is_empty()) { Severity::Warning } else { Severity::Notice };
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

/// Share of failed requests, and the fewest of them, from which on somebody should look.
const FAILED: [f64; 3] = [0.5, 0.05, 0.01];
const FAILED_LEAST: u64 = 5;

/// Requests fail.
pub(super) fn failed(scene: &Scene<'_>) -> Option<Finding> {
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
    let severity = grade(share, FAILED[0], FAILED[1], FAILED[2])?;
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
                super::code(&exception.type_name),
                super::in_place(&exception.place),
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

/// A route of which half the requests take longer than this is slow to everybody.
const SLOW_HALF: f64 = 1.0;

/// A route is slow, and what went on meanwhile.
pub(super) fn slow(scene: &Scene<'_>) -> Option<Finding> {
    let (heard, at_row) = heard(scene)
        .filter_map(|heard| {
            let rows = heard.summary.requests.iter().enumerate();
            let slow = rows.filter(|(_, row)| row.count >= 3 && row.p50.as_secs_f64() >= SLOW_HALF);
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
fn meanwhile(summary: &crate::RuntimeSummary, rows: &[Coincidence]) -> Vec<Evidence> {
    rows.iter()
        .filter(|row| row.share >= 0.1)
        .take(3)
        .map(|row| {
            let usual = match row.what {
                Meanwhile::Outgoing | Meanwhile::Command => String::new(),
                Meanwhile::Collection | Meanwhile::Starvation | Meanwhile::Contention => {
                    format!(" (of the whole recording: {})", percent(row.usual))
                }
            };
            at(
                super::table(summary, "coincidences", None),
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

#[cfg(test)]
mod tests {
    use super::*;
    use biopsy_model::Nanos;

    #[test]
    fn open_requests_count_until_the_end() {
        let request = |start: u64, duration: Option<u64>| Request {
            start: MonoNanos(start * 1_000_000_000),
            duration: duration.map(|s| Nanos(s * 1_000_000_000)),
            method: "GET".to_owned(),
            path: "/".to_owned(),
            route: None,
            status: None,
            children: 0,
            trace_id: None,
        };
        let items = [request(1, None), request(2, Some(1)), request(4, None)];
        assert!((open_time(&items, MonoNanos(5_000_000_000)) - 5.0).abs() < 1e-9);
    }
}
