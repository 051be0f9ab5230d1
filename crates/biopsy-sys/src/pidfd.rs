//! pidfd: a handle on a process that cannot come to mean another one.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use biopsy_model::Pid;

use crate::check;

/// A process, by pidfd_open(2).
#[derive(Debug)]
pub struct PidFd(OwnedFd);

impl PidFd {
    /// Opens the process that has this pid now. Check its identity afterwards: from then on the handle stays with it.
    ///
    /// # Errors
    /// ESRCH when there is none, ENOSYS before Linux 5.3.
    pub fn open(pid: Pid) -> io::Result<Self> {
        crate::fault::check("pidfd_open")?;
        // SAFETY: pidfd_open takes two integers and touches no memory of ours.
        let fd = check(unsafe { libc::syscall(libc::SYS_pidfd_open, pid.0, 0) })?;
        let fd = i32::try_from(fd).expect("file descriptors are ints");
        // SAFETY: the call above returned this descriptor, and nobody else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Whether the process has ended. Does not wait.
    #[must_use]
    pub fn has_exited(&self) -> bool {
        let mut poll = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: poll reads and writes one pollfd; `poll` outlives the call and the count is 1.
        let ready = unsafe { libc::poll(&raw mut poll, 1, 0) };
        ready > 0
    }
}

impl PidFd {
    /// Kills the process by SIGKILL (pidfd_send_signal(2)). For frozen copies, which are ours to end.
    ///
    /// # Errors
    /// ESRCH when it is gone.
    pub fn kill(&self) -> io::Result<()> {
        let no_info = std::ptr::null::<libc::siginfo_t>();
        // SAFETY: pidfd_send_signal reads no information where the pointer is null; the rest are integers.
        check(unsafe {
            libc::syscall(libc::SYS_pidfd_send_signal, self.0.as_raw_fd(), libc::SIGKILL, no_info, 0)
        })
        .map(drop)
    }

    /// Takes the memory of a process that is being killed, here and now (process_mrelease(2), Linux 5.15), instead of
    /// waiting until it gets a CPU to do it itself.
    ///
    /// # Errors
    /// EINVAL when it was not killed, ESRCH when its memory is gone already, EAGAIN when it is doing it itself.
    pub fn release_memory(&self) -> io::Result<()> {
        crate::fault::check("process_mrelease")?;
        // SAFETY: process_mrelease takes two integers.
        check(unsafe { libc::syscall(libc::SYS_process_mrelease, self.0.as_raw_fd(), 0) }).map(drop)
    }
}

impl AsFd for PidFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// By itself, with this code.
    Code(u8),
    /// By this signal.
    Signal(u8),
}

impl Exit {
    /// Of the status that wait(2) gives.
    fn of_status(status: i32) -> Self {
        let byte = |value: i32| u8::try_from(value & 0xff).unwrap_or_default();
        match status & 0x7f {
            0 => Self::Code(byte(status >> 8)),
            signal => Self::Signal(byte(signal)),
        }
    }
}

/// `struct pidfd_info` as it was in Linux 6.15; newer kernels fill what we give.
#[repr(C)]
#[derive(Default)]
struct Info {
    mask: u64,
    cgroup: u64,
    ids: [u32; 11],
    exit_code: i32,
}

/// `PIDFD_INFO_EXIT`.
const INFO_EXIT: u64 = 1 << 3;

impl PidFd {
    /// How the process ended, whose child it may be: known as soon as its parent has waited for it. `None`: not yet.
    ///
    /// # Errors
    /// Before Linux 6.15 the kernel does not tell.
    pub fn exit(&self) -> io::Result<Option<Exit>> {
        /// `_IOWR(0xff, 11, struct pidfd_info)`.
        const GET_INFO: libc::Ioctl = 0xc040_ff0b_u32 as libc::Ioctl; // int for musl
        const { assert!(size_of::<Info>() == 0x40) };
        let mut info = Info { mask: INFO_EXIT, ..Info::default() };
        // SAFETY: the kernel reads and writes one `pidfd_info` of the size that stands in the request; `info` is one, and outlives the
        // call.
        check(unsafe { libc::ioctl(self.0.as_raw_fd(), GET_INFO, &raw mut info) }.into())?;
        if info.mask & INFO_EXIT != 0 {
            return Ok(Some(Exit::of_status(info.exit_code)));
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses() {
        for (status, exit) in
            [(0, Exit::Code(0)), (3 << 8, Exit::Code(3)), (9, Exit::Signal(9)), (0x80 | 11, Exit::Signal(11))]
        {
            assert_eq!(Exit::of_status(status), exit, "{status:#x}");
        }
    }

    #[test]
    fn a_process_that_was_waited_for_says_how_it_ended() {
        let mut command = std::process::Command::new("sh");
        let mut child =
            command.args(["-c", "read x; exit 3"]).stdin(std::process::Stdio::piped()).spawn().unwrap();
        let handle = PidFd::open(Pid(child.id())).unwrap();
        let before = handle.exit();
        drop(child.stdin.take());
        child.wait().unwrap();
        match before {
            Ok(before) => {
                assert_eq!(before, None, "it still ran");
                assert_eq!(handle.exit().unwrap(), Some(Exit::Code(3)));
            }
            // Before Linux 6.15.
            Err(error) => assert!(error.raw_os_error().is_some(), "{error}"),
        }
    }
}
