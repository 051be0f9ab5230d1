//! Waits across processes, joined with those inside of one: what `/proc` said of a process and of those that it waits for, and what its
//! memory says of its locks.
//!
//! A thread that waits for another process is helped by any thread of it, since which one would do it cannot be known; so it is stuck
//! only if all of them are. Of other processes only waits that the kernel knows are known: a thread at a futex may go on, and so breaks
//! every circle through it. What was not seen (a process of another user) may help too.

use biopsy_model::peers::{PeerLook, PeerObject, PeerProcess, PeerThread, PeerWait};
use biopsy_model::{Confidence, Pid, Tid};
use rustc_hash::{FxHashMap, FxHashSet};

use super::blocked::{self, Waiting};
use super::locks::{LockKind, LockWait};
use super::state::ThreadState;
use super::strands::{Strand, StrandRuntime};
use super::threads::DumpThread;

/// Steps of a chain that are followed.
const CHAIN: usize = 32;
/// Somebody who was not seen. No thread has this number.
const UNSEEN: Tid = Tid(0);

/// What a process does that somebody stopped.
pub(crate) const STOPPED: &str = "is stopped by a signal";

/// Waits of a process for others.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Across {
    /// Circles that lead through more than one process, or through a descriptor that a process has both ends of.
    pub circles: Vec<Vec<Step>>,
    /// How sure each circle is.
    pub confidence: Vec<Confidence>,
    /// Where the chain ends that most threads of the process wait at the beginning of; only if there is no circle.
    pub chain: Option<Vec<Step>>,
    /// The last one of the chain waits for the process that was analysed.
    pub chain_returns: bool,
    /// Processes from which threads wait for answers to what these have not read.
    pub silent: Vec<SilentPeer>,
    /// Children that wait until the process reads what they write.
    pub full_pipes: Vec<FullPipe>,
    /// Threads that wait at a pipe or connection whose other end only their own process has.
    pub own_ends: Vec<OwnEnd>,
}

impl Across {
    /// Threads of a process that it is about.
    pub(crate) fn threads_of(&self, pid: Pid) -> Vec<Tid> {
        let steps = self.circles.iter().chain(&self.chain).flatten();
        let steps = steps.filter(|step| step.pid == pid).map(|step| step.tid);
        steps.chain(self.silent.iter().flat_map(|peer| peer.waiters.iter().copied())).collect()
    }
}

/// A thread that waits, without a limit that could be seen, for what only its own process could send or take.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnEnd {
    /// Which.
    pub tid: Tid,
    /// At what.
    pub object: PeerObject,
    /// What it waits for: `data in the socket of descriptor 4`.
    pub what: String,
}

/// A child that cannot write on: nobody but the process that was analysed could read what it writes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FullPipe {
    /// Which.
    pub pid: Pid,
    /// Its name.
    pub process: String,
    /// What it waits for: `room in the pipe of descriptor 1`.
    pub what: String,
}

impl FullPipe {
    /// `process 4711 (seq)`
    #[must_use]
    pub fn label(&self) -> String {
        format!("process {} ({})", self.pid, self.process)
    }
}

/// A process that does not read what it was sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SilentPeer {
    /// Which.
    pub pid: Pid,
    /// Its name.
    pub process: String,
    /// Threads of the process that was analysed that wait for its answer.
    pub waiters: Vec<Tid>,
    /// Bytes that it has not read.
    pub unread: u64,
    /// What its main thread does.
    pub does: String,
    /// One of its threads runs, or waits for data: it may be about to read.
    pub may_read: bool,
    /// It sleeps in an event loop that is not told any more of what lies there.
    pub missed: bool,
}

