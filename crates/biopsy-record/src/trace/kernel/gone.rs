//! Threads that were forgotten, and may leave a CPU once more.
//!
//! The kernel says that a thread has ended, joins it and takes it out of /proc before the scheduler takes it from its CPU for the last time,
//! and it may be preempted in between. The program at that switch knows it no more, and makes a new entry for it (seen in tests beside
//! compilers). Over days such entries would fill the table, and a thread that is no more would wait for ever.

use rustc_hash::FxHashMap;

use super::layout::ThreadTimes;

/// So long after its end a thread may still come: more than any waits for a CPU.
const LATE: u64 = 10_000_000_000;
/// So many are remembered: a thousand ends in a second for as long.
const MOST: usize = 10_000;

/// When which thread was forgotten.
#[derive(Debug, Default)]
pub(super) struct Gone(FxHashMap<u32, u64>);

impl Gone {
    /// A thread was forgotten.
    pub(super) fn add(&mut self, tid: u32, now: u64) {
        if self.0.len() < MOST {
            self.0.insert(tid, now);
        }
    }

    /// Those of long ago do not come any more.
    pub(super) fn prune(&mut self, now: u64) {
        self.0.retain(|_, at| now.saturating_sub(*at) < LATE);
    }

    /// Whether this is what such a thread left, and no other that has its number now.
    pub(super) fn has_left(&self, tid: u32, times: &ThreadTimes) -> bool {
        times.is_dead() && self.0.contains_key(&tid)
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::thread_state;
    use super::*;

    #[test]
    fn what_a_thread_leaves_at_its_end_is_told_from_another_of_the_same_number() {
        let dead = ThreadTimes { state: thread_state::WAITING, out_state: 0x80, ..ThreadTimes::default() };
        let asleep = ThreadTimes { out_state: 1, ..dead };
        let preempted = ThreadTimes { state: thread_state::READY, out_state: 0, ..dead };
        let mut gone = Gone::default();
        assert!(!gone.has_left(7, &dead), "nobody has forgotten it");
        gone.add(7, 100);
        assert!(gone.has_left(7, &dead) && !gone.has_left(8, &dead));
        assert!(!gone.has_left(7, &asleep) && !gone.has_left(7, &preempted));
        gone.prune(100 + LATE - 1);
        assert!(gone.has_left(7, &dead));
        gone.prune(100 + LATE);
        assert!(!gone.has_left(7, &dead));
    }

    #[test]
    fn however_many_end_few_are_remembered() {
        let mut gone = Gone::default();
        (0..20_000).for_each(|tid| gone.add(tid, u64::from(tid)));
        assert_eq!(gone.0.len(), MOST);
        gone.prune(LATE + 9_998);
        assert_eq!(gone.0.len(), 1);
        gone.add(20_000, 2 * LATE);
        assert_eq!(gone.0.len(), 2);
    }
}
