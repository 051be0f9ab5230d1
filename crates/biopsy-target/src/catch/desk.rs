//! Where requests lie between the thread that serves the gate and those who decide.
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
use rustix::event::EventfdFlags;

use super::CatchStatistics;

/// Longest time that one request may wait for its decision. Deciding takes some ten microseconds.
const LONGEST: Duration = Duration::from_millis(100);
/// A clerk that looks at one request for longer than this hangs.
const HANGS: Duration = Duration::from_millis(20);
/// Most clerks. Should all of them hang, nobody is asked about any more.
const MOST_CLERKS: usize = 16;
/// Longest sleep of the thread that serves. Whoever has something for it wakes it.
const NAP: Duration = Duration::from_millis(500);

/// Number of a request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Ticket(u64);

/// What has to be decided.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Job {
    pub(super) ticket: Ticket,
    pub(super) pid: Pid,
    /// The file that is executed, in `/proc`, as long as the request waits. Afterwards it may be another one.
    pub(super) file: PathBuf,
}

/// A file system that is to be marked: what is open here by this number in the table of the process.
#[derive(Debug)]
pub(super) struct MarkOrder {
    pub(super) descriptor: i32,
    pub(super) done: Sender<io::Result<()>>,
}

/// What the thread that serves has to do.
#[derive(Debug)]
pub(super) struct Orders {
    pub(super) released: Vec<Ticket>,
    pub(super) marks: Vec<MarkOrder>,
    /// Nothing comes due in this time.
    pub(super) nap: Duration,
    pub(super) closed: bool,
}

#[derive(Debug)]
pub(super) struct Desk {
    papers: Mutex<Papers>,
    /// Something lies there for a clerk, or it is closed.
    changed: Condvar,
    /// Wakes the thread that serves.
    wake: OwnedFd,
    statistics: Arc<Mutex<CatchStatistics>>,
}

#[derive(Debug, Default)]
struct Papers {
    next: u64,
    held: BTreeMap<Ticket, Held>,
    /// For clerks.
    queue: VecDeque<Job>,
    /// What a clerk looks at now, since when.
    looked_at: BTreeMap<Ticket, Instant>,
    clerks: usize,
    /// For the thread that serves.
    released: Vec<Ticket>,
    marks: Vec<MarkOrder>,
    closed: bool,
    failed: Option<io::Error>,
}

#[derive(Debug)]
struct Held {
    pid: Pid,
    taken: Instant,
    until: Instant,
}

impl Desk {
    /// An empty one, which counts the first clerk.
    ///
    /// # Errors
    /// EMFILE.
    pub(super) fn new(statistics: Arc<Mutex<CatchStatistics>>) -> io::Result<Self> {
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let papers = Mutex::new(Papers { clerks: 1, ..Papers::default() });
        Ok(Self { papers, changed: Condvar::new(), wake, statistics })
    }

