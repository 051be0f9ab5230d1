//! What the runtimes said of themselves, as tables: collections, exceptions, contention, the pool, requests, commands,
//! messages, allocations, and what happened at the same time.
//!
//! Each file has one kind of table; `bounded` and `places` are below them, this one puts them together.

mod bounded;
mod coincide;
mod collections;
mod counters;
mod places;
mod pool;
mod providers;
mod requests;
mod rows;

use crate::limits::RUNTIMES;
use biopsy_model::capture::Capture;
use biopsy_model::process::RuntimeKind;
use biopsy_model::runtime_trace::{AllocationSampling, RuntimeTrace};
use biopsy_model::{MonoNanos, Pid};
use bounded::cut;

pub use coincide::{Coincidence, Meanwhile};
pub use collections::{CollectionSummary, GenerationRow, words as collection_reason};
pub use counters::CounterRow;
pub(crate) use counters::find as find_counter;
pub use places::RuntimePlace;
pub(crate) use places::place;
pub use pool::PoolSummary;
pub use providers::ProviderRow;
pub use requests::{CommandRow, RequestRow};
pub(crate) use rows::severity;
pub use rows::{AllocationRow, ContentionRow, ExceptionRow, MessageRow};

/// One runtime's account in brief. Lists are cut to [`limits::RUNTIME_ROWS`](crate::limits::RUNTIME_ROWS); the sums are not.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RuntimeSummary {
    /// Index into [`Capture::runtimes`].
    pub trace: usize,
    /// The process.
    pub pid: Pid,
    /// Which runtime, for people: `.NET 10.0.12`.
    pub label: String,
    /// Length in seconds of what was heard.
    pub seconds: f64,
    /// From the first to the last event.
    pub span: Option<(MonoNanos, MonoNanos)>,
    /// Events heard, all.
    pub events_total: u64,
    /// Events by provider, most first.
    pub providers: Vec<ProviderRow>,
    /// Collections of garbage.
    pub collections: CollectionSummary,
    /// Exceptions thrown, all.
    pub exceptions_total: u64,
    /// Exceptions by type and place, most first.
    pub exceptions: Vec<ExceptionRow>,
    /// Waits for monitors and locks, all.
    pub contentions_total: u64,
    /// Contention by place, longest total first.
    pub contention: Vec<ContentionRow>,
    /// The thread pool.
    pub pool: PoolSummary,
    /// Requests served by route, most time first.
    pub requests: Vec<RequestRow>,
    /// Requests sent by host, most time first.
    pub outgoing: Vec<RequestRow>,
    /// Commands to data bases by text, most time first.
    pub commands: Vec<CommandRow>,
    /// Messages of the application, all.
    pub messages_total: u64,
    /// Messages by category and level, most first.
    pub messages: Vec<MessageRow>,
    /// Bytes allocated, estimated from the runtime's samples, all.
    pub allocated: u64,
    /// How the runtime chose these samples.
    pub allocation_sampling: AllocationSampling,
    /// Allocations by type and place, most bytes first.
    pub allocations: Vec<AllocationRow>,
    /// Counters and meters, in the order of their names.
    pub counters: Vec<CounterRow>,
    /// What happened while requests were slow.
    pub coincidences: Vec<Coincidence>,
}

impl RuntimeSummary {
    pub(crate) fn all(capture: &Capture) -> Vec<RuntimeSummary> {
        capture.runtimes.iter().take(RUNTIMES).enumerate().map(|(at, trace)| Self::new(at, trace)).collect()
    }

    fn new(at: usize, trace: &RuntimeTrace) -> RuntimeSummary {
        let seconds = trace.span.map_or(0.0, |(from, to)| to.since(from).as_secs_f64());
        RuntimeSummary {
            trace: at,
            pid: trace.pid,
            label: label(trace),
            seconds,
            span: trace.span,
            events_total: trace.providers.iter().fold(0, |sum, row| sum.saturating_add(row.count)),
            providers: providers::rows(trace),
            collections: CollectionSummary::new(trace, seconds),
            exceptions_total: trace.exceptions.total,
            exceptions: rows::exceptions(trace),
            contentions_total: trace.contentions.total,
            contention: rows::contention(trace),
            pool: PoolSummary::new(trace),
            requests: requests::groups(&trace.request_groups),
            outgoing: requests::groups(&trace.outgoing_groups),
            commands: requests::commands(&trace.command_groups),
            messages_total: trace.message_groups.iter().fold(0, |sum, group| sum.saturating_add(group.count)),
            messages: rows::messages(trace),
            allocated: trace.allocation_groups.iter().fold(0, |sum, group| sum.saturating_add(group.bytes)),
            allocation_sampling: trace.allocation_sampling.clone(),
            allocations: rows::allocations(trace),
            counters: counters::rows(trace),
            coincidences: trace.span.map_or_else(Vec::new, |span| coincide::find(trace, span)),
        }
    }

    /// How often a second, over what was heard.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "rates are for people")]
    pub fn rate(&self, count: u64) -> f64 {
        if self.seconds > 0.0 { count as f64 / self.seconds } else { 0.0 }
    }
}

fn label(trace: &RuntimeTrace) -> String {
    let kind = match trace.runtime.kind {
        RuntimeKind::DotNet => ".NET",
        RuntimeKind::Jvm => "JVM",
        RuntimeKind::Node => "Node.js",
        RuntimeKind::Python => "CPython",
        RuntimeKind::Go => "Go",
        RuntimeKind::OtherInterpreter | RuntimeKind::Native | RuntimeKind::Unknown => "runtime",
    };
    trace
        .runtime
        .version
        .as_ref()
        .map_or_else(|| kind.to_owned(), |version| format!("{kind} {}", cut(version)))
}

#[cfg(test)]
mod tests;
