//! The thread that traces: takes stops of threads and what comes from the gate, and never waits for anything else.
//!
//! Whatever happens to biopsy, nobody stays held. The end of this thread detaches from all that it traces, and every
//! program that waits at the gate goes on. A stop at the delivery of a signal is only looked at, never taken: the
//! kernel then delivers the signal when we die in the middle, as if nobody had been there.

mod collect;
mod leaving;
mod stops;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use biopsy_image::ThreadSignal;
use biopsy_model::{Pid, ProcessKey, Tid};
use biopsy_sys::ptrace::wait::{self, State, Stop};
use biopsy_sys::ptrace::{self, Options};
use biopsy_sys::stop_bell::StopBell;
use rustix::event::{PollFd, PollFlags, Timespec};

use super::caught::Catch;
use super::command::{Command, Why};
use super::error::CatchError;
use super::inspector::Candidate;
use super::options::CatchOn;
use super::pending::{PendingRequests, RequestId};
use super::{CatchStatistics, Ended};
use crate::process::identity;
use crate::process::proc_root::{ProcRoot, SMALL, is_gone};
use crate::process::status::Status;
use crate::{list, polled};

/// Stops handled before what comes from the gate is looked at again.
const STOPS_AT_ONCE: usize = 256;
/// How long a process that was let through the gate may take to execute its program. It comes when the call failed.
const START_WITHIN: Duration = Duration::from_secs(2);
/// How long the threads of one process may take to come to their stops. A thread that waits for a disk takes longer, and
/// is then missing in the dump.
const COLLECT_WITHIN: Duration = Duration::from_secs(1);
/// How long a debugger waits at the gate for us to let its victim go.
const DEFER_AT_MOST: Duration = Duration::from_millis(500);
/// How often to look whether the parent is still there.
const HOUSEKEEPING: Duration = Duration::from_secs(2);
/// Longest sleep: a stop that the bell missed is found then.
const NAP: Duration = Duration::from_millis(500);
/// Sleep while something is under way.
const SHORT_NAP: Duration = Duration::from_millis(5);

/// What the thread is to do.
#[derive(Debug)]
pub(super) struct Settings {
    /// What is waited for; `None`: the one process that is followed.
    pub(super) name: Option<String>,
    pub(super) below: Option<ProcessKey>,
    pub(super) on: CatchOn,
    pub(super) hold_limit: Duration,
    pub(super) max_held: usize,
    pub(super) max_waiting: usize,
}

/// To the catcher.
#[derive(Debug)]
pub(super) enum Report {
    Caught(Box<Catch>),
    /// The process that was followed has ended, or was let go; nothing more will come.
    Ended(Ended),
    Failed(CatchError),
}

/// Where a process is on its way.
#[derive(Clone, Debug)]
enum Stage {
    /// Let through the gate; its exec is awaited.
    Starting { since: Instant, asked: bool },
    /// Traced because of what it may start.
    Passing,
    /// It is one of those that are waited for.
    Following { since: Instant },
    /// All its threads are awaited at their stops.
    Collecting { why: Why, first: Tid, until: Instant },
    /// Everything is read; a place to hold it is awaited.
    Waiting { id: u64, since: Instant },
    /// Handed out.
    Held { id: u64, since: Instant },
    /// Its threads are let go as they stop.
    Leaving,
}

#[derive(Debug)]
struct Process {
    key: ProcessKey,
    stage: Stage,
    threads: BTreeSet<Tid>,
    /// Threads that ended by themselves while it was followed.
    ended_threads: u64,
    /// The last fault that a thread stood at, also where it was passed on: other threads change meanwhile what becomes of it.
    fault: Option<(Tid, ThreadSignal)>,
}

#[derive(Clone, Copy, Debug)]
struct Traced {
    process: Pid,
    /// Where it stands, when it is kept there.
    kept: Option<Stop>,
}

/// A debugger at the gate, until its victim is free.
#[derive(Debug)]
struct Deferred {
    request: RequestId,
    victim: Pid,
    until: Instant,
}

/// Programs that are about to start.
#[derive(Debug)]
struct Gate {
    pending: Arc<PendingRequests>,
    candidates: Receiver<Candidate>,
}

