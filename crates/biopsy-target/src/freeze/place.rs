//! The work on one process in the window.

use std::time::{Duration, Instant};

use biopsy_model::Pid;
use biopsy_sys::boost::Boost;

use super::child::Child;
use super::choose;
use super::inject::{Call, Injection, Progress};
use super::middle::{Made, Middle};
use super::prepared::Prepared;
use super::stop::Threads;
use super::{FreezeError, FreezeWarning, KeptMemory, Pause, Stage};
use crate::process::proc_root::{ProcRoot, SMALL};
use crate::process::stat::Stat;

/// One process between its first stop and its release.
pub(super) struct Place {
    pub(super) prepared: Prepared,
    pub(super) threads: Threads,
    pub(super) injection: Option<Injection>,
    middle: Option<Middle>,
    may_leave_files: bool,
    pub(super) child: Option<Pid>,
    /// Whether that one shares the table of open files.
    pub(super) shares_files: bool,
    pub(super) kept: Option<Box<dyn KeptMemory>>,
    pub(super) error: Option<FreezeError>,
    pub(super) warnings: Vec<FreezeWarning>,
    pub(super) pause: Pause,
    /// Lends priority to whoever forks: the fork is made in its name, and on a busy machine it would wait its turn with
    /// everybody, while all others stand still.
    pub(super) boost: Option<Boost>,
}

impl Place {
    pub(super) fn new(prepared: Prepared, threads: Threads, boost: Option<Boost>) -> Self {
        Self {
            prepared,
            threads,
            injection: None,
            middle: None,
            may_leave_files: false,
            child: None,
            shares_files: true,
            kept: None,
            error: None,
            warnings: Vec::new(),
            pause: Pause::default(),
            boost,
        }
    }

    pub(super) fn pid(&self) -> Pid {
        self.prepared.pid()
    }

    /// Sends the best thread to the fork, if this process is to fork.
    pub(super) fn begin_fork(&mut self, at: &dyn Fn(Stage)) -> Result<(), FreezeError> {
        let pid = self.pid();
        let Some(gadgets) = &self.prepared.gadgets else { return Ok(()) };
        if !gadgets.are_there(&self.prepared.memory) {
            return Err(FreezeError::NoGadget { pid, why: "its code has just changed".to_owned() });
        }
        if let Some(address) = gadgets.stub {
            self.warnings.push(FreezeWarning::StubWritten { address });
        }
        let chosen = choose::choose(
            &self.threads.list,
            &self.prepared.mappings,
            &self.prepared.memory,
            gadgets.entry.syscall,
        )
        .map_err(|why| FreezeError::NoSafeThread { pid, why })?;
        let thread = self.threads.list.get(chosen.index).ok_or(FreezeError::Ended { pid })?;
        self.may_leave_files = chosen.allowed.leaving_files;
        let as_orphan = self.prepared.plan.orphan && chosen.allowed.middle;
        let call = if as_orphan { Call::AsksForOrphans } else { Call::Copy };
        let mut injection = Injection::new(pid, thread, chosen.room, gadgets.entry, call)?;
        if let Some(boost) = &self.boost {
            boost.raise(injection.tid());
        }
        let started = injection.start(at);
        self.injection = Some(injection);
        started
    }

    /// Whether it is on its way to the fork or in it.
    pub(super) fn is_forking(&self) -> bool {
        self.child.is_none()
            && self.error.is_none()
            && self.injection.as_ref().is_some_and(|injection| !injection.is_done())
    }

    /// Whether the kernel is at it.
    pub(super) fn is_copying(&self) -> bool {
        self.middle.as_ref().is_some_and(Middle::is_copying)
            || self.injection.as_ref().is_some_and(Injection::is_copying)
    }

    pub(super) fn look_at_fork(&mut self, at: &dyn Fn(Stage)) {
        let result = if self.middle.is_some() { self.look_at_middle(at) } else { self.look_at_thread(at) };
        self.error = self.error.take().or(result.err());
    }