/// One thread of a circle or chain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// Its process.
    pub pid: Pid,
    /// Name of the process.
    pub process: String,
    /// The thread.
    pub tid: Tid,
    /// What it waits for, as the rest of `waits for ...`; empty at the end of a chain: what it does is in `does`.
    pub waits_for: String,
    /// What it does, where it waits for nobody: `sleeps`, `runs`.
    pub does: String,
    /// What kind of thing it waits at, where that is between processes.
    pub object: Option<PeerObject>,
}

struct Graph<'a> {
    look: &'a PeerLook,
    frozen: FxHashMap<Tid, &'a DumpThread>,
    /// Threads that had just come back from a system call when they were frozen.
    returned: &'a FxHashSet<Tid>,
    own: Pid,
    threads: FxHashMap<Tid, (&'a PeerProcess, &'a PeerThread)>,
    /// Threads that wait until a child ends, by what their language says, whatever the system calls for that are.
    for_child: FxHashMap<Tid, String>,
    /// For whom a thread of the runtime waits for a child.
    asks: FxHashMap<Tid, Tid>,
}

/// Joins both. `frozen`: threads of the process that was analysed, which comes first in `look`.
pub(crate) fn join(
    frozen: &[DumpThread],
    look: &PeerLook,
    strands: &[StrandRuntime],
    returned: &FxHashSet<Tid>,
) -> Across {
    let Some(own) = look.processes.first().map(|process| process.pid) else { return Across::default() };
    let all =
        look.processes.iter().flat_map(|process| process.threads.iter().map(move |thread| (process, thread)));
    let threads = all.map(|(process, thread)| (thread.tid, (process, thread))).collect();
    let graph = Graph {
        look,
        frozen: frozen.iter().map(|thread| (thread.tid, thread)).collect(),
        returned,
        own,
        threads,
        for_child: strands.iter().flat_map(waits_for_child).collect(),
        asks: strands.iter().filter_map(asks_reaper).collect(),
    };
    let waiting: Vec<Waiting> = graph
        .threads
        .iter()
        .filter_map(|(tid, (process, thread))| graph.waiting(*tid, process, thread))
        .collect();
    let mut across = Across::default();
    for circle in blocked::circles(&waiting) {
        let steps: Vec<Step> = circle.iter().filter_map(|tid| graph.step(*tid)).collect();
        // Those of locks alone are the analysis's own.
        let of_processes =
            steps.iter().any(|step| step.object.is_some_and(|object| object != PeerObject::Inside));
        if of_processes && !all_at_one_word(&steps) {
            let sure = circle.iter().map(|tid| graph.confidence(*tid)).min();
            // Two ends of a connection at rest wait for each other's data too, and so do event loops.
            let rests = |step: &Step| matches!(step.object, Some(PeerObject::Socket | PeerObject::Events));
            let sure = if steps.iter().all(rests) { Some(Confidence::Possible) } else { sure };
            across.confidence.push(sure.unwrap_or_default());
            across.circles.push(steps);
        }
    }
    across.silent = graph.silent();
    across.full_pipes = graph.full_pipes();
    across.own_ends = graph.own_ends();
    if across.circles.is_empty()
        && let Some((chain, returns)) = graph.chain()
    {
        (across.chain, across.chain_returns) = (Some(chain), returns);
    }
    across
}