#[derive(Debug)]
pub(super) struct Engine {
    pub(super) settings: Settings,
    pub(super) bell: StopBell,
    pub(super) commands: Receiver<Command>,
    pub(super) reports: Sender<Report>,
    pub(super) statistics: Arc<Mutex<CatchStatistics>>,
    gate: Option<Gate>,
    options: Options,
    /// Children are traced too.
    follows_children: bool,
    processes: BTreeMap<Pid, Process>,
    threads: BTreeMap<Tid, Traced>,
    /// Catches that are ready and have no place yet.
    queue: VecDeque<Box<Catch>>,
    deferred: Vec<Deferred>,
    next_id: u64,
    /// Nothing more is caught; what is at its end is handed out.
    closing: bool,
    finishing: bool,
    housekeeping: Instant,
    /// How the one that is followed ended.
    last_end: Option<i32>,
}

impl Engine {
    pub(super) fn new(
        settings: Settings,
        bell: StopBell,
        commands: Receiver<Command>,
        reports: Sender<Report>,
        statistics: Arc<Mutex<CatchStatistics>>,
    ) -> Self {
        Self {
            settings,
            bell,
            commands,
            reports,
            statistics,
            gate: None,
            options: Options::SYSGOOD | Options::CLONE | Options::EXEC | Options::EXIT,
            follows_children: false,
            processes: BTreeMap::new(),
            threads: BTreeMap::new(),
            queue: VecDeque::new(),
            deferred: Vec::new(),
            next_id: 1,
            closing: false,
            finishing: false,
            housekeeping: Instant::now() + HOUSEKEEPING,
            last_end: None,
        }
    }

    /// Catches at the gate.
    pub(super) fn with_gate(
        mut self,
        pending: Arc<PendingRequests>,
        candidates: Receiver<Candidate>,
    ) -> Self {
        self.gate = Some(Gate { pending, candidates });
        self
    }

    /// Catches what a process and its descendants start. Must be called on the thread that will run.
    pub(super) fn trace_tree(&mut self, parent: &ProcessKey) -> Result<(), CatchError> {
        self.options = self.options | Options::FORK | Options::VFORK;
        self.follows_children = true;
        identity::check_same(parent)?;
        let root = ProcRoot::live();
        self.seize_process(parent, Stage::Passing)?;
        // What it has started before. Children that appear from now on are traced from their birth.
        let tree = list::tree_pids(&root, parent.pid).unwrap_or_else(|error| {
            self.note(format!("what is started by processes that are there already is not seen: {error}"));
            Vec::new()
        });
        for pid in tree {
            if self.processes.contains_key(&pid) {
                continue;
            }
            // One that cannot be traced (a debugger's, an ending one) is left alone.
            if let Some(key) = identity::key_of(&root, pid)
                && let Err(error) = self.seize_process(&key, Stage::Passing)
            {
                self.note(format!("what process {pid} starts is not seen: {error}"));
            }
        }
        Ok(())
    }

    /// Follows one process. Must be called on the thread that will run.
    pub(super) fn trace_process(&mut self, key: &ProcessKey) -> Result<(), CatchError> {
        identity::check_same(key)?;
        self.seize_process(key, Stage::Following { since: Instant::now() })
    }

    /// Seizes all threads, until none is left that is not ours. None of them is stopped.
    fn seize_process(&mut self, key: &ProcessKey, stage: Stage) -> Result<(), CatchError> {
        let pid = key.pid;
        let process = ProcRoot::live().process(pid).map_err(|source| CatchError::Refused { pid, source })?;
        let mut threads = BTreeSet::new();
        let mut refused = None;
        loop {
            // One that has ended has none, which is told below.
            let listed = match process.tids(list::MAX_THREADS) {
                Ok(listed) => listed,
                Err(error) if is_gone(&error) => Vec::new(),
                Err(source) if threads.is_empty() => return Err(CatchError::Refused { pid, source }),
                Err(error) => {
                    self.note(format!("some threads of process {pid} may be missed: {error}"));
                    break;
                }
            };
            let new: Vec<Tid> = listed.into_iter().filter(|tid| !self.threads.contains_key(tid)).collect();
            let mut seized = 0;
            for tid in new {
                match ptrace::seize(tid, self.options) {
                    Ok(()) => {
                        seized += 1;
                        threads.insert(tid);
                        self.threads.insert(tid, Traced { process: pid, kept: None });
                    }
                    // A thread that is ending, or that was traced with its creator a moment ago.
                    Err(source) => refused = Some(source),
                }
            }
            if seized == 0 {
                break;
            }
        }
        self.bell.looked();
        if threads.is_empty() {
            let status = process.read("status", SMALL).map(|text| Status::parse(&text)).unwrap_or_default();
            return Err(match status.tracer {
                0 => CatchError::Refused {
                    pid,
                    source: refused.unwrap_or_else(|| io::ErrorKind::NotFound.into()),
                },
                tracer => CatchError::Traced { pid, tracer: Pid(tracer) },
            });
        }
        self.processes
            .insert(pid, Process { key: key.clone(), stage, threads, ended_threads: 0, fault: None });
        // The pid may have been given away before we had it; we have it now, whatever it is.
        if let Err(error) = identity::check_same(key) {
            self.leave(pid);
            return Err(error.into());
        }
        Ok(())
    }

