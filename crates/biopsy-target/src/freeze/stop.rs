//! All threads of a process stand still, and go on again.
//!
//! Threads are seized while they run, then asked to stop (`PTRACE_INTERRUPT`, never SIGSTOP), until a look at
//! `/proc/PID/task` finds nobody new. What a thread stopped for is looked at and never taken (see
//! `biopsy_sys::ptrace::wait`), so that a signal cannot be lost, whenever we die.

use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

use biopsy_image::GeneralRegisters;
use biopsy_model::{Pid, Tid};
use biopsy_sys::boost::Boost;
use biopsy_sys::ptrace::wait::{State, Stop};
use biopsy_sys::ptrace::{self, Options, registers, wait};

use super::{FreezeError, FreezeWarning, restart};
use crate::process::proc_root::{ProcRoot, ProcessDir, SMALL, is_gone};
use crate::process::stat::Stat;
use crate::process::status::Status;

/// How often the list of threads is read anew while all of them run. A program that starts threads faster than they can be
/// seized is caught in the window, where nobody is left to start any.
const ROUNDS_RUNNING: usize = 20;
/// How long all others wait for a thread that is in an uninterruptible wait.
const PATIENCE: Duration = Duration::from_millis(5);
/// After so long, threads are helped to stop: those that still run are waiting for a CPU.
const UNHELPED: Duration = Duration::from_micros(300);
/// Between two looks at threads that have not stopped yet.
const SHORTEST_NAP: Duration = Duration::from_micros(15);
const LONGEST_NAP: Duration = Duration::from_micros(200);
/// How often signals are passed on while other threads are being seized.
const SERVICE: Duration = Duration::from_millis(2);
/// Room for the extended state of one thread; AMX takes 11 KiB.
const EXTENDED_BYTES: usize = 64 << 10;

/// With AVX-512, and without AMX.
const USUAL_EXTENDED_BYTES: usize = 3 << 10;

/// What a thread is doing as far as we are concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Halt {
    /// It runs.
    Running,
    /// It stands still because we asked.
    Still,
    /// It stood still before, together with its process (SIGSTOP), and will again.
    GroupStopped,
    /// It is in an uninterruptible wait in the kernel. It will stop before it runs in user mode again.
    Waiting,
    /// It has ended, or was let go.
    Ended,
}

impl Halt {
    pub(super) fn is_still(self) -> bool {
        matches!(self, Self::Still | Self::GroupStopped)
    }
}

/// A seized thread.
#[derive(Debug)]
pub(super) struct StoppedThread {
    pub(super) tid: Tid,
    pub(super) halt: Halt,
    pub(super) registers: Option<GeneralRegisters>,
    pub(super) extended: Vec<u8>,
    pub(super) mask: Option<u64>,
}

/// The seized threads of one process. Dropping it lets all go.
#[derive(Debug)]
pub(super) struct Threads {
    pid: Pid,
    process: ProcessDir,
    known: BTreeSet<Tid>,
    pub(super) list: Vec<StoppedThread>,
}

impl Threads {
    /// Seizes all threads; they go on running.
    pub(super) fn seize(pid: Pid) -> Result<Self, FreezeError> {
        let process = ProcRoot::live().process(pid).map_err(|_| FreezeError::Ended { pid })?;
        let mut threads = Self { pid, process, known: BTreeSet::new(), list: Vec::new() };
        for _ in 0..ROUNDS_RUNNING {
            if threads.seize_new(false)? == 0 {
                break;
            }
        }
        if threads.list.is_empty() {
            return Err(FreezeError::Ended { pid });
        }
        Ok(threads)
    }

    /// Seizes one thread only.
    pub(super) fn seize_one(pid: Pid, tid: Tid) -> Result<Self, FreezeError> {
        let process = ProcRoot::live().process(pid).map_err(|_| FreezeError::Ended { pid })?;
        let mut threads = Self { pid, process, known: BTreeSet::new(), list: Vec::new() };
        threads.seize_thread(tid)?;
        Ok(threads)
    }

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// Seizes threads that are not known yet, and asks them to stop if wanted. Returns how many.
    fn seize_new(&mut self, stop: bool) -> Result<usize, FreezeError> {
        let tids = self.process.tids(crate::list::MAX_THREADS).map_err(|error| match is_gone(&error) {
            true => FreezeError::Ended { pid: self.pid },
            false => FreezeError::step(self.pid, "listing its threads")(error),
        })?;
        let mut count = 0;
        let mut served = Instant::now();
        for tid in tids {
            if self.known.contains(&tid) {
                continue;
            }
            if !stop && served.elapsed() > SERVICE {
                self.pass_signals_on();
                served = Instant::now();
            }
            if self.seize_thread(tid)? {
                count += 1;
                if stop {
                    // Gone already: the next look says so.
                    let _ = ptrace::interrupt(tid);
                }
            }
        }
        Ok(count)
    }

