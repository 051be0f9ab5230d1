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
