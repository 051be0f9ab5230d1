//! Functions, threads, waits, metrics, logs.

use serde::{Deserialize, Serialize};

/// A function with its times.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Function {
    /// Name, or module and offset.
    pub name: String,
    /// File name of its module.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub module: String,
    /// `kernel`, `native`, `jit`, `unknown`, `heading`.
    pub kind: String,
    /// The name is a real one.
    pub named: bool,
    /// Source file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// CPU time in itself.
    pub cpu_self_ns: u64,
    /// CPU time in itself and below.
    pub cpu_total_ns: u64,
    /// Waiting time in itself.
    pub wait_self_ns: u64,
    /// Waiting time in itself and below.
    pub wait_total_ns: u64,
}

/// Threads.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Threads {
    /// Times come from the scheduler; otherwise from samples, and `ready_ns` and `waiting_ns` are absent.
    pub exact: bool,
    /// Alive at the start.
    pub at_start: usize,
    /// Alive at the end.
    pub at_end: usize,
    /// The most at one time.
    pub peak: usize,
    /// Created during the recording.
    pub born: usize,
    /// Ended during the recording.
    pub exited: usize,
    /// Groups by process and name pattern.
    pub groups: Vec<ThreadGroup>,
    /// Threads, most CPU time first; cut to the first [`THREADS`](crate::schema::THREADS).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<Thread>,
    /// How many there were before the cut.
    pub seen: usize,
}

/// A group of threads.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ThreadGroup {
    /// Name pattern.
    pub name: String,
    /// Process.
    pub pid: u32,
    /// How many.
    pub threads: usize,
    /// On CPUs.
    pub running_ns: u64,
    /// Ready without a CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_ns: Option<u64>,
    /// Waiting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_ns: Option<u64>,
    /// CPU time by samples.
    pub sampled_ns: u64,
    /// Switches because of waits.
    pub voluntary: u64,
    /// Switches while it could have gone on.
    pub involuntary: u64,
    /// Times woken.
    pub wakeups: u64,
    /// Function with the most CPU time of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_function: Option<String>,
}

/// A thread.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Thread {
    /// Thread id.
    pub tid: u32,
    /// Process; absent: not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Name.
    pub name: String,
    /// Position of its group.
    pub group: usize,
    /// Began during the recording, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub born_at: Option<f64>,
    /// Created by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<u32>,
    /// Ended during the recording, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_at: Option<f64>,
    /// On a CPU.
    pub running_ns: u64,
    /// Ready without a CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_ns: Option<u64>,
    /// Waiting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_ns: Option<u64>,
    /// CPU time by samples.
    pub sampled_ns: u64,
    /// CPU samples.
    pub samples: u64,
    /// Switches because of waits.
    pub voluntary: u64,
    /// Switches while it could have gone on.
    pub involuntary: u64,
    /// Times woken.
    pub wakeups: u64,
    /// Function with the most CPU time of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_function: Option<String>,
    /// Its share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_share: Option<f64>,
}

/// What waits for what.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Waits {
    /// Waiting time of all threads.
    pub total_ns: u64,
    /// Of that, explained by recorded waits.
    pub recorded_ns: u64,
    /// Recorded waits.
    pub count: u64,
    /// Time that off-CPU samples stand for.
    pub sampled_ns: u64,
    /// By reason.
    pub reasons: Vec<WaitReason>,
    /// By function and reason.
    pub functions: Vec<WaitFunction>,
    /// Who woke whom.
    pub activations: Vec<Activation>,
    /// Locks that threads queue for.
    pub convoys: Vec<Convoy>,
    /// Waits for a thread that had itself waited.
    pub behind: Vec<Behind>,
    /// The longest single waits.
    pub longest: Vec<LongWait>,
}

/// Waiting time by reason.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitReason {
    /// `lock`, `condition`, `lock-or-condition`, `kernel-lock`, `events`, `peer`, `pipe`, `descriptor`, `disk`,
    /// `memory`, `sleep`, `child`, `signal`, `preempted`, `stopped`, `throttled`, `other`, `unknown`.
    pub reason: String,
    /// Time.
    pub time_ns: u64,
    /// Waits or looks.
    pub count: u64,
    /// The longest.
    pub longest_ns: u64,
    /// Threads.
    pub threads: usize,
    /// System calls, with their times.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub syscalls: Vec<(String, u64)>,
}

/// Waiting time by function.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitFunction {
    /// Function; absent: no stack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Its module.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// Reason.
    pub reason: String,
    /// Time.
    pub time_ns: u64,
    /// Waits or looks.
    pub count: u64,
    /// The longest.
    pub longest_ns: u64,
    /// Threads.
    pub threads: usize,
    /// Their groups.
    pub groups: Vec<String>,
}

