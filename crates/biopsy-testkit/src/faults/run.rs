//! One run of the program in which one system call fails.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use biopsy_sys::notify::{Answer, Call, Listener, listen};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::calls::FAILING_CALLS;

/// The call that is made to fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Its number.
    pub number: i64,
    /// The how manieth of this number, over all threads, counted from 1.
    pub occurrence: u64,
    /// What it fails with.
    pub errno: i32,
}

/// What came of a run.
#[derive(Debug)]
pub struct Ran {
    /// How it ended; `None`: it did not, and was killed.
    pub status: Option<ExitStatus>,
    /// Its standard output.
    pub out: Vec<u8>,
    /// Its standard error.
    pub err: Vec<u8>,
    /// How often each call of the table was made.
    pub counts: BTreeMap<i64, u64>,
    /// The call was made, and failed.
    pub hit: bool,
    /// How long it took.
    pub took: Duration,
}

/// Runs the command and lets the call of `fault` fail; all others, also those of what it starts, are made. Calls are counted from
/// its `main` on: what the loader of libraries and Rust's runtime do before is not its own.
///
/// # Panics
///
/// Without root, on kernels before 5.19, or where the program cannot be started.
#[must_use]
pub fn run(mut command: Command, fault: Option<Fault>, limit: Duration) -> Ran {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let begin = Instant::now();
    let starved_before = waited_for_processor("thread-self");
    let shared: Arc<(Mutex<Option<std::io::Result<Listener>>>, Condvar)> = Arc::default();
    let started: Arc<Mutex<Option<std::io::Result<Child>>>> = Arc::default();
    let (given, child) = (Arc::clone(&shared), Arc::clone(&started));
    // The filter stays with the thread that installs it and with what it starts: so it is a thread that ends at once. From the
    // filter on until the listener is handed over it must not make a call that waits for an answer, so nothing is allocated.
    // It is never joined: even its end makes calls.
    std::thread::spawn(move || {
        let listener = listen(&numbers());
        *given.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(listener);
        given.1.notify_one();
        let spawned = command.spawn();
        *child.lock().unwrap_or_else(PoisonError::into_inner) = Some(spawned);
    });
    let listener = {
        let (slot, rung) = &*shared;
        let slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        let mut slot = rung.wait_while(slot, |slot| slot.is_none()).unwrap_or_else(PoisonError::into_inner);
        slot.take().expect("it was waited for").unwrap_or_else(|error| panic!("no seccomp listener: {error}"))
    };
    // Older kernels only take longer.
    let _ = listener.take_turns();
    let mut watcher = Watcher {
        fault,
        main: None,
        in_runtime: false,
        begun: false,
        ours: HashMap::new(),
        counts: BTreeMap::new(),
        hit: false,
    };
    let mut child = loop {
        watcher.serve(&listener, Duration::from_millis(20));
        if let Some(spawned) = started.lock().unwrap_or_else(PoisonError::into_inner).take() {
            break spawned.unwrap_or_else(|error| panic!("it cannot be started: {error}"));
        }
    };
    let out = read_all(child.stdout.take().expect("a pipe"));
    let err = read_all(child.stderr.take().expect("a pipe"));
    let status = loop {
        watcher.serve(&listener, Duration::from_millis(20));
        if let Ok(Some(status)) = child.try_wait() {
            break Some(status);
        }
        if begin.elapsed() > limit {
            // On a machine under load it takes long, and so do we, who answer its calls; that is no hang.
            let tasks = std::fs::read_dir(format!("/proc/{}/task", child.id()));
            let tasks = tasks.into_iter().flatten().flatten();
            let theirs: Duration = tasks
                .map(|task| {
                    waited_for_processor(&format!("{}/task/{}", child.id(), task.file_name().display()))
                })
                .sum();
            let starved = theirs + waited_for_processor("thread-self").saturating_sub(starved_before);
            if begin.elapsed() < limit + starved.min(limit * 20) {
                continue;
            }
            kill(&mut child, &listener, &mut watcher);
            break None;
        }
    };
    let took = begin.elapsed();
    // What it started, and leaves behind, goes on under the filter.
    std::thread::spawn({
        let mut rest = Watcher {
            fault: None,
            main: None,
            in_runtime: false,
            begun: false,
            ours: HashMap::new(),
            counts: BTreeMap::new(),
            hit: false,
        };
        move || while rest.serve(&listener, Duration::from_secs(1)) {}
    });
    Ran { status, out: out.take(), err: err.take(), counts: watcher.counts, hit: watcher.hit, took }
}