    fn seize_thread(&mut self, tid: Tid) -> Result<bool, FreezeError> {
        match ptrace::seize(tid, Options::SYSGOOD) {
            Ok(()) => {
                self.known.insert(tid);
                self.list.push(StoppedThread {
                    tid,
                    halt: Halt::Running,
                    registers: None,
                    extended: Vec::with_capacity(USUAL_EXTENDED_BYTES),
                    mask: None,
                });
                Ok(true)
            }
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => Ok(false),
            Err(error) => self.refusal(tid, error).map_or(Ok(false), Err),
        }
    }

    /// Why the thread was refused; `None`: it is ending, which the kernel calls EPERM too.
    fn refusal(&self, tid: Tid, source: io::Error) -> Option<FreezeError> {
        let stat = self.process.read(&format!("task/{tid}/stat"), SMALL).ok();
        let stat = Stat::parse(&stat?)?;
        if stat.is_zombie() {
            return None;
        }
        let status = self.process.read(&format!("task/{tid}/status"), SMALL).ok()?;
        let tracer = Status::parse(&status).tracer;
        if tracer != 0 {
            return Some(FreezeError::Traced { pid: self.pid, by: Pid(tracer) });
        }
        // Ended between the two looks?
        let still = self.process.read(&format!("task/{tid}/stat"), SMALL).ok();
        let ended = still.and_then(|line| Stat::parse(&line)).is_none_or(|stat| stat.is_zombie());
        (!ended).then_some(FreezeError::NotPermitted { pid: self.pid, source })
    }

    /// A signal to a seized thread stops it until we say so. As long as others are being seized, that is at once.
    fn pass_signals_on(&mut self) {
        for thread in &mut self.list {
            match wait::look(thread.tid) {
                Ok(State::Stopped(Stop::Signal(signal))) => {
                    let _ = ptrace::cont(thread.tid, signal);
                }
                Ok(State::Exited(_) | State::Killed(_)) => thread.take_end(self.pid),
                Ok(State::Gone) => thread.halt = Halt::Ended,
                Ok(State::Running | State::Stopped(_)) | Err(_) => {}
            }
        }
    }

    /// Stops all threads, also those that nobody knew of. On success each is still, or waits in the kernel, or has ended.
    /// Threads that would wait long for a CPU, in which to stop, are lent priority, one at a time.
    pub(super) fn stop(
        &mut self,
        deadline: Instant,
        limit: Duration,
        boost: Option<&Boost>,
    ) -> Result<(), FreezeError> {
        self.stop_threads(true, deadline, limit, boost, &mut || ())
    }

    /// Stops the threads that were seized, and leaves the others alone. Meanwhile `idle` is called again and again.
    pub(super) fn stop_known(
        &mut self,
        deadline: Instant,
        limit: Duration,
        idle: &mut dyn FnMut(),
    ) -> Result<(), FreezeError> {
        self.stop_threads(false, deadline, limit, None, idle)
    }

    fn stop_threads(
        &mut self,
        all: bool,
        deadline: Instant,
        limit: Duration,
        boost: Option<&Boost>,
        idle: &mut dyn FnMut(),
    ) -> Result<(), FreezeError> {
        let begin = Instant::now();
        for thread in self.list.iter().filter(|one| one.halt == Halt::Running) {
            // Gone already: the next look says so.
            let _ = ptrace::interrupt(thread.tid);
        }
        let mut nap = SHORTEST_NAP;
        loop {
            let missing = self.look()?;
            if missing == 0 {
                if all && self.seize_new(true)? > 0 {
                    continue;
                }
                break;
            }
            if begin.elapsed() > PATIENCE {
                self.excuse_those_that_wait_in_the_kernel();
                if !self.list.iter().any(|one| one.halt == Halt::Running) {
                    continue;
                }
            }
            if Instant::now() > deadline {
                return Err(FreezeError::NotStopped { pid: self.pid, missing, limit });
            }
            if begin.elapsed() > UNHELPED
                && let (Some(boost), Some(late)) =
                    (boost, self.list.iter().find(|one| one.halt == Halt::Running))
            {
                boost.raise(late.tid);
            }
            idle();
            std::thread::sleep(nap);
            nap = (nap * 2).min(LONGEST_NAP);
        }
        if self.list.iter().all(|one| one.halt == Halt::Ended) {
            return Err(FreezeError::Ended { pid: self.pid });
        }
        Ok(())
    }

