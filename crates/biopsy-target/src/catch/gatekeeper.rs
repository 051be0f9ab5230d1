//! Nobody waits at the gate for long, whatever hangs, and the gate is never open without somebody who serves it.
//!
//! One thread takes requests from the kernel and answers them. It does nothing that could wait: it asks nobody, reads no memory,
//! looks up no path that others serve. What is to become of a request is found out by a clerk on a thread of its own (see
//! [`super::clerk`]), who looks into the process that asks, and may hang there: a page of its memory may be a file that is served
//! by somebody who does not answer, or by the process itself (userfaultfd(2), FUSE). Then the request goes on when its time is
//! over. Between them lies the [`super::desk`].
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
use rustix::event::{PollFd, PollFlags, Timespec};

use super::CatchStatistics;
use super::clerk::{self, Clerk};
use super::desk::{Desk, MarkOrder, Ticket};
use crate::polled;

/// The gate with its threads. Dropping it closes the gate.
#[derive(Debug)]
pub(super) struct Gatekeeper {
    desk: Arc<Desk>,
    thread: Option<JoinHandle<()>>,
}

impl Gatekeeper {
    /// Opens the gate. Marks may be made when this returns: whoever comes to them is served.
    ///
    /// # Errors
    /// What the kernel says, to opening the gate or to starting threads.
    pub(super) fn start(clerk: Clerk, statistics: Arc<Mutex<CatchStatistics>>) -> io::Result<Self> {
        let desk = Arc::new(Desk::new(statistics)?);
        let mut keeper = Self { desk: Arc::clone(&desk), thread: None };
        let (ready, is_open) = channel();
        let work = move || keep(&desk, &ready);
        let thread = std::thread::Builder::new().name("gatekeeper".to_owned()).stack_size(128 << 10);
        keeper.thread = Some(thread.spawn(work)?);
        is_open.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))?;
        clerk::hire(Arc::clone(&keeper.desk), clerk)?;
        Ok(keeper)
    }

    pub(super) fn desk(&self) -> &Arc<Desk> {
        &self.desk
    }
}

impl Drop for Gatekeeper {
    fn drop(&mut self) {
        self.desk.close();
        if let Some(thread) = self.thread.take() {
            // It waits for nobody. A panic there has closed the gate.
            let _ = thread.join();
        }
    }
}

/// The thread that serves the gate, until the desk is closed.
fn keep(desk: &Desk, ready: &Sender<io::Result<()>>) {
    // Whatever ends this thread, everybody passes, and it is known.
    let _closes = ClosesAtEnd(desk);
    // Whoever starts a program waits for this: on a busy machine, without it, executions waited ten seconds.
    let _ahead = RealTime::begin().ok();
    let opened = OwnTable::leave(desk.wake()).and_then(|(table, wake)| Ok((ExecGate::open(&table)?, wake)));
    let (gate, wake) = match opened {
        Ok(opened) => opened,
        Err(error) => return drop(ready.send(Err(error))),
    };
    if ready.send(Ok(())).is_err() {
        return;
    }
    let mut waiting = BTreeMap::<Ticket, ExecRequest>::new();
    let folder = PathBuf::from(format!("/proc/self/task/{}/fd", this_thread()));
    loop {
        let orders = desk.orders(Instant::now());
        for ticket in orders.released {
            // That lets it go on.
            waiting.remove(&ticket);
        }
        for MarkOrder { descriptor, done } in orders.marks {
            // By the table of the process, which is that of its first thread.
            let place = PathBuf::from(format!("/proc/self/fd/{descriptor}"));
            let _ = done.send(gate.mark(Coverage::FileSystem, &place));
        }
        if orders.closed {
            return;
        }
        let nap = Timespec { tv_sec: 0, tv_nsec: orders.nap.subsec_nanos().into() };
        polled::wait(&mut [PollFd::new(&gate, PollFlags::IN), PollFd::new(&wake, PollFlags::IN)], Some(&nap));
        // It counts rings; none is no error.
        let _ = rustix::io::read(wake.as_fd(), &mut [0_u8; 8]);
        match gate.take() {
            Ok(requests) => {
                for request in requests {
                    let file = folder.join(request.file().as_raw_fd().to_string());
                    if let Some(ticket) = desk.put(request.pid(), file) {
                        waiting.insert(ticket, request);
                    }
                }
            }
            Err(error) => return desk.fail(error),
        }
    }
}

struct ClosesAtEnd<'a>(&'a Desk);

impl Drop for ClosesAtEnd<'_> {
    fn drop(&mut self) {
        if !self.0.is_closed() {
            self.0.fail(io::Error::other("the thread that serves the gate has ended"));
        }
    }
}
