//! Looks at a process that waits in execve, and decides whether it may be what is waited for.
//!
//! On a thread of its own, because all of this may hang: see [`super::gate`].

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use biopsy_model::{Pid, ProcessKey};
use biopsy_sys::schedule::RealTime;
use biopsy_sys::stop_bell::BellHandle;

use super::launch::Launch;
use super::pending::{Job, PendingRequests, RequestId};
use crate::process::identity;
use crate::process::proc_root::{ProcRoot, SMALL};
use crate::process::stat::Stat;

/// No chain of parents is longer.
const GENERATIONS: usize = 4096;

/// A process that concerns the thread that traces.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) request: RequestId,
    pub(super) pid: Pid,
    /// Nearest first.
    pub(super) ancestors: Vec<Pid>,
    /// It is about to be a debugger.
    pub(super) traces_others: bool,
    /// It may become what is waited for.
    pub(super) wanted: Option<ProcessKey>,
}

/// What it knows.
#[derive(Clone, Debug)]
pub(super) struct Inspector {
    /// What is waited for answers to this.
    pub(super) name: String,
    /// And descends from this.
    pub(super) below: Option<ProcessKey>,
    pub(super) candidates: Sender<Candidate>,
    /// Of the thread that traces.
    pub(super) bell: BellHandle,
}

/// What inspectors look for.
pub(super) trait Inspect: Clone + Send + 'static {
    /// What was found.
    type Found;

    /// What is to become of it.
    fn consider(&self, job: Job) -> Result<Verdict<Self::Found>, Unreadable>;

    /// Somebody else decides. False: nobody does any more.
    fn hand_on(&self, pending: &Arc<PendingRequests>, found: Self::Found) -> bool;
}

/// What is to become of a request.
pub(super) enum Verdict<Found> {
    /// It goes on, because it is nothing that is waited for.
    Passes,
    /// So does whoever executes that file later on.
    PassesAlways,
    /// Somebody else decides.
    Concerns(Found),
}

/// Starts an inspector, who hires another one when he finds that nobody else is free. To be called on a thread that has the table of
/// files of the process.
pub(super) fn start(pending: Arc<PendingRequests>, inspector: impl Inspect) -> io::Result<()> {
    let work = move || {
        // Whoever starts a program waits for this.
        let _ahead = RealTime::begin().ok();
        while let Some((job, another)) = pending.next_job() {
            if another && start(Arc::clone(&pending), inspector.clone()).is_err() {
                pending.not_started();
            }
            let (request, pid) = (job.request, job.pid);
            let found = inspector.consider(job);
            pending.looked_at(request);
            if found.is_err() && pending.holds(request) {
                pending.unseen(format!("what process {pid} starts could not be read"));
            }
            let handed_on = match found {
                Ok(Verdict::Concerns(found)) => inspector.hand_on(&pending, found),
                Ok(Verdict::PassesAlways) => {
                    pending.ignore(request);
                    true
                }
                Ok(Verdict::Passes) | Err(Unreadable) => false,
            };
            if !handed_on {
                pending.allow(request);
            }
        }
    };
    std::thread::Builder::new().name("gate-inspector".to_owned()).stack_size(256 << 10).spawn(work).map(drop)
}

/// Memory or arguments of a process cannot be read.
pub(super) struct Unreadable;

impl Inspect for Inspector {
    type Found = Candidate;

    fn consider(&self, job: Job) -> Result<Verdict<Candidate>, Unreadable> {
        let Job { request, pid, file } = job;
        // In a pid namespace that we do not see.
        if pid.0 == 0 {
            return Ok(Verdict::Passes);
        }
        let Some(ancestors) = ancestors(pid, self.below.as_ref()) else { return Ok(Verdict::Passes) };
        let launch = Launch::read(pid).ok_or(Unreadable)?;
        let traces_others = launch.traces_others();
        let path = std::fs::read_link(&file).ok();
        let path = path.map(|path| path.to_string_lossy().into_owned());
        // Only while the program itself is opened: later in the call, the kernel holds a lock that seizing needs.
        let wanted = launch.names(&file) && launch.answers_to(path.as_deref(), &self.name);
        let wanted = if wanted { identity::key_of(&ProcRoot::live(), pid) } else { None };
        if !traces_others && wanted.is_none() {
            return Ok(Verdict::Passes);
        }
        Ok(Verdict::Concerns(Candidate { request, pid, ancestors, traces_others, wanted }))
    }

    fn hand_on(&self, _: &Arc<PendingRequests>, candidate: Candidate) -> bool {
        let handed_on = self.candidates.send(candidate).is_ok();
        self.bell.ring();
        handed_on
    }
}

/// The ancestors of a process, nearest first, up to and with `below`; `None` when it does not descend from `below`.
pub(super) fn ancestors(pid: Pid, below: Option<&ProcessKey>) -> Option<Vec<Pid>> {
    let root = ProcRoot::live();
    let mut found = Vec::new();
    let mut at = pid;
    for _ in 0..GENERATIONS {
        let line = root.process(at).ok()?.read("stat", SMALL).ok()?;
        let stat = Stat::parse(&line)?;
        if below.is_some_and(|parent| parent.pid == at && parent.start_ticks == stat.start_ticks) {
            return (at != pid).then_some(found);
        }
        if stat.parent == 0 {
            break;
        }
        at = Pid(stat.parent);
        found.push(at);
    }
    below.is_none().then_some(found)
}