/// How long a thread could have run and had no processor (proc_pid_schedstat).
fn waited_for_processor(thread: &str) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{thread}/schedstat")).unwrap_or_default();
    let nanos = text.split_ascii_whitespace().nth(1).and_then(|word| word.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

fn numbers() -> Vec<u32> {
    let execs = [libc::SYS_execve, libc::SYS_execveat];
    let all = FAILING_CALLS.iter().map(|call| call.number).chain(execs);
    all.filter_map(|number| u32::try_from(number).ok()).collect()
}

fn kill(child: &mut Child, listener: &Listener, watcher: &mut Watcher) {
    let _ = child.kill();
    while matches!(child.try_wait(), Ok(None)) {
        watcher.serve(listener, Duration::from_millis(20));
    }
}

/// A pipe that is read meanwhile.
struct Reading {
    text: Arc<Mutex<Vec<u8>>>,
    reader: std::thread::JoinHandle<()>,
}

fn read_all(mut pipe: impl Read + Send + 'static) -> Reading {
    let text: Arc<Mutex<Vec<u8>>> = Arc::default();
    let to = Arc::clone(&text);
    let reader = std::thread::spawn(move || {
        let mut piece = [0; 4096];
        while let Ok(count @ 1..) = pipe.read(&mut piece) {
            to.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&piece[..count]);
        }
    });
    Reading { text, reader }
}

impl Reading {
    /// What came. A program that was started by the one under test may keep the pipe open: nobody waits for that.
    fn take(self) -> Vec<u8> {
        let deadline = Instant::now() + Duration::from_secs(1);
        while !self.reader.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::mem::take(&mut self.text.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct Watcher {
    fault: Option<Fault>,
    /// Pid of the program under test, as soon as it is executed.
    main: Option<u32>,
    /// It is past the loader of libraries.
    in_runtime: bool,
    /// It is in `main`.
    begun: bool,
    ours: HashMap<u32, bool>,
    counts: BTreeMap<i64, u64>,
    hit: bool,
}

impl Watcher {
    /// Answers what comes within `time`, and returns as soon as nothing more waits. False: nobody is left.
    fn serve(&mut self, listener: &Listener, time: Duration) -> bool {
        let mut wait = time;
        loop {
            let mut fds = [PollFd::new(listener, PollFlags::IN)];
            let timeout =
                Timespec { tv_sec: wait.as_secs().cast_signed(), tv_nsec: wait.subsec_nanos().into() };
            if !matches!(poll(&mut fds, Some(&timeout)), Ok(1)) {
                return true;
            }
            if !fds[0].revents().contains(PollFlags::IN) {
                std::thread::sleep(Duration::from_millis(1));
                return false;
            }
            if let Ok(Some(call)) = listener.receive() {
                let answer = self.decide(&call);
                // A caller that was killed needs none.
                let _ = listener.answer(&call, answer);
            }
            wait = Duration::ZERO;
        }
    }

    fn decide(&mut self, call: &Call) -> Answer {
        if self.main.is_none() {
            if call.number == libc::SYS_execve {
                self.main = Some(call.tid.0);
            }
            return Answer::Continue;
        }
        if matches!(call.number, libc::SYS_execve | libc::SYS_execveat) || !self.is_ours(call.tid.0) {
            return Answer::Continue;
        }
        if !self.begun {
            // The first thing that Rust's runtime does is to look whether the three standard descriptors are open; the last one
            // before `main` is to protect the end of a stack for signals.
            self.in_runtime |= call.number == libc::SYS_poll && call.arguments[1] == 3;
            self.begun = self.in_runtime && call.number == libc::SYS_mprotect;
            return Answer::Continue;
        }
        // One's own limits can always be read.
        if call.number == libc::SYS_prlimit64 && call.arguments[2] == 0 {
            return Answer::Continue;
        }
        let count = self.counts.entry(call.number).or_default();
        *count += 1;
        match self.fault {
            Some(fault) if fault.number == call.number && fault.occurrence == *count => {
                self.hit = true;
                Answer::Fail(fault.errno)
            }
            _ => Answer::Continue,
        }
    }

    /// A thread of the program itself, not of something that it started.
    fn is_ours(&mut self, tid: u32) -> bool {
        let main = self.main;
        *self.ours.entry(tid).or_insert_with(|| {
            let group = crate::proc_status::field(tid, "Tgid").and_then(|group| group.parse().ok());
            group.is_some() && group == main
        })
    }
}
