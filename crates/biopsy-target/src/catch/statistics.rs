//! What catching has cost and missed.

use std::time::Duration;

/// Most remarks that are kept.
const NOTES: usize = 1000;

/// What catching has cost and missed, so far.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct CatchStatistics {
    /// Executions that waited for us, of whatever program.
    pub executions: u64,
    /// The longest that one of them waited from the moment we took notice.
    pub longest_wait: Duration,
    /// All those waits together.
    pub total_wait: Duration,
    /// Processes that turned out to be what is waited for, and were followed.
    pub followed: u64,
    /// Processes that were handed out.
    pub caught: u64,
    /// Processes that should have been caught and were not; the remarks say why.
    pub missed: u64,
    /// Signals that were passed on to the processes followed.
    pub signals_passed: u64,
    /// Executions that went on undecided: what looks at who starts a program had no answer in time. What was waited for may be
    /// among them.
    pub unseen: u64,
    /// What is worth saying, in words, oldest first.
    pub notes: Vec<String>,
}

impl CatchStatistics {
    pub(super) fn count_request(&mut self, waited: Duration) {
        self.executions += 1;
        self.total_wait += waited;
        self.longest_wait = self.longest_wait.max(waited);
    }

    pub(super) fn add_note(&mut self, note: String) {
        if self.notes.len() < NOTES {
            self.notes.push(note);
        }
    }
}