impl Graph<'_> {
    /// What the thread waited for was the same when it was frozen.
    fn peer_wait<'b>(&self, thread: &'b PeerThread, process: &PeerProcess) -> Option<&'b PeerWait> {
        let wait = thread.wait.as_ref()?;
        if process.pid != self.own {
            return Some(wait);
        }
        let frozen = self.frozen.get(&thread.tid)?;
        let same =
            matches!(&frozen.state, ThreadState::InSystemCall { number, .. } if *number == thread.call);
        // To stop a thread ends a write that has written a part.
        let room = matches!(wait.object, PeerObject::PipeRoom | PeerObject::SocketRoom);
        let interrupted = room && frozen.state == ThreadState::Running && self.returned.contains(&thread.tid);
        (same || interrupted).then_some(wait)
    }

    fn lock(&self, tid: Tid, process: &PeerProcess) -> Option<&LockWait> {
        self.frozen.get(&tid).filter(|_| process.pid == self.own)?.lock.as_ref()
    }

    /// Children at a pipe that is full.
    fn full_pipes(&self) -> Vec<FullPipe> {
        let children = self.look.processes.iter().filter(|process| process.parent == Some(self.own));
        let full = children.filter_map(|child| {
            let mut waits = child.threads.iter().filter_map(|thread| thread.wait.as_ref());
            let wait = waits.find(|wait| {
                // Node gives its children sockets.
                matches!(wait.object, PeerObject::PipeRoom | PeerObject::SocketRoom)
                    && wait.all_seen
                    && !wait.timed
                    && wait.helpers == [self.own]
            })?;
            Some(FullPipe { pid: child.pid, process: child.name.clone(), what: wait.what.clone() })
        });
        full.collect()
    }

    /// Threads at pipes and connections that nobody else has the other end of, and where nothing lies that was sent.
    fn own_ends(&self) -> Vec<OwnEnd> {
        let Some(own) = self.look.process(self.own) else { return Vec::new() };
        let waits = own.threads.iter().filter_map(|thread| {
            let wait = self.peer_wait(thread, own)?;
            let blocks = match wait.object {
                PeerObject::PipeRoom | PeerObject::SocketRoom => true,
                // read, readv, recvfrom, recvmsg
                PeerObject::Socket | PeerObject::PipeData => {
                    matches!(thread.call, Some(0 | 19 | 45 | 47))
                }
                _ => false,
            };
            let alone = wait.all_seen && !wait.timed && wait.unread == 0 && wait.helpers == [self.own];
            (blocks && alone).then(|| OwnEnd {
                tid: thread.tid,
                object: wait.object,
                what: wait.what.clone(),
            })
        });
        waits.collect()
    }

    /// Who has not read what this process sent, and is waited for.
    fn silent(&self) -> Vec<SilentPeer> {
        let mut silent: Vec<SilentPeer> = Vec::new();
        let Some(own) = self.look.process(self.own) else { return silent };
        for thread in &own.threads {
            let wait = self
                .peer_wait(thread, own)
                .filter(|wait| wait.unread > 0 && wait.object == PeerObject::Socket);
            // Behind a socket that several have, it is not known who should read.
            let Some((wait, [peer])) = wait.map(|wait| (wait, wait.helpers.as_slice())) else { continue };
            // What a process sends to itself it may read later by any of its threads, unless all of them sleep and are not told.
            let Some(process) = self.look.process(*peer).filter(|peer| peer.pid != self.own || wait.missed)
            else {
                continue;
            };
            if let Some(known) = silent.iter_mut().find(|known| known.pid == process.pid) {
                known.waiters.push(thread.tid);
                known.unread += wait.unread;
                known.missed &= wait.missed;
                continue;
            }
            let main = process.threads.first().and_then(|main| self.step(main.tid));
            let may_read = !wait.missed && process.threads.iter().any(may_read);
            silent.push(SilentPeer {
                pid: process.pid,
                process: process.name.clone(),
                waiters: vec![thread.tid],
                unread: wait.unread,
                does: main.map_or(String::new(), |main| main.does),
                may_read,
                missed: wait.missed,
            });
        }
        silent
    }

    fn waiting(&self, tid: Tid, process: &PeerProcess, thread: &PeerThread) -> Option<Waiting> {
        // What its lock says is known better than that it waits inside.
        let has_lock = || self.lock(tid, process).is_some_and(|lock| !lock.known_holders().is_empty());
        if let Some(wait) =
            self.peer_wait(thread, process).filter(|wait| wait.object != PeerObject::Inside || !has_lock())
        {
            let of = |pid: &Pid| self.look.process(*pid).into_iter().flat_map(|process| &process.threads);
            // Its own process may help too, by another thread; circles lead through others where there are any.
            let alone = !matches!(wait.object, PeerObject::Inside | PeerObject::Events)
                && wait.helpers.iter().all(|pid| *pid == process.pid);
            let (own, others): (Vec<&Pid>, Vec<&Pid>) =
                wait.helpers.iter().partition(|pid| **pid == process.pid && !alone);
            let for_threads: Vec<Tid> = others.into_iter().flat_map(of).map(|thread| thread.tid).collect();
            let mut perhaps: Vec<Tid> =
                own.into_iter().flat_map(of).map(|thread| thread.tid).filter(|other| *other != tid).collect();
            // A process that was not followed helps like one that was not seen.
            let followed = wait.helpers.iter().all(|pid| self.look.process(*pid).is_some());
            if !wait.all_seen || !followed {
                perhaps.push(UNSEEN);
            }
            return Some(Waiting {
                thread: tid,
                for_threads,
                perhaps,
                any_is_enough: true,
                timed: wait.timed,
                closed: wait.all_seen && followed,
            });
        }
        let lock = self.lock(tid, process)?;
        let holders = lock.known_holders();
        let known = holders.iter().filter(|holder| holder.confidence > Confidence::Possible);
        let maybe = holders
            .iter()
            .filter(|holder| lock.kind.any_is_enough() && holder.confidence == Confidence::Possible);
        Some(Waiting {
            thread: tid,
            for_threads: known.map(|holder| holder.thread).collect(),
            perhaps: maybe.map(|holder| holder.thread).collect(),
            any_is_enough: lock.kind.any_is_enough(),
            timed: lock.timed,
            closed: false,
        })
    }

    fn confidence(&self, tid: Tid) -> Confidence {
        let Some((process, thread)) = self.threads.get(&tid) else { return Confidence::Possible };
        match self.peer_wait(thread, process) {
            Some(wait) if wait.certain => Confidence::Certain,
            Some(_) => Confidence::VeryLikely,
            None => self
                .frozen
                .get(&tid)
                .and_then(|thread| thread.lock.as_ref())
                .map_or(Confidence::Possible, |lock| {
                    lock.known_holders().iter().map(|holder| holder.confidence).min().unwrap_or_default()
                }),
        }
    }

    fn step(&self, tid: Tid) -> Option<Step> {
        let (process, thread) = self.threads.get(&tid)?;
        let own = self.frozen.get(&tid).filter(|_| process.pid == self.own);
        let peer = self.peer_wait(thread, process);
        let lock =
            own.and_then(|thread| thread.lock.as_ref()).filter(|lock| !lock.known_holders().is_empty());
        let child = self.for_child.get(&tid).filter(|_| own.is_some() && peer.is_some());
        let waits_for = match (peer, lock) {
            (Some(_), _) if child.is_some() => {
                format!("the end of a child process (`{}`)", child.map_or("", String::as_str))
            }
            (Some(PeerWait { object: PeerObject::Inside, .. }), Some(lock)) => lock.what(),
            // Nobody of its own process is left: a lock that somebody had when it was forked looks so.
            (Some(PeerWait { object: PeerObject::Inside, .. }), None) if process.threads.len() == 1 => {
                "a lock or condition that no other thread of its process could give: it has one thread"
                    .to_owned()
            }
            (Some(wait), _) => wait.what.clone(),
            (None, Some(lock)) if lock.kind == LockKind::Join => "the end of a thread".to_owned(),
            (None, Some(lock)) => lock.what(),
            (None, None) => String::new(),
        };
        let does = match (own, thread.call) {
            _ if process.stopped && process.pid != self.own => STOPPED.to_owned(),
            (Some(thread), _) => thread.words(),
            (None, None) => "runs".to_owned(),
            (None, Some(number)) => crate::syscalls::name("x86_64", number)
                .map_or_else(|| format!("is in system call {number}"), doing),
        };
        Some(Step {
            pid: process.pid,
            process: process.name.clone(),
            // Whoever asked stands in the program.
            tid: self.asks.get(&tid).copied().unwrap_or(tid),
            waits_for,
            does,
            object: peer.map(|wait| if child.is_some() { PeerObject::Child } else { wait.object }),
        })
    }

    /// From a thread of the process that waits for another one, to the end. Idle servers wait for data of clients all the time: a chain
    /// begins at what somebody has, or at a child.
    fn chain(&self) -> Option<(Vec<Step>, bool)> {
        let begins = |wait: &&PeerWait| {
            matches!(
                wait.object,
                PeerObject::FileLock
                    | PeerObject::Child
                    | PeerObject::Semaphore
                    | PeerObject::SharedLock
                    | PeerObject::PipeRoom
            )
        };
        let process = self.look.process(self.own)?;
        let start = process.threads.iter().find(|thread| {
            let wait = self.peer_wait(thread, process);
            let begins = |wait: &&PeerWait| {
                begins(wait) || self.for_child.contains_key(&thread.tid) || self.only_kept_open(wait)
            };
            wait.filter(begins).is_some_and(|wait| !wait.helpers.is_empty())
        });
        // Who waits for another process says more.
        let start =
            start.or_else(|| process.threads.iter().find(|thread| self.has_end_itself(thread.tid)))?;
        let (mut chain, mut seen) = (Vec::new(), FxHashSet::default());
        let mut returns = false;
        let mut at = start.tid;
        for _ in 0..CHAIN {
            if !seen.insert(at) {
                break;
            }
            chain.push(self.step(at)?);
            let (process, thread) = self.threads.get(&at)?;
            let wait = self.peer_wait(thread, process);
            returns = process.pid != self.own && wait.is_some_and(|wait| wait.helpers.contains(&self.own));
            let next =
                wait.and_then(|wait| wait.helpers.iter().find(|pid| **pid != process.pid)).and_then(|pid| {
                    let helper = self.look.process(*pid)?;
                    // The thread that waits itself leads further; else the main thread.
                    helper
                        .threads
                        .iter()
                        .find(|thread| {
                            thread.wait.as_ref().is_some_and(|wait| wait.object != PeerObject::Inside)
                        })
                        .or_else(|| helper.threads.first())
                });
            match next {
                Some(next) => at = next.tid,
                None => break,
            }
        }
        // What the process has itself, by another descriptor, is the end as well.
        let own = chain.len() == 1 && self.has_end_itself(start.tid);
        (chain.len() > 1 || own).then_some((chain, returns))
    }

    /// It waits for a lock on a file, or for what comes out of a pipe, and nobody but its own process has that lock or the writing end.
    fn has_end_itself(&self, tid: Tid) -> bool {
        let Some((process, thread)) = self.threads.get(&tid) else { return false };
        let wait = self.peer_wait(thread, process);
        wait.is_some_and(|wait| {
            let known = match wait.object {
                PeerObject::FileLock => true,
                PeerObject::PipeData => wait.all_seen && !wait.timed && self.may_wait_for_an_end(thread),
                _ => false,
            };
            known && wait.helpers == [process.pid]
        })
    }

    /// It reads in a call that only data or an end of the pipe ends. Event loops sleep at pipes by which their own threads wake them,
    /// and so do the threads of .NET that serve signals and the diagnostics port.
    fn may_wait_for_an_end(&self, thread: &PeerThread) -> bool {
        // read, readv
        let reads = thread.call.is_some_and(|call| matches!(call, 0 | 19));
        let is_managed = |thread: &&DumpThread| thread.managed.is_some();
        let of_program =
            self.frozen.get(&thread.tid).is_some_and(is_managed) || !self.frozen.values().any(is_managed);
        reads && of_program
    }

    /// Data of a pipe whose writing end nobody has but children (or processes that their parent left) that do nothing: they inherited it.
    fn only_kept_open(&self, wait: &PeerWait) -> bool {
        // pause, nanosleep, wait4, rt_sigtimedwait, rt_sigsuspend, clock_nanosleep, waitid
        const NOTHING: [u32; 7] = [34, 35, 61, 128, 130, 230, 247];
        let does_nothing = |thread: &PeerThread| thread.call.is_some_and(|call| NOTHING.contains(&call));
        let keeps = |pid: &Pid| {
            self.look.process(*pid).is_some_and(|process| {
                let child = matches!(process.parent, Some(parent) if parent == self.own || parent == Pid(1));
                child && process.pid != self.own && process.threads.iter().all(does_nothing)
            })
        };
        wait.object == PeerObject::PipeData && wait.all_seen && wait.helpers.iter().all(keeps)
    }
}

