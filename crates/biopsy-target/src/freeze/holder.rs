//! The thread that holds frozen children. The kernel ties a tracer to a thread: everything that is asked of the kernel for
//! one freeze is asked from here, and when this thread ends, for whatever reason, the kernel lets go of all it holds.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use biopsy_image::Mapping;
use biopsy_model::{Pid, ProcessKey};

use super::child::{self, Child};
use super::gadgets::{self, Gadgets};
use super::reap;
use super::stop::{StoppedThread, Threads};
use super::tree::{Held, Prepared, freeze_together};
use super::{
    FreezeError, FreezeOptions, FreezeWarning, KeptMemory, Pause, ProcessPlan, ReleaseReport, Stage,
};
use crate::address_space::{ProcessMemory, read_mappings};
use crate::identity::is_same;

/// How often threads that had not stopped are looked at.
const LATE: Duration = Duration::from_millis(1);
/// How often it is looked whether there is anything to do, else.
const IDLE: Duration = Duration::from_secs(1);

/// The caller's end.
#[derive(Debug)]
pub(super) struct Holder {
    orders: Sender<Order>,
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
    pub(super) child: Option<u32>,
    pub(super) kept: Option<Box<dyn KeptMemory>>,
    pub(super) threads: Vec<StoppedThread>,
    pub(super) pause: Pause,
    pub(super) warnings: Vec<FreezeWarning>,
}

/// What is held of one process.
struct Hold {
    key: ProcessKey,
    child: Option<Child>,
    memory: Arc<ProcessMemory>,
    gadgets: Option<Gadgets>,
    late: Vec<Threads>,
}

impl Holder {
    /// Freezes, on a new thread that holds what comes of it.
    pub(super) fn start(
        prepared: Vec<Prepared>,
        options: FreezeOptions,
    ) -> Result<(Arc<Self>, Vec<Frozen>), FreezeError> {
        let pid = prepared.first().map_or(Pid(0), Prepared::pid);
        let (orders, inbox) = channel();
        let (result, outcome) = channel();
        std::thread::Builder::new()
            .name("biopsy-freeze".to_owned())
            .spawn(move || run(prepared, &options, &result, &inbox))
            .map_err(FreezeError::step(pid, "starting a thread"))?;
        let ended = |_| FreezeError::step(pid, "freezing")(io::Error::other("the freezing thread panicked"));
        let frozen = outcome.recv().map_err(ended)??;
        Ok((Arc::new(Self { orders }), frozen))
    }

    /// Ends the frozen child of this process and removes it from the process. The second time, nothing is left to do.
    pub(super) fn release(&self, index: usize) -> ReleaseReport {
        let (answer, report) = channel();
        if self.orders.send(Order::Release(index, answer)).is_err() {
            return ReleaseReport::default();
        }
        report.recv().unwrap_or_default()
    }
}

fn run(
    prepared: Vec<Prepared>,
    options: &FreezeOptions,
    result: &Sender<Result<Vec<Frozen>, FreezeError>>,
    inbox: &Receiver<Order>,
) {
    let at = |stage: Stage| {
        if let Some(hook) = &options.at_stage {
            (hook.0)(stage);
        }
    };
    let held = match freeze_together(prepared, options) {
        Ok(held) => held,
        Err((error, back)) => {
            for prepared in back {
                let mut hold = Hold {
                    key: prepared.plan.key,
                    child: None,
                    memory: prepared.memory,
                    gadgets: prepared.gadgets,
                    late: Vec::new(),
                };
                hold.release(&at);
            }
            // Nobody listens any more: then nobody waits.
            let _ = result.send(Err(error));
            return;
        }
    };
    let mut holds = Vec::new();
    let mut frozen = Vec::new();
    for one in held {
        let Held { prepared, child, kept, threads, pause, warnings, late } = one;
        let key = prepared.plan.key.clone();
        frozen.push(Frozen {
            plan: prepared.plan,
            memory: Arc::clone(&prepared.memory),
            mappings: prepared.mappings,
            child: child.map(|child| child.pid),
            kept,
            threads,
            pause,
            warnings,
        });
        holds.push(Some(Hold {
            key,
            child,
            memory: prepared.memory,
            gadgets: prepared.gadgets,
            late: vec![late],
        }));
    }
    // When nobody takes the result any more, the orders' end is gone too, and everything is released below.
    let _ = result.send(Ok(frozen));
    serve(&mut holds, inbox, &at);
}

fn serve(holds: &mut [Option<Hold>], inbox: &Receiver<Order>, at: &dyn Fn(Stage)) {
    loop {
        let mut late = 0;
        for hold in holds.iter_mut().flatten() {
            hold.late.retain_mut(|threads| threads.release_late() > 0);
            late += hold.late.len();
        }
        match inbox.recv_timeout(if late > 0 { LATE } else { IDLE }) {
            Ok(Order::Release(index, answer)) => {
                let hold = holds.get_mut(index).and_then(Option::take);
                let report = hold.map(|mut hold| hold.release(at)).unwrap_or_default();
                let _ = answer.send(report);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    for mut hold in holds.iter_mut().filter_map(Option::take) {
        hold.release(at);
    }
}

impl Hold {
    fn release(&mut self, at: &dyn Fn(Stage)) -> ReleaseReport {
        let mut report = ReleaseReport { reaped: true, ..ReleaseReport::default() };
        let own = self.child.take();
        if let Some(child) = own {
            if let Err(error) = child.end() {
                let why = error.to_string();
                report.warnings.push(FreezeWarning::ZombieLeft { pid: Pid(child.pid), why });
            }
            at(Stage::ChildEnded);
        }
        // Its pid may belong to somebody else by now. Children of a process that is gone are removed by who inherits them.
        if self.gadgets.is_some() && is_same(&self.key) {
            self.reap(own, &mut report, at);
        }
        if let Some(gadgets) = &mut self.gadgets {
            // The process is gone, or has executed another program: so is the stub.
            let _ = gadgets.remove_stub(&self.memory);
        }
        at(Stage::Reaped);
        report
    }

    /// Removes our child from the process, and those that a killed biopsy left behind.
    fn reap(&mut self, own: Option<Child>, report: &mut ReleaseReport, at: &dyn Fn(Stage)) {
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
        let reaped = reap::reap(self.key.pid, &children, &self.memory, gadgets, at);
        report.pause = reaped.pause;
        report.reaped = own.is_none_or(|own| reaped.gone.contains(&own));
        report.leftovers =
            u32::try_from(reaped.gone.iter().filter(|one| Some(**one) != own).count()).unwrap_or(0);
        let why = reaped.why.unwrap_or_else(|| "no thread of the process could do it".to_owned());
        for child in children.iter().filter(|child| !reaped.gone.contains(child)) {
            let why = why.clone();
            report.warnings.push(FreezeWarning::ZombieLeft { pid: Pid(child.pid), why });
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