    /// Looks at all threads that still run; returns how many do.
    fn look(&mut self) -> Result<usize, FreezeError> {
        let mut missing = 0;
        for thread in self.list.iter_mut().filter(|one| one.halt == Halt::Running) {
            match wait::look(thread.tid).map_err(FreezeError::step(self.pid, "waiting for a thread"))? {
                State::Running => missing += 1,
                State::Stopped(Stop::Interrupted) => thread.halt = Halt::Still,
                State::Stopped(Stop::Group(_)) => thread.halt = Halt::GroupStopped,
                // It has its signal first; what we asked for is still pending and comes right after.
                State::Stopped(Stop::Signal(signal)) => {
                    let _ = ptrace::cont(thread.tid, signal);
                    missing += 1;
                }
                State::Stopped(Stop::Syscall | Stop::Event(_)) => {
                    let _ = ptrace::cont(thread.tid, 0);
                    missing += 1;
                }
                State::Exited(_) | State::Killed(_) => thread.take_end(self.pid),
                State::Gone => thread.halt = Halt::Ended,
            }
        }
        Ok(missing)
    }

    /// A thread in an uninterruptible wait cannot touch its memory in user mode: it stops before that, as it was asked to. It
    /// is let go later, by [`Self::release_late`].
    fn excuse_those_that_wait_in_the_kernel(&mut self) {
        for thread in self.list.iter_mut().filter(|one| one.halt == Halt::Running) {
            let stat = self.process.read(&format!("task/{}/stat", thread.tid), SMALL).ok();
            if stat.and_then(|line| Stat::parse(&line)).is_some_and(|stat| stat.state == b'D') {
                thread.halt = Halt::Waiting;
            }
        }
    }

    /// Reads the registers of all threads that stand still.
    pub(super) fn read_registers(&mut self, scratch: &mut Scratch) -> Vec<FreezeWarning> {
        let mut warnings = Vec::new();
        let mut without_vectors = 0;
        for thread in &mut self.list {
            match thread.halt {
                Halt::Still | Halt::GroupStopped => {
                    let words = match registers::general(thread.tid) {
                        Ok(words) => words,
                        Err(error) => {
                            warnings.push(FreezeWarning::without_registers(thread.tid, &error));
                            continue;
                        }
                    };
                    thread.registers = Some(GeneralRegisters::from_words(&words));
                    match registers::extended(thread.tid, &mut scratch.0) {
                        Ok(length) if length < scratch.0.len() => {
                            thread.extended.clear();
                            thread.extended.extend_from_slice(scratch.0.get(..length).unwrap_or_default());
                        }
                        _ => without_vectors += 1,
                    }
                    thread.mask = registers::signal_mask(thread.tid).ok();
                }
                Halt::Waiting => warnings.push(FreezeWarning::ThreadNotStopped { tid: thread.tid }),
                Halt::Ended | Halt::Running => {}
            }
        }
        if without_vectors > 0 {
            warnings.push(FreezeWarning::VectorsNotRead { threads: without_vectors });
        }
        warnings
    }

    /// Lets all threads go that stand still, but for the one that is busy with an injection. System calls that would give
    /// EINTR for our stop are restarted.
    pub(super) fn release(&mut self, except: Option<Tid>) -> Vec<FreezeWarning> {
        let mut warnings = Vec::new();
        for thread in &mut self.list {
            if except == Some(thread.tid) {
                continue;
            }
            if let Some(warning) = thread.release() {
                warnings.push(warning);
            }
        }
        warnings
    }

