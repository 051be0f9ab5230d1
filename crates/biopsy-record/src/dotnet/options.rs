//! What is recorded of .NET processes.

use std::time::Duration;

/// Least serious log messages that are taken, in the words of `Microsoft.Extensions.Logging`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AppLogLevel {
    /// Everything.
    Trace,
    /// Debug and above.
    Debug,
    /// Information and above.
    Information,
    /// Warnings and above.
    Warning,
    /// Errors and above.
    Error,
    /// What ends the application.
    Critical,
    /// No messages.
    None,
}

impl AppLogLevel {
    /// The word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Trace => "Trace",
            Self::Debug => "Debug",
            Self::Information => "Information",
            Self::Warning => "Warning",
            Self::Error => "Error",
            Self::Critical => "Critical",
            Self::None => "None",
        }
    }

    /// The level of a word, in any case, with the usual short forms.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text.to_ascii_lowercase().as_str() {
            "trace" | "verbose" => Self::Trace,
            "debug" => Self::Debug,
            "info" | "information" => Self::Information,
            "warn" | "warning" => Self::Warning,
            "error" => Self::Error,
            "critical" | "fatal" => Self::Critical,
            "none" | "off" => Self::None,
            _ => return None,
        })
    }
}

/// How much of a kind of event is taken before it is sampled, to spare the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// Events of requests, commands and messages a second, per process.
    pub events_per_second: u32,
    /// Requests a second above which they are counted in turns.
    pub counted_per_second: u32,
    /// Bytes a second.
    pub bytes_per_second: u64,
    /// Length of one turn of a kind that is above it: taken for a share of this, then left for the rest.
    pub turn: Duration,
    /// Most bytes of one event stream that are kept in the recording.
    pub stream_bytes: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            // 5,000 requests a second with two events each cost a process about one per cent of a core.
            events_per_second: 10_000,
            // Counting a request costs a third of its two events.
            counted_per_second: 10_000,
            bytes_per_second: 8 << 20,
            turn: Duration::from_secs(10),
            stream_bytes: 512 << 20,
        }
    }
}

/// What is recorded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DotNetOptions {
    /// Least serious log messages.
    pub log_level: AppLogLevel,
    /// Categories (prefixes) of which messages are taken; empty: all.
    pub log_categories: Vec<String>,
    /// Each request with status, route and trace, and the application's own request log.
    pub requests: bool,
    /// A sample of allocations with their stacks.
    pub allocations: bool,
    /// EventSources with counters and meters of the application, beyond those of the framework.
    pub counters: Vec<String>,
    /// Only what costs next to nothing: collections, exceptions, contention, the thread pool, the runtime's counters.
    pub gentle: bool,
    /// When to sample.
    pub budget: Budget,
}

impl DotNetOptions {
    /// For a recorder that stands by for days.
    #[must_use]
    pub fn gentle() -> Self {
        // Each with a stack.
        let budget = Budget { events_per_second: 1_000, bytes_per_second: 1 << 20, ..Budget::default() };
        Self { gentle: true, log_level: AppLogLevel::None, budget, ..Self::default() }
    }
}

impl Default for DotNetOptions {
    fn default() -> Self {
        Self {
            log_level: AppLogLevel::Warning,
            log_categories: Vec::new(),
            requests: false,
            allocations: false,
            counters: Vec::new(),
            gentle: false,
            budget: Budget::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_by_their_words() {
        for level in [AppLogLevel::Trace, AppLogLevel::Warning, AppLogLevel::Critical, AppLogLevel::None] {
            assert_eq!(AppLogLevel::parse(level.word()), Some(level));
        }
        assert_eq!(AppLogLevel::parse("info"), Some(AppLogLevel::Information));
        assert_eq!(AppLogLevel::parse("loud"), None);
    }
}
