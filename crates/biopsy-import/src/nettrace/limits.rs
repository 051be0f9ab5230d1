//! How much of a `.nettrace` file is read and kept.

use biopsy_dotnet::{events, nettrace};

/// Limits for importing one file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Of the stream.
    pub stream: nettrace::Limits,
    /// Of what is kept of its events.
    pub events: events::Limits,
    /// Samples of threads (count); where there are more, every second is left out, then every fourth ...
    pub samples: usize,
    /// Distinct stacks of these (count).
    pub stacks: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            stream: nettrace::Limits::default(),
            events: events::Limits::default(),
            samples: 1_000_000,
            stacks: 100_000,
        }
    }
}

impl Limits {
    /// For tests with hostile files: everything is reached soon.
    #[must_use]
    pub fn small() -> Self {
        Self { stream: nettrace::Limits::small(), events: events::Limits::small(), samples: 16, stacks: 8 }
    }
}
