//! Log lines of interest: errors and warnings of one shape are one topic with a count.

use biopsy_model::MonoNanos;
use biopsy_model::log::LogLevel;

/// What the logs say.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LogSummary {
    /// Topics: errors first, then warnings, then the rest of interest; within that by count.
    pub topics: Vec<LogTopic>,
    /// Lines in all logs.
    pub lines: u64,
    /// Error lines.
    pub errors: u64,
    /// Warning lines.
    pub warnings: u64,
    /// Lines whose time could not be read.
    pub without_time: u64,
    /// Moments when lines came at more than 10 times their usual rate: from, to, lines.
    pub bursts: Vec<(MonoNanos, MonoNanos, u64)>,
}

/// Lines of one shape (numbers, ids and quoted values aside).
#[derive(Clone, PartialEq, Debug)]
pub struct LogTopic {
    /// Severity.
    pub level: LogLevel,
    /// The first line, as an example.
    pub example: String,
    /// Index into `Capture::logs`.
    pub log: usize,
    /// Index of the first line in that log.
    pub line: usize,
    /// How many lines.
    pub count: u64,
    /// First time.
    pub first: Option<MonoNanos>,
    /// Last time.
    pub last: Option<MonoNanos>,
}
