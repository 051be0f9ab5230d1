//! Findings with their evidence.

use serde::{Deserialize, Serialize};

/// A finding.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Finding {
    /// Stable id; `biopsy explain` and `docs/guide/findings.md` say what it means.
    pub id: String,
    /// What it was found in, and what its evidence refers to.
    #[serde(skip_serializing_if = "Source::is_recorded")]
    pub of: Source,
    /// `info`, `notice`, `warning`, `critical`.
    pub severity: String,
    /// Share of the target's time or capacity this is about.
    pub impact: f64,
    /// One sentence.
    pub title: String,
    /// What it means.
    pub explanation: String,
    /// What it rests on.
    pub evidence: Vec<Evidence>,
    /// What to do next.
    pub next_steps: Vec<String>,
}

/// What a finding was found in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Source {
    /// What was recorded over time; not written.
    #[default]
    Recorded,
    /// A dump.
    Dump {
        /// Position in [`Report::dumps`](crate::schema::Report::dumps).
        index: usize,
    },
    /// All evidence together.
    All,
}

impl Source {
    fn is_recorded(&self) -> bool {
        *self == Self::Recorded
    }
}

/// One piece of evidence.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Evidence {
    /// A sentence.
    pub text: String,
    /// Where to look.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<Reference>,
    /// The number it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Number>,
}

/// Where evidence is.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Reference {
    /// A function.
    Function {
        /// Its name.
        name: String,
        /// Its module.
        module: String,
        /// It is about waiting time, not CPU time.
        #[serde(default)]
        waiting: bool,
        /// Position in [`Recorded::functions`](crate::schema::Recorded::functions) (in the page: in its table of
        /// functions); absent when it was cut.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        index: Option<usize>,
    },
    /// A thread.
    Thread {
        /// Thread id.
        tid: u32,
    },
    /// A group of threads.
    Group {
        /// Position in [`Threads::groups`](crate::schema::Threads::groups); of a dump: in
        /// [`Dump::groups`](crate::schema::Dump::groups).
        index: usize,
    },
    /// A column of a metric table.
    Metric {
        /// Table.
        table: String,
        /// Column.
        column: String,
        /// Key, joined by spaces.
        key: String,
    },
    /// A stretch of time.
    Time {
        /// From, seconds.
        from: f64,
        /// Until, seconds.
        to: f64,
    },
    /// A log line.
    Log {
        /// Source.
        source: String,
        /// Index of the log.
        log: usize,
        /// Index of the line among the lines kept.
        line: usize,
    },
    /// A table about a runtime.
    Runtime {
        /// Position in [`Recorded::runtimes`](crate::schema::Recorded::runtimes).
        runtime: usize,
        /// `collections`, `exceptions`, `contention`, `thread_pool`, `requests`, `outgoing`, `commands`, `messages`,
        /// `allocations`, `coincidences`.
        table: String,
        /// Position in the table; absent: all of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        row: Option<usize>,
    },
}

/// A number and its unit.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Number {
    /// 0 to 1.
    Share(f64),
    /// Nanoseconds.
    Ns(u64),
    /// A number.
    Count(f64),
    /// Bytes.
    Bytes(f64),
    /// Per second.
    PerSecond(f64),
    /// Cores.
    Cores(f64),
}
