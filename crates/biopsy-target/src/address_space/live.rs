//! A process that runs on, as an image.

use std::io;
use std::ops::Range;
use std::sync::OnceLock;

use biopsy_image::{Image, ImageModule, Mapping, ProcessFacts, ReadError, Thread};
use biopsy_model::{Pid, Tid};

use super::{ProcessMemory, read_mappings};
use crate::freeze::read_process_facts;

/// Most files that are looked into for their build id.
const MOST_MODULES: usize = 16_384;

/// The memory of a process while it runs: every read is of another moment, and what is found through a pointer may be gone.
/// For structures that hold still (compiled code and its tables, metadata), and for readers that check what they read.
///
/// Nothing is stopped and no thread is touched. The lists of mappings and threads are of the moment of opening and of
/// [`LiveImage::refresh`]; memory that was mapped since can be read all the same. Threads have no registers.
#[derive(Debug)]
pub struct LiveImage {
    pid: Pid,
    memory: ProcessMemory,
    mappings: Vec<Mapping>,
    threads: Vec<Thread>,
    facts: ProcessFacts,
    modules: OnceLock<Vec<ImageModule>>,
}

impl LiveImage {
    /// Opens the process that has this pid now. Check its identity afterwards.
    ///
    /// # Errors
    /// `NotFound` or ESRCH when it has ended, `PermissionDenied` without the right to trace it.
    pub fn open(pid: Pid) -> io::Result<Self> {
        let memory = ProcessMemory::open(pid)?;
        Ok(Self {
            pid,
            memory,
            mappings: read_mappings(pid)?,
            threads: threads(pid)?,
            facts: read_process_facts(pid),
            modules: OnceLock::new(),
        })
    }

    /// Reads the lists of mappings and threads again.
    ///
    /// # Errors
    /// As [`LiveImage::open`].
    pub fn refresh(&mut self) -> io::Result<()> {
        self.mappings = read_mappings(self.pid)?;
        self.threads = threads(self.pid)?;
        self.modules = OnceLock::new();
        Ok(())
    }

    /// Whether it is still the address space that was opened: the process has not ended nor executed another program.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.memory.is_there()
    }
}

impl Image for LiveImage {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        self.memory.read(address, buffer)
    }

    fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    fn threads(&self) -> &[Thread] {
        &self.threads
    }

    fn modules(&self) -> &[ImageModule] {
        self.modules
            .get_or_init(|| biopsy_image::find_modules(self, &self.mappings, &self.facts, MOST_MODULES))
    }

    fn process(&self) -> &ProcessFacts {
        &self.facts
    }

    fn written(&self, range: Range<u64>, runs: &mut Vec<Range<u64>>) -> Result<(), ReadError> {
        let first = self.mappings.partition_point(|one| one.end <= range.start);
        let touched = self.mappings.iter().skip(first).take_while(|one| one.start < range.end);
        for one in touched.filter(|one| one.protection.read) {
            let part = range.start.max(one.start)..range.end.min(one.end);
            self.memory.written(one, part, runs)?;
        }
        Ok(())
    }
}

fn threads(pid: Pid) -> io::Result<Vec<Thread>> {
    let mut threads: Vec<Thread> = crate::list::threads(pid)?
        .into_iter()
        .map(|thread| Thread { tid: thread.tid, name: Some(thread.name.into_bytes()), ..Thread::default() })
        .collect();
    threads.sort_unstable_by_key(|thread| (thread.tid != Tid(pid.0), thread.tid));
    Ok(threads)
}

#[cfg(test)]
mod tests {
    use biopsy_image::MemoryExt;

    use super::*;

    #[test]
    fn memory_threads_and_modules_of_this_process() {
        let mut image = LiveImage::open(Pid(std::process::id())).unwrap();
        let number = Box::new(0x1234_5678_9abc_def0_u64);
        let address = std::ptr::from_ref::<u64>(&number).addr() as u64;
        assert_eq!(image.read_u64(address).unwrap(), *number);
        assert!(image.threads().iter().any(|thread| thread.tid.0 == std::process::id()));
        assert!(image.modules().iter().any(|module| module.is_elf));
        assert!(image.read_u64(0x10).is_err());
        image.refresh().unwrap();
        assert!(image.is_there() && !image.mappings().is_empty());
        let mut runs = Vec::new();
        image.written(address & !0xfff..(address & !0xfff) + 0x1000, &mut runs).unwrap();
        assert!(!runs.is_empty(), "the page was written");
    }
}
