//! Managed code: names and frame rules, read from the memory of the runtime that it belongs to, on a thread of its own.
//!
//! ```text
//! recorder ─► frames outside of ELF files ─► this thread ─┬─► Runtime over the live process      (8 and later: JIT and ReadyToRun)
//!          ◄─ names                                       ├─► methods that an event session told (also 3.1 and unknown versions)
//!          ◄─ those without a name ─► symboliser: jitdump, perf map
//!          ◄─► rules of frames that keep no frame pointer
//! ```
//!
//! The process does nothing for it: no event is switched on, no file is written, nothing is stopped. Memory is read while the
//! process runs, which is safe for what is looked at: compiled code, its tables and metadata hold still as long as the code does.

mod lines;
mod messages;
mod process;
mod rules;
mod rundown;
mod thread;

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use biopsy_model::stack::{Frame, FrameHandle};
use biopsy_model::symbol::FrameSymbols;

pub use messages::SharedMethods;
use messages::{Answer, Request};
pub(crate) use rules::{KnownRules, Rules};

/// At the end, this long is waited for the last names: longer than a runtime that has to tell them itself may take. The thread is
/// waited for in any case.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the recorder does with what was found.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) symbols: Vec<FrameSymbols>,
    pub(crate) unnamed: Vec<(FrameHandle, Frame)>,
    pub(crate) rules: Vec<u32>,
    pub(crate) problems: Vec<(String, Option<&'static str>)>,
}

/// The asking end.
#[derive(Debug)]
pub(crate) struct Managed {
    /// `None` while ending.
    requests: Option<Sender<Request>>,
    /// `None` while ending.
    answers: Option<Receiver<Answer>>,
    thread: Option<JoinHandle<()>>,
}

impl Managed {
    /// Starts the thread; it ends with this value.
    pub(crate) fn start(cached_bytes: usize) -> io::Result<Self> {
        let (requests, asked) = channel();
        let (tell, answers) = channel();
        let thread = std::thread::Builder::new()
            .name("biopsy-managed".to_owned())
            .spawn(move || thread::run(&asked, &tell, cached_bytes))?;
        Ok(Self { requests: Some(requests), answers: Some(answers), thread: Some(thread) })
    }

    fn send(&self, request: Request) {
        if let Some(requests) = &self.requests {
            let _ = requests.send(request);
        }
    }

    /// A process is recorded from now on.
    pub(crate) fn process(&self, pid: u32, rules: &Arc<Rules>) {
        self.send(Request::Process(pid, Arc::clone(rules)));
    }

    /// It executes another program.
    pub(crate) fn exec(&self, pid: u32) {
        self.send(Request::Exec(pid));
    }

    /// It has ended.
    pub(crate) fn exit(&self, pid: u32) {
        self.send(Request::Exit(pid));
    }

    /// What its event session tells of methods.
    pub(crate) fn methods(&self, pid: u32, methods: SharedMethods) {
        self.send(Request::Methods(pid, methods));
    }

    /// Asks for the names of frames outside of ELF files, each with its process.
    pub(crate) fn ask(&self, frames: Vec<(u32, FrameHandle, Frame)>) {
        if !frames.is_empty() {
            self.send(Request::Names(frames));
        }
    }

    /// Asks for rules.
    pub(crate) fn want_rules(&self, pid: u32) {
        self.send(Request::Rules(pid));
    }

    /// What has been found; with `last`, all there is to find.
    pub(crate) fn found(&self, last: bool) -> Found {
        let mut found = Found::default();
        let deadline = Instant::now() + PATIENCE;
        if last {
            self.send(Request::Last);
        }
        while let Some(answers) = &self.answers {
            let answer = if last {
                answers.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()
            } else {
                answers.try_recv().ok()
            };
            let Some(answer) = answer else {
                if last {
                    let message = "finding names of managed code took too long: some frames have none";
                    found.problems.push((message.to_owned(), None));
                }
                break;
            };
            found.symbols.extend(answer.symbols);
            found.unnamed.extend(answer.unnamed);
            found.rules.extend(answer.rules);
            found.problems.extend(answer.problems);
            if answer.last {
                break;
            }
        }
        found
    }
}

impl Drop for Managed {
    /// Waits until its memory is freed.
    fn drop(&mut self) {
        self.requests = None;
        // Nobody waits for what is still to be found: it ends with the next answer, not with the last.
        self.answers = None;
        if let Some(thread) = self.thread.take() {
            // It panicked, or it ended: there is nothing to be done about either.
            let _ = thread.join();
        }
    }
}
