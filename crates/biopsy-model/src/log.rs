//! Log files and journal entries, cut to the window of the recording.

use crate::MonoNanos;

/// One line (or one multi-line record) of a log, redacted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogLine {
    /// When, on the recording's clock, where the line's time stamp could be read.
    pub time: Option<MonoNanos>,
    /// Severity as far as it could be told from the text.
    pub level: LogLevel,
    /// Text, redacted, without the line end.
    pub text: String,
}

/// Severity of a log line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LogLevel {
    /// Could not be told.
    Unknown,
    /// Trace, verbose, debug.
    Debug,
    /// Informational.
    Info,
    /// Warning.
    Warning,
    /// Error, and worse.
    Error,
}

/// One log source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogFile {
    /// Path in the file system, or `journal:UNIT`.
    pub source: String,
    /// Name of the member in the recording.
    pub member: String,
    /// Zone that time stamps without one were read in.
    pub assumed_zone: String,
    /// Lines inside the window, in file order.
    pub lines: Vec<LogLine>,
}
