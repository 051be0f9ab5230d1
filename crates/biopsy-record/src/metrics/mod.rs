//! Metrics: readings of the machine, of the processes of the tree, of their threads and control groups.
//!
//! One thread reads `/proc` and the control groups once an interval, on a schedule that does not drift: a
//! reading that comes late does not move the next one, and readings that were missed are a recorded loss.
//! What cannot be read is an empty field, never a zero. Readings keep below one per cent of a core: what a
//! thread did is only read where it ran, files stay open, costly values are read rarely, and when a
//! reading still costs too much, details become rarer and that is said.
//!
//! [`Recorder::start`] begins, [`Handle::stop`] ends it; [`tables`] lists what is recorded.

pub(crate) mod cgroup_paths;
mod cgroups;
mod disks;
mod folder_sink;
mod network;
pub(crate) mod parse;
mod processes;
pub(crate) mod procfile;
mod rate;
mod reading;
mod recent;
mod recorder;
mod sampler;
mod sink;
mod system;
pub mod tables;
#[cfg(test)]
mod tests;
mod thread_rows;
mod threads;

pub use folder_sink::FolderSink;
pub(crate) use processes::LARGEST_FOR_PSS;
pub use recent::{RecentRows, RecentSink};
pub use recorder::{Handle, Recorder, Summary};
pub use sampler::{Config, Latest};
pub use sink::{MemorySink, TableSchema, TableSink};

/// Parses any bytes as each of the texts that metrics are read from: for fuzzing. Never panics.
pub fn fuzz_parsers(bytes: &[u8]) {
    let _ = parse::parse_stat(bytes);
    let _ = parse::parse_schedstat(bytes);
    let _ = parse::parse_io(bytes);
    let _ = parse::parse_pressure(bytes);
    parse::name_values(bytes, |_, _| {});
    network::visit_all(bytes);
    cgroup_paths::Mounts::parse(bytes);
}