    /// Lets threads go that have stopped since, because they were in an uninterruptible wait. Returns how many are missing.
    pub(super) fn release_late(&mut self) -> usize {
        let mut missing = 0;
        for thread in self.list.iter_mut().filter(|one| matches!(one.halt, Halt::Waiting | Halt::Running)) {
            match wait::look(thread.tid) {
                Ok(State::Stopped(stop)) => {
                    let signal = if let Stop::Signal(signal) = stop { signal } else { 0 };
                    if let Ok(words) = registers::general(thread.tid) {
                        thread.registers = Some(GeneralRegisters::from_words(&words));
                        thread.restart_call();
                    }
                    let _ = ptrace::detach(thread.tid, signal);
                    thread.halt = Halt::Ended;
                }
                Ok(State::Exited(_) | State::Killed(_)) => thread.take_end(self.pid),
                Ok(State::Gone) => thread.halt = Halt::Ended,
                Ok(State::Running) | Err(_) => missing += 1,
            }
        }
        missing
    }

    /// A process of ours that is being killed: its end is to be taken, so that who waits for it hears of it.
    pub(super) fn add_late(&mut self, tid: Tid) {
        self.list.push(StoppedThread {
            tid,
            halt: Halt::Waiting,
            registers: None,
            extended: Vec::new(),
            mask: None,
        });
    }

    /// Lets a thread go in the middle of an injection: its frame carries it back.
    pub(super) fn abandon(&mut self, tid: Tid) {
        if let Some(thread) = self.find(tid) {
            // Where it does not stand still right now, it is let go later.
            thread.halt = if ptrace::detach(tid, 0).is_ok() { Halt::Ended } else { Halt::Waiting };
        }
    }

    pub(super) fn find(&mut self, tid: Tid) -> Option<&mut StoppedThread> {
        self.list.iter_mut().find(|one| one.tid == tid)
    }
}

/// A buffer that the kernel writes extended state to: allocated and touched before anything stops (P11).
#[derive(Debug)]
pub(super) struct Scratch(Vec<u8>);

impl Scratch {
    pub(super) fn new() -> Self {
        Self(vec![1; EXTENDED_BYTES])
    }
}

impl StoppedThread {
    /// What was seen of it, for the image.
    pub(super) fn seen(&self) -> Self {
        Self {
            tid: self.tid,
            halt: self.halt,
            registers: self.registers,
            extended: self.extended.clone(),
            mask: self.mask,
        }
    }

    /// Takes the news of its end: an exec of another thread waits until that is done, and so does the parent of the process.
    /// But if the process is a child of ours, the news belongs to whoever in this program started it.
    fn take_end(&mut self, pid: Pid) {
        if self.tid != pid.into() || !is_child_of_ours(pid) {
            let _ = wait::take(self.tid);
        }
        self.halt = Halt::Ended;
    }

    /// Lets the thread go, if it stands still. A warning: its call gives EINTR.
    fn release(&mut self) -> Option<FreezeWarning> {
        if !self.halt.is_still() {
            return None;
        }
        let warning = self.restart_call();
        // ESRCH: killed meanwhile. The news of its end has to be taken, else its process cannot go away.
        self.halt = if ptrace::detach(self.tid, 0).is_ok() { Halt::Ended } else { Halt::Waiting };
        warning
    }

    /// `epoll_wait` and its like give EINTR for a stop: their registers are set so that the call is made again, in one step,
    /// with the thread still stopped. Should we die before, the program sees the EINTR that any debugger causes.
    fn restart_call(&self) -> Option<FreezeWarning> {
        let before = self.registers.as_ref()?;
        if restart::doing(before) != restart::Doing::Interrupted {
            return None;
        }
        let warning = FreezeWarning::Interrupted { tid: self.tid };
        // A signal that came in the window has its EINTR by right: a program may count on it to leave its loop.
        if registers::has_pending_signal(self.tid).unwrap_or(true) {
            return Some(warning);
        }
        let Some(after) = restart::restarted(before) else { return Some(warning) };
        registers::set_general(self.tid, &after.to_words()).is_err().then_some(warning)
    }
}

fn is_child_of_ours(pid: Pid) -> bool {
    let line = ProcRoot::live().process(pid).and_then(|process| process.read("stat", SMALL)).ok();
    line.and_then(|line| Stat::parse(&line)).is_none_or(|stat| stat.parent == std::process::id())
}

impl Drop for Threads {
    fn drop(&mut self) {
        // Threads that have not stopped yet cannot be let go one by one; the kernel does it when the thread that seized them
        // ends, which is soon: it serves one freeze only.
        drop(self.release(None));
        self.release_late();
    }
}
