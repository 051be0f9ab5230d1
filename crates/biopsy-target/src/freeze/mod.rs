//! Frozen copies of living processes: all memory of one moment, for a pause of milliseconds.
//!
//! The process forks, on our behalf and without knowing: one of its threads is stopped and led through one system call
//! (`clone`, with no signal at the end), and the child that comes of it never runs an instruction. It is
//! the frozen memory, shared with the process page by page until the process writes. Whatever moment biopsy is killed
//! at, the kernel lets all threads go on exactly where they were; the design note `docs/design/07-freeze.md` shows why,
//! state by state.

mod areas;
mod child;
mod choose;
mod collapse;
mod copy;
mod facts;
mod frame;
mod frozen;
mod gadgets;
mod headroom;
mod holder;
mod inject;
mod kept;
mod middle;
mod namespaces;
mod place;
mod plan;
mod prepared;
mod reap;
mod restart;
pub mod seccomp;
mod stack;
mod stop;
mod thawed;
mod tree;
mod types;
mod under_way;
mod watchdog;

pub use collapse::{CollapseReport, collapse};
pub use facts::read_process_facts;
pub use frozen::FrozenProcess;
pub use headroom::{Headroom, LimitedBy, MemoryGauge, own_headroom};
pub(crate) use kept::{KeptMemory, PreparedCopy};
pub use plan::{Costs, plan, predict_collapse, predict_fork};
pub(crate) use restart::restarted;
pub use types::{
    FreezeError, FreezeOptions, FreezePlan, FreezeWarning, Method, Pause, ProcessPlan, ReleaseReport, Stage,
    StageHook,
};

pub use under_way::end_all;

use biopsy_model::Pid;
use holder::Holder;
use prepared::Prepared;
use under_way::UnderWay;

use crate::list::tree_pids;
use crate::process::proc_root::{ProcRoot, SMALL};
use crate::process::stat::Stat;

/// Freezes the processes of a plan, all in one window: all stop, parents before children; all fork; all run on.
///
/// # Errors
/// The first thing that stood in the way. Then all processes run on as before.
pub fn freeze(plan: FreezePlan, options: &FreezeOptions) -> Result<Vec<FrozenProcess>, FreezeError> {
    if !cfg!(target_arch = "x86_64") {
        return Err(FreezeError::Architecture { architecture: std::env::consts::ARCH });
    }
    let mut plan = plan;
    let mut copied = Vec::new();
    loop {
        let error = match freeze_as_planned(plan.clone(), options) {
            Ok(mut frozen) => {
                for (pid, why) in copied {
                    if let Some(one) = frozen.iter_mut().find(|one| one.key().pid == pid) {
                        one.add_warning(FreezeWarning::CopiedInstead { pid, why });
                    }
                }
                return Ok(frozen);
            }
            Err(error) => said_of_the_dead(&plan, error),
        };
        // What only a stopped thread tells: its filters, its stack. Each round turns one fork into a copy.
        let (FreezeError::NoSafeThread { pid, .. }
        | FreezeError::NoGadget { pid, .. }
        | FreezeError::ForkRefused { pid, .. }) = error
        else {
            return Err(error);
        };
        match plan::without_fork(&plan, pid, &error.to_string(), options) {
            Some(other) => {
                plan = other;
                copied.push((pid, error.to_string()));
            }
            None => return Err(error),
        }
    }
}

/// Whatever step failed because the process was gone by then: that it has ended is what there is to say.
fn said_of_the_dead(plan: &FreezePlan, error: FreezeError) -> FreezeError {
    let of = error.pid().and_then(|pid| plan.processes.iter().find(|process| process.key.pid == pid));
    match of {
        Some(process) if !crate::is_same(&process.key) => FreezeError::Ended { pid: process.key.pid },
        _ => error,
    }
}

fn freeze_as_planned(plan: FreezePlan, options: &FreezeOptions) -> Result<Vec<FrozenProcess>, FreezeError> {
    let pid = plan.processes.first().map_or(Pid(0), |process| process.key.pid);
    let under_way = UnderWay::begin().ok_or(FreezeError::Ending { pid })?;
    let mut prepared: Vec<Prepared> = Vec::new();
    for process in plan.processes {
        match prepare(process, options) {
            Ok(ready) => prepared.push(ready),
            Err(error) => {
                prepared.iter_mut().for_each(Prepared::undo);
                return Err(error);
            }
        }
    }
    let (holder, frozen) = Holder::start(prepared, options.clone(), under_way)?;
    // Should one fail, dropping the others and the holder releases all of them.
    let mut all = frozen
        .into_iter()
        .enumerate()
        .map(|(index, one)| FrozenProcess::new(one, index, &holder))
        .collect::<Result<Vec<FrozenProcess>, FreezeError>>()?;
    if all.len() > 1 {
        warn_of_the_unborn(&mut all);
    }
    Ok(all)
}

/// Of a tree, names processes below the first one that nobody planned for: they were born since.
fn warn_of_the_unborn(all: &mut [FrozenProcess]) {
    let root = ProcRoot::live();
    let known: Vec<Pid> = all.iter().flat_map(|one| [Some(one.key().pid), one.child()]).flatten().collect();
    let Some(first) = all.first_mut() else { return };
    let tree = match tree_pids(&root, first.key().pid) {
        Ok(tree) => tree,
        Err(error) => {
            let (what, why) = ("whether processes were born meanwhile", error.to_string());
            first.add_warning(FreezeWarning::NotKnown { pid: first.key().pid, what, why });
            return;
        }
    };
    for pid in tree {
        let line = root.process(pid).and_then(|process| process.read("stat", SMALL)).ok();
        let lives = line.and_then(|line| Stat::parse(&line)).is_some_and(|stat| !stat.is_zombie());
        if lives && !known.contains(&pid) {
            first.add_warning(FreezeWarning::BornMeanwhile { pid });
        }
    }
}

fn prepare(process: ProcessPlan, options: &FreezeOptions) -> Result<Prepared, FreezeError> {
    let pid = process.key.pid;
    let copy: Option<Box<dyn PreparedCopy>> = match process.method {
        Method::CopyOnWrite => None,
        Method::StopAndCopy => Some(copy::prepare(&process, options)?),
        Method::Refused => return Err(FreezeError::Refused { pid, why: process.why }),
    };
    Prepared::new(process, copy)
}
