//! The thread that holds frozen children. The kernel ties a tracer to a thread: everything that is asked of the kernel for
//! one freeze is asked from here, and when this thread ends, for whatever reason, the kernel lets go of all it holds.
//!
//! Two things it does all the time, also while it is busy with a release: threads that stop late are let go, and the copy of
//! a process that has ended is ended with it. Whoever starts that process anew must not find its memory taken, its locks
//! held, or its service still stopping because a process of it is left.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Duration;

use biopsy_image::Mapping;
use biopsy_model::{Pid, ProcessKey};
use biopsy_sys::pidfd::PidFd;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};

use super::child::{self, Child};
use super::gadgets::{self, Gadgets};
use super::prepared::Prepared;
use super::reap;
use super::stop::{StoppedThread, Threads};
use super::tree::{Back, Held, freeze_together};
use super::under_way::{UnderWay, is_ending};
use super::{
    FreezeError, FreezeOptions, FreezeWarning, KeptMemory, Pause, ProcessPlan, ReleaseReport, Stage,
};
use crate::address_space::{ProcessMemory, read_mappings};
use crate::polled;
use crate::process::identity::is_same;

/// How often threads that had not stopped are looked at.
const LATE: Duration = Duration::from_millis(1);
/// How often it is looked whether a process has executed another program, where its copy shares its open files.
const WATCHED: Duration = Duration::from_millis(5);
/// How often it is looked whether the program is ending.
const ENDING: Duration = Duration::from_millis(20);

/// The caller's end.
#[derive(Debug)]
pub(super) struct Holder {
    /// Dropped first: then the thread is woken, and sees that nobody will order anything any more.
    orders: Option<Sender<Order>>,
    bell: Arc<OwnedFd>,
}

enum Order {
    /// End the frozen child of this process and remove it.
    Release(usize, Sender<ReleaseReport>),
}

/// What the window brought for one process.
pub(super) struct Frozen {
    pub(super) plan: ProcessPlan,
    pub(super) memory: Arc<ProcessMemory>,
    pub(super) mappings: Vec<Mapping>,
    pub(super) child: Option<Pid>,
    /// Set before the child is ended because the process has ended.
    pub(super) ended: Arc<AtomicBool>,
    pub(super) kept: Option<Box<dyn KeptMemory>>,
    pub(super) threads: Vec<StoppedThread>,
    pub(super) pause: Pause,
    pub(super) warnings: Vec<FreezeWarning>,
}

/// What is held of one process.
struct Hold {
    key: ProcessKey,
    child: Option<Child>,
    /// The process, while there is a child of it; `None`: pidfd_open is not to be had, and it is looked at now and then.
    process: Option<PidFd>,
    /// Its end has ended the child.
    ended: Arc<AtomicBool>,
    shares_files: bool,
    memory: Arc<ProcessMemory>,
    gadgets: Option<Gadgets>,
    late: Vec<Threads>,
}

impl Holder {
    /// Freezes, on a new thread that holds what comes of it.
    pub(super) fn start(
        prepared: Vec<Prepared>,
        options: FreezeOptions,
        under_way: UnderWay,
    ) -> Result<(Arc<Self>, Vec<Frozen>), FreezeError> {
        let pid = prepared.first().map_or(Pid(0), Prepared::pid);
        let (orders, inbox) = channel();
        let (result, outcome) = channel();
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| FreezeError::step(pid, "making an eventfd")(error.into()))?;
        let bell = Arc::new(bell);
        let rings = Arc::clone(&bell);
        std::thread::Builder::new()
            .name("biopsy-freeze".to_owned())
            .spawn(move || {
                let _under_way = under_way;
                run(prepared, &options, &result, &inbox, &rings);
            })
            .map_err(FreezeError::step(pid, "starting a thread"))?;
        let ended = |_| FreezeError::step(pid, "freezing")(io::Error::other("the freezing thread panicked"));
        let frozen = outcome.recv().map_err(ended)??;
        Ok((Arc::new(Self { orders: Some(orders), bell }), frozen))
    }

    /// Ends the frozen child of this process and removes it from the process. The second time, nothing is left to do.
    pub(super) fn release(&self, index: usize) -> ReleaseReport {
        let (answer, report) = channel();
        let Some(orders) = &self.orders else { return ReleaseReport::default() };
        if orders.send(Order::Release(index, answer)).is_err() {
            return ReleaseReport::default();
        }
        self.ring();
        report.recv().unwrap_or_default()
    }

    fn ring(&self) {
        // EAGAIN: it has been rung 2^64 times and not heard.
        let _ = rustix::io::write(&*self.bell, &1_u64.to_ne_bytes());
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.orders = None;
        self.ring();
    }
}

