//! Threads of Java: which there are, their names and states.

use std::ops::Range;

use biopsy_model::Tid;
use rustc_hash::FxHashSet;

use super::vm::Vm;

/// What `java.lang.Thread.threadStatus` is made of (JVM TI, `jvmtiThreadState`).
pub(super) mod status {
    pub(crate) const TERMINATED: i32 = 0x2;
    pub(crate) const RUNNABLE: i32 = 0x4;
    pub(crate) const WITH_TIMEOUT: i32 = 0x20;
    pub(crate) const SLEEPING: i32 = 0x40;
    pub(crate) const IN_OBJECT_WAIT: i32 = 0x100;
    pub(crate) const PARKED: i32 = 0x200;
    pub(crate) const BLOCKED: i32 = 0x400;
}

/// A thread of the system that runs Java.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct JavaThread {
    /// Address of the runtime's structure.
    pub(super) address: u64,
    /// Of the system.
    pub(super) tid: Option<Tid>,
    /// The `java.lang.Thread`.
    pub(super) object: Option<u64>,
    /// The virtual thread that runs on it.
    pub(super) virtual_object: Option<u64>,
    /// `java.lang.Thread.threadStatus`.
    pub(super) status: Option<i32>,
    /// Its stack: lower addresses first.
    pub(super) stack: Range<u64>,
}

impl Vm<'_> {
    /// Threads in the runtime's order, how many it says there are, and whether some could not be read.
    pub(super) fn threads(&self) -> Option<(Vec<JavaThread>, u64)> {
        let (memory, layout) = (self.memory, &self.layout.threads);
        let list = memory.pointer(layout.list)?;
        let count = memory.u32(list.checked_add(layout.list_length)?)?;
        let array = memory.pointer(list.checked_add(layout.list_threads)?)?;
        let most = u64::from(count).min(self.limits.strands as u64);
        let mut seen = FxHashSet::default();
        let mut threads = Vec::new();
        for number in 0..most {
            // A list that is not there ends; a thread that is listed twice is one.
            let Some(address) = array.checked_add(8 * number).and_then(|slot| memory.u64(slot)) else {
                break;
            };
            if address != 0 && seen.insert(address) {
                threads.push(self.thread(address));
            }
        }
        Some((threads, count.into()))
    }

    fn thread(&self, address: u64) -> JavaThread {
        let (memory, layout) = (self.memory, &self.layout.threads);
        let word = |offset: u64| memory.u64(address.checked_add(offset)?);
        let handle = |offset: u64| self.handle(address.checked_add(offset)?);
        let tid = || {
            let thread = word(layout.os_thread).filter(|at| *at != 0)?;
            memory.u32(thread.checked_add(layout.os_thread_id)?).filter(|tid| *tid != 0)
        };
        let object = handle(layout.object);
        let running = layout.virtual_thread.and_then(handle);
        let (base, size) = (word(layout.stack_base).unwrap_or(0), word(layout.stack_size).unwrap_or(0));
        JavaThread {
            address,
            tid: tid().map(Tid),
            object,
            virtual_object: running.filter(|running| Some(*running) != object),
            status: object.and_then(|object| self.status(object)),
            stack: base.saturating_sub(size)..base,
        }
    }

    fn status(&self, thread: u64) -> Option<i32> {
        // In the thread itself to version 18, then in what it shares with virtual threads.
        self.int(thread, "threadStatus")
            .or_else(|| self.int(self.reference(thread, "holder")?, "threadStatus"))
    }

    /// The name that the program gave a `java.lang.Thread`.
    pub(super) fn thread_name(&self, thread: u64) -> Option<String> {
        self.string(self.reference(thread, "name")?)
    }

    /// The number that Java shows of a thread (`#12` of `jstack`).
    pub(super) fn thread_number(&self, thread: u64) -> Option<u64> {
        self.long(thread, "tid").filter(|number| *number != 0)
    }
}