    fn papers(&self) -> MutexGuard<'_, Papers> {
        self.papers.lock().unwrap_or_else(PoisonError::into_inner)
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
        let mut papers = self.papers();
        papers.closed = true;
        papers.held.clear();
        papers.queue.clear();
        // Those who wait for one are told by its end.
        papers.marks.clear();
        drop(papers);
        self.changed.notify_all();
        self.ring();
    }

    /// Requests can be taken no more.
    pub(super) fn fail(&self, error: io::Error) {
        self.papers().failed = Some(error);
        self.close();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.papers().closed
    }

    /// Why it was closed, if not by us.
    pub(super) fn failure(&self) -> Option<io::Error> {
        self.papers().failed.take()
    }

    /// Waits so long, or until it is closed.
    pub(super) fn rest(&self, time: Duration) {
        drop(self.changed.wait_timeout_while(self.papers(), time, |papers| !papers.closed));
    }

    /// Has a file system marked. The descriptor is one of the process's table, not of a thread's own.
    ///
    /// # Errors
    /// What the kernel says; `BrokenPipe` when it is closed.
    pub(super) fn mark(&self, place: BorrowedFd<'_>) -> io::Result<()> {
        let (done, is_done) = std::sync::mpsc::channel();
        let order = MarkOrder { descriptor: place.as_raw_fd(), done };
        let mut papers = self.papers();
        if papers.closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        papers.marks.push(order);
        drop(papers);
        self.ring();
        is_done.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))
    }

    /// A new request. `None`: it is to pass at once.
    pub(super) fn put(&self, pid: Pid, file: PathBuf) -> Option<Ticket> {
        let now = Instant::now();
        let mut papers = self.papers();
        if papers.closed {
            return None;
        }
        let hanging = papers.looked_at.values().filter(|since| **since + HANGS <= now).count();
        if hanging >= papers.clerks {
            drop(papers);
            self.count(Duration::ZERO);
            self.unseen(format!("process {pid} was not inspected: all inspectors hang"));
            return None;
        }
        let ticket = Ticket(papers.next);
        papers.next += 1;
        papers.held.insert(ticket, Held { pid, taken: now, until: now + LONGEST });
        papers.queue.push_back(Job { ticket, pid, file });
        drop(papers);
        self.changed.notify_all();
        Some(ticket)
    }

    /// What is to be done now: what was decided, and what has waited for too long.
    pub(super) fn orders(&self, now: Instant) -> Orders {
        let mut papers = self.papers();
        let (late, held): (BTreeMap<_, _>, _) =
            std::mem::take(&mut papers.held).into_iter().partition(|(_, held)| held.until <= now);
        papers.held = held;
        let due = papers.held.values().map(|held| held.until).min();
        let mut orders = Orders {
            released: std::mem::take(&mut papers.released),
            marks: std::mem::take(&mut papers.marks),
            nap: due.map_or(NAP, |due| due.saturating_duration_since(now).min(NAP)),
            closed: papers.closed,
        };
        drop(papers);
        for (ticket, Held { pid, taken, .. }) in late {
            orders.released.push(ticket);
            self.count(taken.elapsed());
            self.unseen(format!("process {pid} was let through the gate: deciding took too long"));
        }
        orders
    }

    /// The next request for a clerk; `None`: it is closed. True: all clerks have something to do now, and another one is to be
    /// hired, who is counted already.
    pub(super) fn next_job(&self) -> Option<(Job, bool)> {
        let mut papers = self.papers();
        loop {
            if papers.closed {
                return None;
            }
            while let Some(job) = papers.queue.pop_front() {
                if !papers.held.contains_key(&job.ticket) {
                    continue;
                }
                papers.looked_at.insert(job.ticket, Instant::now());
                let another = papers.looked_at.len() >= papers.clerks && papers.clerks < MOST_CLERKS;
                papers.clerks += usize::from(another);
                return Some((job, another));
            }
            papers = self.changed.wait(papers).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A clerk is through with it.
    pub(super) fn looked_at(&self, ticket: Ticket) {
        self.papers().looked_at.remove(&ticket);
    }

    /// No other clerk could be hired.
    pub(super) fn not_hired(&self) {
        let mut papers = self.papers();
        papers.clerks = papers.clerks.saturating_sub(1);
    }

    /// Lets it pass. False: it has, before.
    pub(super) fn allow(&self, ticket: Ticket) -> bool {
        let mut papers = self.papers();
        let Some(held) = papers.held.remove(&ticket) else { return false };
        papers.released.push(ticket);
        drop(papers);
        self.ring();
        self.count(held.taken.elapsed());
        true
    }

    /// Whether it still waits.
    pub(super) fn holds(&self, ticket: Ticket) -> bool {
        self.papers().held.contains_key(&ticket)
    }

    /// Gives it more time: it asks for itself, and nobody else waits.
    pub(super) fn extend(&self, ticket: Ticket, until: Instant) {
        if let Some(held) = self.papers().held.get_mut(&ticket) {
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

    fn desk() -> Desk {
        Desk::new(Arc::default()).unwrap()
    }

    fn put(desk: &Desk, pid: u32) -> Option<Ticket> {
        desk.put(Pid(pid), PathBuf::from("/proc/self/exe"))
    }

    #[test]
    fn what_is_decided_is_released_once() {
        let desk = desk();
        let ticket = put(&desk, 7).unwrap();
        let (job, another) = desk.next_job().unwrap();
        assert_eq!((job.ticket, job.pid), (ticket, Pid(7)));
        assert!(another, "the only clerk has something to do");
        assert!(desk.holds(ticket) && desk.allow(ticket));
        assert!(!desk.holds(ticket) && !desk.allow(ticket), "it has passed");
        assert_eq!(desk.orders(Instant::now()).released, [ticket]);
        assert!(desk.orders(Instant::now()).released.is_empty());
    }

    #[test]
    fn what_waits_too_long_passes() {
        let desk = desk();
        let (late, extended) = (put(&desk, 7).unwrap(), put(&desk, 8).unwrap());
        let begin = Instant::now();
        assert!(desk.orders(begin).nap <= LONGEST);
        desk.extend(extended, begin + 3 * LONGEST);
        assert_eq!(desk.orders(begin + LONGEST).released, [late]);
        assert!(!desk.allow(late));
        assert_eq!(desk.next_job().unwrap().0.ticket, extended, "nobody looks at what has passed");
        assert_eq!(desk.orders(begin + 3 * LONGEST).released, [extended]);
        assert_eq!(desk.statistics.lock().unwrap().unseen, 2);
    }

    #[test]
    fn nobody_is_asked_about_when_all_clerks_hang() {
        let desk = desk();
        let mut hired = 1;
        for pid in 0..MOST_CLERKS {
            let ticket = put(&desk, u32::try_from(pid).unwrap()).unwrap();
            let (job, another) = desk.next_job().unwrap();
            assert_eq!(job.ticket, ticket);
            hired += usize::from(another);
        }
        assert_eq!(hired, MOST_CLERKS);
        std::thread::sleep(HANGS);
        assert_eq!(put(&desk, 99), None);
        // One of them has come back.
        desk.looked_at(Ticket(3));
        assert!(put(&desk, 100).is_some());
    }

    #[test]
    fn nothing_is_held_when_it_is_closed() {
        let desk = desk();
        let ticket = put(&desk, 7).unwrap();
        desk.fail(io::ErrorKind::InvalidData.into());
        assert!(desk.is_closed() && !desk.holds(ticket) && desk.orders(Instant::now()).closed);
        assert_eq!((put(&desk, 8), desk.next_job()), (None, None));
        assert_eq!(desk.mark(desk.wake()).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(desk.failure().unwrap().kind(), io::ErrorKind::InvalidData);
    }
}
