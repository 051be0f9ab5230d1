//! What a managed runtime, and the application on it, said of themselves while they were recorded: collections, exceptions,
//! contention, the thread pool, requests, commands, log messages, counters.
//!
//! Rates can be far above what anybody reads, so each kind has exact totals and groups, and of the single events the ones
//! worth looking at: lists are bounded by whoever fills them, [`Kept::total`] says how many there were.

use crate::log::LogLevel;
use crate::metric::MetricTable;
use crate::process::Runtime;
use crate::symbol::Function;
use crate::words::words;
use crate::{MonoNanos, Nanos, Pid, Tid};

/// Everything the runtime of one process said.
#[derive(Clone, PartialEq, Debug)]
pub struct RuntimeTrace {
    /// The process; `Pid(0)` where the file does not say.
    pub pid: Pid,
    /// The runtime, as far as it was told.
    pub runtime: Runtime,
    /// Name of the recording's member, or of the file, that it was read from.
    pub source: String,
    /// First and last moment.
    pub span: Option<(MonoNanos, MonoNanos)>,
    /// Functions of [`RuntimeTrace::stacks`], each once.
    pub functions: Vec<Function>,
    /// Stacks, each once; innermost first; indexes into `functions`. Managed frames only.
    pub stacks: Vec<Vec<u32>>,
    /// Who spoke, and how much.
    pub providers: Vec<ProviderCount>,
    /// Collections of garbage, by start.
    pub collections: Kept<Collection>,
    /// Exceptions thrown, by time: the first of each group, and the first ones of all.
    pub exceptions: Kept<Exception>,
    /// Exceptions by type, message and place, most frequent first. Exact.
    pub exception_groups: Vec<ExceptionGroup>,
    /// Waits for a monitor or lock, the longest.
    pub contentions: Kept<Contention>,
    /// Contention by place, longest total first. Exact.
    pub contention_groups: Vec<ContentionGroup>,
    /// What the thread pool decided.
    pub thread_pool: Kept<ThreadPoolEvent>,
    /// Requests that the application served, the slowest.
    pub requests: Kept<Request>,
    /// Requests served by route. Exact, unless [`RuntimeTrace::sampled`] says otherwise.
    pub request_groups: Vec<RequestGroup>,
    /// Requests that the application sent to others, the slowest.
    pub outgoing: Kept<Request>,
    /// Requests sent, by method and host. Exact, unless sampled.
    pub outgoing_groups: Vec<RequestGroup>,
    /// Commands to data bases, the slowest.
    pub commands: Kept<DataCommand>,
    /// Commands by text. Exact, unless sampled.
    pub command_groups: Vec<CommandGroup>,
    /// Log messages of the application, redacted: warnings and errors first, then what is nearest to the present.
    pub messages: Kept<LogMessage>,
    /// Messages by category and level. Exact.
    pub message_groups: Vec<MessageGroup>,
    /// Allocated bytes by type and place, as the runtime samples them, most bytes first.
    pub allocation_groups: Vec<AllocationGroup>,
    /// How the runtime chose what it told of them.
    pub allocation_sampling: AllocationSampling,
    /// What was compiled.
    pub compiled: Compiled,
    /// Assemblies that were loaded meanwhile.
    pub loads: Kept<AssemblyLoad>,
    /// EventCounters and Meters as tables `counters`: keys pid, provider, counter (with tags).
    pub counters: Vec<MetricTable>,
    /// Intervals in which events of a kind were not taken, or only a share of them, to spare the process.
    pub sampled: Vec<Sampled>,
    /// Events that the runtime dropped because nobody fetched them in time, or that were damaged.
    pub lost: u64,
    /// Blocks or events of kinds that were not understood.
    pub unknown: u64,
    /// The stream ends in the middle.
    pub cut: bool,
}

impl RuntimeTrace {
    /// Of a process, with nothing in it yet.
    #[must_use]
    pub fn new(pid: Pid, runtime: Runtime, source: String) -> Self {
        Self {
            pid,
            runtime,
            source,
            span: None,
            functions: Vec::new(),
            stacks: Vec::new(),
            providers: Vec::new(),
            collections: Kept::default(),
            exceptions: Kept::default(),
            exception_groups: Vec::new(),
            contentions: Kept::default(),
            contention_groups: Vec::new(),
            thread_pool: Kept::default(),
            requests: Kept::default(),
            request_groups: Vec::new(),
            outgoing: Kept::default(),
            outgoing_groups: Vec::new(),
            commands: Kept::default(),
            command_groups: Vec::new(),
            messages: Kept::default(),
            message_groups: Vec::new(),
            allocation_groups: Vec::new(),
            allocation_sampling: AllocationSampling::default(),
            compiled: Compiled::default(),
            loads: Kept::default(),
            counters: Vec::new(),
            sampled: Vec::new(),
            lost: 0,
            unknown: 0,
            cut: false,
        }
    }
}

