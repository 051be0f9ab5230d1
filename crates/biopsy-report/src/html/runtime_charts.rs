//! Lanes and charts of what managed runtimes said: pauses, exceptions, waits for locks, a starving pool, slow requests;
//! heap, pool threads, rates.

use super::charts::{Chart, Charts, Line};
use super::numbers::{cut, round};
use super::readings::POINTS;
use crate::assemble::{Assembly, short};
use crate::units::{bytes, counted, duration, to_f64};
use biopsy_analyze::runtimes::collection_reason;
use biopsy_model::metric::Unit;
use biopsy_model::order::Order as _;
use biopsy_model::runtime_trace::{Request, RuntimeTrace, ThreadPoolChange};
use biopsy_model::{MonoNanos, Nanos};
use serde::Serialize;

/// Events of one lane; more cannot be told apart on a screen.
const EVENTS: usize = 400;
/// Bytes of an event's label.
const LABEL: usize = 240;
/// Processes that get lanes and charts.
const PROCESSES: usize = 4;
/// Faster requests are not marked.
const SLOW: Nanos = Nanos(100_000_000);

/// A lane of events above the charts.
#[derive(Serialize)]
pub(super) struct Lane {
    title: String,
    /// How many there were; `events` are the longest or first.
    total: u64,
    events: Vec<Event>,
}

#[derive(Serialize)]
struct Event {
    /// Milliseconds since the start of the window.
    from: f64,
    to: f64,
    label: String,
    kind: &'static str,
}

/// Lanes of all runtimes.
pub(super) fn lanes(assembly: &Assembly<'_>) -> Vec<Lane> {
    let many = assembly.capture.runtimes.len() > 1;
    let mut lanes = Vec::new();
    for trace in assembly.capture.runtimes.iter().take(PROCESSES) {
        let of = if many { format!(" ({})", trace.pid) } else { String::new() };
        let add = |title: &str, total: u64, events: Vec<Event>| Lane {
            title: format!("{title}{of}"),
            total,
            events,
        };
        lanes.push(add("GC pauses", trace.collections.total, pauses(assembly, trace)));
        lanes.push(add("Pool starves", 0, starvation(assembly, trace)));
        lanes.push(add("Lock waits", trace.contentions.total, contention(assembly, trace)));
        lanes.push(add("Exceptions", trace.exceptions.total, exceptions(assembly, trace)));
        lanes.push(add("Slow requests", 0, requests(assembly, trace, &trace.requests.items)));
        lanes.push(add("Slow outgoing", 0, requests(assembly, trace, &trace.outgoing.items)));
        lanes.push(add("App errors", 0, messages(assembly, trace)));
    }
    lanes.retain(|lane| !lane.events.is_empty());
    for lane in &mut lanes {
        lane.total = lane.total.max(lane.events.len() as u64);
    }
    lanes
}

fn event(
    assembly: &Assembly<'_>,
    from: MonoNanos,
    length: Nanos,
    label: String,
    kind: &'static str,
) -> Event {
    let ms = |time: MonoNanos| round_ms(assembly.at(time) * 1e3);
    Event { from: ms(from), to: ms(from + length), label: cut(&label, LABEL).to_owned(), kind }
}

/// Microseconds are what can be seen at the closest zoom.
fn round_ms(ms: f64) -> f64 {
    (ms * 1e3).round() / 1e3
}

/// The longest of what may be many.
fn longest<T>(items: &[T], length: impl Fn(&T) -> Nanos) -> Vec<&T> {
    let mut chosen: Vec<&T> = items.iter().collect();
    chosen.order_by_key(|item| std::cmp::Reverse(length(item)));
    chosen.truncate(EVENTS);
    chosen
}

fn pauses(assembly: &Assembly<'_>, trace: &RuntimeTrace) -> Vec<Event> {
    longest(&trace.collections.items, |item| item.pause)
        .into_iter()
        .map(|item| {
            let background = if item.background { ", in the background" } else { "" };
            let label = format!(
                "GC {} of generation {}{background}: {} ({})",
                item.number,
                item.generation,
                duration(item.pause),
                collection_reason(&item.reason)
            );
            event(assembly, item.start, item.longest_pause, label, "gc")
        })
        .collect()
}

fn starvation(assembly: &Assembly<'_>, trace: &RuntimeTrace) -> Vec<Event> {
    let items = trace.thread_pool.items.iter().filter_map(|item| match &item.kind {
        ThreadPoolChange::Adjusted { reason, .. }
            if reason.eq_ignore_ascii_case("Starvation")
                || reason.eq_ignore_ascii_case("CooperativeBlocking") =>
        {
            let threads = item.threads.map_or(String::new(), |threads| format!(", {threads} threads"));
            Some(event(assembly, item.time, Nanos(0), format!("{}{threads}", short(reason)), "pool"))
        }
        _ => None,
    });
    items.take(EVENTS).collect()
}

