//! Which processes are to be looked at: told by the kernel, or found by looking again and again.

use std::collections::{HashMap, HashSet};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use biopsy_model::Pid;
use biopsy_target::Starts;

use crate::observed::Eyes;

/// How often is looked where the kernel does not tell.
const POLL: Duration = Duration::from_millis(100);
/// For how long a process is looked at again there: a program is executed soon after its process was made.
const YOUNG: Duration = Duration::from_secs(2);
/// How often all are listed where the kernel tells: a process that was forked and executes nothing is not told of.
const LIST: Duration = Duration::from_secs(5);

/// Where they come from.
pub(super) struct News {
    starts: Option<Starts>,
    known: HashMap<Pid, Instant>,
    listed: Option<Instant>,
    /// Those that could not be looked at: they are told of again.
    missed: HashSet<Pid>,
    /// Why the kernel does not tell.
    pub(super) why_not: Option<std::io::Error>,
    /// Why they could not be listed the last time.
    pub(super) unlisted: Option<std::io::Error>,
}

impl News {
    pub(super) fn begin() -> Self {
        let (starts, why_not) = match Starts::listen() {
            Ok(starts) => (Some(starts), None),
            Err(error) => (None, Some(error)),
        };
        Self { starts, known: HashMap::new(), listed: None, missed: HashSet::new(), why_not, unlisted: None }
    }

    /// All are told of again, with the next list, which is due.
    pub(super) fn all_again(&mut self) {
        self.known.clear();
        self.listed = None;
    }

    /// This one could not be looked at.
    pub(super) fn missed(&mut self, pid: Pid) {
        self.missed.insert(pid);
    }

    /// The next ones, at the latest after this time, or when the other can be read.
    pub(super) fn next(&mut self, eyes: &Eyes, timeout: Duration, other: Option<BorrowedFd<'_>>) -> Vec<Pid> {
        let missed = std::mem::take(&mut self.missed);
        let mut pids = self.of_now(eyes, timeout, other);
        pids.extend(missed);
        let mut seen = HashSet::new();
        pids.retain(|pid| seen.insert(*pid));
        pids
    }

    fn of_now(&mut self, eyes: &Eyes, timeout: Duration, other: Option<BorrowedFd<'_>>) -> Vec<Pid> {
        let Some(starts) = &self.starts else {
            if self.listed.is_some() {
                std::thread::sleep(timeout.min(POLL));
            }
            return self.list(eyes, YOUNG);
        };
        let is_due = self.listed.is_none_or(|listed| listed.elapsed() >= LIST);
        let told = starts.next(if is_due { Duration::ZERO } else { timeout }, other);
        let Ok(told) = told else {
            self.starts = None;
            return self.list(eyes, YOUNG);
        };
        let mut pids = told.pids;
        if is_due || told.is_incomplete {
            pids.extend(self.list(eyes, Duration::ZERO));
        }
        pids
    }

    /// Those that were not there before, and those that are young.
    fn list(&mut self, eyes: &Eyes, young: Duration) -> Vec<Pid> {
        let now = Instant::now();
        // Those of the first look are not young: what they are was decided long ago.
        let first = self.listed.is_none();
        self.listed = Some(now);
        let pids = match eyes.pids() {
            Ok(pids) => pids,
            Err(error) => {
                self.unlisted = Some(error);
                return Vec::new();
            }
        };
        let there: HashSet<Pid> = pids.iter().copied().collect();
        self.known.retain(|pid, _| there.contains(pid));
        let mut news = Vec::new();
        for pid in pids {
            let is_new = !self.known.contains_key(&pid);
            let since = *self.known.entry(pid).or_insert(now);
            if is_new || (!first && now.duration_since(since) < young) {
                news.push(pid);
            }
        }
        news
    }
}
