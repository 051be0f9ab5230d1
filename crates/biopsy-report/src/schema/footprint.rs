//! Where the memory of a process went, at one moment.

use serde::{Deserialize, Serialize};

/// All of its memory.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Footprint {
    /// Of the process.
    pub name: String,
    /// Its pid.
    pub pid: u32,
    /// When, in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken_at: Option<String>,
    /// How long it stood still.
    pub pause_ms: f64,
    /// Bytes in memory that were told apart: those of `parts`.
    pub resident: u64,
    /// What the memory is for, the largest first.
    pub parts: Vec<Part>,
    /// What the kernel counts; absent: it could not be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<Kernel>,
    /// Allocators of native code that were understood.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allocators: Vec<Allocator>,
    /// Managed runtimes whose memory is known by pools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub runtimes: Vec<Runtime>,
    /// What is worth knowing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Memory of one kind.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Part {
    /// `allocated`, `allocator-free`, `stacks`, `managed-heap`, `managed-free`, `runtime-data`, `compiled-code`, `changed-files`, `shared`, `unaccounted`.
    pub kind: String,
    /// The same for people.
    pub text: String,
    /// Bytes in memory.
    pub resident: u64,
    /// Bytes of addresses.
    pub reserved: u64,
}

/// Amounts of `/proc/PID/status`, in bytes.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Kernel {
    /// `VmRSS`.
    pub resident: u64,
    /// `RssAnon`.
    pub anonymous: u64,
    /// `RssFile`.
    pub files: u64,
    /// `RssShmem`.
    pub shared: u64,
    /// `VmSwap`.
    pub swapped: u64,
    /// `VmPTE`.
    pub page_tables: u64,
}

/// What an allocator holds.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Allocator {
    /// `glibc`.
    pub name: String,
    /// Nothing is known to be missing.
    pub whole: bool,
    /// Its arenas, the main one first.
    pub arenas: Vec<Arena>,
    /// Blocks with a mapping of their own.
    pub mapped: Blocks,
    /// Free blocks that threads keep; arenas count them as used.
    pub cached: Blocks,
    /// Blocks by size, ascending.
    pub classes: Vec<Class>,
}

/// One arena.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Arena {
    /// Bytes that it has from the system.
    pub system: u64,
    /// Of these, bytes in memory.
    pub resident: u64,
    /// Blocks in use.
    pub used: Blocks,
    /// Free blocks, small ones in fast bins included.
    pub free: Blocks,
    /// Bytes at its end, not given out.
    pub top: u64,
    /// Bytes in which no blocks could be told apart.
    #[serde(skip_serializing_if = "is_zero")]
    pub unknown: u64,
}

/// What a managed runtime has.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Runtime {
    /// `Go 1.22.5`.
    pub name: String,
    /// Nothing is known to be missing.
    pub whole: bool,
    /// Its memory by what it is for.
    pub pools: Vec<Pool>,
    /// Objects by size, ascending, where its heap has sizes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<Class>,
}

/// Memory of a runtime that is for one thing.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Pool {
    /// As users of the runtime call it.
    pub name: String,
    /// The kind of memory that what is in use of it counts to.
    pub kind: String,
    /// Bytes of addresses.
    pub reserved: u64,
    /// Of these, bytes that the runtime may use without asking the system for more.
    pub committed: u64,
    /// Bytes in memory.
    pub resident: u64,
    /// What is in use, as the runtime counts it; a count of 0 is none that is known.
    pub used: Blocks,
}

/// Some blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Blocks {
    /// How many.
    pub count: u64,
    /// Their bytes, headers included.
    pub bytes: u64,
}

/// Blocks of similar size.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Class {
    /// Largest size in bytes, with header.
    pub up_to: u64,
    /// In use.
    pub used: Blocks,
    /// Free.
    pub free: Blocks,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
