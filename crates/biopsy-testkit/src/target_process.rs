//! A program that announces `READY` and is never left behind.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::{Program, proc_status, send_signal};

/// How long a program may take to say `READY`; generous because builds share the machine. Nothing waits this long
/// when all is well.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// How long a program may take to end after it was told.
const STOP_WITHIN: Duration = Duration::from_secs(30);

/// A running target. Dropping it kills it.
#[derive(Debug)]
pub struct TargetProcess {
    child: Child,
    pid: u32,
    ready: String,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    errors: Option<std::thread::JoinHandle<String>>,
}

impl TargetProcess {
    /// Starts one of the sick programs and waits until it is ready.
    ///
    /// # Panics
    ///
    /// Where it cannot be compiled or does not get ready.
    #[must_use]
    pub fn start(program: Program, arguments: &[&str]) -> Self {
        let mut command = program.command();
        command.args(arguments);
        Self::spawn(command)
    }

    /// Starts `command` and waits for its first line that begins with `READY`; a pid behind that word is believed, and
    /// translated when the program runs in a pid namespace of its own.
    ///
    /// # Panics
    ///
    /// Where it cannot be started, ends early or does not get ready within a minute.
    #[must_use]
    pub fn spawn(mut command: Command) -> Self {
        hear_what_is_ignored();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child =
            spawn_copied(&mut command).unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let stdin = child.stdin.take();
        let lines = read_lines(child.stdout.take().expect("stdout is a pipe"));
        let mut stderr = child.stderr.take().expect("stderr is a pipe");
        let errors = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            // A program that dies in the middle of a line has still said something.
            let _ = stderr.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        let pid = child.id();
        let mut target = Self { child, pid, ready: String::new(), stdin, lines, errors: Some(errors) };
        target.ready = match target.line_starting_with("READY", READY_WITHIN) {
            Some(line) => line,
            None => {
                let _ = target.child.kill();
                let status = target.child.wait();
                let said = target.stderr();
                panic!("{command:?} did not get ready ({status:?}): {said}")
            }
        };
        let announced = target.ready.split_ascii_whitespace().nth(1).and_then(|word| word.parse().ok());
        if let Some(announced) = announced {
            target.pid = proc_status::find_announced(pid, announced).unwrap_or(pid);
        }
        target
    }

    /// Its pid as this process sees it.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The line it announced itself with, `READY PID` and what else it had to say.
    #[must_use]
    pub fn ready_line(&self) -> &str {
        &self.ready
    }

    /// The next line on its stdout; `None`: it said nothing within `timeout`, or closed stdout.
    #[must_use]
    pub fn next_line(&self, timeout: Duration) -> Option<String> {
        self.lines.recv_timeout(timeout).ok()
    }

    /// The next line on its stdout that begins with `prefix`; lines before it are dropped.
    #[must_use]
    pub fn line_starting_with(&self, prefix: &str, timeout: Duration) -> Option<String> {
        let deadline = Instant::now() + timeout;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) if line.starts_with(prefix) => return Some(line),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// Writes a line to its stdin and returns the next line it says that begins with `prefix`.
    #[must_use]
    pub fn ask(&mut self, line: &str, prefix: &str, timeout: Duration) -> Option<String> {
        let stdin = self.stdin.as_mut()?;
        stdin.write_all(line.as_bytes()).and_then(|()| stdin.write_all(b"\n")).ok()?;
        stdin.flush().ok()?;
        self.line_starting_with(prefix, timeout)
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        send_signal(self.pid, signal);
    }

    /// It has not ended. (A process that replaced itself by exec still counts.)
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Writes a line to its stdin.
    ///
    /// # Panics
    ///
    /// Where its stdin is closed: it has ended, or was told to stop.
    pub fn say(&mut self, line: &str) {
        use std::io::Write as _;
        let stdin = self.stdin.as_mut().expect("it was not told to stop");
        stdin.write_all(format!("{line}\n").as_bytes()).expect("the target reads its stdin");
    }

    /// Tells it to end without waiting for that: closes its stdin.
    pub fn tell_to_stop(&mut self) {
        self.stdin = None;
    }

    /// Tells it to end by closing its stdin, and checks that it ended by itself with code 0.
    ///
    /// # Panics
    ///
    /// Where it does not end or ends otherwise: it was harmed.
    pub fn stop(&mut self) {
        self.tell_to_stop();
        let status = self.wait_for_exit(STOP_WITHIN);
        match status {
            Some(status) if status.success() => {}
            Some(status) => {
                let said = self.stderr();
                panic!("target {} ended with {status} when told to stop: {said}", self.pid)
            }
            None => {
                panic!("target {} did not end within {STOP_WITHIN:?} after its stdin was closed", self.pid)
            }
        }
    }

    /// Waits until it ends; `None`: it did not within `timeout`.
    pub fn wait_for_exit(&mut self, timeout: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            if Instant::now() >= deadline {
                return None;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// What it wrote on stderr. Waits for its end, so only for a target that ended.
    #[must_use]
    pub fn stderr(&mut self) -> String {
        self.errors.take().and_then(|reader| reader.join().ok()).unwrap_or_default()
    }
}

impl Drop for TargetProcess {
    fn drop(&mut self) {
        // By the child's own pid, which cannot have been reused: we have not waited for it yet.
        if matches!(self.child.try_wait(), Ok(None)) {
            if self.pid != self.child.id() {
                send_signal(self.pid, Signal::KILL);
            }
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Who starts tests by nohup(1), or behind a script with `&`, has signals ignored, and each program below has them ignored too. A signal
/// that is heard is as usual again in the programs that are started (signal(7)).
fn hear_what_is_ignored() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
        for signal in [Signal::HUP, Signal::INT, Signal::QUIT] {
            if ignored & (1 << (signal.as_raw() - 1)) != 0 {
                signal_hook::flag::register(signal.as_raw(), Arc::default()).expect("it may be heard");
            }
        }
    });
}

/// Starts a program that may have been copied just now: a test on another thread that forks while the copy is open for
/// writing keeps it open (ETXTBSY) until it executes its own program.
fn spawn_copied(command: &mut Command) -> std::io::Result<Child> {
    let mut tries = 0;
    loop {
        match command.spawn() {
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy && tries < 100 => {
                tries += 1;
                std::thread::sleep(Duration::from_millis(20));
            }
            result => return result,
        }
    }
}

/// Lines of `stdout` through a channel, so that waiting for one can time out.
fn read_lines(stdout: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut reader = BufReader::new(stdout);
        let mut line = Vec::new();
        while matches!(reader.read_until(b'\n', &mut line), Ok(count) if count > 0) {
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            line.clear();
            if sender.send(text).is_err() {
                break;
            }
        }
    });
    receiver
}