/// All of them wait at one and the same word that processes share: as workers do that wait for work.
fn all_at_one_word(steps: &[Step]) -> bool {
    let Some(first) = steps.first() else { return false };
    steps.iter().all(|step| step.object == Some(PeerObject::SharedWord) && step.waits_for == first.waits_for)
}

/// It runs, or is in a call that reads.
fn may_read(thread: &PeerThread) -> bool {
    // read, poll, readv, select, recvfrom, recvmsg, epoll_wait, pselect6, ppoll, epoll_pwait, recvmmsg, io_uring_enter
    thread.call.is_none_or(|call| {
        matches!(call, 0 | 7 | 19 | 23 | 45 | 47 | 232 | 270 | 271 | 281 | 299 | 426 | 441)
    })
}

/// Threads whose language says that they wait for a child, in which function. Node waits for it in an event loop of its own.
fn waits_for_child(runtime: &StrandRuntime) -> Vec<(Tid, String)> {
    let of = |strand: &Strand| {
        let frame = strand.frames.iter().find(|frame| {
            let of_library = frame.file.as_deref().is_some_and(|file| file.contains("child_process"));
            of_library && frame.function.ends_with("Sync")
        });
        Some((strand.tid?, frame?.function.to_string()))
    };
    runtime.runtime.strands.iter().filter_map(of).collect()
}

