//! Single events.

use biopsy_model::runtime_trace as model;
use biopsy_model::runtime_trace::{CollectionReason, RuntimeStack, ThreadPoolChange};
use biopsy_model::{MonoNanos, Nanos, Tid};
use serde::{Deserialize, Serialize};

use crate::documents::{List, array};
use crate::logs::{level_of, level_text};

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
pub(super) struct Collection {
    number: u32,
    start: u64,
    end: Option<u64>,
    generation: u8,
    /// One of [`REASONS`], or what the runtime calls it.
    reason: String,
    background: bool,
    pause: u64,
    longest_pause: u64,
    promoted: Option<u64>,
    sizes_after: Option<List<u64>>,
    pinned: Option<u32>,
    tid: Option<u32>,
    stack: Option<u32>,
}

const REASONS: [(&str, CollectionReason); 4] = [
    ("small-objects", CollectionReason::SmallObjects),
    ("induced", CollectionReason::Induced),
    ("low-memory", CollectionReason::LowMemory),
    ("large-objects", CollectionReason::LargeObjects),
];

fn reason_text(reason: CollectionReason) -> String {
    let word = REASONS.into_iter().find(|(_, known)| *known == reason).map(|(word, _)| word.to_owned());
    word.unwrap_or_else(|| match reason {
        CollectionReason::Other(words) => words,
        _ => String::new(),
    })
}

fn reason(text: String) -> CollectionReason {
    let known = REASONS.into_iter().find(|(word, _)| *word == text).map(|(_, reason)| reason);
    known.unwrap_or(CollectionReason::Other(text))
}

impl From<model::Collection> for Collection {
    fn from(one: model::Collection) -> Self {
        Self {
            number: one.number,
            start: one.start.0,
            end: one.end.map(|end| end.0),
            generation: one.generation,
            reason: reason_text(one.reason),
            background: one.background,
            pause: one.pause.0,
            longest_pause: one.longest_pause.0,
            promoted: one.promoted,
            sizes_after: one.sizes_after.map(|sizes| sizes.to_vec().into()),
            pinned: one.pinned,
            tid: one.tid.map(|tid| tid.0),
            stack: one.stack.map(|stack| stack.0),
        }
    }
}

impl From<Collection> for model::Collection {
    fn from(one: Collection) -> Self {
        Self {
            number: one.number,
            start: MonoNanos(one.start),
            end: one.end.map(MonoNanos),
            generation: one.generation,
            reason: reason(one.reason),
            background: one.background,
            pause: Nanos(one.pause),
            longest_pause: Nanos(one.longest_pause),
            promoted: one.promoted,
            sizes_after: one.sizes_after.map(array),
            pinned: one.pinned,
            tid: one.tid.map(Tid),
            stack: one.stack.map(RuntimeStack),
        }
    }
}

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
pub(super) struct Exception {
    time: u64,
    tid: u32,
    type_name: String,
    message: String,
    code: u32,
    stack: Option<u32>,
}

impl From<model::Exception> for Exception {
    fn from(one: model::Exception) -> Self {
        Self {
            time: one.time.0,
            tid: one.tid.0,
            type_name: one.type_name,
            message: one.message,
            code: one.code,
            stack: one.stack.map(|stack| stack.0),
        }
    }
}

impl From<Exception> for model::Exception {
    fn from(one: Exception) -> Self {
        Self {
            time: MonoNanos(one.time),
            tid: Tid(one.tid),
            type_name: one.type_name,
            message: one.message,
            code: one.code,
            stack: one.stack.map(RuntimeStack),
        }
    }
}

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
pub(super) struct Contention {
    start: u64,
    duration: u64,
    tid: u32,
    lock: Option<u64>,
    owner: Option<u32>,
    stack: Option<u32>,
}

impl From<model::Contention> for Contention {
    fn from(one: model::Contention) -> Self {
        Self {
            start: one.start.0,
            duration: one.duration.0,
            tid: one.tid.0,
            lock: one.lock,
            owner: one.owner.map(|owner| owner.0),
            stack: one.stack.map(|stack| stack.0),
        }
    }
}

