//! ptrace(2): stop threads, read and set their registers, lead them through a system call.
//!
//! A thread is *seized*, never attached to: seizing sends no SIGSTOP, and the kernel lets a seized thread go on by itself
//! when its tracer ends, however it ends. All calls for one thread must come from the thread that seized it.
//!
//! - [`seize`], [`interrupt`], [`detach`] and how a stopped thread goes on: here
//! - [`wait`]: what a thread stopped for
//! - [`registers`]: general registers, extended state, signal mask, rseq
//! - [`seccomp`]: the filters of a thread

pub mod registers;
pub mod seccomp;
pub mod wait;

use std::io;

use biopsy_model::{Pid, Tid};

use crate::check;

/// What the tracer wants to be told of (`PTRACE_O_*`), combined with `|`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Options(u32);

impl Options {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Stops at system calls are told apart from SIGTRAP. Always wanted together with [`syscall`]: without it, a tracer
    /// that dies while the thread stands at a system call makes the kernel send the thread a SIGTRAP, which kills it.
    pub const SYSGOOD: Self = Self(1);
    /// Children by fork(2) are traced too, from their first instruction on.
    pub const FORK: Self = Self(1 << 1);
    /// Children by vfork(2) likewise.
    pub const VFORK: Self = Self(1 << 2);
    /// Children by clone(2) that send no SIGCHLD, threads among them, likewise.
    pub const CLONE: Self = Self(1 << 3);
    /// Stops at execve(2).
    pub const EXEC: Self = Self(1 << 4);
    /// Stops at the end of the thread, with its memory still there.
    pub const EXIT: Self = Self(1 << 6);
    /// The thread is killed when its tracer ends. Only for copies that must never run.
    pub const EXIT_KILL: Self = Self(1 << 20);
}

impl std::ops::BitOr for Options {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// One ptrace request whose address is a number and whose data is a number (or, for the private callers that say so, a
/// pointer that they keep valid).
fn request(request: libc::c_uint, tid: Tid, address: usize, data: usize) -> io::Result<libc::c_long> {
    crate::fault::check("ptrace")?;
    let tid = libc::pid_t::try_from(tid.0).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
    // SAFETY: the requests made in this folder either take numbers in both places, or pointers to memory that the caller
    // has borrowed for the whole call and whose length the kernel is told; none of them writes elsewhere in our memory.
    check(unsafe { libc::ptrace(request as _, tid, address, data) })
}

/// Becomes the tracer of the thread without stopping it (`PTRACE_SEIZE`).
///
/// # Errors
/// EPERM without the right to, when somebody else traces it, or when it is ending; ESRCH when it is gone.
pub fn seize(tid: Tid, options: Options) -> io::Result<()> {
    request(libc::PTRACE_SEIZE as _, tid, 0, options.0 as usize).map(drop)
}

/// Changes the options of a stopped thread (`PTRACE_SETOPTIONS`).
///
/// # Errors
/// ESRCH when it is gone or not stopped.
pub fn set_options(tid: Tid, options: Options) -> io::Result<()> {
    request(libc::PTRACE_SETOPTIONS as _, tid, 0, options.0 as usize).map(drop)
}

/// Asks a seized thread to stop (`PTRACE_INTERRUPT`). It does as soon as it would run in user mode; [`wait`] says when.
///
/// # Errors
/// ESRCH when it is gone.
pub fn interrupt(tid: Tid) -> io::Result<()> {
    request(libc::PTRACE_INTERRUPT as _, tid, 0, 0).map(drop)
}

/// Lets a stopped thread go on, with `signal` delivered to it if that is not 0 (`PTRACE_CONT`).
///
/// # Errors
/// ESRCH when it is gone or not stopped.
pub fn cont(tid: Tid, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_CONT as _, tid, 0, number(signal)).map(drop)
}

/// As [`cont`], up to the next entry to or exit from a system call (`PTRACE_SYSCALL`). See [`Options::SYSGOOD`].
///
/// # Errors
/// ESRCH when it is gone or not stopped.
pub fn syscall(tid: Tid, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_SYSCALL as _, tid, 0, number(signal)).map(drop)
}

/// Leaves a thread that is stopped together with its process (SIGSTOP) as it is, and is told when it goes on
/// (`PTRACE_LISTEN`).
///
/// # Errors
/// EIO when it is not in such a stop, ESRCH when it is gone or not stopped.
pub fn listen(tid: Tid) -> io::Result<()> {
    request(libc::PTRACE_LISTEN as _, tid, 0, 0).map(drop)
}

/// Lets a stopped thread go for good, with `signal` delivered to it if that is not 0 (`PTRACE_DETACH`). A process that
/// was stopped by SIGSTOP stays so.
///
/// # Errors
/// ESRCH when it is gone or not stopped.
pub fn detach(tid: Tid, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_DETACH as _, tid, 0, number(signal)).map(drop)
}

/// The message of the event a thread is stopped at: the new child's pid, the exit status ... (`PTRACE_GETEVENTMSG`).
///
/// # Errors
/// ESRCH when it is gone or not stopped.
pub fn event_message(tid: Tid) -> io::Result<u64> {
    let mut message: libc::c_ulong = 0;
    request(libc::PTRACE_GETEVENTMSG as _, tid, 0, (&raw mut message).expose_provenance())?;
    Ok(message)
}

/// Kills one process by SIGKILL (kill(2)). For frozen copies, which are ours to end.
///
/// # Errors
/// ESRCH when it is gone.
pub fn kill(pid: Pid) -> io::Result<()> {
    let pid = libc::pid_t::try_from(pid.0).ok().filter(|&pid| pid > 1);
    let pid = pid.ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))?;
    // SAFETY: kill takes two integers; the pid is that of one process, checked above.
    check(unsafe { libc::kill(pid, libc::SIGKILL) }.into()).map(drop)
}

fn number(signal: i32) -> usize {
    usize::try_from(signal).unwrap_or(0)
}
