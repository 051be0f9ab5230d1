//! The thread of managed code: all recorded processes, what is asked of them, and what has no answer yet.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use biopsy_model::stack::{Frame, FrameHandle};
use rustc_hash::FxHashMap;

use super::messages::{Answer, Request};
use super::process::{Looked, ManagedProcess};

/// A runtime that is starting up is looked at again after so long, then after twice as long, up to the second.
const FIRST_RETRY: Duration = Duration::from_millis(50);
const LAST_RETRY: Duration = Duration::from_secs(1);
/// What is not known a moment after the runtime was read is asked for again after so long.
const SOON: Duration = Duration::from_millis(100);
/// Frames that wait for their process to become clear, at most.
const WAITING: usize = 1 << 16;

/// Works until nobody asks any more.
pub(super) fn run(asked: &Receiver<Request>, tell: &Sender<Answer>, cached_bytes: usize) {
    let mut work = Work { processes: FxHashMap::default(), cached_bytes };
    loop {
        let request = match work.next_retry() {
            None => asked.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(at) => asked.recv_timeout(at.saturating_duration_since(Instant::now())),
        };
        let mut answer = Answer::default();
        match request {
            Ok(request) => work.handle(request, &mut answer),
            Err(RecvTimeoutError::Timeout) => work.retry(&mut answer),
            Err(RecvTimeoutError::Disconnected) => break,
        }
        let something = answer.last
            || !(answer.symbols.is_empty()
                && answer.unnamed.is_empty()
                && answer.rules.is_empty()
                && answer.problems.is_empty());
        if something && tell.send(answer).is_err() {
            break;
        }
    }
}

struct Work {
    processes: FxHashMap<u32, Entry>,
    cached_bytes: usize,
}

struct Entry {
    process: ManagedProcess,
    waiting: Vec<(FrameHandle, Frame)>,
    /// Frames that are asked for once more at the end.
    without: Vec<(FrameHandle, Frame)>,
    retry: Option<(Instant, Duration)>,
}

impl Work {
    fn next_retry(&self) -> Option<Instant> {
        self.processes.values().filter_map(|entry| entry.retry.map(|(at, _)| at)).min()
    }

    fn handle(&mut self, request: Request, answer: &mut Answer) {
        match request {
            Request::Process(pid, rules) => {
                let process = ManagedProcess::new(pid, rules, self.cached_bytes);
                let mut entry = Entry { process, waiting: Vec::new(), without: Vec::new(), retry: None };
                entry.look();
                self.processes.insert(pid, entry);
            }
            Request::Exec(pid) => {
                if let Some(entry) = self.processes.get_mut(&pid) {
                    answer.unnamed.append(&mut entry.waiting);
                    answer.unnamed.append(&mut entry.without);
                    entry.process.exec();
                    entry.retry = Some((Instant::now() + FIRST_RETRY, FIRST_RETRY));
                }
            }
            Request::Exit(pid) => {
                if let Some(mut entry) = self.processes.remove(&pid) {
                    entry.last_names(answer);
                }
            }
            Request::Methods(pid, methods) => {
                if let Some(entry) = self.processes.get_mut(&pid) {
                    entry.process.set_methods(methods);
                }
            }
            Request::Names(frames) => {
                for (pid, handle, frame) in frames {
                    match self.processes.get_mut(&pid) {
                        Some(entry) if entry.waiting.len() < WAITING => entry.waiting.push((handle, frame)),
                        _ => answer.unnamed.push((handle, frame)),
                    }
                }
                for entry in self.processes.values_mut() {
                    entry.names(answer);
                }
            }
            Request::Rules(pid) => {
                if let Some(entry) = self.processes.get_mut(&pid) {
                    entry.rules(pid, answer);
                }
            }
            Request::Last => {
                for entry in self.processes.values_mut() {
                    entry.last_names(answer);
                }
                answer.last = true;
            }
        }
    }

    fn retry(&mut self, answer: &mut Answer) {
        let now = Instant::now();
        for (&pid, entry) in &mut self.processes {
            if entry.retry.is_some_and(|(at, _)| at <= now) {
                entry.look();
                entry.names(answer);
                entry.rules(pid, answer);
            }
        }
    }
}

impl Entry {
    fn look(&mut self) {
        match self.process.look() {
            Looked::Open | Looked::NotManaged | Looked::Failed => self.retry = None,
            Looked::NotYet => {
                let pause = self.retry.map_or(FIRST_RETRY, |(_, pause)| (pause * 2).min(LAST_RETRY));
                self.retry = Some((Instant::now() + pause, pause));
            }
        }
    }

    fn names(&mut self, answer: &mut Answer) {
        if self.waiting.is_empty() || self.retry.is_some() {
            return;
        }
        if let Some(at) = self.process.look_again() {
            // It runs code outside of files: a runtime may have been loaded since.
            if at > Instant::now() {
                self.retry = Some((at, FIRST_RETRY));
                return;
            }
            self.look();
            if self.retry.is_some() {
                return;
            }
        }
        let frames = std::mem::take(&mut self.waiting);
        let (without, soon) = self.process.name(frames, answer);
        if soon {
            self.waiting = without;
            self.retry = Some((Instant::now() + SOON, FIRST_RETRY));
        } else {
            let room = WAITING.saturating_sub(self.without.len());
            self.without.extend(without.into_iter().take(room));
        }
    }

    fn rules(&mut self, pid: u32, answer: &mut Answer) {
        let (found, soon) = self.process.find_rules();
        if found {
            answer.rules.push(pid);
        }
        if soon && self.retry.is_none() {
            self.retry = Some((Instant::now() + SOON, FIRST_RETRY));
        }
    }

    fn last_names(&mut self, answer: &mut Answer) {
        if self.retry.is_some() {
            self.look();
        }
        let mut frames = std::mem::take(&mut self.without);
        frames.append(&mut self.waiting);
        if !frames.is_empty() {
            self.process.last_names(frames, answer);
        }
    }
}
