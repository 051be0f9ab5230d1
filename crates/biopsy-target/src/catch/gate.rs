//! Nobody waits at the gate for long, whatever hangs, and the gate is never open without somebody who serves it.
//!
//! One thread takes requests from the kernel and answers them. It does nothing that could wait: it asks nobody, reads no memory,
//! looks up no path that others serve. What is to become of a request is found out by an inspector on a thread of its own (see
//! [`super::inspector`]), which looks into the process that asks, and may hang there: a page of its memory may be a file that is served
//! by somebody who does not answer, or by the process itself (userfaultfd(2), FUSE). Then the request goes on when its time is
//! over. What waits between them is in [`super::pending`].
//!
//! The gate is open in a table of files that only this thread has ([`biopsy_sys::file_table`]): its end closes the gate,
//! however it comes about, and no program that this process starts has a copy of it.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use biopsy_sys::fanotify::{Coverage, ExecGate, ExecRequest};
use biopsy_sys::file_table::OwnTable;
use biopsy_sys::schedule::{RealTime, this_thread};
use rustix::event::{PollFd, PollFlags};

use super::CatchStatistics;
use super::inspector::{self, Inspect};
use super::pending::{MarkRequest, PendingRequests, RequestId};
use crate::polled;

/// Most files that nobody asks about any more: the kernel keeps something for each. A machine has a dynamic linker, and each of its
/// containers another one.
const MOST_IGNORED: usize = 1024;

/// The gate with its threads. Dropping it closes the gate.
#[derive(Debug)]
pub(super) struct LaunchGate {
    pending: Arc<PendingRequests>,
    thread: Option<JoinHandle<()>>,
}

impl LaunchGate {
    /// Opens the gate. Marks may be made when this returns: whoever comes to them is served.
    ///
    /// # Errors
    /// What the kernel says, to opening the gate or to starting threads.
    pub(super) fn start(
        inspector: impl Inspect,
        statistics: Arc<Mutex<CatchStatistics>>,
    ) -> io::Result<Self> {
        let pending = Arc::new(PendingRequests::new(statistics)?);
        let mut gate = Self { pending: Arc::clone(&pending), thread: None };
        let (ready, is_open) = channel();
        let work = move || serve(&pending, &ready);
        let thread = std::thread::Builder::new().name("launch-gate".to_owned()).stack_size(128 << 10);
        gate.thread = Some(thread.spawn(work)?);
        is_open.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))?;
        inspector::start(Arc::clone(&gate.pending), inspector)?;
        Ok(gate)
    }

    pub(super) fn pending(&self) -> &Arc<PendingRequests> {
        &self.pending
    }
}

impl Drop for LaunchGate {
    fn drop(&mut self) {
        self.pending.close();
        if let Some(thread) = self.thread.take() {
            // It waits for nobody. A panic there has closed the gate.
            let _ = thread.join();
        }
    }
}

/// The thread that serves the gate, until it is closed.
fn serve(pending: &PendingRequests, ready: &Sender<io::Result<()>>) {
    // Whatever ends this thread, everybody passes, and it is known.
    let _closes = ClosesAtEnd(pending);
    // Whoever starts a program waits for this: on a busy machine, without it, executions waited ten seconds.
    let _ahead = RealTime::begin().ok();
    let opened =
        OwnTable::leave(pending.wake()).and_then(|(table, wake)| Ok((ExecGate::open(&table)?, wake)));
    let (gate, wake) = match opened {
        Ok(opened) => opened,
        Err(error) => return drop(ready.send(Err(error))),
    };
    if ready.send(Ok(())).is_err() {
        return;
    }
    let mut waiting = BTreeMap::<RequestId, ExecRequest>::new();
    let mut ignored = 0;
    let folder = PathBuf::from(format!("/proc/self/task/{}/fd", this_thread()));
    loop {
        let due = pending.due(Instant::now());
        let nap = due.nap();
        for request in due.ignored.iter().filter_map(|request| waiting.get(request)) {
            if ignored < MOST_IGNORED && gate.ignore(request.file()).is_ok() {
                ignored += 1;
            }
        }
        for request in due.released {
            // That lets it go on.
            waiting.remove(&request);
        }
        for MarkRequest { descriptor, done } in due.marks {
            // By the table of the process, which is that of its first thread.
            let place = PathBuf::from(format!("/proc/self/fd/{descriptor}"));
            let _ = done.send(gate.mark(Coverage::FileSystem, &place));
        }
        if due.closed {
            return;
        }
        polled::wait(&mut [PollFd::new(&gate, PollFlags::IN), PollFd::new(&wake, PollFlags::IN)], Some(&nap));
        // It counts rings; none is no error.
        let _ = rustix::io::read(wake.as_fd(), &mut [0_u8; 8]);
        match gate.take() {
            Ok(requests) => {
                for request in requests {
                    let file = folder.join(request.file().as_raw_fd().to_string());
                    if let Some(id) = pending.put(request.pid(), file) {
                        waiting.insert(id, request);
                    }
                }
            }
            Err(error) => return pending.fail(error),
        }
    }
}

struct ClosesAtEnd<'a>(&'a PendingRequests);

impl Drop for ClosesAtEnd<'_> {
    fn drop(&mut self) {
        if !self.0.is_closed() {
            self.0.fail(io::Error::other("the thread that serves the gate has ended"));
        }
    }
}
