//! The thread that traces, from outside: how it is started, asked and ended.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use biopsy_sys::job_control::JobControl;
use biopsy_sys::schedule::RealTime;
use biopsy_sys::stop_bell::{BellHandle, StopBell};

use super::caught::{Caught, Hold};
use super::command::Command;
use super::engine::{Engine, Report, Settings};
use super::error::CatchError;
use super::{CatchStatistics, Ended};

/// What comes next.
pub(super) enum Next {
    Caught(Box<Caught>),
    Nothing,
    Ended(Ended),
}

/// A running thread. Dropping it lets everything go that is not held; what is held stays so until it is released.
#[derive(Debug)]
pub(super) struct Tracer {
    commands: Sender<Command>,
    reports: Receiver<Report>,
    bell: BellHandle,
    statistics: Arc<Mutex<CatchStatistics>>,
    thread: Option<JoinHandle<()>>,
    ended: Option<Ended>,
}

impl Tracer {
    /// Starts the thread. `begin` runs on it: ptrace ties a process to the thread that seized it.
    pub(super) fn start<T: Send + 'static>(
        settings: Settings,
        begin: impl FnOnce(Engine) -> Result<(Engine, T), CatchError> + Send + 'static,
    ) -> Result<(Self, T), CatchError> {
        let bell = StopBell::new()?;
        let handle = bell.handle();
        let (commands, orders) = channel();
        let (sender, reports) = channel();
        let (ready, is_ready) = channel();
        let statistics = Arc::new(Mutex::new(CatchStatistics::default()));
        let engine = Engine::new(settings, bell, orders, sender, Arc::clone(&statistics));
        let thread = std::thread::Builder::new().name("catch".to_owned()).spawn(move || {
            // While we are stopped, whoever is held or gets a signal stands still.
            let _job_control = JobControl::hold();
            match begin(engine) {
                Ok((engine, what)) => {
                    // Whoever starts a program on this machine may wait for this thread: on a busy one, without it,
                    // executions waited ten seconds. It does little, and sleeps most of the time.
                    let _ahead = RealTime::begin().ok();
                    if ready.send(Ok(what)).is_ok() {
                        engine.run();
                    }
                }
                Err(error) => drop(ready.send(Err(error))),
            }
        })?;
        let what = is_ready.recv().map_err(|_| CatchError::Ended)??;
        Ok((Self { commands, reports, bell: handle, statistics, thread: Some(thread), ended: None }, what))
    }

    /// Waits for what comes next.
    pub(super) fn next(&mut self, timeout: Duration) -> Result<Next, CatchError> {
        if let Some(ended) = self.ended {
            return Ok(Next::Ended(ended));
        }
        let deadline = Instant::now().checked_add(timeout);
        loop {
            let left =
                deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
            match self.reports.recv_timeout(left) {
                Ok(Report::Caught(catch)) => {
                    let hold =
                        Hold { id: catch.id, commands: self.commands.clone(), bell: self.bell.clone() };
                    let pid = catch.key.pid;
                    match Caught::read(*catch, hold) {
                        Ok(caught) => return Ok(Next::Caught(Box::new(caught))),
                        // Killed by somebody else while we looked.
                        Err(error) => {
                            let mut statistics =
                                self.statistics.lock().unwrap_or_else(PoisonError::into_inner);
                            statistics.missed += 1;
                            statistics.add_note(format!("process {pid} could not be read: {error}"));
                        }
                    }
                }
                Ok(Report::Ended(ended)) => {
                    self.ended = Some(ended);
                    return Ok(Next::Ended(ended));
                }
                Ok(Report::Failed(error)) => return Err(error),
                Err(RecvTimeoutError::Timeout) => return Ok(Next::Nothing),
                Err(RecvTimeoutError::Disconnected) => return Err(CatchError::Ended),
            }
        }
    }

    pub(super) fn statistics(&self) -> CatchStatistics {
        self.statistics.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Catches nothing more. What is at its end is still handed out, then comes the end.
    pub(super) fn close(&self) {
        let _ = self.commands.send(Command::Close);
        self.bell.ring();
    }

    /// Lets everything go and waits until that is done. Whatever is held is waited for.
    pub(super) fn finish(mut self) {
        self.stop();
        // Catches that nobody has asked for are let go; the thread closes its end when it is through.
        while let Ok(report) = self.reports.recv() {
            self.let_go(report);
        }
        if let Some(thread) = self.thread.take() {
            // A panic there has detached from everything as well.
            let _ = thread.join();
        }
    }

    fn let_go(&self, report: Report) {
        if let Report::Caught(catch) = report {
            let _ = self.commands.send(Command::Release(catch.id));
            self.bell.ring();
        }
    }

    fn stop(&self) {
        let _ = self.commands.send(Command::Finish);
        self.bell.ring();
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        self.stop();
        // Unread catches are nobody's: they are let go, or we would wait for their hold limit.
        while let Ok(report) = self.reports.try_recv() {
            self.let_go(report);
        }
    }
}
