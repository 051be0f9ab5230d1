//! How much is read.

/// What reading a runtime takes at most. Counts and links in memory are not believed beyond these.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Strands of one runtime.
    pub strands: usize,
    /// Frames of one strand.
    pub frames_per_strand: usize,
    /// Frames of all strands of a runtime.
    pub frames: usize,
    /// Length of a name or path in bytes.
    pub text: usize,
    /// Bytes of all names and paths together, and of all tables of lines.
    pub texts: usize,
    /// Objects of a heap that are looked through (asyncio's tasks are found among all that the collector knows).
    pub objects: usize,
    /// Bytes of data segments that are searched for the runtime's variables, for each module.
    pub searched_bytes: u64,
    /// Bytes of memory that are kept for reading again.
    pub cached_bytes: usize,
    /// Instructions that are followed to find who holds a lock, for each runtime.
    pub instructions: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // 100,000 goroutines are not rare; a million is a leak that shows in the first of them.
            strands: 200_000,
            frames_per_strand: 1_000,
            frames: 4_000_000,
            text: 1_000,
            texts: 256 << 20,
            objects: 4_000_000,
            searched_bytes: 256 << 20,
            cached_bytes: 64 << 20,
            instructions: 4_000_000,
        }
    }
}

impl Limits {
    /// For tests and fuzzing: what a few hundred kilobytes may ask for.
    #[must_use]
    pub fn small() -> Self {
        Self {
            strands: 256,
            frames_per_strand: 64,
            frames: 1_024,
            text: 200,
            texts: 1 << 20,
            objects: 4_096,
            searched_bytes: 1 << 20,
            cached_bytes: 1 << 20,
            instructions: 20_000,
        }
    }
}