fn run(
    prepared: Vec<Prepared>,
    options: &FreezeOptions,
    result: &Sender<Result<Vec<Frozen>, FreezeError>>,
    inbox: &Receiver<Order>,
    bell: &OwnedFd,
) {
    let at = |stage: Stage| {
        if let Some(hook) = &options.at_stage {
            (hook.0)(stage);
        }
    };
    let held = match freeze_together(prepared, options) {
        Ok(held) => held,
        Err((error, back)) => {
            let mut holds: Vec<Hold> = back.into_iter().map(Hold::of_none).collect();
            release_all(&mut holds, &at);
            // Nobody listens any more: then nobody waits.
            let _ = result.send(Err(error));
            return;
        }
    };
    let mut holds = Vec::new();
    let mut frozen = Vec::new();
    for one in held {
        let Held { prepared, child, kept, threads, pause, warnings, shares_files, late } = one;
        let hold = Hold {
            key: prepared.plan.key.clone(),
            child,
            process: child.and_then(|_| PidFd::open(prepared.plan.key.pid).ok()),
            ended: Arc::default(),
            shares_files,
            memory: Arc::clone(&prepared.memory),
            gadgets: prepared.gadgets,
            late: vec![late],
        };
        frozen.push(Frozen {
            plan: prepared.plan,
            memory: prepared.memory,
            mappings: prepared.mappings,
            child: child.map(|child| child.pid),
            ended: Arc::clone(&hold.ended),
            kept,
            threads,
            pause,
            warnings,
        });
        holds.push(hold);
    }
    // When nobody takes the result any more, the orders' end is gone too, and everything is released below.
    let _ = result.send(Ok(frozen));
    serve(&mut holds, inbox, bell, &at);
}

fn serve(holds: &mut [Hold], inbox: &Receiver<Order>, bell: &OwnedFd, at: &dyn Fn(Stage)) {
    loop {
        holds.iter_mut().for_each(Hold::attend);
        match inbox.try_recv() {
            Ok(Order::Release(index, answer)) => {
                // Answered without a receiver: the caller has gone, and it is released all the same.
                let _ = answer.send(release(holds, index, at));
            }
            Err(TryRecvError::Empty) if is_ending() => break,
            Err(TryRecvError::Empty) => wait_for_any(holds, bell),
            Err(TryRecvError::Disconnected) => break,
        }
    }
    release_all(holds, at);
}

fn release_all(holds: &mut [Hold], at: &dyn Fn(Stage)) {
    for index in 0..holds.len() {
        release(holds, index, at);
    }
}

/// Releases one, and attends to the others meanwhile.
fn release(holds: &mut [Hold], index: usize, at: &dyn Fn(Stage)) -> ReleaseReport {
    let (before, rest) = holds.split_at_mut(index.min(holds.len()));
    let Some((hold, after)) = rest.split_first_mut() else { return ReleaseReport::default() };
    let mut late = std::mem::take(&mut hold.late);
    let mut idle = || {
        let_go(&mut late);
        before.iter_mut().chain(after.iter_mut()).for_each(Hold::attend);
    };
    let report = hold.release(at, &mut idle);
    hold.late.append(&mut late);
    report
}

/// Until an order comes or a process ends, or it is time to look at what cannot be waited for.
fn wait_for_any(holds: &[Hold], bell: &OwnedFd) {
    let mut waited: Vec<PollFd<'_>> = holds
        .iter()
        .filter(|hold| hold.child.is_some())
        .filter_map(|hold| Some(PollFd::from_borrowed_fd(hold.process.as_ref()?.as_fd(), PollFlags::IN)))
        .collect();
    waited.push(PollFd::new(bell, PollFlags::IN));
    let limit = if holds.iter().any(|hold| !hold.late.is_empty()) {
        LATE
    } else if holds.iter().any(Hold::must_be_looked_at) {
        WATCHED
    } else {
        ENDING
    };
    let limit = limit.try_into().ok();
    polled::wait(&mut waited, limit.as_ref());
    let mut rung = [0; 8];
    // EAGAIN: it was not rung.
    let _ = rustix::io::read(bell, &mut rung);
}

fn let_go(late: &mut Vec<Threads>) {
    late.retain_mut(|threads| threads.release_late() > 0);
}

