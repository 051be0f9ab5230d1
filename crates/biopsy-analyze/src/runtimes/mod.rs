//! What the runtimes said of themselves, as tables: collections, exceptions, contention, the pool, requests, commands,
//! messages, allocations, and what happened at the same time.

mod coincide;
mod collections;
mod counters;
mod pool;
mod providers;
mod requests;
mod rows;

use crate::limits::{RUNTIME_FRAMES, RUNTIME_NAME, RUNTIME_ROWS, RUNTIMES};
use crate::managed;
use biopsy_model::capture::Capture;
use biopsy_model::process::RuntimeKind;
use biopsy_model::runtime_trace::{RuntimeStack, RuntimeTrace};
use biopsy_model::{MonoNanos, Pid};

pub use coincide::{Coincidence, Meanwhile};
pub use collections::{CollectionSummary, GenerationRow, words as collection_reason};
pub use counters::CounterRow;
pub(crate) use counters::find as find_counter;
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
    /// Allocations by type and place, most bytes first.
    pub allocations: Vec<AllocationRow>,
    /// Counters and meters, in the order of their names.
    pub counters: Vec<CounterRow>,
    /// What happened while requests were slow.
    pub coincidences: Vec<Coincidence>,
}

/// Where something happened, by a managed stack.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct RuntimePlace {
    /// The application's innermost function; of the class library where there is none. Empty: no stack.
    pub function: String,
    /// The function of the class library that it called, where there is one: `System.Int32.Parse`.
    pub via: Option<String>,
    /// The function is the application's own.
    pub own: bool,
}

impl RuntimeSummary {
    pub(crate) fn all(capture: &Capture) -> Vec<RuntimeSummary> {
        capture.runtimes.iter().take(RUNTIMES).enumerate().map(|(at, trace)| Self::new(at, trace)).collect()
    }

    fn new(at: usize, trace: &RuntimeTrace) -> RuntimeSummary {
        let seconds = trace.span.map_or(0.0, |(from, to)| to.since(from).as_secs_f64());
        let mut summary = RuntimeSummary {
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
            allocations: rows::allocations(trace),
            counters: counters::rows(trace),
            coincidences: Vec::new(),
        };
        summary.coincidences = coincide::find(trace, &summary);
        summary
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

/// The functions of a stack, innermost first, as far as they are there.
pub(crate) fn names(trace: &RuntimeTrace, stack: Option<RuntimeStack>) -> impl Iterator<Item = &str> + Clone {
    let stack = stack.and_then(|stack| trace.stacks.get(stack.0 as usize)).map_or(&[][..], Vec::as_slice);
    stack
        .iter()
        .take(RUNTIME_FRAMES)
        .filter_map(|&function| trace.functions.get(function as usize))
        .map(|function| function.name.as_str())
}

/// Where a stack is.
pub(crate) fn place(trace: &RuntimeTrace, stack: Option<RuntimeStack>) -> RuntimePlace {
    let names = names(trace, stack);
    let Some(at) = managed::place(names.clone()) else { return RuntimePlace::default() };
    let function = names.clone().nth(at).unwrap_or_default();
    let own = managed::is_application(function);
    let called = at.checked_sub(1).and_then(|at| names.clone().nth(at));
    RuntimePlace { function: cut(function), via: called.filter(|_| own).map(cut), own }
}

/// A name of bearable length.
pub(crate) fn cut(name: &str) -> String {
    match name.char_indices().nth(RUNTIME_NAME) {
        Some((end, _)) => format!("{}…", name.get(..end).unwrap_or_default()),
        None => name.to_owned(),
    }
}

/// Cuts a list that is in its final order.
fn first<T>(mut rows: Vec<T>) -> Vec<T> {
    rows.truncate(RUNTIME_ROWS);
    rows
}

/// Words of the runtime that are counted: it has some ten of each kind, a hostile file may make up as many as it likes.
const WORDS: usize = 20;

/// Counts one more of a word.
fn count_word(words: &mut Vec<(String, u64)>, word: String) {
    if let Some((_, count)) = words.iter_mut().find(|(known, _)| *known == word) {
        *count += 1;
    } else if words.len() < WORDS {
        words.push((word, 1));
    }
}
