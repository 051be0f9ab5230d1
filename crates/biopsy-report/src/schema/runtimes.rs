//! What managed runtimes said of themselves.

use serde::{Deserialize, Serialize};

/// The account of one process's runtime. All lists are cut; `*_total` and the sums count everything.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Runtime {
    /// Process.
    pub pid: u32,
    /// Which runtime, for people: `.NET 10.0.12`.
    pub label: String,
    /// Entry assembly, main class or the like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
    /// Member of the recording, or file.
    pub source: String,
    /// First event, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<f64>,
    /// Last event, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<f64>,
    /// Events heard.
    pub events_total: u64,
    /// By provider, most first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub providers: Vec<Provider>,
    /// Collections of garbage.
    pub collections: Collections,
    /// Exceptions thrown, caught ones too.
    pub exceptions_total: u64,
    /// By type and place, most first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exceptions: Vec<RuntimeException>,
    /// Waits for monitors and locks.
    pub contentions_total: u64,
    /// By place, most time first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contention: Vec<RuntimeContention>,
    /// The thread pool.
    pub thread_pool: ThreadPool,
    /// Requests served by route, most time first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<RequestGroup>,
    /// The slowest requests served, slowest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub slowest: Vec<SlowRequest>,
    /// Requests sent by host, most time first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outgoing: Vec<RequestGroup>,
    /// Commands to data bases by text, most time first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<Command>,
    /// Messages that the application logged.
    pub messages_total: u64,
    /// By category and level, gravest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<MessageGroup>,
    /// Single messages, in the order of time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub message_lines: Vec<MessageLine>,
    /// Bytes allocated, estimated from samples.
    pub allocated_bytes: u64,
    /// How the runtime chose these samples: `random` (each byte with the same chance, since .NET 10), `ticks` (the allocation that fills up each
    /// 100 kB).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation_sampling: Option<String>,
    /// By type and place, most bytes first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allocations: Vec<Allocation>,
    /// What was compiled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compiled: Option<Compiled>,
    /// Assemblies loaded meanwhile.
    pub loads_total: u64,
    /// Counters and meters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<Counter>,
    /// What went on while requests were slow.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub coincidences: Vec<Coincidence>,
    /// Kinds of events of which only a share was taken.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sampled: Vec<Sampled>,
    /// Events lost.
    pub lost: u64,
    /// Blocks and events that were not understood.
    pub unknown: u64,
    /// The stream of events ends in the middle.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

/// The events of one provider.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Provider {
    /// Its name.
    pub provider: String,
    /// All its events.
    pub count: u64,
    /// Name with id, and how many; most first.
    pub events: Vec<(String, u64)>,
}

/// Collections of garbage.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Collections {
    /// All.
    pub total: u64,
    /// Those that times are known of.
    pub kept: u64,
    /// All threads stood still for so long, together.
    pub paused_ns: u64,
    /// As share of the time heard.
    pub pause_share: f64,
    /// The longest pause.
    pub longest_ns: u64,
    /// Asked for by the application.
    pub induced: u64,
    /// Pinned objects met by a collection, the middle of all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinned: Option<u32>,
    /// Heap after the first collection that told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heap_first_bytes: Option<u64>,
    /// Heap after the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heap_last_bytes: Option<u64>,
    /// By generation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub generations: Vec<Generation>,
    /// By reason: words, how many.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<(String, u64)>,
    /// The longest pauses, longest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub longest: Vec<Collection>,
}

/// Collections of one generation.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Generation {
    /// Oldest generation collected.
    pub generation: u8,
    /// In the background.
    pub background: bool,
    /// How many.
    pub count: u64,
    /// Pauses together.
    pub paused_ns: u64,
    /// Longest pause.
    pub longest_ns: u64,
    /// Bytes that survived, together.
    pub promoted_bytes: u64,
}

/// One collection.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Collection {
    /// Number since the process started.
    pub number: u32,
    /// When, seconds.
    pub at: f64,
    /// Oldest generation collected.
    pub generation: u8,
    /// In the background.
    pub background: bool,
    /// Why.
    pub reason: String,
    /// All its pauses.
    pub pause_ns: u64,
    /// Heap after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heap_bytes: Option<u64>,
    /// Bytes that survived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promoted_bytes: Option<u64>,
}

/// Exceptions of one type from one place.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RuntimeException {
    /// Type.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Message of one, redacted.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The application's innermost function.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub function: String,
    /// The function of the class library that it called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// How many.
    pub count: u64,
    /// The first, seconds.
    pub first: f64,
    /// The last, seconds.
    pub last: f64,
    /// Stack of one, innermost first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<String>,
}

