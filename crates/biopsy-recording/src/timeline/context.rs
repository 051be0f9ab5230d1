//! What encoder and decoder of a chunk remember from one event to the next. A chunk begins with an empty one.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use biopsy_model::Tid;

/// The context of one chunk.
///
/// Rule for later versions: events that an older reader skips must not change it, or that reader would go astray.
#[derive(Default, Debug)]
pub(super) struct Context {
    /// Time of the last event that had one.
    pub(super) time: u64,
    /// Weight of the last sample.
    pub(super) sample_weight: u64,
    /// Weight of the last look at a waiting thread.
    pub(super) look_weight: u64,
    /// Threads by their number in this chunk.
    threads: Vec<Thread>,
    /// Numbers by tid; for writing only.
    numbers: HashMap<Tid, u32>,
}

/// One thread of a chunk. It tends to wait where it waited before.
#[derive(Default, Debug)]
pub(super) struct Thread {
    pub(super) tid: Tid,
    /// System call of its last wait that had one.
    pub(super) syscall: u32,
    /// Stack of its last wait that had one.
    pub(super) stack: u32,
}

impl Context {
    /// Forgets everything and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.time = 0;
        self.sample_weight = 0;
        self.look_weight = 0;
        self.threads.clear();
        self.numbers.clear();
    }

    /// The distance to the last time; makes `time` the last one. Wraps, so that any pair of times survives.
    pub(super) fn time_delta(&mut self, time: u64) -> i64 {
        let delta = time.wrapping_sub(self.time).cast_signed();
        self.time = time;
        delta
    }

    /// The inverse of [`Context::time_delta`].
    pub(super) fn time_after(&mut self, delta: i64) -> u64 {
        self.time = self.time.wrapping_add(delta.cast_unsigned());
        self.time
    }

    /// The number of a thread, and whether it is new in this chunk; for writing.
    pub(super) fn number_of(&mut self, tid: Tid) -> (u32, bool) {
        let next = u32::try_from(self.threads.len()).unwrap_or(u32::MAX);
        match self.numbers.entry(tid) {
            Entry::Occupied(known) => (*known.get(), false),
            Entry::Vacant(new) => {
                new.insert(next);
                self.define_thread(tid);
                (next, true)
            }
        }
    }

    /// Gives the next number to a thread.
    pub(super) fn define_thread(&mut self, tid: Tid) {
        self.threads.push(Thread { tid, ..Thread::default() });
    }

    /// The thread of a number.
    pub(super) fn thread(&mut self, number: u64) -> Option<&mut Thread> {
        self.threads.get_mut(usize::try_from(number).ok()?)
    }
}
