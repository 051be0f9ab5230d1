//! A program of the corpus while it runs, and everything that it started: both end with this value.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use biopsy_testkit::{Signal, send_signal};

use crate::run::Outcome;

/// By this variable the children of a program are known, whoever their parent is by now.
const MARK: &str = "FIXTURE_RUN";
/// How often it is asked whether somebody wants the end.
const POLL: Duration = Duration::from_millis(20);
/// A child may start another one while it is ended.
const ROUNDS: usize = 20;

/// Set by the first signal that asks for the end.
#[derive(Clone)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// From now on signals are asked for here instead of ending this program.
    pub(crate) fn listen() -> Outcome<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP]
        {
            signal_hook::flag::register(signal, Arc::clone(&flag))
                .map_err(|error| format!("cannot listen to signals: {error}"))?;
        }
        Ok(Self(flag))
    }

    pub(crate) fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// An error as soon as the end is asked for.
    pub(crate) fn check(&self) -> Outcome {
        if self.asked() { Err("interrupted".to_owned()) } else { Ok(()) }
    }

    /// Sleeps, unless the end is asked for.
    pub(crate) fn rest(&self, time: Duration) -> Outcome {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.check()?;
            std::thread::sleep(POLL.min(end.saturating_duration_since(Instant::now())));
        }
        self.check()
    }

    /// Waits until something is there, at most so long; an error says that it never came.
    pub(crate) fn until(&self, what: &str, within: Duration, mut is_there: impl FnMut() -> bool) -> Outcome {
        let end = Instant::now() + within;
        while !is_there() {
            if Instant::now() > end {
                return Err(format!("{what}: not within {} s", within.as_secs()));
            }
            self.rest(POLL)?;
        }
        Ok(())
    }
}

