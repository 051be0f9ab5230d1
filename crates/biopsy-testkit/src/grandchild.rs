//! A target whose parent is another process: its wait status is learnt as its parent learns it.

use std::time::Duration;

use crate::{Program, Signal, TargetProcess, send_signal};

/// How long a target may take to start or to end.
const WITHIN: Duration = Duration::from_secs(60);

/// A program started by [`Program::Launcher`].
///
/// For everything that traces the target: waitid(2) does not tell a child from a traced process, so that a test which is
/// both parent and tracer takes the one for the other.
#[derive(Debug)]
pub struct GrandChild {
    launcher: TargetProcess,
    pid: u32,
    status: Option<i32>,
    is_ready: bool,
}

impl GrandChild {
    /// Starts one of the sick programs, and waits until it says READY.
    ///
    /// # Panics
    ///
    /// Where it cannot be compiled or started.
    #[must_use]
    pub fn start(program: Program, arguments: &[&str]) -> Self {
        let path = program.path();
        let mut started = Self::spawn(path.to_str().expect("a path of ours"), arguments);
        started.wait_until_ready();
        started
    }

    /// Starts a program by its path. Neither path nor arguments may hold blanks.
    ///
    /// # Panics
    ///
    /// Where it cannot be started.
    #[must_use]
    pub fn spawn(path: &str, arguments: &[&str]) -> Self {
        let mut launcher = TargetProcess::start(Program::Launcher, &[]);
        launcher.say(&format!("START {path} {}", arguments.join(" ")));
        // The program may be faster than who started it.
        let mut is_ready = false;
        let pid = loop {
            let line = launcher.next_line(WITHIN).expect("it starts");
            is_ready |= line.starts_with("READY");
            if let Some(pid) = line.strip_prefix("STARTED ") {
                break pid.parse().expect("a pid");
            }
        };
        Self { launcher, pid, status: None, is_ready }
    }

    /// Waits until it says READY.
    ///
    /// # Panics
    ///
    /// Where it does not within a minute.
    pub fn wait_until_ready(&mut self) {
        if !self.is_ready {
            self.launcher.line_starting_with("READY", WITHIN).expect("it gets ready");
            self.is_ready = true;
        }
    }

    /// Its pid.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Writes an empty line to its stdin.
    pub fn tell(&mut self) {
        self.launcher.say("TELL");
    }

    /// Closes its stdin: a sick program ends then.
    pub fn close(&mut self) {
        self.launcher.say("CLOSE");
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        send_signal(self.pid, signal);
    }

    /// The wait status of its end, without the bit for a core dump; `None`: it has not ended within `timeout`.
    pub fn ended(&mut self, timeout: Duration) -> Option<i32> {
        if self.status.is_none() {
            let line = self.launcher.line_starting_with("ENDED", timeout)?;
            self.status = line.split(' ').nth(2)?.parse().ok();
        }
        self.status
    }
}

impl Drop for GrandChild {
    fn drop(&mut self) {
        // Ended, or not: it is the launcher's child until its end is told, so that the pid is no other's.
        if self.ended(Duration::ZERO).is_none() && crate::is_running(self.pid) {
            send_signal(self.pid, Signal::KILL);
        }
    }
}
