//! How often each thread of a process ran: whether it did between two moments.

use std::collections::{BTreeMap, BTreeSet};

use biopsy_model::{Nanos, Pid, Tid};

use super::proc_root::ProcRoot;

/// Threads that are asked at most.
const THREADS: usize = 20_000;

/// What each thread of a process had run until a moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Runs(BTreeMap<Tid, (u64, u64)>);

impl Runs {
    /// Asks the kernel. Threads that cannot be asked are left out.
    #[must_use]
    pub fn read(pid: Pid) -> Self {
        Self::read_in(&ProcRoot::live(), pid)
    }

    fn read_in(root: &ProcRoot, pid: Pid) -> Self {
        let Ok(process) = root.process(pid) else { return Self::default() };
        let tids = process.tids(THREADS).unwrap_or_default();
        let of = |tid: Tid| Some((tid, parse(&process.read(&format!("task/{tid}/schedstat"), 128).ok()?)?));
        Self(tids.into_iter().filter_map(of).collect())
    }

    /// The threads that did not run since `earlier`.
    #[must_use]
    pub fn idle_since(&self, earlier: &Self) -> BTreeSet<Tid> {
        let same = |(tid, runs): &(&Tid, &(u64, u64))| earlier.0.get(tid) == Some(runs);
        self.0.iter().filter(same).map(|(tid, _)| *tid).collect()
    }

    /// CPU time that threads took since `earlier`: all of it of those that began meanwhile, none of those that ended.
    #[must_use]
    pub fn cpu_since(&self, earlier: &Self) -> Nanos {
        let before = |tid: &Tid| earlier.0.get(tid).map_or(0, |(run, _)| *run);
        Nanos(self.0.iter().map(|(tid, (run, _))| run.saturating_sub(before(tid))).sum())
    }

    /// Nothing is known: the kernel does not count, or the process is not there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// `run_ns wait_ns timeslices` (Documentation/scheduler/sched-stats.rst). Kernels that do not count write zeros.
fn parse(text: &[u8]) -> Option<(u64, u64)> {
    let text = std::str::from_utf8(text).ok()?;
    let mut words = text.split_ascii_whitespace().map(str::parse::<u64>);
    let (run, _, slices) = (words.next()?.ok()?, words.next()?.ok()?, words.next()?.ok()?);
    (slices > 0).then_some((run, slices))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_ran_is_not_idle() {
        let runs = |all: &[(u32, u64)]| Runs(all.iter().map(|&(tid, ran)| (Tid(tid), (ran, 1))).collect());
        let idle = runs(&[(1, 10), (2, 21), (4, 40)]).idle_since(&runs(&[(1, 10), (2, 20), (3, 30)]));
        assert_eq!(idle, BTreeSet::from([Tid(1)]));
    }

    #[test]
    fn cpu_time_is_that_of_the_threads_that_are_there() {
        let runs = |all: &[(u32, u64)]| Runs(all.iter().map(|&(tid, ran)| (Tid(tid), (ran, 1))).collect());
        let spent = runs(&[(1, 10), (2, 25), (4, 40)]).cpu_since(&runs(&[(1, 10), (2, 20), (3, 30)]));
        assert_eq!(spent, Nanos(45));
    }

    #[test]
    fn counts_are_read_and_zeros_are_no_counts() {
        assert_eq!(parse(b"123 4 5\n"), Some((123, 5)));
        for not in [&b"0 0 0\n"[..], b"", b"1 2", b"a b c", b"\xff"] {
            assert_eq!(parse(not), None, "{not:?}");
        }
    }

    #[test]
    fn our_own_threads_are_counted() {
        let runs = Runs::read(Pid(std::process::id()));
        // Of kernels that do not count there is nothing.
        assert!(runs.0.is_empty() || runs.0.values().all(|(_, slices)| *slices > 0));
    }
}
