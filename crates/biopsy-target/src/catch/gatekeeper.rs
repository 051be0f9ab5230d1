//! Nobody waits at the gate for long, whatever hangs.
//!
//! One thread takes requests from the kernel, lays them on a desk, and lets pass what has lain there for too long. It does nothing
//! else, and nothing that could wait: it asks nobody, reads no memory, opens no file. What is to become of a request is found out
//! by a clerk on a thread of its own (see [`super::clerk`]), who looks into the process that asks, and may hang there: a page of
//! its memory may be a file that is served by somebody who does not answer, or by the process itself (userfaultfd(2), FUSE). Then
//! the request goes on when its time is over, and another clerk takes the next.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use biopsy_model::Pid;
use biopsy_sys::fanotify::{ExecGate, ExecRequest};
use biopsy_sys::schedule::RealTime;
use biopsy_sys::stop_bell::BellHandle;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::CatchStatistics;
use super::clerk::Clerk;

/// Longest time that one request may wait for its decision. Deciding takes some ten microseconds.
const LONGEST: Duration = Duration::from_millis(100);
/// A clerk that looks at one request for longer than this hangs, and another one takes the next: whoever is next shall not wait
/// because of it.
const HANGS: Duration = Duration::from_millis(20);
/// Most clerks that may hang at the same time. Should all of them, nobody is asked about any more.
const MOST_CLERKS: usize = 16;

/// Number of a request on the desk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Ticket(u64);

/// The gate with its threads. Dropping it closes the gate.
#[derive(Debug)]
pub(super) struct Gatekeeper {
    desk: Arc<Desk>,
    gate: Arc<ExecGate>,
}

/// What has to be decided.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) ticket: Ticket,
    pub(super) pid: Pid,
    /// The file that is executed.
    pub(super) file: File,
}

#[derive(Debug)]
pub(super) struct Desk {
    papers: Mutex<Papers>,
    /// Something lies there for a clerk, or it is closed.
    changed: Condvar,
    statistics: Arc<Mutex<CatchStatistics>>,
    bell: BellHandle,
}

#[derive(Debug, Default)]
struct Papers {
    next: u64,
    held: BTreeMap<Ticket, Held>,
    /// For clerks.
    queue: VecDeque<Ticket>,
    /// What a clerk looks at now, since when.
    looked_at: BTreeMap<Ticket, Instant>,
    /// Clerks, and what those of them look at that hang.
    clerks: usize,
    stuck: BTreeSet<Ticket>,
    closed: bool,
    failed: Option<io::Error>,
}

#[derive(Debug)]
struct Held {
    request: ExecRequest,
    taken: Instant,
    until: Instant,
}

impl Gatekeeper {
    /// Starts the threads. Marks may be made when this returns, and not before: whoever comes to them then is served.
    pub(super) fn start(
        gate: ExecGate,
        clerk: Clerk,
        bell: BellHandle,
        statistics: Arc<Mutex<CatchStatistics>>,
    ) -> io::Result<Self> {
        let desk = Arc::new(Desk { papers: Mutex::default(), changed: Condvar::new(), statistics, bell });
        let keeper = Self { desk, gate: Arc::new(gate) };
        keeper.desk.papers().clerks = 1;
        hire(Arc::clone(&keeper.desk), clerk.clone())?;
        let (desk, gate) = (Arc::clone(&keeper.desk), Arc::clone(&keeper.gate));
        std::thread::Builder::new()
            .name("gatekeeper".to_owned())
            .stack_size(128 << 10)
            .spawn(move || keep(&desk, &gate, &clerk))?;
        Ok(keeper)
    }

    pub(super) fn desk(&self) -> &Arc<Desk> {
        &self.desk
    }

    /// For marks. It is served as long as somebody has it.
    pub(super) fn gate(&self) -> &Arc<ExecGate> {
        &self.gate
    }
}

impl Drop for Gatekeeper {
    fn drop(&mut self) {
        self.desk.close();
    }
}

fn hire(desk: Arc<Desk>, clerk: Clerk) -> io::Result<()> {
    let work = move || {
        // Whoever starts a program waits for this: on a busy machine, without it, executions waited ten seconds.
        let _ahead = RealTime::begin().ok();
        while let Some(job) = desk.next_job() {
            let ticket = job.ticket;
            let candidate = clerk.consider(job);
            let goes = desk.looked_at(ticket);
            if candidate.is_some_and(|candidate| clerk.hand_on(candidate)) {
                desk.bell.ring();
            } else {
                desk.allow(ticket);
            }
            if goes {
                return;
            }
        }
    };
    std::thread::Builder::new().name("gate-clerk".to_owned()).spawn(work).map(drop)
}

