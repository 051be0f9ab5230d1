//! Dumps: what goes into one, how it was got, and what it lacks.

use std::fmt;

use crate::{Avma, Pid};

/// Which format a dump has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DumpKind {
    /// ELF core, as the kernel, gdb, createdump and biopsy write it.
    Core,
    /// Minidump of Windows, Breakpad or Crashpad.
    Minidump,
}

impl fmt::Display for DumpKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Core => "core",
            Self::Minidump => "minidump",
        })
    }
}

/// What a core holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CoreKind {
    /// Everything that can be read, text of mapped files included.
    Full,
    /// What a debugger needs to walk stacks and heaps: memory that only the process has, and of mapped files the parts that say
    /// what they are and how to unwind.
    Heap,
    /// Stacks, registers and what names modules.
    Stacks,
}

/// How the memory was got.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum CaptureMethod {
    /// Not said.
    #[default]
    Unknown,
    /// From a copy-on-write copy of the process.
    CopyOnWrite,
    /// Copied while the process was stopped.
    StopAndCopy,
    /// Read from a process that was held for all the time (at its end, for example).
    Held,
}

/// Memory by importance, the most important first: contents are written in this order, and a size ceiling drops from the
/// end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// Stacks from 128 bytes below the stack pointer on, and the memory at the thread pointer.
    Stacks,
    /// Small parts of mapped files that name them and say how to unwind them; the list of modules of the dynamic linker.
    Modules,
    /// Private memory: heaps, and the process's own copies of pages of files.
    Private,
    /// Memory that may be shared: memfds, System V, `/dev/shm`.
    Shared,
    /// What is in files too.
    Files,
}

impl Class {
    /// All, by importance.
    pub const ALL: [Self; 5] = [Self::Stacks, Self::Modules, Self::Private, Self::Shared, Self::Files];

    /// Place in [`Class::ALL`].
    #[must_use]
    pub fn index(self) -> usize {
        match self {
            Self::Stacks => 0,
            Self::Modules => 1,
            Self::Private => 2,
            Self::Shared => 3,
            Self::Files => 4,
        }
    }

    /// Whether the bytes change when the process writes, so that they must come from the frozen copy.
    #[must_use]
    pub fn needs_freeze(self) -> bool {
        match self {
            Self::Stacks | Self::Modules | Self::Private => true,
            Self::Shared | Self::Files => false,
        }
    }
}

/// Why a range of a mapping is not in a core.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reason {
    /// Anonymous memory that was never touched: zeros in the process.
    Zero,
    /// The same bytes are in the mapped file.
    InFile,
    /// Not part of this kind of dump.
    Kind,
    /// Above the size ceiling.
    Ceiling,
    /// The process itself may not read it.
    Unreadable,
    /// It could not be read any more.
    Gone,
    /// Memory of a device.
    Device,
    /// There was no time to copy it while the process stood still.
    NoTime,
}

impl Reason {
    /// All, in the order of their numbers in the notes of a core, from 1.
    pub const ALL: [Self; 8] = [
        Self::Zero,
        Self::InFile,
        Self::Kind,
        Self::Ceiling,
        Self::Unreadable,
        Self::Gone,
        Self::Device,
        Self::NoTime,
    ];
}

/// How one dump was taken and what it holds.
#[derive(Clone, PartialEq, Debug)]
pub struct DumpFacts {
    /// Whose.
    pub pid: Pid,
    /// Member of the recording that holds it.
    pub member: String,
    /// Its format.
    pub format: DumpKind,
    /// What was to go in.
    pub kind: CoreKind,
    /// Secrets of known shapes were masked. Never clean.
    pub scrubbed: bool,
    /// Nothing that this kind of dump should have is missing.
    pub whole: bool,
    /// Why it was taken.
    pub reason: String,
    /// When, seconds since 1970 in UTC.
    pub taken_at_unix_seconds: f64,
    /// How its memory was got.
    pub method: CaptureMethod,
    /// How long the process stood still, in milliseconds.
    pub pause_ms: f64,
    /// What was predicted.
    pub predicted_pause_ms: Option<f64>,
    /// How long the copy of the memory was needed, in milliseconds: until then, first writes to a page cost more.
    pub frozen_ms: Option<f64>,
    /// Threads with registers, of all.
    pub threads_with_registers: usize,
    /// Threads.
    pub threads: usize,
    /// Bytes of the unpacked dump, holes included.
    pub logical_bytes: Option<u64>,
    /// Bytes written.
    pub written_bytes: Option<u64>,
    /// Bytes of memory in it, by class.
    pub contents: Vec<(Class, u64)>,
    /// What the kind or the ceiling left out, in bytes by reason.
    pub left_out: Vec<(Reason, u64)>,
    /// What should be there and is not.
    pub missing: Vec<MissingMemory>,
    /// Why it ends early.
    pub error: Option<String>,
    /// What is worth knowing.
    pub warnings: Vec<String>,
}

/// A range that should be in a dump and is not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MissingMemory {
    /// First address.
    pub start: Avma,
    /// Bytes.
    pub bytes: u64,
    /// Why.
    pub why: Reason,
}
