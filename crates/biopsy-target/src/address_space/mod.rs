//! The address space of a process: its mappings, which pages exist, and their bytes.
//!
//! Everything here works on a process that runs on, and is bounded in what it costs the process: absent pages are
//! never read, because reading them would make them (a process of which `gcore` was taken is larger afterwards), and
//! the lock of the address space is held for well under a millisecond at a time. `smaps` is read of frozen copies
//! only: of a large process the kernel holds the lock for long.
//!
//! ```no_run
//! use biopsy_target::address_space::{ProcessMemory, read_mappings};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let pid = biopsy_model::Pid(4711);
//! let memory = ProcessMemory::open(pid)?;
//! let mut runs = Vec::new();
//! for mapping in read_mappings(pid)? {
//!     memory.written(&mapping, mapping.range(), &mut runs)?;
//! }
//! let mut buffer = vec![0; 1 << 20];
//! for run in runs {
//!     let read = memory.read(run.start, &mut buffer)?;
//! }
//! # Ok(()) }
//! ```

mod files;
mod flags;
mod live;
mod mappings;
mod memory;
mod present;
mod shared;
#[cfg(test)]
mod tests;
mod written;

pub use files::MappedFile;
pub(crate) use files::locate_mapped;
pub use flags::{AreaFlags, read_area_flags};
pub use live::LiveImage;
pub use mappings::{read_mappings, read_mappings_in};
pub use memory::ProcessMemory;
pub use present::PresentCounts;
