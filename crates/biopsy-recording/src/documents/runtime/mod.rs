//! `dotnet/PID.json`: what a runtime said of itself, as it was collected while the recording ran.
//!
//! Times and durations are nanoseconds, times of the recording's clock; stacks and functions are indexes into `stacks` and
//! `functions`. A list of which only a part was kept is `{"items": [...], "total": N}`.

mod events;
mod groups;
mod table;

use biopsy_model::runtime_trace as model;
use biopsy_model::{MonoNanos, Nanos, Pid, symbol};
use serde::{Deserialize, Serialize};

use self::events::{Collection, Command, Contention, Exception, Message, Request, ThreadPoolEvent};
use self::groups::{
    AllocationGroup, CommandGroup, ContentionGroup, ExceptionGroup, MessageGroup, RequestGroup,
};
use self::table::Table;
use super::List;
use super::processes::Runtime;

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
pub(crate) struct RuntimeTrace {
    pid: u32,
    runtime: Runtime,
    source: String,
    span: Option<(u64, u64)>,
    functions: List<Function>,
    stacks: List<List<u32>>,
    providers: List<ProviderCount>,
    collections: Kept<Collection>,
    exceptions: Kept<Exception>,
    exception_groups: List<ExceptionGroup>,
    contentions: Kept<Contention>,
    contention_groups: List<ContentionGroup>,
    thread_pool: Kept<ThreadPoolEvent>,
    requests: Kept<Request>,
    request_groups: List<RequestGroup>,
    outgoing: Kept<Request>,
    outgoing_groups: List<RequestGroup>,
    commands: Kept<Command>,
    command_groups: List<CommandGroup>,
    messages: Kept<Message>,
    message_groups: List<MessageGroup>,
    allocation_groups: List<AllocationGroup>,
    allocation_sampling: String,
    compiled: Compiled,
    loads: Kept<Load>,
    counters: List<Table>,
    sampled: List<Sampled>,
    lost: u64,
    unknown: u64,
    cut: bool,
}

impl From<model::RuntimeTrace> for RuntimeTrace {
    fn from(trace: model::RuntimeTrace) -> Self {
        Self {
            pid: trace.pid.0,
            runtime: trace.runtime.into(),
            source: trace.source,
            span: trace.span.map(|(first, last)| (first.0, last.0)),
            functions: trace.functions.into(),
            stacks: trace.stacks.into(),
            providers: trace.providers.into(),
            collections: trace.collections.into(),
            exceptions: trace.exceptions.into(),
            exception_groups: trace.exception_groups.into(),
            contentions: trace.contentions.into(),
            contention_groups: trace.contention_groups.into(),
            thread_pool: trace.thread_pool.into(),
            requests: trace.requests.into(),
            request_groups: trace.request_groups.into(),
            outgoing: trace.outgoing.into(),
            outgoing_groups: trace.outgoing_groups.into(),
            commands: trace.commands.into(),
            command_groups: trace.command_groups.into(),
            messages: trace.messages.into(),
            message_groups: trace.message_groups.into(),
            allocation_groups: trace.allocation_groups.into(),
            allocation_sampling: trace.allocation_sampling.as_str().to_owned(),
            compiled: trace.compiled.into(),
            loads: trace.loads.into(),
            counters: trace.counters.into(),
            sampled: trace.sampled.into(),
            lost: trace.lost,
            unknown: trace.unknown,
            cut: trace.cut,
        }
    }
}

impl From<RuntimeTrace> for model::RuntimeTrace {
    fn from(trace: RuntimeTrace) -> Self {
        Self {
            pid: Pid(trace.pid),
            runtime: trace.runtime.into(),
            source: trace.source,
            span: trace.span.map(|(first, last)| (MonoNanos(first), MonoNanos(last))),
            functions: trace.functions.into(),
            stacks: trace.stacks.into(),
            providers: trace.providers.into(),
            collections: trace.collections.into(),
            exceptions: trace.exceptions.into(),
            exception_groups: trace.exception_groups.into(),
            contentions: trace.contentions.into(),
            contention_groups: trace.contention_groups.into(),
            thread_pool: trace.thread_pool.into(),
            requests: trace.requests.into(),
            request_groups: trace.request_groups.into(),
            outgoing: trace.outgoing.into(),
            outgoing_groups: trace.outgoing_groups.into(),
            commands: trace.commands.into(),
            command_groups: trace.command_groups.into(),
            messages: trace.messages.into(),
            message_groups: trace.message_groups.into(),
            allocation_groups: trace.allocation_groups.into(),
            allocation_sampling: trace.allocation_sampling.as_str().into(),
            compiled: trace.compiled.into(),
            loads: trace.loads.into(),
            counters: trace.counters.into(),
            sampled: trace.sampled.into(),
            lost: trace.lost,
            unknown: trace.unknown,
            cut: trace.cut,
        }
    }
}