fn contention(assembly: &Assembly<'_>, trace: &RuntimeTrace) -> Vec<Event> {
    longest(&trace.contentions.items, |item| item.duration)
        .into_iter()
        .map(|item| {
            let owner = item.owner.map_or(String::new(), |owner| format!(", held by {owner}"));
            let place = trace
                .stacks
                .get(item.stack.map_or(usize::MAX, |stack| stack.0 as usize))
                .and_then(|stack| trace.functions.get(*stack.first()? as usize))
                .map_or(String::new(), |function| format!(" in {}", short(&function.name)));
            let label = format!("thread {} waited {}{place}{owner}", item.tid, duration(item.duration));
            event(assembly, item.start, item.duration, label, "contention")
        })
        .collect()
}

fn exceptions(assembly: &Assembly<'_>, trace: &RuntimeTrace) -> Vec<Event> {
    let items = trace.exceptions.items.iter().take(EVENTS);
    items
        .map(|item| {
            let label = format!("{}: {}", short(&item.type_name), short(&item.message));
            event(assembly, item.time, Nanos(0), label, "exception")
        })
        .collect()
}

fn requests(assembly: &Assembly<'_>, trace: &RuntimeTrace, items: &[Request]) -> Vec<Event> {
    let end = trace.span.map_or(assembly.window.1, |(_, to)| to);
    let length = |item: &Request| item.duration.unwrap_or_else(|| end.since(item.start));
    longest(items, length)
        .into_iter()
        .filter(|item| length(item) >= SLOW)
        .map(|item| {
            let took = item.duration.map_or_else(|| "no answer".to_owned(), duration);
            let failed = item.status.is_some_and(|status| status >= 500 || status == 0);
            let status = item
                .status
                .filter(|status| *status != 0)
                .map_or(String::new(), |status| format!(", {status}"));
            let label = format!("{} {}: {took}{status}", short(&item.method), short(&item.path));
            event(
                assembly,
                item.start,
                length(item),
                label,
                if failed { "request failed" } else { "request" },
            )
        })
        .collect()
}

fn messages(assembly: &Assembly<'_>, trace: &RuntimeTrace) -> Vec<Event> {
    use biopsy_model::log::LogLevel;
    let items = trace.messages.items.iter().filter(|item| item.level >= LogLevel::Warning).take(EVENTS);
    items
        .map(|item| {
            let kind = if item.level == LogLevel::Error { "log error" } else { "log warning" };
            event(
                assembly,
                item.time,
                Nanos(0),
                format!("{}: {}", short(&item.category), short(&item.text)),
                kind,
            )
        })
        .collect()
}

/// Readings of one line: times and values.
type Points = Vec<(MonoNanos, f64)>;

/// Puts the charts of runtimes first.
pub(super) fn add(assembly: &Assembly<'_>, charts: &mut Charts) {
    let many = assembly.capture.runtimes.len() > 1;
    let mut made = Vec::new();
    for (number, trace) in assembly.capture.runtimes.iter().take(PROCESSES).enumerate() {
        let of = if many { format!(" ({})", trace.pid) } else { String::new() };
        for drawn in
            [latency(trace, assembly), rate(trace), heap(trace), pool(trace), exception_rate(trace, assembly)]
                .into_iter()
                .flatten()
        {
            let id = IDS.get(number).and_then(|ids| ids.get(drawn.which)).copied().unwrap_or("runtime");
            made.push(chart(assembly, charts, drawn, id, &of));
        }
    }
    for (at, chart) in made.into_iter().enumerate() {
        charts.charts.insert(at, chart);
    }
}

/// Names of charts in the page; one is enough to lead to it.
const IDS: [[&str; 5]; PROCESSES] = [
    ["runtime-latency", "runtime-requests", "runtime-heap", "runtime-pool", "runtime-exceptions"],
    ["runtime-1-latency", "runtime-1-requests", "runtime-1-heap", "runtime-1-pool", "runtime-1-exceptions"],
    ["runtime-2-latency", "runtime-2-requests", "runtime-2-heap", "runtime-2-pool", "runtime-2-exceptions"],
    ["runtime-3-latency", "runtime-3-requests", "runtime-3-heap", "runtime-3-pool", "runtime-3-exceptions"],
];

