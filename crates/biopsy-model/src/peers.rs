//! What threads wait for beyond their own process, and which processes could end that.

use crate::{Pid, Tid};

/// A process, and those that it waits for, directly or through others, at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PeerLook {
    /// The one that was asked for first.
    pub processes: Vec<PeerProcess>,
    /// Processes that could not be looked at: the other end of something may be in one of them.
    pub hidden: u32,
}

/// One process.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PeerProcess {
    /// Which.
    pub pid: Pid,
    /// Its parent.
    pub parent: Option<Pid>,
    /// Its name.
    pub name: String,
    /// Somebody stopped it (`SIGSTOP`, `SIGTSTP`, a terminal): it does nothing until it is told to go on.
    pub stopped: bool,
    /// All its threads.
    pub threads: Vec<PeerThread>,
}

/// One thread.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PeerThread {
    /// Which.
    pub tid: Tid,
    /// Number of the system call that it is in; `None`: it runs.
    pub call: Option<u32>,
    /// The first argument of that call.
    pub argument: u64,
    /// What it waits for, where that is something that other processes end.
    pub wait: Option<PeerWait>,
}

/// A wait that somebody else ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerWait {
    /// At what.
    pub object: PeerObject,
    /// In words, as the rest of `waits for ...`: `data in the pipe of descriptor 5`.
    pub what: String,
    /// Processes of which one could end it. May be the thread's own, and none: nobody is known.
    pub helpers: Vec<Pid>,
    /// There are no others: all who have the other end were seen.
    pub all_seen: bool,
    /// It ends by itself after a time.
    pub timed: bool,
    /// The kernel says who; else it is the last one that is known to have had it.
    pub certain: bool,
    /// Bytes that were sent to the other end of a socket and that its process has not read: who waits there for an answer waits for
    /// one to what was not even looked at.
    pub unread: u64,
    /// And nobody is told of them any more: their process sleeps in an event loop that reports new bytes only.
    pub missed: bool,
}

/// What is waited at.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PeerObject {
    /// A pipe or FIFO, for data.
    PipeData,
    /// A pipe or FIFO, for room.
    PipeRoom,
    /// A socket of this machine, UNIX or TCP, for data.
    Socket,
    /// Such a socket, for room.
    SocketRoom,
    /// Any of several descriptors, as event loops do.
    Events,
    /// A lock on a file.
    FileLock,
    /// The end of a child process.
    Child,
    /// A semaphore of System V.
    Semaphore,
    /// A lock in memory that processes share.
    SharedLock,
    /// A word in memory that processes share, of which it is not known who has it: a semaphore, a condition.
    SharedWord,
    /// A futex of its own: only a thread of the same process can end that.
    Inside,
}

impl PeerLook {
    /// A process.
    #[must_use]
    pub fn process(&self, pid: Pid) -> Option<&PeerProcess> {
        self.processes.iter().find(|process| process.pid == pid)
    }
}