    /// Until everything is let go. Returning detaches from what is still traced.
    pub(super) fn run(mut self) {
        if let Err(error) = self.turn() {
            let _ = self.reports.send(Report::Failed(error.into()));
        }
    }

    fn turn(&mut self) -> io::Result<()> {
        loop {
            self.bell.clear();
            self.obey();
            self.take_candidates()?;
            let busy = self.look_at_stops()?;
            self.bell.looked();
            self.check_times();
            self.hand_out();
            if self.is_done() {
                return Ok(());
            }
            if !busy {
                self.sleep();
            }
        }
    }

    fn is_done(&mut self) -> bool {
        if self.finishing {
            return !self.processes.values().any(|process| matches!(process.stage, Stage::Held { .. }));
        }
        // Without a gate nothing new can come once the last traced process is gone. Those that only have to leave go on when
        // we end.
        let matters = |process: &Process| match process.stage {
            Stage::Collecting { .. } | Stage::Waiting { .. } | Stage::Held { .. } => true,
            Stage::Starting { .. } | Stage::Passing | Stage::Following { .. } | Stage::Leaving => {
                !self.closing
            }
        };
        if self.gate.is_none() && !self.processes.values().any(matters) {
            let _ = self.reports.send(Report::Ended(Ended { status: self.last_end }));
            return true;
        }
        false
    }

    fn obey(&mut self) {
        loop {
            match self.commands.try_recv() {
                Ok(Command::Release(id)) => self.release(id),
                Ok(Command::Close) => self.close(),
                Ok(Command::Finish) => self.finish(),
                Err(std::sync::mpsc::TryRecvError::Empty) => return,
                // Nobody is left who could want anything.
                Err(std::sync::mpsc::TryRecvError::Disconnected) => {
                    self.finish();
                    for id in self.held() {
                        self.release(id);
                    }
                    return;
                }
            }
        }
    }

    fn held(&self) -> Vec<u64> {
        let held = self.processes.values().filter_map(|process| match process.stage {
            Stage::Held { id, .. } => Some(id),
            _ => None,
        });
        held.collect()
    }

    /// Those at the gate that concern us; whoever is not ours has gone on.
    fn take_candidates(&mut self) -> io::Result<()> {
        loop {
            let Some(gate) = &self.gate else { return Ok(()) };
            if let Some(error) = gate.pending.failure() {
                return Err(error);
            }
            let Ok(candidate) = gate.candidates.try_recv() else { return Ok(()) };
            let pending = Arc::clone(&gate.pending);
            self.consider(candidate, &pending);
        }
    }

    /// Seizes the process that asks if it may be one of those that are waited for.
    fn consider(&mut self, candidate: Candidate, pending: &PendingRequests) {
        let Candidate { request, pid, ancestors, traces_others, wanted } = candidate;
        if self.processes.contains_key(&pid) {
            pending.allow(request);
            return;
        }
        if traces_others && let Some(&victim) = ancestors.iter().find(|pid| self.processes.contains_key(pid))
        {
            self.note(format!("process {victim} is let go: it starts a program that traces it"));
            self.leave(victim);
            let until = Instant::now() + DEFER_AT_MOST;
            pending.extend(request, until);
            self.deferred.push(Deferred { request, victim, until });
            return;
        }
        let Some(key) = wanted else {
            pending.allow(request);
            return;
        };
        // Only one that still waits: later in its call, the kernel holds a lock (`cred_guard_mutex`) that seizing needs.
        if !pending.holds(request) {
            self.miss(format!("process {pid} was let through the gate before it was held"));
            return;
        }
        // The call comes from any thread; the others end with it, if it succeeds.
        let seized = self.seize_process(&key, Stage::Starting { since: Instant::now(), asked: false });
        if !pending.allow(request) {
            self.note(format!("process {pid} was let through the gate before it was held"));
        }
        if let Err(error) = seized {
            self.miss(format!("process {pid} could not be held: {error}"));
        }
    }

