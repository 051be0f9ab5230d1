//! How much a reader accepts, so that a hostile or broken recording cannot exhaust the machine that opens it.

/// Upper bounds for reading. The defaults are far above what the recorders write in a day of recording and low
/// enough for a machine with 8 GB.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Members of a recording. The recorders write a few dozen, and a few per process of the tree.
    pub members: usize,
    /// Bytes of one unpacked member.
    pub member_bytes: u64,
    /// Bytes of all unpacked members together, as far as they are read.
    pub total_bytes: u64,
    /// Bytes that may come out of packed ones however few these are: of one member that is packed in itself, and of all
    /// members of a zip together.
    pub free_bytes: u64,
    /// How many bytes more may come from each packed one. Logs, tables and timelines give 5 to 50; zstd can give 16,000,
    /// a zip 1,000.
    pub ratio: u64,
    /// Types of the objects of one heap snapshot.
    pub types: usize,
    /// Bytes of one JSON member; they are held in memory whole.
    pub json_bytes: u64,
    /// Bytes of one context text; more is cut with a warning.
    pub context_bytes: u64,
    /// Raw or stored bytes of one timeline chunk. Writers make chunks of 256 KiB plus one event.
    pub chunk_bytes: usize,
    /// Raw bytes of a whole timeline: bounds what text in it can add up to.
    pub timeline_bytes: u64,
    /// Events of a timeline. 5,000 events/s for an hour are 18 million; each takes about 70 bytes of memory.
    pub events: u64,
    /// Modules, frames and stacks, each. Their handles are 32 bits wide.
    pub definitions: usize,
    /// Bytes of one text in a timeline.
    pub string_bytes: usize,
    /// Metric tables.
    pub tables: usize,
    /// Rows of one metric table.
    pub rows: usize,
    /// Columns of one metric table, keys included.
    pub columns: usize,
    /// Lines of all logs together.
    pub log_lines: usize,
    /// Bytes of one line of a JSON-lines member.
    pub line_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        const MIB: u64 = 1 << 20;
        Self {
            members: 10_000,
            member_bytes: 2048 * MIB,
            total_bytes: 8192 * MIB,
            free_bytes: 64 * MIB,
            ratio: 200,
            types: 1_000_000,
            json_bytes: 64 * MIB,
            context_bytes: 16 * MIB,
            chunk_bytes: 8 << 20,
            timeline_bytes: 2048 * MIB,
            events: 50_000_000,
            definitions: 8_000_000,
            string_bytes: 64 << 10,
            tables: 256,
            rows: 10_000_000,
            columns: 512,
            log_lines: 5_000_000,
            line_bytes: 1 << 20,
        }
    }
}

impl Limits {
    /// How many bytes may come from so many packed ones.
    #[must_use]
    pub fn unpacked(&self, packed: u64) -> u64 {
        self.free_bytes.saturating_add(packed.saturating_mul(self.ratio))
    }

    /// Small bounds for fuzzing, where time and memory of one run count.
    #[must_use]
    pub fn small() -> Self {
        Self {
            members: 64,
            member_bytes: 1 << 20,
            total_bytes: 4 << 20,
            free_bytes: 1 << 20,
            ratio: 50,
            types: 1000,
            json_bytes: 1 << 20,
            context_bytes: 1 << 16,
            chunk_bytes: 1 << 20,
            timeline_bytes: 4 << 20,
            events: 100_000,
            definitions: 100_000,
            string_bytes: 4 << 10,
            tables: 16,
            rows: 10_000,
            columns: 64,
            log_lines: 10_000,
            line_bytes: 64 << 10,
        }
    }
}
