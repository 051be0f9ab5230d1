//! Keeps the terminal from stopping us while others wait for us.

/// While it lives, Ctrl-Z does not stop this process: SIGTSTP is ignored. Whoever holds other processes (in an exec gate,
/// in a ptrace stop) and is stopped itself holds them for as long as a person takes to think of `fg`.
#[derive(Debug)]
pub struct JobControl {
    before: libc::sighandler_t,
}

impl JobControl {
    /// Ignores SIGTSTP from now on. Programs started meanwhile inherit that.
    #[must_use]
    pub fn ignore() -> Self {
        // SAFETY: signal(2) takes a signal number and one of the two constants that are no function; it touches no memory.
        let before = unsafe { libc::signal(libc::SIGTSTP, libc::SIG_IGN) };
        Self { before }
    }
}

impl Drop for JobControl {
    fn drop(&mut self) {
        if self.before != libc::SIG_ERR {
            // SAFETY: `before` is what signal(2) itself gave back as the disposition that was set.
            unsafe { libc::signal(libc::SIGTSTP, self.before) };
        }
    }
}
