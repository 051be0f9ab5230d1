//! waitid(2) for traced threads: what one stopped for, without taking the answer away.
//!
//! The answer is looked at and left in place (`WNOWAIT`). That matters for signals: a thread that stands at the delivery of
//! a signal goes on with that signal if its tracer dies *before* taking the answer, and without it if after. So as long
//! as nobody takes it, a signal cannot be lost.

use std::io;

use biopsy_model::Tid;

use crate::check;

/// Why a thread stopped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stop {
    /// It was asked to (`PTRACE_INTERRUPT`), or it is a new thread or child that has not run yet (`PTRACE_EVENT_STOP`).
    Interrupted,
    /// It is stopped together with its process by this signal: SIGSTOP, SIGTSTP, SIGTTIN or SIGTTOU.
    Group(i32),
    /// This signal is about to be delivered to it.
    Signal(i32),
    /// It enters or leaves a system call.
    Syscall,
    /// One of the events asked for with [`super::Options`] (`PTRACE_EVENT_*`).
    Event(i32),
}

/// `PTRACE_EVENT_FORK` of `linux/ptrace.h`.
pub const EVENT_FORK: i32 = libc::PTRACE_EVENT_FORK;
/// `PTRACE_EVENT_VFORK`.
pub const EVENT_VFORK: i32 = libc::PTRACE_EVENT_VFORK;
/// `PTRACE_EVENT_CLONE`.
pub const EVENT_CLONE: i32 = libc::PTRACE_EVENT_CLONE;
/// `PTRACE_EVENT_EXEC`.
pub const EVENT_EXEC: i32 = libc::PTRACE_EVENT_EXEC;
/// `PTRACE_EVENT_EXIT`.
pub const EVENT_EXIT: i32 = libc::PTRACE_EVENT_EXIT;
/// `PTRACE_EVENT_STOP`.
const EVENT_STOP: i32 = 128;

/// State of a traced thread.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum State {
    /// It runs, or sleeps in the kernel.
    Running,
    /// It is stopped.
    Stopped(Stop),
    /// It has ended by itself, with this code.
    Exited(i32),
    /// It was ended by this signal.
    Killed(i32),
    /// It is not ours to wait for: gone, or never seized by this thread.
    Gone,
}

/// Looks at one thread without waiting and without taking the answer away: it will be the same until the thread goes on.
///
/// # Errors
/// Of waitid(2), but for ECHILD, which is [`State::Gone`].
pub fn look(tid: Tid) -> io::Result<State> {
    waitid(libc::P_PID, tid.0, libc::WNOHANG | libc::WNOWAIT).map(|(_, state)| state)
}

/// Takes the answer: removes a thread that has ended from the kernel's tables. Does not wait.
///
/// # Errors
/// As [`look`].
pub fn take(tid: Tid) -> io::Result<State> {
    waitid(libc::P_PID, tid.0, libc::WNOHANG).map(|(_, state)| state)
}

/// Waits for the thread to stop or end, without limit, and takes the answer.
///
/// # Errors
/// As [`look`].
pub fn wait(tid: Tid) -> io::Result<State> {
    waitid(libc::P_PID, tid.0, 0).map(|(_, state)| state)
}

/// Any thread of this tracer that has stopped or ended, with its id, as [`look`] would say.
///
/// # Errors
/// As [`look`].
pub fn look_at_any() -> io::Result<Option<(Tid, State)>> {
    let (tid, state) = waitid(libc::P_ALL, 0, libc::WNOHANG | libc::WNOWAIT | libc::__WNOTHREAD)?;
    Ok((tid != 0).then_some((Tid(tid), state)))
}

/// Waits for any thread of this tracer, and takes the answer; `None` when it has none.
///
/// # Errors
/// As [`look`].
pub fn wait_for_any() -> io::Result<Option<(Tid, State)>> {
    let (tid, state) = waitid(libc::P_ALL, 0, libc::__WNOTHREAD)?;
    Ok((tid != 0).then_some((Tid(tid), state)))
}

fn waitid(kind: libc::idtype_t, id: u32, flags: i32) -> io::Result<(u32, State)> {
    crate::fault::check("waitid")?;
    let flags = flags | libc::WSTOPPED | libc::WEXITED | libc::__WALL;
    let mut info = std::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
    loop {
        // SAFETY: waitid writes one siginfo_t to the pointer, which is valid for that; the rest are integers.
        let ret = unsafe { libc::waitid(kind, id, info.as_mut_ptr(), flags) };
        match check(ret.into()) {
            Ok(_) => break,
            Err(error) => match error.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::ECHILD) => return Ok((0, State::Gone)),
                _ => return Err(error),
            },
        }
    }
    // SAFETY: zeroed at creation, and all-zero is a valid siginfo_t; the call above filled it or left it alone.
    let info = unsafe { info.assume_init() };
    // SAFETY: waitid fills the fields of SIGCHLD, or leaves all of it zero; all are integers.
    let pid = unsafe { info.si_pid() };
    // SAFETY: as above.
    let status = unsafe { info.si_status() };
    let tid = u32::try_from(pid).unwrap_or(0);
    Ok((tid, if tid == 0 { State::Running } else { state_of(info.si_code, status) }))
}

/// The meaning of `si_code` and `si_status`. For stops the latter holds the event in its second byte.
fn state_of(code: i32, status: i32) -> State {
    match code {
        libc::CLD_EXITED => State::Exited(status),
        libc::CLD_KILLED | libc::CLD_DUMPED => State::Killed(status & 0x7f),
        libc::CLD_STOPPED | libc::CLD_TRAPPED => {
            let (signal, event) = (status & 0xff, status >> 8);
            State::Stopped(match event {
                EVENT_STOP if signal == libc::SIGTRAP => Stop::Interrupted,
                EVENT_STOP => Stop::Group(signal),
                0 if signal == libc::SIGTRAP | 0x80 => Stop::Syscall,
                0 => Stop::Signal(signal),
                event => Stop::Event(event),
            })
        }
        _ => State::Running,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meanings() {
        let stop = |status| state_of(libc::CLD_TRAPPED, status);
        assert_eq!(stop(5 | 128 << 8), State::Stopped(Stop::Interrupted));
        assert_eq!(stop(19 | 128 << 8), State::Stopped(Stop::Group(19)));
        assert_eq!(stop(0x85), State::Stopped(Stop::Syscall));
        assert_eq!(stop(15), State::Stopped(Stop::Signal(15)));
        assert_eq!(stop(5 | 3 << 8), State::Stopped(Stop::Event(EVENT_CLONE)));
        assert_eq!(state_of(libc::CLD_EXITED, 3), State::Exited(3));
        assert_eq!(state_of(libc::CLD_DUMPED, 11), State::Killed(11));
    }

    #[test]
    fn a_stranger_is_gone() {
        assert_eq!(look(Tid(1)).unwrap(), State::Gone);
    }
}
