//! Requests to start a program, between the thread that serves the gate and those that inspect them.
//!
//! Its lock is never held while anything is waited for.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use biopsy_model::Pid;
use rustix::event::{EventfdFlags, Timespec};

use super::CatchStatistics;

/// Longest time that one request may wait for its decision. Deciding takes some ten microseconds.
const LONGEST: Duration = Duration::from_millis(100);
/// An inspector that looks at one request for longer than this hangs.
const HANGS: Duration = Duration::from_millis(20);
/// Most inspectors. Should all of them hang, nobody is asked about any more.
const MOST_INSPECTORS: usize = 16;
/// Longest sleep of the thread that serves. Whoever has something for it wakes it.
const NAP: Duration = Duration::from_secs(5);

/// Number of a request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct RequestId(u64);

/// What has to be decided.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Job {
    pub(super) request: RequestId,
    pub(super) pid: Pid,
    /// The file that is executed, in `/proc`, as long as the request waits. Afterwards it may be another one.
    pub(super) file: PathBuf,
}

/// A file system that is to be marked: what is open here by this number in the table of the process.
#[derive(Debug)]
pub(super) struct MarkRequest {
    pub(super) descriptor: i32,
    pub(super) done: Sender<io::Result<()>>,
}

/// What the thread that serves has to do.
#[derive(Debug)]
pub(super) struct Due {
    pub(super) released: Vec<RequestId>,
    /// Those among them whose files need not be asked about any more.
    pub(super) ignored: Vec<RequestId>,
    pub(super) marks: Vec<MarkRequest>,
    /// Nothing comes due in this time.
    pub(super) nap: Duration,
    pub(super) closed: bool,
}

impl Due {
    /// How long to sleep, as the kernel is told. Whole seconds are part of it: without them, the thread that is ahead of all others went
    /// round and round.
    pub(super) fn nap(&self) -> Timespec {
        Timespec::try_from(self.nap).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 })
    }
}

#[derive(Debug)]
pub(super) struct PendingRequests {
    requests: Mutex<Requests>,
    /// There is something for an inspector, or it is closed.
    changed: Condvar,
    /// It is closed. Whoever waits for that alone is not woken at each execution of the machine.
    closing: Condvar,
    /// Wakes the thread that serves.
    wake: OwnedFd,
    statistics: Arc<Mutex<CatchStatistics>>,
}

#[derive(Debug, Default)]
struct Requests {
    next: u64,
    held: BTreeMap<RequestId, Held>,
    /// For inspectors.
    queue: VecDeque<Job>,
    /// What an inspector looks at now, since when.
    looked_at: BTreeMap<RequestId, Instant>,
    inspectors: usize,
    /// For the thread that serves.
    released: Vec<RequestId>,
    ignored: Vec<RequestId>,
    marks: Vec<MarkRequest>,
    closed: bool,
    failed: Option<io::Error>,
}

#[derive(Debug)]
struct Held {
    pid: Pid,
    taken: Instant,
    until: Instant,
}

