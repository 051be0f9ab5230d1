//! How much of what happened is kept one by one.

/// Limits of one collector. Totals and groups are exact as far as `groups` goes; what exceeds it is counted together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Items of each list (count): the slowest requests, the longest waits ...
    pub items: usize,
    /// Groups of each kind (count).
    pub groups: usize,
    /// What has begun and not ended (count, each kind). A server has as many requests at a time as clients.
    pub open: usize,
    /// Distinct stacks (count).
    pub stacks: usize,
    /// Frames of one stack (count).
    pub frames: usize,
    /// UTF-16 units of a text that are looked at.
    pub text: usize,
    /// Readings of counters (count): 60 counters once a second for an hour are 216,000.
    pub readings: usize,
    /// Texts whose group is remembered (count).
    pub remembered: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            items: 2_000,
            groups: 2_000,
            open: 100_000,
            stacks: 20_000,
            frames: 128,
            text: 4_096,
            readings: 250_000,
            remembered: 20_000,
        }
    }
}

impl Limits {
    /// For tests with hostile streams: everything is reached soon.
    #[must_use]
    pub fn small() -> Self {
        Self { items: 4, groups: 4, open: 4, stacks: 4, frames: 4, text: 64, readings: 16, remembered: 4 }
    }
}
