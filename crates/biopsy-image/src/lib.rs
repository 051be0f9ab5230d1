//! The image of a process: its memory, mappings, threads with registers, modules and facts, live or dead.
//!
//! Everything that reads a process's memory is written once, over the trait [`Image`]: stacks, locks, heaps, the
//! scanner for secrets and the dump writer. A frozen live process (in `biopsy-target`), an ELF core (plain or
//! compressed) and a minidump are images.

#![forbid(unsafe_code)]

mod error;
mod image;
pub mod mapping;
mod memory;
mod module;
pub mod process;
mod thread;

pub use error::{Absence, ReadError};
pub use image::Image;
pub use mapping::{Backing, Mapping, Protection};
pub use memory::{MemoryExt, PAGE_SIZE};
pub use module::ImageModule;
pub use process::ProcessFacts;
pub use thread::{GeneralRegisters, Thread, ThreadSignal};
