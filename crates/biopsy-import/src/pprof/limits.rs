//! How much of a profile is read and kept.

/// Limits for importing one profile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes once unpacked: gzip can make a thousand of one. Profiles of large servers have some 10 MB.
    pub unpacked: u64,
    /// Rows of each table: samples, locations, functions, mappings, texts (count, each).
    pub rows: usize,
    /// Samples that the rows become (count): a row of many becomes fewer with more weight.
    pub samples: usize,
    /// Distinct nodes of stacks (count).
    pub stacks: usize,
    /// Frames of one stack (count); pprof's writers stop at 64 to 512.
    pub depth: usize,
    /// Bytes of one name or path.
    pub text: usize,
    /// Bytes of all names of frames together: a short row may ask for a long name.
    pub names: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            unpacked: 512 << 20,
            rows: 4_000_000,
            samples: 1_000_000,
            stacks: 8_000_000,
            depth: 1_024,
            text: 4_096,
            names: 256 << 20,
        }
    }
}

impl Limits {
    /// For tests with hostile files: everything is reached soon.
    #[must_use]
    pub fn small() -> Self {
        Self {
            unpacked: 1 << 20,
            rows: 1_000,
            samples: 500,
            stacks: 2_000,
            depth: 32,
            text: 128,
            names: 64 << 10,
        }
    }
}
