//! The `.gcdump` format, which PerfView, Visual Studio and dotnet-gcdump open, and heap snapshots that the runtime itself streams.
//!
//! A `.gcdump` is one object in the serialisation of `FastSerialization` (PerfView): `GCHeapDump`, which holds a
//! `Graphs.MemoryGraph`. All numbers are little-endian. A label is a position in the file.
//!
//! ```text
//! string "!FastSerialization.1"
//! object GCHeapDump, version 10, readable from 8 on
//!   object Graphs.MemoryGraph, version 1, readable from 0 on
//!     i64 bytes of all nodes, i32 root
//!     i32 types, each: string name, i32 size (-1: each node has its own), string module
//!     i32 nodes, each: i32 place in the blob
//!     i32 bytes of the blob, blob; a node: cint type*2 + (1: own size), [cint size], cint children, cint child - node ...
//!     i32 addresses, each: i64
//!     tagged bool: 64 bit
//!   u8 1 (64 bit), f32 1, f32 1 (sampling), null, object DotNetHeapInfo or null
//!   string log, i64 time in ticks, string machine, string process, i32 pid, i64 commit, i64 working set, i32 0
//!   tagged interop information, tagged string tool
//! end, i32 0 forward references, label of that, label of the label
//! ```
//!
//! `cint`: 7 bits a byte, highest first, 0x80 says that more follow, the first byte's bit 6 is the sign. An object: 4, its type (4, 1,
//! i32 version, i32 lowest reader, string name, 6), its fields, 6. A string: i32 bytes, UTF-8; -1: none.

mod read;
pub mod told;
mod write;

pub use read::{GcDump, read};
pub use write::{WriteError, WriteOptions, write};

/// First string of every file in this serialisation.
pub(crate) const MAGIC: &str = "!FastSerialization.1";
/// Type names.
pub(crate) const HEAP_DUMP: &str = "GCHeapDump";
pub(crate) const MEMORY_GRAPH: &str = "Graphs.MemoryGraph";
/// Prefix of the names of nodes that stand for no object, as dotnet-gcdump writes them.
pub(crate) const PSEUDO: &str = "[";

/// Name of the type of nodes that were never defined. It is the first, and a node of it is the first in the blob.
pub(crate) const UNDEFINED: &str = "UNDEFINED";

/// Ticks (100 ns) of .NET's `DateTime` at 1970.
pub(crate) const TICKS_OF_1970: i64 = 621_355_968_000_000_000;
pub(crate) const TICKS_PER_SECOND: i64 = 10_000_000;

/// Tags of the serialisation.
pub(crate) mod tag {
    pub(crate) const NULL: u8 = 1;
    pub(crate) const OBJECT_REFERENCE: u8 = 2;
    pub(crate) const BEGIN_OBJECT: u8 = 4;
    pub(crate) const BEGIN_PRIVATE_OBJECT: u8 = 5;
    pub(crate) const END_OBJECT: u8 = 6;
    pub(crate) const BYTE: u8 = 8;
    pub(crate) const STRING: u8 = 13;
}

#[cfg(test)]
mod tests;
