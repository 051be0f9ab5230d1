//! pidfd: a handle on a process that cannot come to mean another one.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::check;

/// A process, by pidfd_open(2).
#[derive(Debug)]
pub struct PidFd(OwnedFd);

impl PidFd {
    /// Opens the process that has this pid now. Check its identity afterwards: from then on the handle stays with it.
    ///
    /// # Errors
    /// ESRCH when there is none, ENOSYS before Linux 5.3.
    pub fn open(pid: u32) -> io::Result<Self> {
        crate::fault::check("pidfd_open")?;
        // SAFETY: pidfd_open takes two integers and touches no memory of ours.
        let fd = check(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
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

impl AsFd for PidFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