impl PendingRequests {
    /// An empty one, which counts the first inspector.
    ///
    /// # Errors
    /// EMFILE.
    pub(super) fn new(statistics: Arc<Mutex<CatchStatistics>>) -> io::Result<Self> {
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let requests = Mutex::new(Requests { inspectors: 1, ..Requests::default() });
        Ok(Self { requests, changed: Condvar::new(), closing: Condvar::new(), wake, statistics })
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To be polled by the thread that serves.
    pub(super) fn wake(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    fn ring(&self) {
        // A full counter has rung already.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    /// Everybody passes from now on.
    pub(super) fn close(&self) {
        let mut requests = self.requests();
        requests.closed = true;
        requests.held.clear();
        requests.queue.clear();
        // Those who wait for one are told by its end.
        requests.marks.clear();
        drop(requests);
        self.changed.notify_all();
        self.closing.notify_all();
        self.ring();
    }

    /// Requests can be taken no more.
    pub(super) fn fail(&self, error: io::Error) {
        self.requests().failed = Some(error);
        self.close();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.requests().closed
    }

    /// Why it was closed, if not by us.
    pub(super) fn failure(&self) -> Option<io::Error> {
        self.requests().failed.take()
    }

    /// Waits so long, or until it is closed.
    pub(super) fn rest(&self, time: Duration) {
        drop(self.closing.wait_timeout_while(self.requests(), time, |requests| !requests.closed));
    }

    /// Has a file system marked. The descriptor is one of the process's table, not of a thread's own.
    ///
    /// # Errors
    /// What the kernel says; `BrokenPipe` when it is closed.
    pub(super) fn mark(&self, place: BorrowedFd<'_>) -> io::Result<()> {
        let (done, is_done) = std::sync::mpsc::channel();
        let order = MarkRequest { descriptor: place.as_raw_fd(), done };
        let mut requests = self.requests();
        if requests.closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        requests.marks.push(order);
        drop(requests);
        self.ring();
        is_done.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))
    }

    /// A new request. `None`: it is to pass at once.
    pub(super) fn put(&self, pid: Pid, file: PathBuf) -> Option<RequestId> {
        let now = Instant::now();
        let mut requests = self.requests();
        if requests.closed {
            return None;
        }
        let hanging = requests.looked_at.values().filter(|since| **since + HANGS <= now).count();
        if hanging >= requests.inspectors {
            drop(requests);
            self.count(Duration::ZERO);
            self.unseen(format!("process {pid} was not inspected: all inspectors hang"));
            return None;
        }
        let request = RequestId(requests.next);
        requests.next += 1;
        requests.held.insert(request, Held { pid, taken: now, until: now + LONGEST });
        requests.queue.push_back(Job { request, pid, file });
        drop(requests);
        // One of them. If all are busy, the first that is through takes it.
        self.changed.notify_one();
        Some(request)
    }

    /// What is to be done now: what was decided, and what has waited for too long.
    pub(super) fn due(&self, now: Instant) -> Due {
        let mut requests = self.requests();
        let (late, held): (BTreeMap<_, _>, _) =
            std::mem::take(&mut requests.held).into_iter().partition(|(_, held)| held.until <= now);
        requests.held = held;
        let earliest = requests.held.values().map(|held| held.until).min();
        let mut due = Due {
            released: std::mem::take(&mut requests.released),
            ignored: std::mem::take(&mut requests.ignored),
            marks: std::mem::take(&mut requests.marks),
            nap: earliest.map_or(NAP, |due| due.saturating_duration_since(now).min(NAP)),
            closed: requests.closed,
        };
        drop(requests);
        for (request, Held { pid, taken, .. }) in late {
            due.released.push(request);
            self.count(taken.elapsed());
            self.unseen(format!("process {pid} was let through the gate: deciding took too long"));
        }
        due
    }

    /// The next request for an inspector; `None`: it is closed. True: all inspectors have something to do now, and another one is to be
    /// started, which is counted already.
    pub(super) fn next_job(&self) -> Option<(Job, bool)> {
        let mut requests = self.requests();
        loop {
            if requests.closed {
                return None;
            }
            while let Some(job) = requests.queue.pop_front() {
                if !requests.held.contains_key(&job.request) {
                    continue;
                }
                requests.looked_at.insert(job.request, Instant::now());
                let another =
                    requests.looked_at.len() >= requests.inspectors && requests.inspectors < MOST_INSPECTORS;
                requests.inspectors += usize::from(another);
                return Some((job, another));
            }
            requests = self.changed.wait(requests).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// An inspector is through with it.
    pub(super) fn looked_at(&self, request: RequestId) {
        self.requests().looked_at.remove(&request);
    }

    /// No other inspector could be started.
    pub(super) fn not_started(&self) {
        let mut requests = self.requests();
        requests.inspectors = requests.inspectors.saturating_sub(1);
    }

    /// Lets it pass, and from now on whoever executes the same file, without being asked about.
    pub(super) fn ignore(&self, request: RequestId) {
        // Both at once: what is released is not there any more when it is to be ignored.
        {
            let mut requests = self.requests();
            if requests.held.contains_key(&request) {
                requests.ignored.push(request);
            }
        }
        self.allow(request);
    }

    /// Lets it pass. False: it has, before.
    pub(super) fn allow(&self, request: RequestId) -> bool {
        let mut requests = self.requests();
        let Some(held) = requests.held.remove(&request) else { return false };
        requests.released.push(request);
        drop(requests);
        self.ring();
        self.count(held.taken.elapsed());
        true
    }

    /// Whether it still waits.
    pub(super) fn holds(&self, request: RequestId) -> bool {
        self.requests().held.contains_key(&request)
    }

    /// Gives it more time: it asks for itself, and nobody else waits.
    pub(super) fn extend(&self, request: RequestId, until: Instant) {
        if let Some(held) = self.requests().held.get_mut(&request) {
            held.until = until;
        }
    }

    fn count(&self, waited: Duration) {
        self.statistics.lock().unwrap_or_else(PoisonError::into_inner).count_request(waited);
    }

    /// Counts and notes an execution that goes on undecided.
    pub(super) fn unseen(&self, text: String) {
        let mut statistics = self.statistics.lock().unwrap_or_else(PoisonError::into_inner);
        statistics.unseen += 1;
        statistics.add_note(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending() -> PendingRequests {
        PendingRequests::new(Arc::default()).unwrap()
    }

    fn put(pending: &PendingRequests, pid: u32) -> Option<RequestId> {
        pending.put(Pid(pid), PathBuf::from("/proc/self/exe"))
    }

    #[test]
    fn what_is_decided_is_released_once() {
        let pending = pending();
        let request = put(&pending, 7).unwrap();
        let (job, another) = pending.next_job().unwrap();
        assert_eq!((job.request, job.pid), (request, Pid(7)));
        assert!(another, "the only inspector has something to do");
        assert!(pending.holds(request) && pending.allow(request));
        assert!(!pending.holds(request) && !pending.allow(request), "it has passed");
        assert_eq!(pending.due(Instant::now()).released, [request]);
        assert!(pending.due(Instant::now()).released.is_empty());
    }

    #[test]
    fn who_has_nothing_to_do_sleeps() {
        let pending = pending();
        let nap = pending.due(Instant::now()).nap();
        assert!(nap.tv_sec > 0 || nap.tv_nsec > 0, "{nap:?}");
        put(&pending, 7).unwrap();
        let nap = pending.due(Instant::now()).nap();
        assert!(nap.tv_sec == 0 && nap.tv_nsec > 0, "{nap:?}");
    }

    #[test]
    fn what_waits_too_long_passes() {
        let pending = pending();
        let (late, extended) = (put(&pending, 7).unwrap(), put(&pending, 8).unwrap());
        let begin = Instant::now();
        assert!(pending.due(begin).nap <= LONGEST);
        pending.extend(extended, begin + 3 * LONGEST);
        assert_eq!(pending.due(begin + LONGEST).released, [late]);
        assert!(!pending.allow(late));
        assert_eq!(pending.next_job().unwrap().0.request, extended, "nobody looks at what has passed");
        assert_eq!(pending.due(begin + 3 * LONGEST).released, [extended]);
        assert_eq!(pending.statistics.lock().unwrap().unseen, 2);
    }

    #[test]
    fn nobody_is_asked_about_when_all_inspectors_hang() {
        let pending = pending();
        let mut started = 1;
        for pid in 0..MOST_INSPECTORS {
            let request = put(&pending, u32::try_from(pid).unwrap()).unwrap();
            let (job, another) = pending.next_job().unwrap();
            assert_eq!(job.request, request);
            started += usize::from(another);
        }
        assert_eq!(started, MOST_INSPECTORS);
        std::thread::sleep(HANGS);
        assert_eq!(put(&pending, 99), None);
        // One of them has come back.
        pending.looked_at(RequestId(3));
        assert!(put(&pending, 100).is_some());
    }

    #[test]
    fn nothing_is_held_when_it_is_closed() {
        let pending = pending();
        let request = put(&pending, 7).unwrap();
        pending.fail(io::ErrorKind::InvalidData.into());
        assert!(pending.is_closed() && !pending.holds(request) && pending.due(Instant::now()).closed);
        assert_eq!((put(&pending, 8), pending.next_job()), (None, None));
        assert_eq!(pending.mark(pending.wake()).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(pending.failure().unwrap().kind(), io::ErrorKind::InvalidData);
    }
}
