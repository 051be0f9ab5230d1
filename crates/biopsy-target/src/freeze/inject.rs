//! Leads one stopped thread through system calls.
//!
//! The steps, and what happens when biopsy is killed right after each (the kernel lets the thread go on at once):
//!
//! | step | the thread then |
//! | --- | --- |
//! | frames written below its stack | goes on as if nothing had been: nothing it uses was changed |
//! | registers set, in one call | makes the call, returns into its frame, and rt_sigreturn loads everything as it was |
//! | signals held back | as before; the frame also holds the signal mask |
//! | it runs, stands before, in or behind the call | as before |
//! | registers set for the next call, in one call | as before, with that call |
//! | signal mask set back | as before; a signal handler that runs now finds the frame above its stack pointer |
//! | registers set back, in one call | goes on as if nothing had been |
//!
//! So the frame is used only if we die. Otherwise the thread gets its very own registers back at a stop of the same kind as
//! the first one, and the kernel restarts its broken-off call with the time that is left.

use std::io;

use biopsy_image::GeneralRegisters;
use biopsy_model::{Avma, Pid, Tid};
use biopsy_sys::ptrace::wait::{EVENT_CLONE, EVENT_VFORK, State, Stop};
use biopsy_sys::ptrace::{self, Options, registers, wait};

use super::frame::{self, Entry, Frames, NR_WAIT4, WAIT_ALL};
use super::stack::Room;
use super::stop::StoppedThread;
use super::{FreezeError, Stage, restart};

/// `clone` on x86-64.
pub(super) const NR_CLONE: u64 = 56;
/// `CLONE_FILES`, and no signal at the end: the child shares the table of open files. With a copy of its own, a connection
/// that the process closes would stay open until the child ends, and the peer would wait for its end.
pub(super) const CLONE_FILES: u64 = 0x400;
/// `CLONE_VM | CLONE_FILES | CLONE_VFORK | CLONE_PARENT_SETTID`, and no signal at the end. Without `CLONE_VFORK` the kernel
/// would note for ever that the memory of the process belongs to several (`MMF_MULTIPROCESS`).
pub(super) const MIDDLE_FLAGS: u64 = 0x100 | CLONE_FILES | 0x4000 | 0x0010_0000;
/// `prctl` on x86-64.
pub(super) const NR_PRCTL: u64 = 157;
/// `PR_GET_CHILD_SUBREAPER` of prctl(2).
pub(super) const GET_CHILD_SUBREAPER: u64 = 37;
/// `WNOHANG` of wait(2).
const WAIT_NOT: u64 = 1;
const SIGSYS: i32 = 31;

/// Which call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Call {
    /// `prctl(PR_GET_CHILD_SUBREAPER)`: whether orphans below the process become its children. Then [`Call::Copy`] comes
    /// next, else [`Call::Middle`].
    AsksForOrphans,
    /// `clone(CLONE_FILES, child's stack)`: a copy of the process that sends no signal when it ends.
    Copy,
    /// `clone(MIDDLE_FLAGS, child's stack)`: the process in the middle. [`Call::Await`] comes next.
    Middle,
    /// `wait4(pid, NULL, __WALL, NULL)`: removes the process in the middle, which has ended.
    Await(u32),
    /// `wait4(pid, NULL, __WALL | WNOHANG, NULL)`: removes an ended child.
    Wait(u32),
}

/// How far it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// On the way to the call.
    Entering,
    /// In the call.
    Calling,
    /// The child exists; the thread stands in the call.
    Called,
    /// On the way out.
    Leaving,
    /// Behind the last call, on the way to a stop like the first one.
    Settling,
    Done,
}

/// What a look brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Progress {
    /// Nothing yet.
    Pending,
    /// The copy exists, with this pid; the thread stands still. [`Injection::leave`] lets it go on.
    Copy(Pid),
    /// The process in the middle exists, with this pid; the thread stands still until [`Injection::leave`].
    Middle(Tid),
    /// The thread has its registers back and stands still. The result of the last call, where it was seen.
    Done(Option<i64>),
}

