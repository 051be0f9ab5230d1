//! What a reader of dumps accepts before it calls a file hostile.

/// Bounds on what is taken from a file. The defaults are far beyond what real dumps have; each bounds memory or time
/// that a lying header could ask for.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Program headers of a core. The kernel's own limit on mappings (`vm.max_map_count`) is 65,530 unless raised.
    pub program_headers: u64,
    /// Notes of a core: some per thread, some per process.
    pub notes: u64,
    /// Bytes of one note. NT_FILE has about 90 bytes for each mapped file.
    pub note_bytes: u64,
    /// Bytes of all notes that are read.
    pub note_bytes_of_all: u64,
    /// Threads.
    pub threads: usize,
    /// Bytes of the extended registers of one thread (11 KiB with AMX).
    pub extended_bytes: usize,
    /// Bytes that the extended registers of all threads may take together.
    pub extended_bytes_of_all: usize,
    /// Mappings, after segments and mapped files were put together.
    pub mappings: usize,
    /// Modules whose headers are looked at in memory; those behind have no build id.
    pub modules: usize,
    /// Frames of a compressed file (24 bytes of memory each).
    pub frames: u64,
    /// Bytes of one unpacked frame. Larger ones are unpacked to a temporary file instead.
    pub frame_bytes: u64,
    /// Bytes of unpacked frames that are kept in memory.
    pub cached_bytes: u64,
    /// Bytes that a file that has to be unpacked may have, holes included.
    pub unpacked_bytes: u64,
    /// Bytes other than holes that unpacking may write to the temporary file.
    pub written_bytes: u64,
    /// How many bytes other than holes may come from one compressed byte, once 1 GiB is written. Real memory gives
    /// less than 50.
    pub ratio: u64,
    /// Bytes of a minidump that are held in memory: all but the memory of the process.
    pub minidump_bytes: u64,
    /// What has to be unpacked goes to memory, and never to a disk: it was sealed.
    pub is_memory_only: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            program_headers: 4 << 20,
            notes: 4 << 20,
            note_bytes: 512 << 20,
            note_bytes_of_all: 2 << 30,
            threads: 1 << 20,
            extended_bytes: 64 << 10,
            extended_bytes_of_all: 1 << 30,
            mappings: 4 << 20,
            modules: 16 << 10,
            frames: 16 << 20,
            frame_bytes: 32 << 20,
            cached_bytes: 96 << 20,
            unpacked_bytes: 1 << 40,
            written_bytes: 256 << 30,
            ratio: 250,
            minidump_bytes: 512 << 20,
            is_memory_only: false,
        }
    }
}

impl Limits {
    /// The same for what was sealed: nothing of it goes to a disk.
    #[must_use]
    pub fn memory_only(self) -> Self {
        Self { is_memory_only: true, ..self }
    }

    /// For tests and fuzzing: what a few hundred kilobytes may ask for.
    #[must_use]
    pub fn small() -> Self {
        Self {
            program_headers: 4096,
            notes: 4096,
            note_bytes: 1 << 20,
            note_bytes_of_all: 4 << 20,
            threads: 256,
            extended_bytes: 16 << 10,
            extended_bytes_of_all: 1 << 20,
            mappings: 8192,
            modules: 64,
            frames: 4096,
            frame_bytes: 4 << 20,
            cached_bytes: 8 << 20,
            unpacked_bytes: 64 << 20,
            written_bytes: 8 << 20,
            ratio: 250,
            minidump_bytes: 4 << 20,
            is_memory_only: false,
        }
    }
}