/// Waits for locks at one place.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RuntimeContention {
    /// The application's innermost function.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub function: String,
    /// Waits.
    pub count: u64,
    /// Together.
    pub total_ns: u64,
    /// Longest.
    pub longest_ns: u64,
    /// Threads, of the longest waits.
    pub threads: usize,
    /// Locks, of the longest waits; 0: not told.
    pub locks: usize,
    /// Thread that held it most often.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<u32>,
    /// Stack of one, innermost first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<String>,
}

/// The thread pool.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ThreadPool {
    /// Changes.
    pub total: u64,
    /// Adjustments by reason, in the runtime's words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<(String, u64)>,
    /// Because work waited for a thread.
    pub starved: u64,
    /// Because threads of the pool block on tasks.
    pub blocked: u64,
    /// Threads: first, last, fewest, most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<[u32; 4]>,
}

/// Requests of one kind.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestGroup {
    /// `GET` ...
    pub method: String,
    /// Route; host and path for those sent.
    pub route: String,
    /// Ended.
    pub count: u64,
    /// Not answered before the end.
    pub unanswered: u64,
    /// Status 500 and above, or no answer.
    pub failed: u64,
    /// Together.
    pub total_ns: u64,
    /// Mean.
    pub mean_ns: u64,
    /// Half took less; right to a factor of two, as are the next ones.
    pub p50_ns: u64,
    /// 95 of 100 took less.
    pub p95_ns: u64,
    /// 99 of 100 took less.
    pub p99_ns: u64,
    /// Longest.
    pub longest_ns: u64,
    /// Commands and requests sent for one, on average.
    pub children_mean: f64,
    /// The most for one.
    pub children_most: u32,
}

/// One slow request.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SlowRequest {
    /// When, seconds.
    pub at: f64,
    /// How long; absent: not answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ns: Option<u64>,
    /// `GET` ...
    pub method: String,
    /// Path, redacted.
    pub path: String,
    /// Status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Commands and requests sent for it.
    pub children: u32,
}

/// Commands of one text.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Command {
    /// Text with literals replaced.
    pub text: String,
    /// Server and data base.
    pub source: String,
    /// Ended.
    pub count: u64,
    /// Failed.
    pub failed: u64,
    /// Together.
    pub total_ns: u64,
    /// Mean.
    pub mean_ns: u64,
    /// Longest.
    pub longest_ns: u64,
    /// The most within one request.
    pub most_in_one_request: u32,
}

/// Messages of one category and level.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MessageGroup {
    /// Category.
    pub category: String,
    /// Level, in the application's words.
    pub level: String,
    /// How many.
    pub count: u64,
}

/// One message.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MessageLine {
    /// When, seconds.
    pub at: f64,
    /// `error`, `warning`, `info`, `debug`, `unknown`.
    pub level: String,
    /// Category.
    pub category: String,
    /// Text, redacted.
    pub text: String,
    /// Exception logged with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exception: Option<String>,
}

/// Allocations of one type at one place.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Allocation {
    /// Type.
    #[serde(rename = "type")]
    pub type_name: String,
    /// The application's innermost function.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub function: String,
    /// The function of the class library that it called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// Estimated bytes.
    pub bytes: u64,
    /// Of these, on the large object heap.
    pub large_bytes: u64,
    /// Samples it is estimated from.
    pub samples: u64,
    /// Stack of one, innermost first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<String>,
}

/// What was compiled.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Compiled {
    /// Methods.
    pub methods: u64,
    /// Time, where both ends were told.
    pub time_ns: u64,
    /// Bytes of code.
    pub bytes: u64,
    /// Methods by tier.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<(String, u64)>,
}

/// One counter or meter.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Counter {
    /// Provider and counter, with tags.
    pub name: String,
    /// Column.
    pub column: String,
    /// Unit, as in `metrics`.
    pub unit: String,
    /// Readings.
    pub readings: usize,
    /// First.
    pub first: f64,
    /// Last.
    pub last: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// Mean.
    pub mean: f64,
}

/// What went on while requests were slow.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Coincidence {
    /// `collection`, `starvation`, `contention`, `outgoing`, `command`.
    pub what: String,
    /// Slow requests looked at.
    pub requests: u64,
    /// Of these, those it went on during.
    pub hit: u64,
    /// Share of their time.
    pub share: f64,
    /// Share of the whole recording.
    pub usual: f64,
}

/// Events of a kind were taken in part.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Sampled {
    /// What.
    pub what: String,
    /// From, seconds.
    pub from: f64,
    /// Until, seconds.
    pub to: f64,
    /// Share that was taken.
    pub share: f64,
    /// Why.
    pub why: String,
}
