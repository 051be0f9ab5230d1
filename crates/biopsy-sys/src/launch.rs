//! Starting a program so that its first instruction can be recorded.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use biopsy_model::Pid;

/// A child that has been forked but has not executed its program yet: it waits until [`Held::release`].
#[derive(Debug)]
pub struct Held {
    starter: std::thread::JoinHandle<io::Result<Child>>,
    gate: UnixStream,
    pid: Pid,
}

impl Held {
    /// Forks. The child's pid is known when this returns; its program starts on release.
    ///
    /// # Errors
    /// When forking fails.
    pub fn start(mut command: Command) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let gate: OwnedFd = theirs.into();
        let gate_fd = gate.as_raw_fd();
        let ours_fd = ours.as_raw_fd();
        // SAFETY: the closure runs in the forked child, where only async-signal-safe functions are allowed: it calls
        // close, signal with a constant, getpid, _exit, write and read on descriptors that stay open until exec (they are close-on-exec, like all of
        // std's), and allocates nothing. It closes its copy of our end, which nothing else in the child uses: with
        // it open, the child would not notice our death and wait for ever.
        #[expect(clippy::multiple_unsafe_ops_per_block, reason = "one closure, one argument for all of it")]
        unsafe {
            command.pre_exec(move || {
                libc::close(ours_fd);
                for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
                    // What these mean for the recorder they do not mean for its copy.
                    libc::signal(signal, libc::SIG_DFL);
                }
                let pid = libc::getpid().to_ne_bytes();
                if libc::write(gate_fd, pid.as_ptr().cast(), pid.len()) != 4 {
                    return Err(io::Error::last_os_error());
                }
                let mut go = 0_u8;
                loop {
                    match libc::read(gate_fd, (&raw mut go).cast(), 1) {
                        1 => return Ok(()),
                        -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
                        // The recorder is gone before it was ready: do not run the program. Rust would tell it so, and
                        // abort because nobody listens.
                        _ => libc::_exit(127),
                    }
                }
            });
        }
        // `spawn` returns only after exec, which waits for us: so it runs on its own thread.
        let starter = std::thread::Builder::new().spawn(move || {
            let child = command.spawn();
            drop(gate);
            child
        })?;
        let mut pid = [0; 4];
        let mut gate = ours;
        if let Err(error) = gate.read_exact(&mut pid) {
            // The fork itself failed: the thread has the better error.
            return match starter.join() {
                Ok(Err(spawn)) => Err(spawn),
                _ => Err(error),
            };
        }
        Ok(Self { starter, gate, pid: Pid(u32::from_ne_bytes(pid)) })
    }

    /// The child's pid.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Lets the child execute its program.
    ///
    /// # Errors
    /// When the program cannot be executed (not found, no permission).
    pub fn release(mut self) -> io::Result<Child> {
        self.gate.write_all(&[1])?;
        self.starter.join().unwrap_or_else(|_| Err(io::Error::other("the starting thread panicked")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_and_releases() {
        let held = Held::start(Command::new("true")).unwrap();
        let exe = std::fs::read_link(format!("/proc/{}/exe", held.pid())).unwrap();
        assert_eq!(exe, std::env::current_exe().unwrap(), "not executed yet");
        assert!(held.release().unwrap().wait().unwrap().success());
    }

    #[test]
    fn missing_program_is_an_error() {
        let held = Held::start(Command::new("/no/such/program")).unwrap();
        assert_eq!(held.release().unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