/// Who woke whom.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Activation {
    /// Name of the waking group, `interrupt`, or `another process`.
    pub waker: String,
    /// Position of the waking group; absent: not one of ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waker_group: Option<usize>,
    /// Name of the woken group.
    pub woken: String,
    /// Its position.
    pub woken_group: usize,
    /// How often.
    pub count: u64,
    /// Waiting time that ended so.
    pub time_ns: u64,
    /// Time then spent ready.
    pub ready_ns: u64,
    /// What for, mostly.
    pub reason: String,
}

/// A lock that threads queue for.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Convoy {
    /// Function they wait in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// What told that it is a lock; `condition`: only that it is handed on among those who wait.
    pub reason: String,
    /// Threads.
    pub threads: usize,
    /// Their waiting time there.
    pub time_ns: u64,
    /// As share of these threads' time.
    pub share: f64,
    /// Mean number waiting at one time.
    pub mean_queue: f64,
    /// Share of wake-ups by a thread that waits there too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handed_on: Option<f64>,
}

/// Threads waited for a thread that had itself waited, for something else: what they really waited for.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Behind {
    /// Where they waited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// For what.
    pub reason: String,
    /// Where the thread that ended their waits had waited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause_function: Option<String>,
    /// For what.
    pub cause: String,
    /// Waits.
    pub count: u64,
    /// Share of all waits at that place whose waker is known.
    pub share: f64,
    /// Time during which both waited; a lower bound.
    pub time_ns: u64,
    /// Threads.
    pub threads: usize,
}

/// One long wait.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LongWait {
    /// Thread.
    pub tid: u32,
    /// From, seconds.
    pub from: f64,
    /// How long.
    pub time_ns: u64,
    /// Reason.
    pub reason: String,
    /// Where.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Woken by; 0: an interrupt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waker: Option<u32>,
}

/// Metrics in brief.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Metrics {
    /// Intervals worth looking at.
    pub notables: Vec<Notable>,
    /// Trends.
    pub trends: Vec<Trend>,
    /// Each column and key with its mean and extremes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub summary: Vec<Metric>,
}

/// An interval in which something was short.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Notable {
    /// `cpu-saturated`, `steal`, `cpu-pressure`, `memory-pressure`, `io-pressure`, `swapping`, `memory-short`,
    /// `throttled`, `disk-busy`.
    pub kind: String,
    /// From, seconds.
    pub from: f64,
    /// Until, seconds.
    pub to: f64,
    /// Table.
    pub table: String,
    /// Column.
    pub column: String,
    /// Key.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// The worst reading.
    pub worst: f64,
    /// Mean.
    pub mean: f64,
    /// One short sentence.
    pub text: String,
}

/// How a reading went over the window.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Trend {
    /// Table.
    pub table: String,
    /// Column.
    pub column: String,
    /// Key.
    pub key: String,
    /// First reading.
    pub first: f64,
    /// Last reading.
    pub last: f64,
    /// Change a minute.
    pub per_minute: f64,
    /// r².
    pub fit: f64,
    /// It grew steadily.
    pub growing: bool,
}

/// One column and key of a metric table.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Metric {
    /// Table.
    pub table: String,
    /// Column.
    pub column: String,
    /// Key, joined by spaces.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// `count`, `per-second`, `cores`, `ratio`, `bytes`, `bytes-per-second`, `milliseconds`.
    pub unit: String,
    /// Readings.
    pub readings: usize,
    /// Readings that could not be taken.
    pub missing: usize,
    /// Mean.
    pub mean: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// Last.
    pub last: f64,
}

/// Logs in brief.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Logs {
    /// Sources: path or `journal:UNIT`.
    pub sources: Vec<String>,
    /// Lines.
    pub lines: u64,
    /// Errors.
    pub errors: u64,
    /// Warnings.
    pub warnings: u64,
    /// Lines without a time.
    pub without_time: u64,
    /// Topics.
    pub topics: Vec<LogTopic>,
    /// Bursts: from, until (seconds), lines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bursts: Vec<(f64, f64, u64)>,
}

/// Lines of one shape.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LogTopic {
    /// `error`, `warning`, `info`, `debug`, `unknown`.
    pub level: String,
    /// The first line.
    pub example: String,
    /// Source.
    pub source: String,
    /// Index of the log.
    pub log: usize,
    /// Index of the first line.
    pub line: usize,
    /// How many.
    pub count: u64,
    /// First, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<f64>,
    /// Last, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<f64>,
}
