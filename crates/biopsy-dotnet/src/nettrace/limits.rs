//! How much of a stream is kept at one time.

/// Limits for reading one stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes of one block; larger ones are skipped. The runtime's have about 100 KiB; version 6 cannot say more than 16 MiB.
    pub block: usize,
    /// Descriptions of events in force (count). A busy ASP.NET Core server has 300.
    pub metadata: usize,
    /// Fields of one description, nested ones included (count).
    pub fields: usize,
    /// Bytes of one name.
    pub text: usize,
    /// Bytes of stacks between two sequence points. The runtime sets a sequence point every ten seconds or 10 MB of events.
    pub stacks: usize,
    /// Threads, and lists of labels, in force (count, each).
    pub rows: usize,
    /// Bytes of events held back to give them out in order of time.
    pub held_back: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            block: 16 << 20,
            metadata: 1 << 16,
            fields: 1 << 10,
            text: 1 << 14,
            stacks: 16 << 20,
            rows: 1 << 20,
            held_back: 32 << 20,
        }
    }
}

impl Limits {
    /// For tests with hostile bytes: everything is reached soon.
    #[must_use]
    pub fn small() -> Self {
        Self {
            block: 1 << 16,
            metadata: 64,
            fields: 32,
            text: 256,
            stacks: 1 << 12,
            rows: 64,
            held_back: 1 << 12,
        }
    }
}