/// Java waits for a child in a thread that reaps it, which wakes the one who asked: both, where there is one of each.
fn asks_reaper(runtime: &StrandRuntime) -> Option<(Tid, Tid)> {
    const REAPS: &[&str] = &["java.lang.ProcessHandleImpl.waitForProcessExit0"];
    const ASKS: &[&str] = &["java.lang.ProcessImpl.waitFor", "java.lang.Process.waitFor"];
    let only = |names: &[&str]| {
        let stands = |strand: &&Strand| strand.frames.iter().any(|frame| names.contains(&&*frame.function));
        let mut all = runtime.runtime.strands.iter().filter(stands);
        let first = all.next()?.tid;
        first.filter(|_| all.next().is_none())
    };
    Some((only(REAPS)?, only(ASKS)?))
}

/// `sleeps`, for the calls that chains end in for the most part.
fn doing(call: &'static str) -> String {
    match call {
        "nanosleep" | "clock_nanosleep" => "sleeps".to_owned(),
        "futex" => "waits at a futex".to_owned(),
        "read" | "recvfrom" | "recvmsg" => "waits for data".to_owned(),
        "write" | "sendto" | "sendmsg" => "writes".to_owned(),
        "accept" | "accept4" => "waits for a connection".to_owned(),
        "epoll_wait" | "epoll_pwait" | "poll" | "ppoll" | "select" | "pselect6" => {
            "waits for events".to_owned()
        }
        "wait4" | "waitid" => "waits for a child".to_owned(),
        "pause" | "rt_sigtimedwait" | "rt_sigsuspend" => "waits for a signal".to_owned(),
        other => format!("is in `{other}`"),
    }
}

#[cfg(test)]
mod tests;
