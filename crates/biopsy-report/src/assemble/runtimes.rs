//! What managed runtimes said of themselves.

use super::assembly::{Assembly, finite};
use crate::schema::runtimes::{
    Allocation, Coincidence, Collection, Collections, Command, Compiled, Counter, Generation, MessageGroup,
    MessageLine, Provider, RequestGroup, Runtime, RuntimeContention, RuntimeException, Sampled, SlowRequest,
    ThreadPool,
};
use crate::words;
use biopsy_analyze::runtimes::collection_reason;
use biopsy_analyze::{Meanwhile, RequestRow, RuntimeSummary};
use biopsy_model::order::Order as _;
use biopsy_model::runtime_trace::{RuntimeStack, RuntimeTrace};

/// Single collections, requests and messages of one runtime in a report.
const ITEMS: usize = 200;
/// Frames of a stack in a report, and characters of one: what a person reads.
const FRAMES: usize = 30;
const FRAME: usize = 160;
/// Rows of a table whose stacks are written out.
const STACKS: usize = 40;
/// Characters of one name, path or message.
const TEXT: usize = 400;

impl Assembly<'_> {
    pub(super) fn runtimes(&self) -> Vec<Runtime> {
        let runtimes = self.analysis.runtimes.iter();
        runtimes
            .filter_map(|summary| Some(self.runtime(summary, self.capture.runtimes.get(summary.trace)?)))
            .collect()
    }

    fn runtime(&self, summary: &RuntimeSummary, trace: &RuntimeTrace) -> Runtime {
        Runtime {
            pid: summary.pid.0,
            label: summary.label.clone(),
            entry: trace.runtime.entry.as_deref().map(short),
            source: short(&trace.source),
            from: summary.span.map(|(from, _)| self.at(from)),
            to: summary.span.map(|(_, to)| self.at(to)),
            events_total: summary.events_total,
            providers: summary
                .providers
                .iter()
                .map(|row| Provider {
                    provider: row.provider.clone(),
                    count: row.count,
                    events: row.events.clone(),
                })
                .collect(),
            collections: self.collections(summary, trace),
            exceptions_total: summary.exceptions_total,
            exceptions: summary
                .exceptions
                .iter()
                .enumerate()
                .map(|(at, row)| RuntimeException {
                    type_name: row.type_name.clone(),
                    message: row.message.clone(),
                    function: row.place.function.clone(),
                    via: row.place.via.clone(),
                    count: row.count,
                    first: self.at(row.first),
                    last: self.at(row.last),
                    stack: stack(trace, row.stack.filter(|_| at < STACKS)),
                })
                .collect(),
            contentions_total: summary.contentions_total,
            contention: summary
                .contention
                .iter()
                .enumerate()
                .map(|(at, row)| RuntimeContention {
                    function: row.place.function.clone(),
                    count: row.count,
                    total_ns: row.total.0,
                    longest_ns: row.longest.0,
                    threads: row.threads,
                    locks: row.locks,
                    owner: row.owner.map(|(tid, _)| tid.0),
                    stack: stack(trace, row.stack.filter(|_| at < STACKS)),
                })
                .collect(),
            thread_pool: ThreadPool {
                total: summary.pool.total,
                reasons: summary.pool.reasons.clone(),
                starved: summary.pool.starved,
                blocked: summary.pool.blocked,
                threads: summary.pool.threads,
            },
            requests: summary.requests.iter().map(request_group).collect(),
            slowest: self.slowest(summary, trace),
            outgoing: summary.outgoing.iter().map(request_group).collect(),
            commands: summary
                .commands
                .iter()
                .map(|row| Command {
                    text: row.text.clone(),
                    source: row.source.clone(),
                    count: row.count,
                    failed: row.failed,
                    total_ns: row.total.0,
                    mean_ns: row.mean.0,
                    longest_ns: row.longest.0,
                    most_in_one_request: row.most_in_one_request,
                })
                .collect(),
            messages_total: summary.messages_total,
            messages: summary
                .messages
                .iter()
                .map(|row| MessageGroup {
                    category: row.category.clone(),
                    level: row.level.clone(),
                    count: row.count,
                })
                .collect(),
            message_lines: self.message_lines(trace),
            allocated_bytes: summary.allocated,
            allocation_sampling: Some(summary.allocation_sampling.as_str().to_owned())
                .filter(|word| !word.is_empty()),
            allocations: summary
                .allocations
                .iter()
                .enumerate()
                .map(|(at, row)| Allocation {
                    type_name: row.type_name.clone(),
                    function: row.place.function.clone(),
                    via: row.place.via.clone(),
                    bytes: row.bytes,
                    large_bytes: row.large,
                    samples: row.samples,
                    stack: stack(trace, row.stack.filter(|_| at < STACKS)),
                })
                .collect(),
            compiled: (trace.compiled.methods > 0).then(|| Compiled {
                methods: trace.compiled.methods,
                time_ns: trace.compiled.time.0,
                bytes: trace.compiled.bytes,
                tiers: trace
                    .compiled
                    .tiers
                    .iter()
                    .take(20)
                    .map(|(tier, count)| (short(tier), *count))
                    .collect(),
            }),
            loads_total: trace.loads.total,
            counters: summary.counters.iter().filter_map(counter).collect(),
            coincidences: summary
                .coincidences
                .iter()
                .map(|row| Coincidence {
                    what: meanwhile(row.what).to_owned(),
                    requests: row.requests,
                    hit: row.hit,
                    share: finite(row.share),
                    usual: finite(row.usual),
                })
                .collect(),
            sampled: trace
                .sampled
                .iter()
                .take(ITEMS)
                .map(|row| Sampled {
                    what: short(row.what.as_str()),
                    from: self.at(row.from),
                    to: self.at(row.to),
                    share: finite(row.share),
                    why: short(&row.why),
                })
                .collect(),
            lost: trace.lost,
            unknown: trace.unknown,
            cut: trace.cut,
        }
    }

    fn collections(&self, summary: &RuntimeSummary, trace: &RuntimeTrace) -> Collections {
        let all = &summary.collections;
        let mut longest: Vec<_> = trace.collections.items.iter().collect();
        longest.order_by_key(|item| (std::cmp::Reverse(item.pause), item.start));
        Collections {
            total: all.total,
            kept: all.kept,
            paused_ns: all.paused.0,
            pause_share: finite(all.pause_share),
            longest_ns: all.longest.map_or(0, |(longest, _)| longest.0),
            induced: all.induced,
            pinned: all.pinned,
            heap_first_bytes: all.heap.map(|[(_, first), _]| first),
            heap_last_bytes: all.heap.map(|[_, (_, last)]| last),
            generations: all
                .generations
                .iter()
                .map(|row| Generation {
                    generation: row.generation,
                    background: row.background,
                    count: row.count,
                    paused_ns: row.paused.0,
                    longest_ns: row.longest.0,
                    promoted_bytes: row.promoted,
                })
                .collect(),
            reasons: all.reasons.clone(),
            longest: longest
                .into_iter()
                .take(ITEMS)
                .map(|item| Collection {
                    number: item.number,
                    at: self.at(item.start),
                    generation: item.generation,
                    background: item.background,
                    reason: collection_reason(&item.reason),
                    pause_ns: item.pause.0,
                    heap_bytes: item
                        .sizes_after
                        .map(|sizes| sizes.iter().fold(0, |sum, part| part.saturating_add(sum))),
                    promoted_bytes: item.promoted,
                })
                .collect(),
        }
    }

    fn slowest(&self, summary: &RuntimeSummary, trace: &RuntimeTrace) -> Vec<SlowRequest> {
        let end = summary.span.map(|(_, to)| to).unwrap_or_default();
        let mut items: Vec<_> = trace.requests.items.iter().collect();
        items.order_by_key(|item| {
            (std::cmp::Reverse(item.duration.unwrap_or_else(|| end.since(item.start))), item.start)
        });
        let items = items.into_iter().take(ITEMS);
        items
            .map(|item| SlowRequest {
                at: self.at(item.start),
                duration_ns: item.duration.map(|time| time.0),
                method: short(&item.method),
                path: short(&item.path),
                status: item.status,
                children: item.children,
            })
            .collect()
    }

    fn message_lines(&self, trace: &RuntimeTrace) -> Vec<MessageLine> {
        // Gravest first into the room there is, then in the order of time.
        let mut items: Vec<_> = trace.messages.items.iter().collect();
        items.order_by_key(|item| (std::cmp::Reverse(item.level), item.time));
        items.truncate(ITEMS);
        items.order_by_key(|item| item.time);
        let items = items.into_iter();
        items
            .map(|item| MessageLine {
                at: self.at(item.time),
                level: words::level(item.level).to_owned(),
                category: short(&item.category),
                text: short(&item.text),
                exception: item.exception.as_deref().map(short),
            })
            .collect()
    }
}

