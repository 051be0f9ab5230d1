//! Finds interpreters, on a thread of its own: reading what a process has mapped takes milliseconds.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use biopsy_model::Pid;
use biopsy_runtimes::Limits;
use biopsy_runtimes::jvm::{self, FoundJava, SampledJava};
use biopsy_runtimes::node::{self, FoundNode, SampledNode};
use biopsy_runtimes::python::{self, FoundPython, SampledPython};
use biopsy_target::address_space::LiveImage;
use rustc_hash::FxHashMap;

/// A process that has just started has its interpreter soon, if at all: after so long it is looked at again, each time.
const AGAIN: [Duration; 6] = [
    Duration::from_millis(30),
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(10),
];
/// Samples wait in the ring buffer for the first look, at most so long.
const FIRST_LOOK: Duration = Duration::from_millis(500);
/// What the path of a mapped file has in it where an interpreter may be.
const PYTHON: &[u8] = b"python";
const JAVA: &[u8] = b"/libjvm.so";
const NODE: &[u8] = b"node";

/// What was found in a process.
#[derive(Debug)]
pub(crate) enum FoundLanguage {
    Python(Box<SampledPython>),
    Java(Box<SampledJava>),
    Node(Box<SampledNode>),
    /// Its frames are not read, and why.
    NotRead(String),
}

enum Request {
    Look(u32),
    Forget(u32),
}

/// The asking end.
#[derive(Debug)]
pub(crate) struct Finder {
    /// `None` while ending.
    requests: Option<Sender<Request>>,
    answers: Receiver<(u32, FoundLanguage)>,
    first: Receiver<()>,
    /// Whoever is looked at is the last one.
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Finder {
    /// Starts the thread, which looks at these processes first; it ends with this value.
    pub(crate) fn start(pids: Vec<u32>) -> io::Result<Self> {
        let (requests, asked) = channel();
        let (tell, answers) = channel();
        let (looked, first) = channel();
        let ending = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&ending);
        let thread = std::thread::Builder::new().name("biopsy-lang".to_owned()).spawn(move || {
            for pid in pids {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                if let Some(found) = look(pid)
                    && tell.send((pid, found)).is_err()
                {
                    return;
                }
            }
            drop(looked);
            run(&asked, &tell, &stop);
        })?;
        Ok(Self { requests: Some(requests), answers, first, ending, thread: Some(thread) })
    }

    /// What was found in the first processes, as far as that did not take too long.
    pub(crate) fn found_first(&self) -> Vec<(u32, FoundLanguage)> {
        // Nobody sends anything: the look is over when the other end is gone.
        let _ = self.first.recv_timeout(FIRST_LOOK);
        self.found()
    }

    /// A process started, or executes another program.
    pub(crate) fn look(&self, pid: u32) {
        self.send(Request::Look(pid));
    }

    /// It has ended.
    pub(crate) fn forget(&self, pid: u32) {
        self.send(Request::Forget(pid));
    }

    fn send(&self, request: Request) {
        if let Some(requests) = &self.requests {
            let _ = requests.send(request);
        }
    }

    /// What has been found since the last call.
    pub(crate) fn found(&self) -> Vec<(u32, FoundLanguage)> {
        self.answers.try_iter().collect()
    }
}

impl Drop for Finder {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            // It panicked, or it ended: there is nothing to be done about either.
            let _ = thread.join();
        }
    }
}

fn run(asked: &Receiver<Request>, tell: &Sender<(u32, FoundLanguage)>, stop: &AtomicBool) {
    let mut waiting: FxHashMap<u32, (usize, Instant)> = FxHashMap::default();
    loop {
        let next = waiting.values().map(|(_, at)| *at).min();
        let request = match next {
            None => asked.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(at) => asked.recv_timeout(at.saturating_duration_since(Instant::now())),
        };
        let now = Instant::now();
        match request {
            Ok(Request::Look(pid)) => drop(waiting.insert(pid, (0, now))),
            Ok(Request::Forget(pid)) => drop(waiting.remove(&pid)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        let due: Vec<u32> = waiting.iter().filter(|(_, (_, at))| *at <= now).map(|(pid, _)| *pid).collect();
        for pid in due {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            if let Some(found) = look(pid) {
                waiting.remove(&pid);
                if tell.send((pid, found)).is_err() {
                    return;
                }
            } else if let Some(entry) = waiting.get_mut(&pid) {
                let again = AGAIN.get(entry.0).copied();
                *entry = (entry.0 + 1, now + again.unwrap_or_default());
                if again.is_none() {
                    waiting.remove(&pid);
                }
            }
        }
    }
}

/// What a process runs, if it can be told already.
fn look(pid: u32) -> Option<FoundLanguage> {
    let maps = biopsy_files::read_kernels(format!("/proc/{pid}/maps")).ok()?;
    let has = |name: &[u8]| memchr::memmem::find(&maps, name).is_some();
    let (java, node, python) = (has(JAVA), has(NODE), has(PYTHON));
    if !java && !node && !python {
        return None;
    }
    let image = LiveImage::open(Pid(pid)).ok()?;
    if java {
        return match jvm::find(&image, &Limits::default()) {
            FoundJava::None | FoundJava::Starting => None,
            FoundJava::NotRead(why) => Some(FoundLanguage::NotRead(why)),
            FoundJava::Read(java) => Some(FoundLanguage::Java(java)),
        };
    }
    if node {
        match node::find(&image) {
            FoundNode::None => {}
            FoundNode::NotRead(why) => return Some(FoundLanguage::NotRead(why)),
            FoundNode::Read(node) => return Some(FoundLanguage::Node(node)),
        }
    }
    match python::find(&image, &Limits::default()) {
        FoundPython::None | FoundPython::Starting => None,
        FoundPython::NotRead(why) => Some(FoundLanguage::NotRead(why)),
        FoundPython::Read(python) => Some(FoundLanguage::Python(python)),
    }
}