    /// True: there may be more at once.
    fn look_at_stops(&mut self) -> io::Result<bool> {
        let untaken = |one: &Traced| matches!(one.kept, Some(Stop::Signal(_)));
        if self.threads.values().any(untaken) {
            // Stops that are left in place would hide the others from a look at any. Threads that are kept are looked at
            // too: SIGKILL takes them out of their stop and to the next one, at their end.
            let tids: Vec<(Tid, Option<Stop>)> =
                self.threads.iter().map(|(tid, one)| (*tid, one.kept)).collect();
            for (tid, kept) in tids {
                match wait::look(tid)? {
                    State::Stopped(stop) if kept == Some(stop) => {}
                    state => self.handle(tid, state),
                }
            }
            return Ok(false);
        }
        if self.threads.is_empty() {
            return Ok(false);
        }
        for _ in 0..STOPS_AT_ONCE {
            let Some((tid, state)) = wait::look_at_any()? else { return Ok(false) };
            self.handle(tid, state);
            // From here on, thread by thread.
            if self.threads.get(&tid).is_some_and(untaken) {
                return Ok(true);
            }
        }
        Ok(true)
    }

    fn handle(&mut self, tid: Tid, state: State) {
        match state {
            State::Running => {}
            State::Stopped(stop) => self.stopped(tid, stop),
            State::Exited(code) => {
                let _ = wait::take(tid);
                self.thread_gone(tid, Some(code << 8));
            }
            State::Killed(signal) => {
                let _ = wait::take(tid);
                self.thread_gone(tid, Some(signal));
            }
            State::Gone => self.thread_gone(tid, None),
        }
    }

    fn check_times(&mut self) {
        let now = Instant::now();
        for Deferred { request, victim, until } in std::mem::take(&mut self.deferred) {
            if now < until && self.processes.contains_key(&victim) {
                self.deferred.push(Deferred { request, victim, until });
            } else if let Some(gate) = &self.gate {
                gate.pending.allow(request);
            }
        }
        let pids: Vec<Pid> = self.processes.keys().copied().collect();
        for pid in pids {
            let Some(process) = self.processes.get_mut(&pid) else { continue };
            match &mut process.stage {
                Stage::Starting { since, asked } if now >= *since + START_WITHIN && !*asked => {
                    *asked = true;
                    for tid in &process.threads {
                        // Gone threads are reported by the wait.
                        let _ = ptrace::interrupt(*tid);
                    }
                }
                Stage::Following { since } => {
                    if let Some(after) = self.settings.on.after
                        && now >= *since + after
                        && let Some(&first) = process.threads.first()
                    {
                        self.collect(pid, first, Why::Time);
                    }
                }
                Stage::Collecting { until, .. } if now >= *until => self.collected(pid),
                Stage::Held { since, .. } | Stage::Waiting { since, .. }
                    if now >= *since + self.settings.hold_limit =>
                {
                    let text = format!("process {pid} was let go after the longest time it may be held");
                    // One that is handed out may have been copied in part: whoever has it sees that it is gone.
                    match process.stage {
                        Stage::Waiting { .. } => self.miss(text),
                        _ => self.note(text),
                    }
                    self.queue.retain(|catch| catch.key.pid != pid);
                    self.leave(pid);
                }
                _ => {}
            }
        }
        if now >= self.housekeeping {
            self.housekeeping = now + HOUSEKEEPING;
            self.keep_house();
        }
    }

    fn keep_house(&mut self) {
        if self.gate.is_none() {
            return;
        }
        if let Some(parent) = &self.settings.below
            && self.processes.is_empty()
            && !identity::is_same(parent)
        {
            let _ = self.reports.send(Report::Ended(Ended { status: None }));
            self.finish();
        }
    }

    fn sleep(&self) {
        let under_way = self.processes.values().any(|process| match process.stage {
            Stage::Passing | Stage::Held { .. } => false,
            Stage::Following { .. } => self.settings.on.after.is_some(),
            _ => true,
        });
        let nap = if under_way || !self.deferred.is_empty() { SHORT_NAP } else { NAP };
        let nap = Timespec { tv_sec: 0, tv_nsec: nap.subsec_nanos().into() };
        polled::wait(&mut [PollFd::new(&self.bell, PollFlags::IN)], Some(&nap));
    }

    fn note(&self, text: String) {
        let mut statistics = self.statistics.lock().unwrap_or_else(PoisonError::into_inner);
        statistics.add_note(text);
    }

    fn miss(&self, text: String) {
        let mut statistics = self.statistics.lock().unwrap_or_else(PoisonError::into_inner);
        statistics.missed += 1;
        statistics.add_note(text);
    }
}