struct Drawn {
    /// Column of [`IDS`].
    which: usize,
    title: &'static str,
    about: String,
    unit: Unit,
    stacked: bool,
    lines: Vec<(&'static str, &'static str, Points)>,
    /// Where in the JSON the numbers are.
    source: &'static str,
}

fn chart(assembly: &Assembly<'_>, charts: &mut Charts, drawn: Drawn, id: &'static str, of: &str) -> Chart {
    let mut merged = 1;
    let mut lines = Vec::new();
    for (label, role, points) in drawn.lines {
        let group = points.len().div_ceil(POINTS).max(1);
        merged = merged.max(group);
        let parts = points.chunks(group);
        let times: Vec<f64> = parts
            .clone()
            .filter_map(|part| part.last())
            .map(|(time, _)| (assembly.at(*time) * 1e3).round())
            .collect();
        let values = parts.map(|part| {
            let sum: f64 = part.iter().map(|(_, value)| value).sum();
            Some(round(sum / to_f64(part.len() as u64))).filter(|value| value.is_finite())
        });
        let values = values.collect();
        let grid = charts.grids.iter().position(|grid| *grid == times).unwrap_or_else(|| {
            charts.grids.push(times);
            charts.grids.len() - 1
        });
        lines.push(Line {
            label: label.to_owned(),
            grid,
            values,
            role,
            source: ("runtimes".to_owned(), vec![drawn.source.to_owned()], String::new()),
        });
    }
    Chart {
        id,
        title: format!("{}{of}", drawn.title),
        unit: crate::words::unit(drawn.unit),
        about: drawn.about,
        stacked: drawn.stacked,
        ceiling: None,
        lines,
        merged,
    }
}

/// Heap after each collection, by part.
fn heap(trace: &RuntimeTrace) -> Option<Drawn> {
    const PARTS: [(&str, &str); 5] = [
        ("generation 2", ""),
        ("large objects", ""),
        ("pinned objects", ""),
        ("generation 1", ""),
        ("generation 0", ""),
    ];
    const ORDER: [usize; 5] = [2, 3, 4, 1, 0];
    let mut sizes: Vec<(MonoNanos, [u64; 5])> = trace
        .collections
        .items
        .iter()
        .filter_map(|item| Some((item.end.unwrap_or(item.start), item.sizes_after?)))
        .collect();
    if sizes.len() < 2 {
        return None;
    }
    sizes.order_by_key(|(time, _)| *time);
    let last =
        sizes.last().map_or(0, |(_, parts)| parts.iter().fold(0u64, |sum, part| sum.saturating_add(*part)));
    let lines: Vec<(&str, &str, Points)> = PARTS
        .into_iter()
        .zip(ORDER)
        .map(|((label, role), part)| {
            (label, role, sizes.iter().map(|(time, parts)| (*time, to_f64(parts[part]))).collect())
        })
        .filter(|(_, _, points): &(_, _, Points)| points.iter().any(|point| point.1 > 0.0))
        .collect();
    Some(Drawn {
        which: 2,
        title: "Managed heap",
        about: format!("bytes after each collection; {} at the end", bytes(to_f64(last))),
        unit: Unit::Bytes,
        stacked: true,
        lines,
        source: "collections",
    })
}

/// The slowest request that ended in each stretch of time.
fn latency(trace: &RuntimeTrace, assembly: &Assembly<'_>) -> Option<Drawn> {
    let line = |items: &[Request]| -> Points {
        let Some(buckets) = Buckets::new(assembly) else { return Vec::new() };
        let mut most: Vec<Option<f64>> = vec![None; buckets.count];
        for item in items {
            let Some(length) = item.duration else { continue };
            if let Some(slot) = buckets.of(item.start + length).and_then(|at| most.get_mut(at)) {
                *slot = Some(slot.unwrap_or(0.0).max(length.as_secs_f64() * 1e3));
            }
        }
        let points = most.into_iter().enumerate();
        points.filter_map(|(at, value)| Some((buckets.middle(at), value?))).collect()
    };
    let lines =
        [("served", "user", line(&trace.requests.items)), ("sent", "iowait", line(&trace.outgoing.items))];
    let lines: Vec<_> = lines.into_iter().filter(|(_, _, points)| !points.is_empty()).collect();
    let all = trace.requests.total.max(trace.requests.items.len() as u64);
    (!lines.is_empty()).then(|| Drawn {
        which: 0,
        title: "Slowest request",
        about: format!(
            "the slowest request that ended at each moment, of {} served",
            counted(all, "request", "requests")
        ),
        unit: Unit::Milliseconds,
        stacked: false,
        lines,
        source: "slowest",
    })
}