/// A started process with all below it.
pub(crate) struct Running {
    child: Child,
    mark: String,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Running {
    /// Starts it in `folder`, where what it says to `stderr` is kept in `log`.
    pub(crate) fn start(command: &Command, folder: &Path, log: &str) -> Outcome<Self> {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{}-{number}", std::process::id());
        let log = folder.join(log);
        let log = File::create(&log).map_err(|error| format!("`{}`: {error}", log.display()))?;
        // Ends also when this program is killed; becomes the program, so that the pid is the program's.
        let mut wrapper = Command::new("setpriv");
        wrapper.args(["--pdeathsig", "KILL", "--"]).arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => wrapper.env(name, value),
                None => wrapper.env_remove(name),
            };
        }
        wrapper.env(MARK, &mark).current_dir(folder);
        // A group of its own: Ctrl-C on the terminal is for us, who end it in order.
        wrapper.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut child = wrapper.spawn().map_err(|error| format!("cannot run {command:?}: {error}"))?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take();
        let (sender, lines) = channel();
        // Reads on when nobody listens any more, so that the program is never held by what it prints.
        std::thread::spawn(move || {
            let Some(stdout) = stdout else { return };
            let mut reader = BufReader::new(stdout);
            let mut line = Vec::new();
            while matches!(reader.read_until(b'\n', &mut line), Ok(count) if count > 0) {
                // The receiver is gone once the program is over.
                let _ = sender.send(String::from_utf8_lossy(&line).trim_end().to_owned());
                line.clear();
            }
        });
        Ok(Self { child, mark, stdin, lines })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line that begins so.
    pub(crate) fn wait_for_line(&mut self, prefix: &str, within: Duration, stop: &Stop) -> Outcome {
        let end = Instant::now() + within;
        loop {
            stop.check()?;
            match self.lines.recv_timeout(POLL) {
                Ok(line) if line.starts_with(prefix) => return Ok(()),
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(format!("it ended before `{prefix}`")),
                Err(RecvTimeoutError::Timeout) if Instant::now() > end => {
                    return Err(format!("no `{prefix}` within {} s", within.as_secs()));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Everything it says until it ends, and whether it ended well.
    pub(crate) fn wait_for_end(&mut self, within: Duration, stop: &Stop) -> Outcome<(String, bool)> {
        let mut said = String::new();
        let end = Instant::now() + within;
        loop {
            stop.check()?;
            match self.lines.recv_timeout(POLL) {
                Ok(line) => {
                    said.push_str(&line);
                    said.push('\n');
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) if Instant::now() > end => {
                    return Err(format!("not over within {} s", within.as_secs()));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        let mut status = None;
        let ended = || {
            status = self.child.try_wait().ok().flatten();
            status.is_some()
        };
        stop.until("its end", within, ended)?;
        Ok((said, status.is_some_and(|status| status.success())))
    }

    /// Whether it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Tells a program that waits for a line to go on.
    pub(crate) fn trigger(&mut self) -> Outcome {
        let Some(stdin) = &mut self.stdin else { return Ok(()) };
        stdin
            .write_all(b"go\n")
            .and_then(|()| stdin.flush())
            .map_err(|error| format!("cannot write to its standard input: {error}"))
    }

    /// Somebody holds its tracing: what it does from now on is seen.
    pub(crate) fn is_traced(&self) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap_or_default();
        status
            .lines()
            .filter_map(|line| line.strip_prefix("TracerPid:"))
            .any(|tracer| !matches!(tracer.trim(), "" | "0"))
    }

    /// Processes that inherited the mark.
    fn marked(&self) -> Vec<u32> {
        let wanted = format!("{MARK}={}", self.mark);
        let own = std::process::id();
        let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
        entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter(|pid| *pid != own && has_variable(*pid, wanted.as_bytes()))
            .collect()
    }
}

fn has_variable(pid: u32, wanted: &[u8]) -> bool {
    let mut bytes = Vec::new();
    // Gone meanwhile, or somebody else's.
    let read = File::open(format!("/proc/{pid}/environ")).and_then(|mut file| file.read_to_end(&mut bytes));
    read.is_ok() && bytes.split(|byte| *byte == 0).any(|variable| variable == wanted)
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // It may have ended; its pid is ours until it is waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
        for _ in 0..ROUNDS {
            let left = self.marked();
            if left.is_empty() {
                break;
            }
            for pid in left {
                send_signal(pid, Signal::KILL);
            }
            std::thread::sleep(POLL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stop() -> Stop {
        Stop(Arc::new(AtomicBool::new(false)))
    }

    fn shell(script: &str) -> Running {
        let folder = biopsy_testkit::temp_dir("score");
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Running::start(&command, folder.path(), "log.txt").unwrap()
    }

    #[test]
    fn children_whose_parent_is_gone_end_too() {
        let mut running = shell("(sleep 600 & echo child $!); echo READY; sleep 600");
        let stop = stop();
        let mut child = 0;
        while child == 0 {
            let line = running.lines.recv_timeout(Duration::from_secs(60)).unwrap();
            child = line.strip_prefix("child ").map_or(0, |pid| pid.parse().unwrap());
        }
        running.wait_for_line("READY", Duration::from_secs(60), &stop).unwrap();
        assert!(biopsy_testkit::is_running(child));
        drop(running);
        // Whoever takes it over collects it in its own time.
        let until = Instant::now() + Duration::from_secs(60);
        while biopsy_testkit::is_running(child) {
            assert!(Instant::now() < until, "process {child} still runs");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn what_was_said_and_how_it_ended_is_known() {
        let end = |script| shell(script).wait_for_end(Duration::from_secs(60), &stop()).unwrap();
        assert_eq!(end("echo one; echo two"), ("one\ntwo\n".to_owned(), true));
        assert_eq!(end("exit 3"), (String::new(), false));
    }

    #[test]
    fn a_trigger_comes_as_a_line() {
        let mut running = shell("read word; echo got $word");
        running.trigger().unwrap();
        running.wait_for_line("got go", Duration::from_secs(60), &stop()).unwrap();
    }

    #[test]
    fn one_that_ends_before_it_is_ready_is_an_error() {
        let error = shell("true").wait_for_line("READY", Duration::from_secs(60), &stop()).unwrap_err();
        assert!(error.contains("ended"), "{error}");
    }

    #[test]
    fn who_asks_for_the_end_does_not_wait() {
        let stop = Stop(Arc::new(AtomicBool::new(true)));
        assert_eq!(stop.rest(Duration::from_secs(600)), Err("interrupted".to_owned()));
    }
}