/// An injection under way.
#[derive(Debug)]
pub(super) struct Injection {
    pid: Pid,
    tid: Tid,
    call: Call,
    original: GeneralRegisters,
    mask: u64,
    frames: Frames,
    entry: Entry,
    step: Step,
    result: Option<i64>,
}

impl Injection {
    /// Builds the frames. Nothing is changed yet.
    pub(super) fn new(
        pid: Pid,
        thread: &StoppedThread,
        room: Room,
        entry: Entry,
        call: Call,
    ) -> Result<Self, FreezeError> {
        let refused =
            |why: &str| FreezeError::NoSafeThread { pid, why: format!("thread {}: {why}", thread.tid) };
        let original = thread.registers.ok_or_else(|| refused("its registers are not known"))?;
        let mask = thread.mask.ok_or_else(|| refused("its signal mask is not known"))?;
        let frames = frame::build(room.top, &restart::by_itself(&original), &thread.extended, mask, entry)
            .ok_or_else(|| refused("its vector registers are not understood"))?;
        if room.top.saturating_sub(frames.base) > room.bytes {
            return Err(refused("its stack is full"));
        }
        Ok(Self {
            pid,
            tid: thread.tid,
            call,
            original,
            mask,
            frames,
            entry,
            step: Step::Entering,
            result: None,
        })
    }

    pub(super) fn tid(&self) -> Tid {
        self.tid
    }

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// Where a child finds the frame that ends it.
    pub(super) fn last_frame(&self) -> u64 {
        self.frames.child
    }

    /// Whether the thread is in the call that copies the process.
    pub(super) fn is_copying(&self) -> bool {
        self.step == Step::Calling && self.call == Call::Copy
    }

    pub(super) fn is_done(&self) -> bool {
        self.step == Step::Done
    }

    /// Writes the frames, sends the thread to the call and lets it run.
    pub(super) fn start(&mut self, at: &dyn Fn(Stage)) -> Result<(), FreezeError> {
        let step = |what| FreezeError::step(self.pid, what);
        biopsy_sys::memory::write(self.tid, Avma(self.frames.base), &self.frames.bytes)
            .map_err(step("writing below a stack"))?;
        at(Stage::FrameWritten);
        // Children are traced from their first moment on, and therefore never run.
        let options = match self.call {
            Call::Copy | Call::Middle | Call::AsksForOrphans => {
                Options::SYSGOOD | Options::CLONE | Options::VFORK
            }
            Call::Await(_) | Call::Wait(_) => Options::SYSGOOD,
        };
        ptrace::set_options(self.tid, options).map_err(step("setting options"))?;
        self.send().map_err(step("setting registers"))?;
        at(Stage::RegistersSet);
        // Not before: should we die in between, the frame is what restores the mask.
        registers::set_signal_mask(self.tid, u64::MAX).map_err(step("holding signals back"))?;
        at(Stage::SignalsHeld);
        ptrace::syscall(self.tid, 0).map_err(step("letting a thread run"))?;
        at(Stage::Resumed);
        Ok(())
    }

    /// Sets the registers for the call.
    fn send(&self) -> io::Result<()> {
        let frames = &self.frames;
        let (number, arguments, frame) = match self.call {
            Call::AsksForOrphans => (NR_PRCTL, [GET_CHILD_SUBREAPER, frames.answer, 0], frames.thread),
            Call::Copy => (NR_CLONE, [CLONE_FILES, frames.child, 0], frames.thread),
            Call::Middle => (NR_CLONE, [MIDDLE_FLAGS, frames.child, frames.awaited], frames.waiting),
            Call::Await(child) => (NR_WAIT4, [u64::from(child), 0, WAIT_ALL], frames.thread),
            Call::Wait(child) => (NR_WAIT4, [u64::from(child), 0, WAIT_ALL | WAIT_NOT], frames.thread),
        };
        let call = self.entry.call(number, arguments, frame, self.original);
        registers::set_general(self.tid, &call.to_words())
    }

