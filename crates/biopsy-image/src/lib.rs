//! The image of a process: its memory, mappings, threads with registers, modules and facts, live or dead.
//!
//! Everything that reads a process's memory is written once, over the trait [`Image`]: stacks, locks, heaps, the
//! scanner for secrets and the dump writer. A frozen live process (in `biopsy-target`), an ELF core (plain or
//! compressed) and a minidump are images.

#![forbid(unsafe_code)]

mod core;
mod crash;
mod error;
pub mod fuzz;
mod image;
mod in_file;
mod limits;
pub mod mapping;
mod memory;
mod minidump;
mod module;
mod open;
mod own_numbers;
pub mod pe;
mod problem;
pub mod process;
pub mod scrub;
mod storage;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod thread;
pub mod vendor;
pub mod write;

pub use core::find_modules;
pub use crash::{Crash, CrashKind};
pub use error::{Absence, ReadError};
pub use image::Image;
pub use in_file::{InFile, in_file};
pub use limits::Limits;
pub use mapping::{Backing, Mapping, Protection};
pub use memory::{MemoryExt, PAGE_SIZE};
pub use module::ImageModule;
pub use open::{DumpKind, Opened, open, open_bytes, open_part};
pub use own_numbers::OwnNumbers;
pub use problem::{OpenError, OpenProblem};
pub use process::ProcessFacts;
pub use scrub::{Mask, MaskCount, MaskCounts, ScrubbedImage};
pub use storage::Encoding;
pub use thread::{GeneralRegisters, Thread, ThreadSignal};
