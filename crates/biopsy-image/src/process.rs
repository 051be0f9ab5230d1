//! Facts of a process that a dump carries.

use biopsy_model::Pid;

/// What the notes of a dump, or `/proc` of a live process, say about it. Everything optional may be missing in a dump.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ProcessFacts {
    /// Its pid.
    pub pid: Pid,
    /// Its parent.
    pub parent: Option<Pid>,
    /// Process group and session.
    pub group: Option<(u32, u32)>,
    /// Real user and group id.
    pub owner: Option<(u32, u32)>,
    /// Name (`comm`, `pr_fname`), bytes as they are.
    pub name: Vec<u8>,
    /// Arguments: whole for a live process, the first 80 bytes in a core. Not redacted: never print it.
    pub command_line: Vec<Vec<u8>>,
    /// Path of the executable, as the process saw it.
    pub executable: Option<Vec<u8>>,
    /// The auxiliary vector: type and value (getauxval(3)).
    pub auxiliary: Vec<(u64, u64)>,
    /// `utsname.release` of the kernel, where known.
    pub kernel: Option<String>,
    /// When it was taken, nanoseconds since 1970 in UTC, where known.
    pub taken_at_unix_nanos: Option<i64>,
    /// The dump does not tell what was mapped: of that only memory and modules that are in it are known.
    pub mappings_not_told: bool,
    /// The program that wrote it, where that can be told.
    pub writer: Option<String>,
}

/// Well-known types of the auxiliary vector (`linux/auxvec.h`).
pub mod auxiliary {
    /// Where the program headers of the executable are in memory.
    pub const PHDR: u64 = 3;
    /// How many program headers.
    pub const PHNUM: u64 = 5;
    /// Base address of the dynamic linker.
    pub const BASE: u64 = 7;
    /// Entry point of the executable.
    pub const ENTRY: u64 = 9;
    /// Address of the vdso.
    pub const SYSINFO_EHDR: u64 = 33;
}
