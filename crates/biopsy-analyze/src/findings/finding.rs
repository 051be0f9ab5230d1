//! Findings: what an expert would say, with the evidence.

pub use super::ids::FindingId;
use crate::trace::function::FunctionHandle;
pub use biopsy_model::Severity;
use biopsy_model::{MonoNanos, Nanos, Tid};

/// One finding.
#[derive(Clone, PartialEq, Debug)]
pub struct Finding {
    /// Which it is.
    pub id: FindingId,
    /// How much it matters.
    pub severity: Severity,
    /// 0 to 1: share of the target's (or the machine's) time or capacity this is about. Findings are ordered by severity,
    /// then by this.
    pub impact: f64,
    /// One sentence, without final period.
    pub title: String,
    /// A few sentences: what it means, and what it is not.
    pub explanation: String,
    /// What it rests on.
    pub evidence: Vec<Evidence>,
    /// What to do or look at next.
    pub next_steps: Vec<String>,
}

/// One piece of evidence.
#[derive(Clone, PartialEq, Debug)]
pub struct Evidence {
    /// A sentence or fragment, with its numbers.
    pub text: String,
    /// Where to look.
    pub reference: Reference,
    /// The number it is about.
    pub value: Option<Value>,
}

/// Where evidence is.
#[derive(Clone, PartialEq, Debug)]
pub enum Reference {
    /// Nowhere in particular: the whole recording.
    Recording,
    /// A function, by CPU time.
    Function(FunctionHandle),
    /// A function, by waiting time.
    WaitFunction(FunctionHandle),
    /// A thread.
    Thread(Tid),
    /// A group of threads: index into [`ThreadTable::groups`](crate::ThreadTable::groups).
    Group(usize),
    /// A column of a metric table; the key joined by a space, empty where the table has none.
    Metric {
        /// Table.
        table: String,
        /// Column.
        column: String,
        /// Key.
        key: String,
    },
    /// A stretch of time.
    Time {
        /// From.
        from: MonoNanos,
        /// Until.
        to: MonoNanos,
    },
    /// A line of a log: indices into `Capture::logs` and its lines.
    Log {
        /// Which log.
        log: usize,
        /// Which line.
        line: usize,
    },
    /// A table about a runtime.
    Runtime {
        /// Index into `Capture::runtimes`.
        runtime: usize,
        /// `collections`, `exceptions`, `contention`, `thread_pool`, `requests`, `outgoing`, `commands`, `messages`,
        /// `allocations`, `coincidences`.
        table: &'static str,
        /// Row of the table of that name in [`RuntimeSummary`](crate::RuntimeSummary); `None`: all of it.
        row: Option<usize>,
    },
}

/// A number with its unit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
    /// 0 to 1.
    Share(f64),
    /// A time.
    Time(Nanos),
    /// A number.
    Count(f64),
    /// Bytes.
    Bytes(f64),
    /// Per second.
    PerSecond(f64),
    /// Cores.
    Cores(f64),
}
