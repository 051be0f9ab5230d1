//! Files mapped into a process.

use crate::{Avma, FileOffset, MonoNanos, Pid};

/// Index into the timeline's module table: valid only for the table that made it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ModuleHandle(pub u32);

/// What kind of code a module holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ModuleKind {
    /// An ELF file mapped from disk (or deleted since).
    Elf,
    /// The kernel and its modules; addresses are absolute.
    Kernel,
    /// `[vdso]`.
    Vdso,
    /// Anonymous executable memory: code of a JIT compiler; addresses are absolute.
    Jit,
    /// A mapped file that is not ELF (a .NET assembly, for example).
    OtherFile,
    /// A source file of a language that an interpreter runs. Its functions have no addresses: frames are numbered.
    Source,
}

/// One executable mapping group: a file as it is mapped into one process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Module {
    /// The process; `Pid(0)` for the kernel.
    pub pid: Pid,
    /// What kind of code.
    pub kind: ModuleKind,
    /// Path as the target sees it (bytes made UTF-8 lossily), `[kernel.kallsyms]`, `[vdso]` or `[jit]`.
    pub path: String,
    /// GNU build id, where the file has one.
    pub build_id: Option<Vec<u8>>,
    /// Start of the executable mapping.
    pub start: Avma,
    /// End (exclusive).
    pub end: Avma,
    /// File offset of `start`.
    pub offset: FileOffset,
    /// When it was seen first: start of the recording, or the mmap record.
    pub since: MonoNanos,
    /// The file is gone (`(deleted)` in maps).
    pub deleted: bool,
}