    /// Looks how far it is, and leads it on.
    pub(super) fn poll(&mut self, at: &dyn Fn(Stage)) -> Result<Progress, FreezeError> {
        if self.step == Step::Done {
            return Ok(Progress::Done(self.result));
        }
        let stop = match wait::look(self.tid).map_err(FreezeError::step(self.pid, "waiting for a thread"))? {
            State::Running => return Ok(Progress::Pending),
            State::Stopped(stop) => stop,
            // Whoever has the list of threads takes the news of its end.
            State::Exited(_) | State::Killed(_) | State::Gone => {
                return Err(FreezeError::Ended { pid: self.pid });
            }
        };
        let result = self.advance(stop, at);
        result.map_err(FreezeError::step(self.pid, "leading a thread through a system call"))
    }

    fn advance(&mut self, stop: Stop, at: &dyn Fn(Stage)) -> io::Result<Progress> {
        match (self.step, stop) {
            (Step::Entering, Stop::Syscall) => {
                at(Stage::CallEntered);
                self.step = Step::Calling;
                ptrace::syscall(self.tid, 0)?;
            }
            (Step::Calling, Stop::Event(event @ (EVENT_CLONE | EVENT_VFORK))) => {
                self.step = Step::Called;
                let child = u32::try_from(ptrace::event_message(self.tid)?).unwrap_or(0);
                if event == EVENT_VFORK {
                    at(Stage::MiddleMade);
                    return Ok(Progress::Middle(Tid(child)));
                }
                at(Stage::Called);
                return Ok(Progress::Copy(Pid(child)));
            }
            (Step::Calling | Step::Leaving, Stop::Syscall) => {
                let words = registers::general(self.tid)?;
                let result = GeneralRegisters::from_words(&words).rax.cast_signed();
                self.result = Some(result);
                at(Stage::CallLeft);
                match self.next(result) {
                    Some(call) => {
                        self.call = call;
                        self.send()?;
                        self.step = Step::Entering;
                        ptrace::syscall(self.tid, 0)?;
                    }
                    None => self.settle()?,
                }
            }
            (Step::Settling, Stop::Interrupted | Stop::Group(_)) => {
                registers::set_signal_mask(self.tid, self.mask)?;
                registers::set_general(self.tid, &self.original.to_words())?;
                at(Stage::RegistersRestored);
                self.step = Step::Done;
                return Ok(Progress::Done(self.result));
            }
            (Step::Called | Step::Done, _) => {}
            // A filter that was not foreseen answers the call with SIGSYS. It must not reach the program.
            (Step::Entering | Step::Calling, Stop::Signal(SIGSYS)) => {
                self.result = Some(-i64::from(rustix::io::Errno::PERM.raw_os_error()));
                self.settle()?;
            }
            // All others are held back but SIGKILL and SIGSTOP: the latter stops the process, as it should, and leaves this
            // thread to us all the same.
            (step, stop) => {
                let signal = if let Stop::Signal(signal) = stop { signal } else { 0 };
                match step {
                    Step::Settling => ptrace::cont(self.tid, signal)?,
                    _ => ptrace::syscall(self.tid, signal)?,
                }
            }
        }
        Ok(Progress::Pending)
    }

    /// What comes after the call; `None`: the way home.
    fn next(&self, result: i64) -> Option<Call> {
        match self.call {
            Call::AsksForOrphans => {
                let mut answer = [0; 4];
                let read = biopsy_sys::memory::read(self.tid, Avma(self.frames.answer), &mut answer);
                let takes_none = result == 0 && matches!(read, Ok(4)) && answer == [0; 4];
                Some(if takes_none { Call::Middle } else { Call::Copy })
            }
            // As the process itself sees it.
            Call::Middle => u32::try_from(result).ok().filter(|&child| child > 0).map(Call::Await),
            Call::Copy | Call::Await(_) | Call::Wait(_) => None,
        }
    }

    /// Behind the last call: a stop like the first one, since only there the kernel restarts what was broken off.
    fn settle(&mut self) -> io::Result<()> {
        self.step = Step::Settling;
        ptrace::interrupt(self.tid)?;
        ptrace::cont(self.tid, 0)
    }

    /// Lets the thread go on after [`Progress::Copy`] and [`Progress::Middle`].
    pub(super) fn leave(&mut self) -> io::Result<()> {
        if self.step == Step::Called {
            self.step = Step::Leaving;
            ptrace::syscall(self.tid, 0)?;
        }
        Ok(())
    }
}