/// A list of which a part was kept.
#[derive(Serialize, Deserialize, Debug)]
#[serde(default, bound(deserialize = "T: Deserialize<'de>"))]
struct Kept<T> {
    items: List<T>,
    total: u64,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self { items: List::default(), total: 0 }
    }
}

impl<M, T: From<M>> From<model::Kept<M>> for Kept<T> {
    fn from(kept: model::Kept<M>) -> Self {
        Self { items: kept.items.into(), total: kept.total }
    }
}

impl<T, M: From<T>> From<Kept<T>> for model::Kept<M> {
    fn from(kept: Kept<T>) -> Self {
        Self { items: kept.items.into(), total: kept.total }
    }
}

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
struct Function {
    name: String,
    file: Option<String>,
    line: Option<u32>,
}

impl From<symbol::Function> for Function {
    fn from(function: symbol::Function) -> Self {
        Self { name: function.name, file: function.file, line: function.line }
    }
}

impl From<Function> for symbol::Function {
    fn from(function: Function) -> Self {
        Self { name: function.name, file: function.file, line: function.line }
    }
}

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
struct ProviderCount {
    provider: String,
    event: String,
    count: u64,
}

impl From<model::ProviderCount> for ProviderCount {
    fn from(one: model::ProviderCount) -> Self {
        Self { provider: one.provider, event: one.event, count: one.count }
    }
}

impl From<ProviderCount> for model::ProviderCount {
    fn from(one: ProviderCount) -> Self {
        Self { provider: one.provider, event: one.event, count: one.count }
    }
}

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
struct Compiled {
    methods: u64,
    time: u64,
    bytes: u64,
    tiers: List<(String, u64)>,
}

impl From<model::Compiled> for Compiled {
    fn from(all: model::Compiled) -> Self {
        Self { methods: all.methods, time: all.time.0, bytes: all.bytes, tiers: all.tiers.into() }
    }
}

impl From<Compiled> for model::Compiled {
    fn from(all: Compiled) -> Self {
        Self { methods: all.methods, time: Nanos(all.time), bytes: all.bytes, tiers: all.tiers.into() }
    }
}

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
struct Load {
    time: u64,
    name: String,
}

impl From<model::AssemblyLoad> for Load {
    fn from(load: model::AssemblyLoad) -> Self {
        Self { time: load.time.0, name: load.name }
    }
}

impl From<Load> for model::AssemblyLoad {
    fn from(load: Load) -> Self {
        Self { time: MonoNanos(load.time), name: load.name }
    }
}

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
struct Sampled {
    what: String,
    from: u64,
    to: u64,
    share: f64,
    why: String,
}

impl From<model::Sampled> for Sampled {
    fn from(one: model::Sampled) -> Self {
        Self {
            what: one.what.as_str().to_owned(),
            from: one.from.0,
            to: one.to.0,
            share: one.share,
            why: one.why,
        }
    }
}

impl From<Sampled> for model::Sampled {
    fn from(one: Sampled) -> Self {
        let (from, to) = (MonoNanos(one.from), MonoNanos(one.to));
        Self { what: one.what.as_str().into(), from, to, share: one.share, why: one.why }
    }
}

/// The bytes of `dotnet/PID.json`, for who hands them on without a recording.
///
/// # Errors
/// Something in it has no form in JSON.
pub fn runtime_to_json(trace: model::RuntimeTrace) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&RuntimeTrace::from(trace))
}

/// Reads them.
///
/// # Errors
/// They are something else.
pub fn runtime_from_json(bytes: &[u8]) -> serde_json::Result<model::RuntimeTrace> {
    serde_json::from_slice::<RuntimeTrace>(bytes).map(Into::into)
}