impl From<Contention> for model::Contention {
    fn from(one: Contention) -> Self {
        Self {
            start: MonoNanos(one.start),
            duration: Nanos(one.duration),
            tid: Tid(one.tid),
            lock: one.lock,
            owner: one.owner.map(Tid),
            stack: one.stack.map(RuntimeStack),
        }
    }
}

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
pub(super) struct ThreadPoolEvent {
    time: u64,
    threads: Option<u32>,
    kind: Change,
}

/// `{"change": "adjusted", "reason": ..., "throughput": ...}`, or `{"change": "workers"}`.
#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
struct Change {
    change: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    throughput: Option<f64>,
}

impl From<model::ThreadPoolEvent> for ThreadPoolEvent {
    fn from(event: model::ThreadPoolEvent) -> Self {
        let (change, reason, throughput) = match event.kind {
            ThreadPoolChange::Adjusted { reason, throughput } => ("adjusted", Some(reason), throughput),
            ThreadPoolChange::Workers => ("workers", None, None),
            ThreadPoolChange::Minimum => ("minimum", None, None),
        };
        let kind = Change { change: change.to_owned(), reason, throughput };
        Self { time: event.time.0, threads: event.threads, kind }
    }
}

impl From<ThreadPoolEvent> for model::ThreadPoolEvent {
    fn from(event: ThreadPoolEvent) -> Self {
        let Change { change, reason, throughput } = event.kind;
        let kind = match change.as_str() {
            "adjusted" => ThreadPoolChange::Adjusted { reason: reason.unwrap_or_default(), throughput },
            "minimum" => ThreadPoolChange::Minimum,
            _ => ThreadPoolChange::Workers,
        };
        Self { time: MonoNanos(event.time), threads: event.threads, kind }
    }
}

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
pub(super) struct Request {
    start: u64,
    duration: Option<u64>,
    method: String,
    path: String,
    route: Option<String>,
    status: Option<u16>,
    children: u32,
    trace_id: Option<String>,
}

impl From<model::Request> for Request {
    fn from(one: model::Request) -> Self {
        Self {
            start: one.start.0,
            duration: one.duration.map(|duration| duration.0),
            method: one.method,
            path: one.path,
            route: one.route,
            status: one.status,
            children: one.children,
            trace_id: one.trace_id,
        }
    }
}

impl From<Request> for model::Request {
    fn from(one: Request) -> Self {
        Self {
            start: MonoNanos(one.start),
            duration: one.duration.map(Nanos),
            method: one.method,
            path: one.path,
            route: one.route,
            status: one.status,
            children: one.children,
            trace_id: one.trace_id,
        }
    }
}

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
pub(super) struct Command {
    start: u64,
    duration: Option<u64>,
    text: String,
    source: String,
    failed: bool,
    trace_id: Option<String>,
}

impl From<model::DataCommand> for Command {
    fn from(one: model::DataCommand) -> Self {
        Self {
            start: one.start.0,
            duration: one.duration.map(|duration| duration.0),
            text: one.text,
            source: one.source,
            failed: one.failed,
            trace_id: one.trace_id,
        }
    }
}

impl From<Command> for model::DataCommand {
    fn from(one: Command) -> Self {
        Self {
            start: MonoNanos(one.start),
            duration: one.duration.map(Nanos),
            text: one.text,
            source: one.source,
            failed: one.failed,
            trace_id: one.trace_id,
        }
    }
}

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
pub(super) struct Message {
    time: u64,
    tid: u32,
    level: String,
    level_name: String,
    category: String,
    event: Option<String>,
    text: String,
    exception: Option<String>,
}

impl From<model::LogMessage> for Message {
    fn from(one: model::LogMessage) -> Self {
        Self {
            time: one.time.0,
            tid: one.tid.0,
            level: level_text(one.level).to_owned(),
            level_name: one.level_name,
            category: one.category,
            event: one.event,
            text: one.text,
            exception: one.exception,
        }
    }
}

impl From<Message> for model::LogMessage {
    fn from(one: Message) -> Self {
        Self {
            time: MonoNanos(one.time),
            tid: Tid(one.tid),
            level: level_of(&one.level),
            level_name: one.level_name,
            category: one.category,
            event: one.event,
            text: one.text,
            exception: one.exception,
        }
    }
}