/// A bounded list, and how many there were.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kept<T> {
    /// The ones that were kept, in order of time.
    pub items: Vec<T>,
    /// All of them.
    pub total: u64,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self { items: Vec::new(), total: 0 }
    }
}

/// Index into [`RuntimeTrace::stacks`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RuntimeStack(pub u32);

/// Events of one provider.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProviderCount {
    /// `Microsoft-Windows-DotNETRuntime`, for example.
    pub provider: String,
    /// Event name with id: `GCStart_V2 (1)`.
    pub event: String,
    /// How many.
    pub count: u64,
}

/// Why a collection was made.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum CollectionReason {
    /// The budget of generation 0 was used up.
    SmallObjects,
    /// The application asked for it (`GC.Collect`).
    Induced,
    /// Low memory.
    LowMemory,
    /// The budget of the large object heap was used up.
    LargeObjects,
    /// Any other, in the runtime's words.
    Other(String),
}

/// One collection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Collection {
    /// Its number since the process started.
    pub number: u32,
    /// Start.
    pub start: MonoNanos,
    /// End; `None`: not before the end of the recording.
    pub end: Option<MonoNanos>,
    /// Oldest generation that was collected.
    pub generation: u8,
    /// Why.
    pub reason: CollectionReason,
    /// In the background, beside running threads.
    pub background: bool,
    /// All threads stood still for so long because of it: suspension until restart, of all its pauses.
    pub pause: Nanos,
    /// The longest of these pauses.
    pub longest_pause: Nanos,
    /// Bytes that survived, where told.
    pub promoted: Option<u64>,
    /// Heap size after it in bytes, by generation 0, 1, 2, large, pinned, where told.
    pub sizes_after: Option<[u64; 5]>,
    /// Pinned objects met.
    pub pinned: Option<u32>,
    /// Thread that asked for it.
    pub tid: Option<Tid>,
    /// What asked for it.
    pub stack: Option<RuntimeStack>,
}

/// An exception that was thrown, whether or not it was caught.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exception {
    /// When.
    pub time: MonoNanos,
    /// Where from.
    pub tid: Tid,
    /// Type, with namespace.
    pub type_name: String,
    /// Message, redacted.
    pub message: String,
    /// HRESULT.
    pub code: u32,
    /// The throw.
    pub stack: Option<RuntimeStack>,
}

/// Exceptions that are the same but for the time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExceptionGroup {
    /// Type.
    pub type_name: String,
    /// Message of the first one, redacted.
    pub message: String,
    /// Where the first one was thrown.
    pub stack: Option<RuntimeStack>,
    /// How many.
    pub count: u64,
    /// The first.
    pub first: MonoNanos,
    /// The last.
    pub last: MonoNanos,
}

/// A thread waited for a monitor or lock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Contention {
    /// Began to wait.
    pub start: MonoNanos,
    /// How long.
    pub duration: Nanos,
    /// Who.
    pub tid: Tid,
    /// Identity of the lock, where told; addresses of objects may change in time.
    pub lock: Option<u64>,
    /// Who held it, where told.
    pub owner: Option<Tid>,
    /// Where it waited.
    pub stack: Option<RuntimeStack>,
}

/// Contention at one place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ContentionGroup {
    /// Where.
    pub stack: Option<RuntimeStack>,
    /// How often.
    pub count: u64,
    /// Together.
    pub total: Nanos,
    /// Longest.
    pub longest: Nanos,
}

/// What the thread pool did or found.
#[derive(Clone, PartialEq, Debug)]
pub struct ThreadPoolEvent {
    /// When.
    pub time: MonoNanos,
    /// Threads afterwards, where told.
    pub threads: Option<u32>,
    /// What.
    pub kind: ThreadPoolChange,
}

/// Kinds of [`ThreadPoolEvent`].
#[derive(Clone, PartialEq, Debug)]
pub enum ThreadPoolChange {
    /// The number of worker threads was changed, with the reason in the runtime's words; `Starvation` among them.
    Adjusted {
        /// `Warmup`, `Initializing`, `RandomMove`, `ClimbingMove`, `ChangePoint`, `Stabilizing`, `Starvation`,
        /// `ThreadTimedOut`, `CooperativeBlocking`.
        reason: String,
        /// Work items per second that were done before, where told.
        throughput: Option<f64>,
    },
    /// A worker thread started or stopped.
    Workers,
    /// The smallest number of threads was changed.
    Minimum,
}

