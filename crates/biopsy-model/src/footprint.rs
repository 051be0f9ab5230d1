//! Where the memory of a process went.

use std::ops::Range;

use crate::words::words;
use crate::{Avma, Pid};

/// What the memory of a process is, at one moment.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Footprint {
    /// Whose memory.
    pub pid: Pid,
    /// When, seconds since 1970 in UTC; 0: not known.
    pub taken_at_unix_seconds: f64,
    /// How long the process stood still for it, in milliseconds.
    pub pause_ms: f64,
    /// What is in memory, by kind, the largest first. Nothing is in two of them.
    pub parts: Vec<FootprintPart>,
    /// What the kernel says, where it could be asked.
    pub kernel: Option<KernelSums>,
    /// The allocators of native code that were understood.
    pub allocators: Vec<AllocatorFacts>,
    /// The managed runtimes whose memory was understood, other than .NET.
    pub runtimes: Vec<RuntimeMemory>,
    /// What is worth knowing, and what could not be told.
    pub warnings: Vec<String>,
}

/// Memory of one kind.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct FootprintPart {
    /// Which.
    pub kind: MemoryKind,
    /// Bytes that are in memory (or in the dump).
    pub resident: u64,
    /// Bytes of addresses.
    pub reserved: u64,
}

words! {
    /// What memory is for.
    MemoryKind {
        /// Blocks that the program has from an allocator of native code and has not given back.
        Allocated = "allocated",
        /// Given back to the allocator, which keeps it: in its bins, in caches of threads, at the ends of its heaps.
        AllocatorFree = "allocator-free",
        /// Stacks of threads.
        Stacks = "stacks",
        /// The heap of a managed runtime; of one that is read by pools (`RuntimeMemory`), what is in use of it.
        ManagedHeap = "managed-heap",
        /// Memory that a managed runtime has for its heap and has no objects in.
        ManagedFree = "managed-free",
        /// What a managed runtime keeps for itself: what it knows of classes, tables of its collector and of its heap.
        RuntimeData = "runtime-data",
        /// Executable memory with no file behind it: what compilers at run time wrote.
        CompiledCode = "compiled-code",
        /// Pages of mapped files that the process changed: data of programs and libraries.
        ChangedFiles = "changed-files",
        /// Shared memory: System V, `/dev/shm`, memfd.
        Shared = "shared",
        /// Nothing above accounts for it: other allocators, runtimes, mappings that the program made itself.
        Unaccounted = "unaccounted",
    }
}

/// What the kernel accounts to the process (`/proc/PID/status`), in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct KernelSums {
    /// Resident memory in all (`VmRSS`).
    pub resident: u64,
    /// Of it, memory of its own (`RssAnon`).
    pub anonymous: u64,
    /// Of it, pages of files, which the kernel can drop (`RssFile`).
    pub files: u64,
    /// Of it, shared memory (`RssShmem`).
    pub shared: u64,
    /// Swapped out (`VmSwap`).
    pub swapped: u64,
    /// Page tables, which are not in the resident memory (`VmPTE`).
    pub page_tables: u64,
}

/// What one allocator of native code holds.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct AllocatorFacts {
    /// Its name: `glibc`, `jemalloc`.
    pub name: String,
    /// Its arenas, the main one first; of jemalloc by number.
    pub arenas: Vec<ArenaFacts>,
    /// Blocks that have a mapping of their own, with their headers.
    pub mapped: Blocks,
    /// Blocks that threads keep for themselves after they were given back. The arenas count them as used.
    pub cached: Blocks,
    /// Blocks by their size, ascending: those in use without what threads keep, and free ones.
    pub classes: Vec<SizeClass>,
    /// Nothing is known to be missing.
    pub whole: bool,
}

/// What one managed runtime has.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct RuntimeMemory {
    /// Which, with its version: `Go 1.22.5`.
    pub name: String,
    /// Its memory by what it is for. Nothing is in two of them.
    pub pools: Vec<MemoryPool>,
    /// Objects by their size, ascending, where its heap has sizes: those in use, and places for more.
    pub classes: Vec<SizeClass>,
    /// Nothing is known to be missing.
    pub whole: bool,
}

/// Memory of a managed runtime that is for one thing.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct MemoryPool {
    /// As the runtime's users call it: `objects`, `metaspace`.
    pub name: String,
    /// What that is among all memory.
    pub kind: MemoryKind,
    /// Bytes of addresses.
    pub reserved: u64,
    /// Of these, bytes that the runtime may use without asking the system for more.
    pub committed: u64,
    /// Bytes in memory.
    pub resident: u64,
    /// What is in use, as the runtime counts it; the count is 0 where it is not known.
    pub used: Blocks,
}

/// A piece of memory that a managed runtime has.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct RuntimeArea {
    /// Where.
    pub range: Range<u64>,
    /// Number of its pool.
    pub pool: usize,
    /// Bytes of it that are in use: they are of the pool's kind, and the rest is free.
    pub used: u64,
}

/// What a reader of a managed runtime found.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct RuntimeHeap {
    /// What it has; the pools' addresses and bytes in memory are added by whoever knows what is in memory.
    pub memory: RuntimeMemory,
    /// Where, by address, with nothing in two of them.
    pub areas: Vec<RuntimeArea>,
    /// What could not be told.
    pub warnings: Vec<String>,
}

/// Some blocks.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Blocks {
    /// How many.
    pub count: u64,
    /// Their bytes, with headers and padding.
    pub bytes: u64,
}

impl Blocks {
    /// One more.
    pub fn add(&mut self, bytes: u64) {
        self.count = self.count.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// One arena.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ArenaFacts {
    /// Where its bookkeeping is; 0: not known (jemalloc).
    pub address: Avma,
    /// Pieces of memory that it has.
    pub heaps: u64,
    /// Their bytes, as the allocator counts them; of jemalloc without those that are addresses alone (retained).
    pub system: u64,
    /// Of these, bytes in memory.
    pub resident: u64,
    /// Blocks that are in use, or kept by a thread.
    pub used: Blocks,
    /// Free blocks in its bins; of jemalloc free regions of slabs, and free pages that may still be in memory.
    pub free: Blocks,
    /// Small free blocks that are not merged with their neighbours (fast bins).
    pub fast: Blocks,
    /// Never used, or free again, at the end.
    pub top: u64,
    /// Bytes of its heaps in which no blocks could be told apart.
    pub unknown: u64,
}

/// Blocks of similar size.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SizeClass {
    /// Largest size in bytes, with header.
    pub up_to: u64,
    /// Blocks in use.
    pub used: Blocks,
    /// Free blocks: in bins, fast bins and caches of threads.
    pub free: Blocks,
}

impl Footprint {
    /// Bytes in memory of one kind.
    #[must_use]
    pub fn resident(&self, kind: &MemoryKind) -> u64 {
        self.parts.iter().find(|part| part.kind == *kind).map_or(0, |part| part.resident)
    }
}