impl Hold {
    /// Of a process that was not frozen.
    fn of_none(back: Back) -> Self {
        Self {
            key: back.prepared.plan.key,
            child: None,
            process: None,
            ended: Arc::default(),
            shares_files: false,
            memory: back.prepared.memory,
            gadgets: back.prepared.gadgets,
            late: back.late.into_iter().collect(),
        }
    }

    /// What is to be done at all times; does not wait.
    fn attend(&mut self) {
        let_go(&mut self.late);
        let Some(child) = self.child else { return };
        if !self.ended.load(Ordering::Relaxed) && self.has_ended() {
            // Before: who reads from it knows then why nothing is there.
            self.ended.store(true, Ordering::SeqCst);
            // ESRCH: it went with the process.
            let _ = biopsy_sys::ptrace::kill(child.pid);
            // Readable from now on: nothing more is to be heard from it.
            self.process = None;
        }
        if self.ended.load(Ordering::Relaxed) && child.has_ended().unwrap_or(true) {
            self.child = None;
        }
    }

    /// Whether the process has ended, or has left behind what its copy still holds for it.
    fn has_ended(&self) -> bool {
        let ended = match &self.process {
            Some(process) => process.has_exited(),
            None => !is_same(&self.key),
        };
        // Another program does not have the files that were to be closed then: the copy would keep them.
        ended || self.shares_files && !self.memory.is_there()
    }

    fn must_be_looked_at(&self) -> bool {
        self.child.is_some() && (self.process.is_none() || self.shares_files)
    }

    fn release(&mut self, at: &dyn Fn(Stage), idle: &mut dyn FnMut()) -> ReleaseReport {
        let mut report = ReleaseReport { reaped: true, ..ReleaseReport::default() };
        let own = self.child.take();
        if let Some(child) = own {
            if let Err(error) = child.end(idle) {
                let why = error.to_string();
                report.warnings.push(FreezeWarning::ZombieLeft { pid: child.pid, why });
            }
            at(Stage::ChildEnded);
        }
        // Its pid may belong to somebody else by now. Children of a process that is gone are removed by who inherits them.
        if self.gadgets.is_some() && is_same(&self.key) {
            self.reap(own, &mut report, at, idle);
        }
        if let Some(gadgets) = &mut self.gadgets {
            // The process is gone, or has executed another program: so is the stub.
            let _ = gadgets.remove_stub(&self.memory);
        }
        // Nothing more to do, should somebody ask again.
        self.gadgets = None;
        at(Stage::Reaped);
        report
    }

    /// Removes our child from the process, and those that a killed biopsy left behind.
    fn reap(
        &mut self,
        own: Option<Child>,
        report: &mut ReleaseReport,
        at: &dyn Fn(Stage),
        idle: &mut dyn FnMut(),
    ) {
        // An orphan is removed by whoever has it now.
        let own = own.filter(|child| !child.orphan);
        let mut children: Vec<Child> = own.into_iter().collect();
        let older =
            child::leftovers(self.key.pid).into_iter().filter(|one| own.is_none_or(|own| own.pid != one.pid));
        children.extend(older);
        if children.is_empty() {
            return;
        }
        if !self.memory.is_there() && !self.reopen() {
            return;
        }
        let Some(gadgets) = &self.gadgets else { return };
        let reaped = reap::reap(self.key.pid, &children, &self.memory, gadgets, at, idle);
        report.pause = reaped.pause;
        report.reaped = own.is_none_or(|own| reaped.gone.contains(&own));
        report.leftovers =
            u32::try_from(reaped.gone.iter().filter(|one| Some(**one) != own).count()).unwrap_or(0);
        let why = reaped.why.unwrap_or_else(|| "no thread of the process could do it".to_owned());
        for child in children.iter().filter(|child| !reaped.gone.contains(child)) {
            let why = why.clone();
            report.warnings.push(FreezeWarning::ZombieLeft { pid: child.pid, why });
        }
        self.late.extend(reaped.late);
    }

    /// The process has executed another program since, with other instructions at other places; its children are the same.
    fn reopen(&mut self) -> bool {
        let pid = self.key.pid;
        let Ok(memory) = ProcessMemory::open(pid) else { return false };
        let Ok(mappings) = read_mappings(pid) else { return false };
        match gadgets::find(pid, &mappings, &memory) {
            Ok(gadgets) => {
                self.gadgets = Some(gadgets);
                self.memory = Arc::new(memory);
                true
            }
            Err(_) => false,
        }
    }
}