/// A request that was served or sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// Start.
    pub start: MonoNanos,
    /// Duration; `None`: not answered before the end of the recording.
    pub duration: Option<Nanos>,
    /// `GET` ...
    pub method: String,
    /// Path (served) or URL (sent), redacted, without query.
    pub path: String,
    /// Route template or host, where known.
    pub route: Option<String>,
    /// Status; `None`: not known. Failed without an answer: `Some(0)`.
    pub status: Option<u16>,
    /// Commands and requests that were sent while it ran, on its behalf.
    pub children: u32,
    /// Trace id, where the application has one.
    pub trace_id: Option<String>,
}

/// Requests of one kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestGroup {
    /// `GET` ...
    pub method: String,
    /// Route template, or path with numbers and ids replaced by `{}`; host and path for sent ones.
    pub route: String,
    /// Ended.
    pub count: u64,
    /// Begun and not ended before the end of the recording.
    pub unanswered: u64,
    /// Status 500 and above, or without an answer.
    pub failed: u64,
    /// Together.
    pub total: Nanos,
    /// Longest.
    pub longest: Nanos,
    /// How many took up to 1, 2, 4, 8 ... microseconds: `durations[i]` counts those below `2^i` µs and not below `2^(i-1)`.
    pub durations: [u32; 40],
    /// Commands and requests sent on their behalf, together; and the most by one request.
    pub children: (u64, u32),
}

/// A command to a data base.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DataCommand {
    /// Start.
    pub start: MonoNanos,
    /// Duration; `None`: not ended.
    pub duration: Option<Nanos>,
    /// Text with literals replaced by `?`, where told.
    pub text: String,
    /// Server and data base, where told.
    pub source: String,
    /// It failed.
    pub failed: bool,
    /// The request it ran for.
    pub trace_id: Option<String>,
}

/// Commands with the same text but for literals.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommandGroup {
    /// Text with literals replaced by `?`.
    pub text: String,
    /// Server and data base.
    pub source: String,
    /// Ended.
    pub count: u64,
    /// Failed.
    pub failed: u64,
    /// Together.
    pub total: Nanos,
    /// Longest.
    pub longest: Nanos,
    /// The most of them within one request: 201 is an `N + 1`.
    pub most_in_one_request: u32,
}

/// A message that the application logged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogMessage {
    /// When.
    pub time: MonoNanos,
    /// Where from.
    pub tid: Tid,
    /// Level.
    pub level: LogLevel,
    /// The application's own name of the level: `Critical`, `Trace`.
    pub level_name: String,
    /// Category (logger name).
    pub category: String,
    /// Event id and name, where given.
    pub event: Option<String>,
    /// Text, redacted.
    pub text: String,
    /// Exception logged with it, redacted: type and message.
    pub exception: Option<String>,
}

/// Messages of one category and level.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MessageGroup {
    /// Category.
    pub category: String,
    /// Level.
    pub level_name: String,
    /// How many.
    pub count: u64,
}

words! {
    /// How a runtime chooses the allocations that it tells.
    AllocationSampling {
        /// The one that fills up each 100 kB (`AllocationTick`): what always comes in the same order is told too often or too seldom.
        Ticks = "ticks",
        /// Each byte with the same chance (`AllocationSampled`, since .NET 10).
        Random = "random",
    }
}

/// Allocations of one type at one place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AllocationGroup {
    /// Type.
    pub type_name: String,
    /// Where.
    pub stack: Option<RuntimeStack>,
    /// Estimated bytes.
    pub bytes: u64,
    /// Samples it is estimated from.
    pub samples: u64,
    /// On the large object heap.
    pub large: bool,
}

/// What the compiler did meanwhile.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Compiled {
    /// Methods.
    pub methods: u64,
    /// Time, where both ends were told.
    pub time: Nanos,
    /// Bytes of code.
    pub bytes: u64,
    /// Methods by tier, in the runtime's words.
    pub tiers: Vec<(String, u64)>,
}

/// An assembly was loaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AssemblyLoad {
    /// When.
    pub time: MonoNanos,
    /// Full name.
    pub name: String,
}

words! {
    /// Kinds of events that may be taken in part.
    SampledKind {
        /// Requests, served and sent.
        Requests = "requests",
        /// Commands to databases.
        Commands = "commands",
        /// Log messages.
        Messages = "messages",
        /// Samples of allocations.
        Allocations = "allocations",
        /// Readings of counters.
        Counters = "counters",
        /// The rate of requests and messages, by counters that say when to listen closer.
        RequestCounters = "counters of requests",
        /// Collections, exceptions, contention and the like.
        Runtime = "events of the runtime",
    }
}

/// Events of a kind were taken in part only.
#[derive(Clone, PartialEq, Debug)]
pub struct Sampled {
    /// What.
    pub what: SampledKind,
    /// From.
    pub from: MonoNanos,
    /// To.
    pub to: MonoNanos,
    /// The share that was taken, 0 to 1.
    pub share: f64,
    /// Why, in words: `32,000 a second, above the budget of 5,000`.
    pub why: String,
}
