//! `dotnet/PID.json`: what a runtime said of itself, as it was collected while the recording ran.
//!
//! The fields are those of [`biopsy_model::runtime_trace`], by the same names; times and durations are nanoseconds, of
//! the recording's clock. A list of which only a part was kept is `{"items": [...], "total": N}`.

mod mirror;
mod words;

use biopsy_model::log::LogLevel;
use biopsy_model::metric::{Column, MetricRow, MetricTable, Unit};
use biopsy_model::process::{Runtime, RuntimeKind};
use biopsy_model::runtime_trace::{
    AllocationGroup, AssemblyLoad, Collection, CollectionReason, CommandGroup, Compiled, Contention,
    ContentionGroup, DataCommand, Exception, ExceptionGroup, Kept, LogMessage, MessageGroup, ProviderCount,
    Request, RequestGroup, RuntimeStack, RuntimeTrace, Sampled, ThreadPoolChange, ThreadPoolEvent,
};
use biopsy_model::symbol::Function;
use biopsy_model::{MonoNanos, Nanos, Pid, Tid};

pub(crate) use self::mirror::Mirror;
use self::mirror::mirror;

/// The form of the member.
pub(crate) type RuntimeTraceJson = <RuntimeTrace as Mirror>::Json;

mirror!(RuntimeTrace as TraceJson {
    pid: Pid,
    runtime: Runtime,
    source: String,
    span: Option<(MonoNanos, MonoNanos)>,
    functions: Vec<Function>,
    stacks: Vec<Vec<u32>>,
    providers: Vec<ProviderCount>,
    collections: Kept<Collection>,
    exceptions: Kept<Exception>,
    exception_groups: Vec<ExceptionGroup>,
    contentions: Kept<Contention>,
    contention_groups: Vec<ContentionGroup>,
    thread_pool: Kept<ThreadPoolEvent>,
    requests: Kept<Request>,
    request_groups: Vec<RequestGroup>,
    outgoing: Kept<Request>,
    outgoing_groups: Vec<RequestGroup>,
    commands: Kept<DataCommand>,
    command_groups: Vec<CommandGroup>,
    messages: Kept<LogMessage>,
    message_groups: Vec<MessageGroup>,
    allocation_groups: Vec<AllocationGroup>,
    compiled: Compiled,
    loads: Kept<AssemblyLoad>,
    counters: Vec<MetricTable>,
    sampled: Vec<Sampled>,
    lost: u64,
    unknown: u64,
    cut: bool,
});
mirror!(Runtime as RuntimeJson { kind: RuntimeKind, version: Option<String>, entry: Option<String> });
mirror!(Function as FunctionJson { name: String, file: Option<String>, line: Option<u32> });
mirror!(MetricTable as TableJson {
    name: String,
    keys: Vec<String>,
    columns: Vec<Column>,
    rows: Vec<MetricRow>,
});
mirror!(MetricRow as RowJson { time: MonoNanos, keys: Vec<String>, values: Vec<Option<f64>> });
mirror!(ProviderCount as ProviderJson { provider: String, event: String, count: u64 });
mirror!(Collection as CollectionJson {
    number: u32,
    start: MonoNanos,
    end: Option<MonoNanos>,
    generation: u8,
    reason: CollectionReason,
    background: bool,
    pause: Nanos,
    longest_pause: Nanos,
    promoted: Option<u64>,
    sizes_after: Option<[u64; 5]>,
    pinned: Option<u32>,
    tid: Option<Tid>,
    stack: Option<RuntimeStack>,
});
mirror!(Exception as ExceptionJson {
    time: MonoNanos,
    tid: Tid,
    type_name: String,
    message: String,
    code: u32,
    stack: Option<RuntimeStack>,
});
mirror!(ExceptionGroup as ExceptionGroupJson {
    type_name: String,
    message: String,
    stack: Option<RuntimeStack>,
    count: u64,
    first: MonoNanos,
    last: MonoNanos,
});
mirror!(Contention as ContentionJson {
    start: MonoNanos,
    duration: Nanos,
    tid: Tid,
    lock: Option<u64>,
    owner: Option<Tid>,
    stack: Option<RuntimeStack>,
});
mirror!(ContentionGroup as ContentionGroupJson {
    stack: Option<RuntimeStack>,
    count: u64,
    total: Nanos,
    longest: Nanos,
});
mirror!(ThreadPoolEvent as PoolJson { time: MonoNanos, threads: Option<u32>, kind: ThreadPoolChange });
mirror!(Request as RequestJson {
    start: MonoNanos,
    duration: Option<Nanos>,
    method: String,
    path: String,
    route: Option<String>,
    status: Option<u16>,
    children: u32,
    trace_id: Option<String>,
});
mirror!(RequestGroup as RequestGroupJson {
    method: String,
    route: String,
    count: u64,
    unanswered: u64,
    failed: u64,
    total: Nanos,
    longest: Nanos,
    durations: [u32; 40],
    children: (u64, u32),
});
mirror!(DataCommand as CommandJson {
    start: MonoNanos,
    duration: Option<Nanos>,
    text: String,
    source: String,
    failed: bool,
    trace_id: Option<String>,
});
mirror!(CommandGroup as CommandGroupJson {
    text: String,
    source: String,
    count: u64,
    failed: u64,
    total: Nanos,
    longest: Nanos,
    most_in_one_request: u32,
});
mirror!(LogMessage as MessageJson {
    time: MonoNanos,
    tid: Tid,
    level: LogLevel,
    level_name: String,
    category: String,
    event: Option<String>,
    text: String,
    exception: Option<String>,
});
mirror!(MessageGroup as MessageGroupJson { category: String, level_name: String, count: u64 });
mirror!(AllocationGroup as AllocationJson {
    type_name: String,
    stack: Option<RuntimeStack>,
    bytes: u64,
    samples: u64,
    large: bool,
});
mirror!(Compiled as CompiledJson { methods: u64, time: Nanos, bytes: u64, tiers: Vec<(String, u64)> });
mirror!(AssemblyLoad as LoadJson { time: MonoNanos, name: String });
mirror!(Sampled as SampledJson { what: String, from: MonoNanos, to: MonoNanos, share: f64, why: String });
mirror!(Column as ColumnJson { name: String, unit: Unit });

#[cfg(test)]
mod tests;
