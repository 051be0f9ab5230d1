//! Threads while switches are watched in turns: what the scheduler keeps of each stands for what nobody watched.

use std::io;

use biopsy_sys::clock::monotonic_nanos;
use rustc_hash::FxHashMap;

use super::accounts::Accounts;
use super::layout::{ThreadTimes, thread_state};

/// While switches are watched in turns, times of threads are those of the scheduler all the time: exact, and of one kind.
#[derive(Debug)]
pub(super) struct InTurns {
    accounts: Accounts,
    /// As they were read last.
    threads: FxHashMap<u32, ThreadTimes>,
}

impl InTurns {
    pub(super) fn new(accounts: Accounts) -> Self {
        Self { accounts, threads: FxHashMap::default() }
    }

    /// A thread as it was read last.
    pub(super) fn last(&self, tid: u32) -> Option<ThreadTimes> {
        self.threads.get(&tid).copied()
    }

    /// Reads what the scheduler keeps of all threads.
    pub(super) fn threads(&mut self, mut sink: impl FnMut(u32, ThreadTimes)) -> io::Result<()> {
        let Self { accounts, threads } = self;
        threads.clear();
        accounts.read(monotonic_nanos(), |tid, times| {
            threads.insert(tid, times);
            sink(tid, times);
        })
    }

    /// The same, or, if it has run since, that it runs.
    pub(super) fn thread(&self, tid: u32) -> Option<ThreadTimes> {
        let times = self.last(tid)?;
        match arrivals(&format!("/proc/{}/task/{tid}", times.tgid)) {
            Some(now) if now != times.sequence => {
                Some(ThreadTimes { sequence: now, state: thread_state::RUNNING, ..times })
            }
            _ => Some(times),
        }
    }
}

/// How often a thread has got a CPU: the third number of `schedstat` (Documentation/scheduler/sched-stats.rst).
pub(super) fn arrivals(task: &str) -> Option<u64> {
    let text = biopsy_files::read_kernels(format!("{task}/schedstat")).ok()?;
    std::str::from_utf8(&text).ok()?.split_ascii_whitespace().nth(2)?.parse().ok()
}