/// The thread that takes requests and lets them pass in time: as long as anybody else has the gate open, which would hold
/// whoever comes to it.
fn keep(desk: &Arc<Desk>, gate: &Arc<ExecGate>, clerk: &Clerk) {
    let _ahead = RealTime::begin().ok();
    while !(desk.is_closed() && Arc::strong_count(gate) == 1) {
        let (nap, clerks_wanted) = desk.let_pass();
        for _ in 0..clerks_wanted {
            if hire(Arc::clone(desk), clerk.clone()).is_err() {
                desk.papers().clerks -= 1;
            }
        }
        let nap = Timespec { tv_sec: 0, tv_nsec: nap.subsec_nanos().into() };
        // An interrupted sleep is a short one.
        let _ = poll(&mut [PollFd::new(&**gate, PollFlags::IN)], Some(&nap));
        match gate.take() {
            Ok(requests) => requests.into_iter().for_each(|request| desk.put(request)),
            Err(error) => desk.fail(error),
        }
    }
}

impl Desk {
    fn papers(&self) -> MutexGuard<'_, Papers> {
        self.papers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everybody passes from now on.
    pub(super) fn close(&self) {
        let mut papers = self.papers();
        papers.closed = true;
        papers.held.clear();
        drop(papers);
        self.changed.notify_all();
    }

    /// Requests can be taken no more.
    fn fail(&self, error: io::Error) {
        if !self.is_closed() {
            self.papers().failed = Some(error);
            self.close();
            self.bell.ring();
        }
        // It is asked again until everybody else has closed it: not all the time.
        std::thread::sleep(Duration::from_millis(1));
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

    fn put(&self, request: ExecRequest) {
        let taken = Instant::now();
        let mut papers = self.papers();
        if papers.closed {
            return;
        }
        if papers.clerks <= papers.stuck.len() {
            drop(papers);
            self.count(Duration::ZERO);
            self.note(format!("process {} was not looked at: all who look hang", request.pid()), true);
            return;
        }
        let ticket = Ticket(papers.next);
        papers.next += 1;
        papers.held.insert(ticket, Held { request, taken, until: taken + LONGEST });
        papers.queue.push_back(ticket);
        drop(papers);
        self.changed.notify_all();
    }

    /// Lets pass what has waited for too long. Returns the time until that comes again, and how many clerks are to be hired for
    /// those that hang.
    fn let_pass(&self) -> (Duration, usize) {
        let now = Instant::now();
        let mut papers = self.papers();
        let late = |held: &Held| held.until <= now;
        let late: Vec<Ticket> =
            papers.held.iter().filter(|(_, held)| late(held)).map(|(ticket, _)| *ticket).collect();
        let passed: Vec<Held> = late.iter().filter_map(|ticket| papers.held.remove(ticket)).collect();
        let hang: Vec<Ticket> = papers
            .looked_at
            .iter()
            .filter(|(_, since)| **since + HANGS <= now)
            .map(|(ticket, _)| *ticket)
            .collect();
        let mut wanted = 0;
        for ticket in hang {
            if papers.stuck.insert(ticket) && papers.clerks < MOST_CLERKS {
                papers.clerks += 1;
                wanted += 1;
            }
        }
        // A clerk may begin to look at any moment.
        let nap = if papers.held.is_empty() && papers.queue.is_empty() { LONGEST } else { HANGS / 4 };
        drop(papers);
        for Held { request, taken, .. } in passed {
            self.count(taken.elapsed());
            self.note(
                format!("process {} was let through the gate: deciding took too long", request.pid()),
                true,
            );
        }
        (nap, wanted)
    }

    /// The next request for a clerk; `None`: it is closed.
    fn next_job(&self) -> Option<Job> {
        let mut papers = self.papers();
        loop {
            if papers.closed {
                return None;
            }
            while let Some(ticket) = papers.queue.pop_front() {
                let Some(held) = papers.held.get(&ticket) else { continue };
                let pid = Pid(held.request.pid());
                if let Ok(file) = held.request.file().try_clone() {
                    papers.looked_at.insert(ticket, Instant::now());
                    return Some(Job { ticket, pid, file });
                }
                // No descriptor is left for us: it passes.
                papers.held.remove(&ticket);
            }
            papers = self.changed.wait(papers).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A clerk is through with it. True: others do the work by now, and it goes.
    fn looked_at(&self, ticket: Ticket) -> bool {
        let mut papers = self.papers();
        papers.looked_at.remove(&ticket);
        let hung = papers.stuck.remove(&ticket);
        let goes = hung && papers.clerks - papers.stuck.len() > 1;
        if goes {
            papers.clerks -= 1;
        }
        goes
    }

    /// Lets it pass. False: it has, before.
    pub(super) fn allow(&self, ticket: Ticket) -> bool {
        let held = self.papers().held.remove(&ticket);
        let Some(Held { request, taken, .. }) = held else { return false };
        request.allow();
        self.count(taken.elapsed());
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

    fn note(&self, text: String, missed: bool) {
        let mut statistics = self.statistics.lock().unwrap_or_else(PoisonError::into_inner);
        statistics.unseen += u64::from(missed);
        statistics.add_note(text);
    }
}