    fn look_at_thread(&mut self, at: &dyn Fn(Stage)) -> Result<(), FreezeError> {
        let pid = self.pid();
        let (Some(injection), Some(gadgets)) = (&mut self.injection, &self.prepared.gadgets) else {
            return Ok(());
        };
        match injection.poll(at)? {
            Progress::Pending => Ok(()),
            Progress::Copy(child) => self.take_copy(child, true, at),
            Progress::Middle(tid) => {
                if let Some(boost) = &self.boost {
                    boost.raise(tid);
                }
                let last_frame = injection.last_frame();
                self.middle = Some(Middle::new(pid, tid, gadgets.entry, last_frame, self.may_leave_files));
                Ok(())
            }
            Progress::Done(result) => {
                let errno = result.map_or(0, |result| i32::try_from(-result).unwrap_or(0));
                Err(refused(pid, errno))
            }
        }
    }

    fn look_at_middle(&mut self, at: &dyn Fn(Stage)) -> Result<(), FreezeError> {
        let pid = self.pid();
        let Some(middle) = &mut self.middle else { return Ok(()) };
        match middle.poll(at)? {
            Made::Pending => Ok(()),
            Made::Copy(child) => {
                let shares_files = middle.shares_files();
                let taken = self.take_copy(child, shares_files, at);
                self.end_middle();
                at(Stage::MiddleKilled);
                taken
            }
            Made::Refused(errno) => {
                middle.end();
                Err(refused(pid, errno))
            }
        }
    }

    fn take_copy(&mut self, child: Pid, shares_files: bool, at: &dyn Fn(Stage)) -> Result<(), FreezeError> {
        self.child = Some(child);
        self.shares_files = shares_files;
        let marked = Child::mark(child);
        at(Stage::ChildMarked);
        marked.map_err(FreezeError::step(self.pid(), "marking the frozen child"))
    }

    /// Kills the process in the middle, which the thread waits for.
    pub(super) fn end_middle(&mut self) {
        if let Some(middle) = &mut self.middle {
            middle.end();
        }
    }

    /// Whether there is no process in the middle, any more.
    pub(super) fn is_middle_gone(&mut self, at: &dyn Fn(Stage)) -> bool {
        if let Some(middle) = &mut self.middle {
            if !middle.is_gone() {
                return false;
            }
            self.middle = None;
            at(Stage::MiddleGone);
            // Now it is the thread again that everything waits for.
            if let (Some(boost), Some(injection)) = (&self.boost, &self.injection) {
                boost.raise(injection.tid());
            }
        }
        true
    }

    /// Waits for the process in the middle to be gone, for so long; then whoever lets late threads go takes it.
    pub(super) fn see_middle_off(&mut self, limit: Duration) {
        let Some(middle) = &mut self.middle else { return };
        middle.end();
        let deadline = Instant::now() + limit;
        while !middle.is_gone() {
            if Instant::now() > deadline {
                self.threads.add_late(middle.tid());
                break;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        self.middle = None;
    }

    /// Copies what is to be copied, if this process is to be copied.
    pub(super) fn copy(&mut self) -> Result<(), FreezeError> {
        let Some(copy) = self.prepared.copy.take() else { return Ok(()) };
        let registers: Vec<_> = self.threads.list.iter().filter_map(|thread| thread.registers).collect();
        self.kept = Some(copy.copy(&registers)?);
        Ok(())
    }

    /// Whether the thread of the injection has been killed. The kernel tells the end of a first thread only when all others
    /// are gone, and those wait for us.
    pub(super) fn has_ended(&self) -> bool {
        let Some(injection) = &self.injection else { return false };
        let line =
            ProcRoot::live().bytes(&format!("proc/{}/task/{}/stat", self.pid(), injection.tid()), SMALL);
        line.ok().and_then(|line| Stat::parse(&line)).is_none_or(|stat| stat.is_zombie())
    }

    pub(super) fn give_up_way_back(&mut self) {
        self.abandon();
        self.injection = None;
    }

    /// A thread in the middle of an injection is let go as it is.
    pub(super) fn abandon(&mut self) {
        if let Some(injection) = self.injection.as_ref().filter(|one| !one.is_done()) {
            self.threads.abandon(injection.tid());
        }
    }
}

fn refused(pid: Pid, errno: i32) -> FreezeError {
    FreezeError::ForkRefused { pid, source: std::io::Error::from_raw_os_error(errno) }
}
