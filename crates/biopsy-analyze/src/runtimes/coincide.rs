//! What happened while requests were slow. Happening at the same time is no proof; a share far above the usual one is a hint.

use super::pool::starves;
use biopsy_model::order::Order as _;
use biopsy_model::runtime_trace::{Request, RuntimeTrace};
use biopsy_model::{MonoNanos, Nanos};

/// What may keep a request from being answered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Meanwhile {
    /// All threads stood still for a collection.
    Collection,
    /// The pool said that threads are missing.
    Starvation,
    /// Some thread waited for a monitor or lock.
    Contention,
    /// Some request that was sent was not answered yet.
    Outgoing,
    /// Some command to a data base had not ended.
    Command,
}

impl Meanwhile {
    /// A phrase that completes "while ...".
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Meanwhile::Collection => "all threads stood still for garbage collection",
            Meanwhile::Starvation => "the thread pool had too few threads",
            Meanwhile::Contention => "threads waited for locks",
            Meanwhile::Outgoing => "an outgoing request was not answered",
            Meanwhile::Command => "a command to a data base was running",
        }
    }
}

/// Slow requests, and one thing that went on at the same time.
#[derive(Clone, PartialEq, Debug)]
pub struct Coincidence {
    /// What.
    pub what: Meanwhile,
    /// Slow requests looked at: the slowest that were kept, 100 ms and more.
    pub requests: u64,
    /// Of these, those that it went on during, for a tenth of their time and more.
    pub hit: u64,
    /// Share of the time of all of them that it went on, 0 to 1.
    pub share: f64,
    /// Share of the whole recording that it went on, 0 to 1: what chance would give.
    pub usual: f64,
}

/// Faster requests than this are slow to nobody.
const SLOW: Nanos = Nanos(100_000_000);
/// Slow requests looked at.
const LOOKED_AT: usize = 2_000;
/// A starving pool says so about twice a second.
const STARVED_AROUND: Nanos = Nanos(500_000_000);

type Stretch = (MonoNanos, MonoNanos);

pub(super) fn find(trace: &RuntimeTrace, span: Stretch) -> Vec<Coincidence> {
    if span.0 >= span.1 {
        return Vec::new();
    }
    let end = |request: &Request| request.duration.map_or(span.1, |time| request.start + time);
    let mut slow: Vec<&Request> =
        trace.requests.items.iter().filter(|request| end(request).since(request.start) >= SLOW).collect();
    slow.order_by_key(|request| std::cmp::Reverse(end(request).since(request.start)));
    slow.truncate(LOOKED_AT);
    if slow.is_empty() {
        return Vec::new();
    }
    let outgoing = |request: &Request| (request.start, end(request));
    let sources: [(Meanwhile, Vec<Stretch>); 5] = [
        (
            Meanwhile::Collection,
            trace
                .collections
                .items
                .iter()
                .map(|item| (item.start, item.start + item.longest_pause))
                .collect(),
        ),
        (
            Meanwhile::Starvation,
            trace
                .thread_pool
                .items
                .iter()
                .filter(|item| starves(&item.kind))
                .map(|item| (item.time - STARVED_AROUND, item.time + STARVED_AROUND))
                .collect(),
        ),
        (
            Meanwhile::Contention,
            trace.contentions.items.iter().map(|item| (item.start, item.start + item.duration)).collect(),
        ),
        (Meanwhile::Outgoing, trace.outgoing.items.iter().map(outgoing).collect()),
        (
            Meanwhile::Command,
            trace
                .commands
                .items
                .iter()
                .map(|item| (item.start, item.duration.map_or(span.1, |time| item.start + time)))
                .collect(),
        ),
    ];
    let whole = span.1.since(span.0).as_secs_f64();
    let mut found = Vec::new();
    for (what, stretches) in sources {
        let stretches = union(stretches);
        if stretches.is_empty() {
            continue;
        }
        let (mut time, mut during, mut hit) = (0.0, 0.0, 0u64);
        for request in &slow {
            let (from, to) = (request.start, end(request));
            let all = to.since(from).as_secs_f64();
            let both = overlap(&stretches, from, to);
            time += all;
            during += both;
            // A nanosecond less, for sums of seconds are rounded.
            hit += u64::from(both >= all * 0.1 - 1e-9);
        }
        found.push(Coincidence {
            what,
            requests: slow.len() as u64,
            hit,
            share: (during / time.max(1e-9)).clamp(0.0, 1.0),
            usual: (overlap(&stretches, span.0, span.1) / whole).clamp(0.0, 1.0),
        });
    }
    found.order_by(|a, b| b.share.total_cmp(&a.share).then(a.what.cmp(&b.what)));
    found
}

/// In order, overlaps merged.
fn union(mut stretches: Vec<Stretch>) -> Vec<Stretch> {
    stretches.retain(|(from, to)| from < to);
    stretches.sort_unstable();
    let mut out: Vec<Stretch> = Vec::with_capacity(stretches.len());
    for (from, to) in stretches {
        match out.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => out.push((from, to)),
        }
    }
    out
}

/// Seconds of `from..to` that lie in stretches.
fn overlap(stretches: &[Stretch], from: MonoNanos, to: MonoNanos) -> f64 {
    let first = stretches.partition_point(|stretch| stretch.1 <= from);
    stretches
        .get(first..)
        .unwrap_or(&[])
        .iter()
        .take_while(|stretch| stretch.0 < to)
        .map(|stretch| stretch.1.min(to).since(stretch.0.max(from)).as_secs_f64())
        .sum()
}
