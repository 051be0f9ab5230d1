//! How much of a foreign file is read.

/// Limits for importing one file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Size of the file in bytes: it is read into memory. perf with copied stacks writes about 7 MB a second.
    pub file: u64,
    /// Records (count). 40 million are a day of one busy CPU.
    pub records: usize,
    /// Events that a file describes (count). perf has one or a few, with one id for each CPU.
    pub events: usize,
    /// Ids of one event (count): CPUs times threads.
    pub ids: usize,
    /// Mappings of all processes together (count).
    pub mappings: usize,
    /// Threads (count).
    pub threads: usize,
    /// Distinct frames, and distinct stacks (count, each).
    pub stacks: usize,
    /// Frames of one stack (count).
    pub depth: usize,
    /// Bytes of a path, name or feature text.
    pub text: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            file: 4 << 30,
            records: 40_000_000,
            events: 256,
            ids: 1 << 20,
            mappings: 2_000_000,
            threads: 1 << 20,
            stacks: 16_000_000,
            depth: 1_024,
            text: 4_096,
        }
    }
}

impl Limits {
    /// For tests with hostile files: everything is reached soon.
    #[must_use]
    pub fn small() -> Self {
        Limits {
            file: 1 << 20,
            records: 10_000,
            events: 8,
            ids: 256,
            mappings: 1_000,
            threads: 500,
            stacks: 10_000,
            depth: 64,
            text: 256,
        }
    }
}