fn rate(trace: &RuntimeTrace) -> Option<Drawn> {
    let line = |provider, name| points(trace, provider, name);
    let lines = [
        ("a second", "user", line("Microsoft.AspNetCore.Hosting", "requests-per-second")),
        ("under way", "ready", line("Microsoft.AspNetCore.Hosting", "current-requests")),
    ];
    let lines: Vec<_> =
        lines.into_iter().filter(|(_, _, points)| points.iter().any(|point| point.1 > 0.0)).collect();
    (!lines.is_empty()).then(|| Drawn {
        which: 1,
        title: "Requests served",
        about: "as ASP.NET Core counts them".to_owned(),
        unit: Unit::Count,
        stacked: false,
        lines,
        source: "counters",
    })
}

fn pool(trace: &RuntimeTrace) -> Option<Drawn> {
    let mut threads = points(trace, "System.Runtime", "threadpool-thread-count");
    if threads.len() < 2 {
        let items = trace.thread_pool.items.iter();
        threads = items.filter_map(|item| Some((item.time, f64::from(item.threads?)))).collect();
        threads.order_by_key(|(time, _)| *time);
    }
    let lines = [
        ("threads", "user", threads),
        ("work waiting", "ready", points(trace, "System.Runtime", "threadpool-queue-length")),
    ];
    let lines: Vec<_> =
        lines.into_iter().filter(|(_, _, points)| points.iter().any(|point| point.1 > 0.0)).collect();
    (!lines.is_empty()).then(|| Drawn {
        which: 3,
        title: "Thread pool",
        about: "worker threads, and pieces of work that wait for one".to_owned(),
        unit: Unit::Count,
        stacked: false,
        lines,
        source: "thread_pool",
    })
}

fn exception_rate(trace: &RuntimeTrace, assembly: &Assembly<'_>) -> Option<Drawn> {
    let mut line = points(trace, "System.Runtime", "exception-count");
    let complete = trace.exceptions.items.len() as u64 == trace.exceptions.total;
    if line.is_empty() && complete && trace.exceptions.total > 0 {
        let buckets = Buckets::new(assembly)?;
        let mut counts = vec![0.0; buckets.count];
        for slot in trace.exceptions.items.iter().filter_map(|item| buckets.of(item.time)) {
            if let Some(count) = counts.get_mut(slot) {
                *count += 1.0;
            }
        }
        let seconds = Nanos(buckets.bucket).as_secs_f64();
        line =
            counts.into_iter().enumerate().map(|(at, count)| (buckets.middle(at), count / seconds)).collect();
    }
    line.iter().any(|point| point.1 > 0.0).then(|| Drawn {
        which: 4,
        title: "Exceptions",
        about: "thrown a second, caught ones too".to_owned(),
        unit: Unit::PerSecond,
        stacked: false,
        lines: vec![("", "limit-plain", line)],
        source: "exceptions",
    })
}

/// Readings of one counter, all its tags together taken from the first that is there.
fn points(trace: &RuntimeTrace, provider: &str, counter: &str) -> Points {
    let mut points = Points::new();
    for table in &trace.counters {
        let key = |name: &str| table.keys.iter().position(|key| key == name);
        let (Some(of), Some(which)) = (key("provider"), key("counter")) else { continue };
        let mut first: Option<&[String]> = None;
        for row in &table.rows {
            let is = |at: usize, wanted: &str| row.keys.get(at).is_some_and(|key| key == wanted);
            if !is(of, provider) || !is(which, counter) || first.is_some_and(|first| *first != row.keys[..]) {
                continue;
            }
            first = Some(&row.keys);
            if let Some(value) = row.values.iter().flatten().find(|value| value.is_finite()) {
                points.push((row.time, *value));
            }
        }
    }
    points.order_by_key(|(time, _)| *time);
    points
}

/// Equal stretches of the window.
struct Buckets {
    from: MonoNanos,
    bucket: u64,
    count: usize,
}

impl Buckets {
    fn new(assembly: &Assembly<'_>) -> Option<Buckets> {
        let (from, to) = assembly.window;
        let length = to.since(from).0;
        let bucket = (length / 120).max(100_000_000);
        (length > 0).then(|| Buckets {
            from,
            bucket,
            count: usize::try_from(length.div_ceil(bucket)).unwrap_or(1).min(POINTS),
        })
    }

    fn of(&self, time: MonoNanos) -> Option<usize> {
        usize::try_from(time.0.checked_sub(self.from.0)? / self.bucket).ok().filter(|at| *at < self.count)
    }

    fn middle(&self, at: usize) -> MonoNanos {
        self.from + Nanos(self.bucket.saturating_mul(at as u64).saturating_add(self.bucket / 2))
    }
}
