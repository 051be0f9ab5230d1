//! Leads one stopped thread through one system call.
//!
//! The steps, and what happens when biopsy is killed right after each (the kernel lets the thread go on at once):
//!
//! | step | the thread then |
//! | --- | --- |
//! | frames written below its stack | goes on as if nothing had been: nothing it uses was changed |
//! | registers set, in one call | makes the call, returns into its frame, and rt_sigreturn loads everything as it was |
//! | signals held back | as before; the frame also holds the signal mask |
//! | it runs, stands before, in or behind the call | as before |
//! | signal mask set back | as before; a signal handler that runs now finds the frame above its stack pointer |
//! | registers set back, in one call | goes on as if nothing had been |
//!
//! So the frame is used only if we die. Otherwise the thread gets its very own registers back at a stop of the same kind as
//! the first one, and the kernel restarts its broken-off call with the time that is left.

use std::io;

use biopsy_image::GeneralRegisters;
use biopsy_model::Pid;
use biopsy_sys::ptrace::wait::{EVENT_CLONE, State, Stop};
use biopsy_sys::ptrace::{self, Options, registers, wait};

use super::frame::{self, Entry, Frames};
use super::stack::Room;
use super::stop::StoppedThread;
use super::{FreezeError, Stage, restart};

/// `clone` on x86-64.
const NR_CLONE: u64 = 56;
/// `CLONE_FILES`, and no signal at the end: the child shares the table of open files. With a copy of its own, a connection
/// that the process closes would stay open until the child ends, and the peer would wait for its end.
pub(super) const CLONE_FLAGS: u64 = 0x400;
/// `wait4` on x86-64.
const NR_WAIT4: u64 = 61;
/// `__WALL | WNOHANG` of wait(2): children of every kind, at once.
const WAIT_OPTIONS: u64 = 0x4000_0000 | 1;
const SIGSYS: i32 = 31;

/// Which call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Call {
    /// `clone(CLONE_FILES, child's stack)`: a copy of the process that sends no signal when it ends.
    Clone,
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
    /// Behind the call, on the way to a stop like the first one.
    Settling,
    Done,
}

/// What a look brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Progress {
    /// Nothing yet.
    Pending,
    /// The child exists, with this pid; the thread stands still. [`Injection::leave`] lets it go on.
    Child(u32),
    /// The thread has its registers back and stands still. The result of the call, where it was seen.
    Done(Option<i64>),
}

/// An injection under way.
#[derive(Debug)]
pub(super) struct Injection {
    pid: Pid,
    tid: u32,
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

    pub(super) fn tid(&self) -> u32 {
        self.tid
    }

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// Whether the thread is in the call.
    pub(super) fn is_in_call(&self) -> bool {
        self.step == Step::Calling
    }

    pub(super) fn is_done(&self) -> bool {
        self.step == Step::Done
    }

    /// Writes the frames, sends the thread to the call and lets it run.
    pub(super) fn start(&mut self, at: &dyn Fn(Stage)) -> Result<(), FreezeError> {
        let step = |what| FreezeError::step(self.pid, what);
        biopsy_sys::memory::write(self.tid, self.frames.base, &self.frames.bytes)
            .map_err(step("writing below a stack"))?;
        at(Stage::FrameWritten);
        let arguments = match self.call {
            Call::Clone => {
                // The child is traced from its first moment on, and therefore never runs.
                ptrace::set_options(self.tid, Options::SYSGOOD | Options::CLONE)
                    .map_err(step("setting options"))?;
                (NR_CLONE, CLONE_FLAGS, self.frames.child, 0)
            }
            Call::Wait(child) => (NR_WAIT4, u64::from(child), 0, WAIT_OPTIONS),
        };
        let (rax, rdi, rsi, rdx) = arguments;
        let injected = GeneralRegisters {
            rip: self.entry.syscall,
            rsp: self.frames.thread,
            rax,
            rdi,
            rsi,
            rdx,
            r10: 0,
            r8: 0,
            // No call is broken off any more: else the kernel would restart one, with these registers.
            orig_rax: u64::MAX,
            ..self.original
        };
        registers::set_general(self.tid, &injected.to_words()).map_err(step("setting registers"))?;
        at(Stage::RegistersSet);
        // Not before: should we die in between, the frame is what restores the mask.
        registers::set_signal_mask(self.tid, u64::MAX).map_err(step("holding signals back"))?;
        at(Stage::SignalsHeld);
        ptrace::syscall(self.tid, 0).map_err(step("letting a thread run"))?;
        at(Stage::Resumed);
        Ok(())
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
            (Step::Calling, Stop::Event(EVENT_CLONE)) => {
                self.step = Step::Called;
                let child = ptrace::event_message(self.tid)?;
                at(Stage::Called);
                return Ok(Progress::Child(u32::try_from(child).unwrap_or(0)));
            }
            (Step::Calling | Step::Leaving, Stop::Syscall) => {
                let words = registers::general(self.tid)?;
                self.result = Some(GeneralRegisters::from_words(&words).rax.cast_signed());
                at(Stage::CallLeft);
                self.step = Step::Settling;
                // A stop like the first one: only there does the kernel restart what was broken off.
                ptrace::interrupt(self.tid)?;
                ptrace::cont(self.tid, 0)?;
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
                self.step = Step::Settling;
                ptrace::interrupt(self.tid)?;
                ptrace::cont(self.tid, 0)?;
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

    /// Lets the thread go on after [`Progress::Child`].
    pub(super) fn leave(&mut self) -> io::Result<()> {
        if self.step == Step::Called {
            self.step = Step::Leaving;
            ptrace::syscall(self.tid, 0)?;
        }
        Ok(())
    }
}
