//! What the memory of a process said at one moment of a recording: locks, the thread pool, asynchronous operations.

use crate::words::words;
use crate::{MonoNanos, Nanos, Pid, Severity};

/// One look at a process.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Look {
    /// Which process.
    pub pid: Pid,
    /// Its name.
    pub name: String,
    /// When it was frozen.
    pub time: MonoNanos,
    /// How long it stood still.
    pub pause: Nanos,
    /// Threads that were seen.
    pub threads: u64,
    /// Asynchronous operations that were under way; `None`: not known.
    pub operations: Option<u64>,
    /// What was found, the most important first.
    pub findings: Vec<LookFinding>,
    /// What could not be determined, and why.
    pub undetermined: Vec<String>,
}

/// What was found.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LookFinding {
    /// Machine-readable id: `deadlock`, `waiting-operations`, ...
    pub id: String,
    /// How much it matters.
    pub severity: LookSeverity,
    /// 0 to 1, as far as a share makes sense.
    pub impact: f64,
    /// One sentence, without final period.
    pub title: String,
    /// A few sentences: what it means.
    pub explanation: String,
    /// What it rests on.
    pub evidence: Vec<String>,
    /// What to do or look at next.
    pub next_steps: Vec<String>,
}

words! {
    /// A [`Severity`] as a recording has it.
    LookSeverity {
        /// [`Severity::Critical`].
        Critical = "critical",
        /// [`Severity::Warning`].
        Warning = "warning",
        /// [`Severity::Notice`].
        Notice = "notice",
        /// [`Severity::Info`].
        Info = "info",
    }
}

impl From<Severity> for LookSeverity {
    fn from(severity: Severity) -> Self {
        match severity {
            Severity::Critical => Self::Critical,
            Severity::Warning => Self::Warning,
            Severity::Notice => Self::Notice,
            Severity::Info => Self::Info,
        }
    }
}

impl From<&LookSeverity> for Severity {
    /// What a newer version calls otherwise is at least worth a line.
    fn from(severity: &LookSeverity) -> Self {
        match severity {
            LookSeverity::Critical => Self::Critical,
            LookSeverity::Warning => Self::Warning,
            LookSeverity::Notice => Self::Notice,
            LookSeverity::Info | LookSeverity::Unknown | LookSeverity::Other(_) => Self::Info,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn severities_have_the_same_words_in_a_recording() {
        for severity in Severity::ALL {
            let recorded = LookSeverity::from(severity);
            assert_eq!(recorded.as_str(), severity.word());
            assert_eq!(Severity::from(&recorded), severity);
        }
        assert_eq!(Severity::from(&LookSeverity::from("grave")), Severity::Info);
    }
}