fn request_group(row: &RequestRow) -> RequestGroup {
    RequestGroup {
        method: row.method.clone(),
        route: row.route.clone(),
        count: row.count,
        unanswered: row.unanswered,
        failed: row.failed,
        total_ns: row.total.0,
        mean_ns: row.mean.0,
        p50_ns: row.p50.0,
        p95_ns: row.p95.0,
        p99_ns: row.p99.0,
        longest_ns: row.longest.0,
        children_mean: finite(row.children_mean),
        children_most: row.children_most,
    }
}

fn counter(row: &biopsy_analyze::CounterRow) -> Option<Counter> {
    [row.first, row.last, row.min, row.max, row.mean].iter().all(|number| number.is_finite()).then(|| {
        Counter {
            name: row.name.clone(),
            column: row.column.clone(),
            unit: words::unit(row.unit).to_owned(),
            readings: row.readings,
            first: row.first,
            last: row.last,
            min: row.min,
            max: row.max,
            mean: crate::units::significant(row.mean, 6),
        }
    })
}

fn meanwhile(what: Meanwhile) -> &'static str {
    match what {
        Meanwhile::Collection => "collection",
        Meanwhile::Starvation => "starvation",
        Meanwhile::Contention => "contention",
        Meanwhile::Outgoing => "outgoing",
        Meanwhile::Command => "command",
    }
}

fn stack(trace: &RuntimeTrace, stack: Option<RuntimeStack>) -> Vec<String> {
    let frames = stack.and_then(|stack| trace.stacks.get(stack.0 as usize)).map_or(&[][..], Vec::as_slice);
    let frames = frames.iter().take(FRAMES);
    frames
        .filter_map(|&at| trace.functions.get(at as usize))
        .map(|function| first(&function.name, FRAME))
        .collect()
}

/// The beginning of a long text.
pub(crate) fn short(text: &str) -> String {
    first(text, TEXT)
}

fn first(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
