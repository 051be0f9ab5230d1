//! Numbers that each thread gives its events, and what is missing between them.

use rustc_hash::FxHashMap;

/// Last number of each writing thread.
#[derive(Debug, Default)]
pub(super) struct Sequences {
    last: FxHashMap<u64, u32>,
    limit: usize,
    version: u32,
    lost: u64,
}

impl Sequences {
    pub(super) fn new(version: u32, limit: usize) -> Self {
        Self { last: FxHashMap::default(), limit, version, lost: 0 }
    }

    /// Events that threads wrote and the stream does not have.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// An event of a thread.
    #[inline]
    pub(super) fn event(&mut self, thread: u64, number: u32) {
        self.advance(thread, number.wrapping_sub(1), number);
    }

    /// A sequence point says which number the thread has used at least.
    pub(super) fn checkpoint(&mut self, thread: u64, number: u32) {
        self.advance(thread, number, number);
    }

    /// The thread is gone, and this was its last number (version 6).
    pub(super) fn remove(&mut self, thread: u64, number: u32) {
        self.checkpoint(thread, number);
        self.last.remove(&thread);
    }

    /// Threads are forgotten (a sequence point of version 6 may say so).
    pub(super) fn forget(&mut self) {
        self.last.clear();
    }

    fn advance(&mut self, thread: u64, expected: u32, number: u32) {
        let Some(last) = self.last.get_mut(&thread) else {
            // A thread that was not heard of before: what came before the stream began is not lost.
            if self.last.len() < self.limit {
                self.last.insert(thread, number);
            }
            return;
        };
        let missing = expected.wrapping_sub(*last);
        // Up to version 5 threads are named by their ids, which the system uses again: a number that begins anew, or goes
        // back, is another thread.
        let restarted = missing.cast_signed() < 0 || (self.version < 6 && expected == 0);
        if !restarted {
            self.lost = self.lost.saturating_add(missing.into());
        }
        *last = number;
    }
}

#[cfg(test)]
mod tests {
    use super::Sequences;

    #[test]
    fn gaps_are_lost_events_and_a_new_thread_with_an_old_id_is_none() {
        let mut sequences = Sequences::new(4, 8);
        sequences.event(1, 7);
        sequences.event(1, 8);
        assert_eq!(sequences.lost(), 0);
        sequences.event(1, 11);
        assert_eq!(sequences.lost(), 2, "9 and 10");
        sequences.checkpoint(1, 14);
        assert_eq!(sequences.lost(), 5, "12 to 14");
        sequences.event(1, 1);
        sequences.event(1, 2);
        assert_eq!(sequences.lost(), 5, "the id is used again");
        sequences.event(1, u32::MAX);
        sequences.event(1, 0);
        assert_eq!(sequences.lost(), 5, "numbers wrap");
    }
}
