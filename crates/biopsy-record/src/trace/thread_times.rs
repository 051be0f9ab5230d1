//! Threads' times without the kernel part: added up here from context switch records.
//!
//! What the BPF programs do at each switch, done in user space a moment later. Wake-ups are not known this way, so all
//! time off the CPU counts as waiting unless the thread was preempted.

use biopsy_model::timeline::WaitState;
use rustc_hash::FxHashMap;

use super::kernel::{ThreadTimes, thread_state};

/// `TASK_INTERRUPTIBLE`: the records do not say more than that the thread sleeps.
const ASLEEP: u64 = 1;

/// A wait that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EndedWait {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) state: WaitState,
    pub(crate) sequence: u64,
}

/// Times by thread.
#[derive(Debug)]
pub(crate) struct SwitchTimes {
    threads: FxHashMap<u32, ThreadTimes>,
    /// Waits shorter than this, in nanoseconds, are only added up.
    pub(crate) wait_threshold: u64,
}

impl SwitchTimes {
    pub(crate) fn new(wait_threshold: u64) -> Self {
        Self { threads: FxHashMap::default(), wait_threshold }
    }

    /// A thread that sleeps since before the recording.
    pub(crate) fn sleeping(&mut self, tid: u32, times: ThreadTimes) {
        self.threads.entry(tid).or_insert(times);
    }

    /// The thread leaves its CPU.
    pub(crate) fn switched_out(&mut self, tid: u32, pid: u32, time: u64, preempted: bool) {
        let times = self.threads.entry(tid).or_default();
        times.tgid = pid;
        if times.state == thread_state::RUNNING {
            times.running += time.saturating_sub(times.since);
        }
        times.since = time;
        times.out_time = time;
        times.sequence += 1;
        if preempted {
            times.state = thread_state::READY;
            times.out_state = 0;
            times.involuntary += 1;
        } else {
            times.state = thread_state::WAITING;
            times.out_state = ASLEEP;
            times.voluntary += 1;
        }
    }

    /// The thread gets a CPU. Returns the wait that this ends, if it began while we looked and was long enough.
    pub(crate) fn switched_in(&mut self, tid: u32, pid: u32, time: u64) -> Option<EndedWait> {
        let times = self.threads.entry(tid).or_default();
        times.tgid = pid;
        let elapsed = time.saturating_sub(times.since);
        let ended = match times.state {
            thread_state::WAITING => {
                times.waiting += elapsed;
                Some(WaitState::Sleep)
            }
            thread_state::READY => {
                times.ready += elapsed;
                Some(WaitState::Preempted)
            }
            _ => None,
        };
        let wait = ended.map(|state| EndedWait {
            start: times.out_time,
            end: time,
            state,
            sequence: times.sequence,
        });
        times.state = thread_state::RUNNING;
        times.since = time;
        times.sequence += 1;
        let threshold = self.wait_threshold;
        wait.filter(|wait| wait.start > 0 && wait.end.saturating_sub(wait.start) >= threshold)
    }

    pub(crate) fn thread(&self, tid: u32) -> Option<ThreadTimes> {
        self.threads.get(&tid).copied()
    }

    pub(crate) fn threads(&self, mut sink: impl FnMut(u32, ThreadTimes)) {
        for (tid, times) in &self.threads {
            sink(*tid, *times);
        }
    }

    pub(crate) fn forget(&mut self, tid: u32) {
        self.threads.remove(&tid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_up() {
        let mut times = SwitchTimes::new(0);
        assert_eq!(times.switched_in(5, 1, 100), None);
        times.switched_out(5, 1, 130, false);
        let wait = times.switched_in(5, 1, 200).unwrap();
        assert_eq!((wait.start, wait.end, wait.state), (130, 200, WaitState::Sleep));
        times.switched_out(5, 1, 210, true);
        assert_eq!(times.switched_in(5, 1, 215).unwrap().state, WaitState::Preempted);
        let now = times.thread(5).unwrap();
        assert_eq!((now.running, now.waiting, now.ready), (40, 70, 5));
        assert_eq!((now.voluntary, now.involuntary), (1, 1));
    }

    #[test]
    fn only_waits_as_long_as_was_asked_for_are_told_one_by_one() {
        for (threshold, told) in [(1, 3), (40, 2), (70, 1), (71, 0)] {
            let mut times = SwitchTimes::new(threshold);
            let mut waits = 0;
            for (out, back) in [(100, 103), (200, 240), (300, 370)] {
                times.switched_out(5, 1, out, false);
                waits += usize::from(times.switched_in(5, 1, back).is_some());
            }
            assert_eq!(waits, told, "{threshold}");
            assert_eq!(times.thread(5).unwrap().waiting, 3 + 40 + 70, "short ones stay in the sum");
        }
    }
}
