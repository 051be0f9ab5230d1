//! The process in the middle: it makes the copy, and is gone before the process runs on.
//!
//! An ended child stays a zombie until its parent asks for it, and the process does not know of ours. So the copy is not its
//! child but its grandchild: the process makes one that shares its memory (as vfork(2) does, no page table is
//! copied), that one makes the copy and ends, and the thread that made it waits for it. The copy is an orphan then, as every
//! daemon is, and init removes it when it ends, whatever happens to us.
//!
//! What it does is asked of it step by step, at stops. Left alone at any of them, it ends (its `ret` leads into the frame
//! that says so), and the thread that waits for it goes home; `inject` and `frame` have the rest.
//!
//! It is also the one that leaves the table of open files (`close_range` with `CLOSE_RANGE_UNSHARE`), so that the copy has
//! none of the process's files, connections and locks from its birth on.

use std::io;

use biopsy_image::GeneralRegisters;
use biopsy_model::{Pid, Tid};
use biopsy_sys::ptrace::wait::{EVENT_CLONE, State, Stop};
use biopsy_sys::ptrace::{self, Options, registers, wait};

use super::frame::Entry;
use super::inject::{CLONE_FILES, NR_CLONE};
use super::{FreezeError, Stage};

/// `close_range` (Linux 5.9).
pub(super) const NR_CLOSE_RANGE: u64 = 436;
/// From the first descriptor to the last.
pub(super) const ALL_FILES: [u64; 2] = [0, 0xffff_ffff];
/// `CLOSE_RANGE_UNSHARE`: not in the table that is shared.
pub(super) const UNSHARE: u64 = 2;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// It exists.
    Born,
    /// On the way to leave the table of open files, and in that call.
    Leaving,
    LeavingFiles,
    /// On the way to make the copy.
    Entering,
    /// In that call.
    Copying,
    /// Nothing more is asked of it.
    Done,
}

/// What a look brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Made {
    /// Nothing yet.
    Pending,
    /// The copy exists, with this pid.
    Copy(Pid),
    /// The kernel refused it, with this errno.
    Refused(i32),
}

/// It, traced and leaded.
#[derive(Debug)]
pub(super) struct Middle {
    pid: Pid,
    tid: Tid,
    entry: Entry,
    /// The frame that ends it, and its copy.
    last_frame: u64,
    step: Step,
    shares_files: bool,
    ended: bool,
}

impl Middle {
    /// `tid` was just made by a thread of `pid`. `may_leave_files`: its seccomp filters allow the call.
    pub(super) fn new(pid: Pid, tid: Tid, entry: Entry, last_frame: u64, may_leave_files: bool) -> Self {
        Self { pid, tid, entry, last_frame, step: Step::Born, shares_files: !may_leave_files, ended: false }
    }

    pub(super) fn tid(&self) -> Tid {
        self.tid
    }

    /// Whether it is in the call that makes the copy.
    pub(super) fn is_copying(&self) -> bool {
        self.step == Step::Copying
    }

    /// Whether the copy shares the process's table of open files.
    pub(super) fn shares_files(&self) -> bool {
        self.shares_files
    }

    /// Looks how far it is, and leads it on.
    pub(super) fn poll(&mut self, at: &dyn Fn(Stage)) -> Result<Made, FreezeError> {
        let step = FreezeError::step(self.pid, "leading the process in the middle");
        match wait::look(self.tid).map_err(&step)? {
            State::Running => Ok(Made::Pending),
            State::Stopped(stop) => self.advance(stop, at).map_err(step),
            // Killed, as all of its control group was: so is the process.
            State::Exited(_) | State::Killed(_) | State::Gone => Err(FreezeError::Ended { pid: self.pid }),
        }
    }

    fn advance(&mut self, stop: Stop, at: &dyn Fn(Stage)) -> io::Result<Made> {
        match (self.step, stop) {
            (Step::Born, _) => {
                // Should we die, it goes at once. What it makes has the same option from birth on.
                let options = Options::SYSGOOD | Options::CLONE | Options::EXIT_KILL;
                ptrace::set_options(self.tid, options)?;
                at(Stage::MiddleHeld);
                if self.shares_files { self.copy()? } else { self.leave_files()? }
            }
            (Step::Leaving, Stop::Syscall) => {
                self.step = Step::LeavingFiles;
                ptrace::syscall(self.tid, 0)?;
            }
            (Step::LeavingFiles, Stop::Syscall) => {
                // ENOSYS before Linux 5.9; ENOMEM.
                self.shares_files = self.result()? != 0;
                at(Stage::FilesLeft);
                self.copy()?;
            }
            (Step::Entering, Stop::Syscall) => {
                self.step = Step::Copying;
                ptrace::syscall(self.tid, 0)?;
            }
            (Step::Copying, Stop::Event(EVENT_CLONE)) => {
                self.step = Step::Done;
                let copy = Pid(u32::try_from(ptrace::event_message(self.tid)?).unwrap_or(0));
                at(Stage::Called);
                return Ok(Made::Copy(copy));
            }
            (Step::Copying, Stop::Syscall) => {
                self.step = Step::Done;
                return Ok(Made::Refused(i32::try_from(-self.result()?).unwrap_or(0)));
            }
            (Step::Done, _) => {}
            // A signal to its process group (SIGSTOP) is not for it, and one of a filter (SIGSYS) neither.
            (Step::Leaving | Step::LeavingFiles | Step::Entering | Step::Copying, _) => {
                ptrace::syscall(self.tid, 0)?;
            }
        }
        Ok(Made::Pending)
    }

    fn result(&self) -> io::Result<i64> {
        Ok(GeneralRegisters::from_words(&registers::general(self.tid)?).rax.cast_signed())
    }

    fn leave_files(&mut self) -> io::Result<()> {
        self.step = Step::Leaving;
        self.send(NR_CLOSE_RANGE, [ALL_FILES[0], ALL_FILES[1], UNSHARE])
    }

    fn copy(&mut self) -> io::Result<()> {
        self.step = Step::Entering;
        let flags = if self.shares_files { CLONE_FILES } else { 0 };
        self.send(NR_CLONE, [flags, self.last_frame, 0])
    }

    fn send(&self, number: u64, arguments: [u64; 3]) -> io::Result<()> {
        let now = GeneralRegisters::from_words(&registers::general(self.tid)?);
        let call = self.entry.call(number, arguments, self.last_frame, now);
        registers::set_general(self.tid, &call.to_words())?;
        ptrace::syscall(self.tid, 0)
    }

    /// Kills it. [`Self::is_gone`] says when it is.
    pub(super) fn end(&mut self) {
        self.step = Step::Done;
        // ESRCH: it has ended.
        let _ = ptrace::kill(Pid(self.tid.0));
    }

    /// Whether it has ended; then the thread that waits for it can see that.
    pub(super) fn is_gone(&mut self) -> bool {
        if !self.ended && !matches!(wait::look(self.tid), Ok(State::Running | State::Stopped(_))) {
            // Its parent gets the news only when its tracer has taken it.
            self.ended = wait::take(self.tid).is_ok();
        }
        self.ended
    }
}
