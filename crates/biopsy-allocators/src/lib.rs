//! Where the memory of a process went, read from its memory: what allocators of native code hold, used and free, block by
//! block, and everything else by kind.
//!
//! No symbols are needed and nothing runs in the process. What an allocator's structures are is found by what must be true of
//! them and checked against each other; what is not understood is said to be unaccounted for.

#![forbid(unsafe_code)]

mod blocks;
mod footprint;
pub mod fuzz;
mod glibc;
mod jemalloc;
mod kept;
mod mimalloc;
mod mimalloc3;
mod musl;
mod others;
mod pages;
mod parts;
mod read;
mod readers;
mod regions;
mod tcmalloc;
mod window;
mod words;

pub use footprint::{Managed, NativeMemory, footprint, with_blocks, with_runtimes};
pub use kept::UsedBlock;
