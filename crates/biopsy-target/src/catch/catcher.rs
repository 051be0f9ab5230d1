//! Catching processes that are about to start.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use biopsy_model::Pid;

use super::caught::Caught;
use super::engine::Settings;
use super::error::CatchError;
use super::gate::LaunchGate;
use super::inspector::Inspector;
use super::marks::Marks;
use super::options::{CatchOptions, Way};
use super::tracer::{Next, Tracer};
use super::{CatchStatistics, Ended};
use crate::process::identity;
use crate::process::proc_root::{ProcRoot, SMALL};
use crate::process::status::Status;

/// `CAP_SYS_PTRACE` and `CAP_SYS_ADMIN` of `linux/capability.h`.
const CAP_SYS_PTRACE: u64 = 1 << 19;
const CAP_SYS_ADMIN: u64 = 1 << 21;

/// The way that was taken, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChosenWay {
    /// [`Way::Gate`] or [`Way::Parent`].
    pub way: Way,
    /// In words.
    pub why: String,
    /// What it does not see, in words.
    pub limits: Vec<String>,
}

/// Catches processes as they start, and hands them out at the moment that was asked for.
///
/// While it lives, each execution on the marked file systems (or of the traced process's descendants) takes some ten
/// microseconds longer. Dropping it ends that, and lets go what is followed.
#[derive(Debug)]
pub struct Catcher {
    tracer: Tracer,
    chosen: ChosenWay,
    _gate: Option<LaunchGate>,
}

impl Catcher {
    /// From the moment this returns, whatever starts is caught.
    ///
    /// # Errors
    /// [`CatchError`]: no way is open, or the parent is gone, traced by a debugger, or not ours to trace.
    pub fn new(options: &CatchOptions) -> Result<Self, CatchError> {
        if let Some(parent) = &options.below {
            identity::check_same(parent)?;
        }
        let settings = || Settings {
            name: Some(options.name.clone()),
            below: options.below.clone(),
            on: options.on,
            hold_limit: options.hold_limit,
            max_held: options.max_held,
            max_waiting: options.max_waiting,
        };
        let capabilities = own_capabilities();
        let gate = match options.way {
            Way::Parent => Err("it was not asked for".to_owned()),
            Way::Automatic | Way::Gate => gate_is_possible(capabilities),
        };
        let gate = match gate {
            Ok(()) => Self::at_gate(options, settings())?,
            Err(why) => Err(why),
        };
        let gate_refused = match gate {
            Ok(catcher) => return Ok(catcher),
            Err(why) => why,
        };
        let no_way =
            |parent: &str| CatchError::NoWay { gate: gate_refused.clone(), parent: parent.to_owned() };
        if options.way == Way::Gate {
            return Err(no_way("tracing the parent was not asked for"));
        }
        let Some(parent) = options.below.clone() else {
            return Err(no_way("no parent is named that could be traced instead"));
        };
        if disarms_setuid(parent.pid) {
            return Err(CatchError::WouldDisarmSetuid { pid: parent.pid });
        }
        let chosen = ChosenWay {
            way: Way::Parent,
            why: format!(
                "process {} and all that it starts are traced, because executions cannot be held: {gate_refused}",
                parent.pid
            ),
            limits: vec!["debuggers that it starts cannot trace what is traced already".to_owned()],
        };
        let (tracer, ()) = Tracer::start(settings(), move |mut engine| {
            engine.trace_tree(&parent)?;
            Ok((engine, ()))
        })?;
        Ok(Self { tracer, chosen, _gate: None })
    }

    /// Catches at the gate; a text says why that cannot be. Whoever is asked for at a mark is served from before it is made.
    fn at_gate(options: &CatchOptions, settings: Settings) -> Result<Result<Self, String>, CatchError> {
        let (sender, candidates) = channel();
        let (name, below) = (options.name.clone(), options.below.clone());
        let (tracer, gate) = Tracer::start(settings, move |engine| {
            let inspector = Inspector { name, below, candidates: sender, bell: engine.bell.handle() };
            let gate = LaunchGate::start(inspector, Arc::clone(&engine.statistics));
            let gate = match gate {
                Ok(gate) => gate,
                Err(error) => return Ok((engine, Err(format!("permission events are refused: {error}")))),
            };
            Ok((engine.with_gate(Arc::clone(gate.pending()), candidates), Ok(gate)))
        })?;
        let gate = match gate {
            Ok(gate) => gate,
            Err(why) => {
                tracer.finish();
                return Ok(Err(why));
            }
        };
        let below = options.below.as_ref().map(|parent| parent.pid);
        let marks = match Marks::first(gate.pending(), below) {
            Ok(marks) => marks,
            Err(why) => {
                tracer.finish();
                return Ok(Err(why));
            }
        };
        let chosen = ChosenWay {
            way: Way::Gate,
            why: format!(
                "executions on {} file systems wait for biopsy (fanotify), some ten microseconds each; nothing is traced but what answers to `{}`",
                marks.marked,
                crate::printable(&options.name)
            ),
            limits: marks.refused.clone(),
        };
        marks.watch(gate.pending(), below)?;
        Ok(Ok(Self { tracer, chosen, _gate: Some(gate) }))
    }

    /// The way that was taken, and why.
    #[must_use]
    pub fn chosen(&self) -> &ChosenWay {
        &self.chosen
    }

    /// The next process that is held, or `None` when there was none within `timeout`.
    ///
    /// # Errors
    /// [`CatchError::Ended`] when nothing more can come: the parent is gone, and everything below it.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<Caught>, CatchError> {
        match self.tracer.next(timeout)? {
            Next::Caught(caught) => Ok(Some(*caught)),
            Next::Nothing => Ok(None),
            Next::Ended(Ended { .. }) => Err(CatchError::Ended),
        }
    }

    /// What it has cost and missed so far.
    #[must_use]
    pub fn statistics(&self) -> CatchStatistics {
        self.tracer.statistics()
    }

    /// Catches nothing more. What stands at its end by now is still handed out by [`Catcher::next`], and then that says
    /// [`CatchError::Ended`]; what runs goes on, untraced.
    pub fn close(&self) {
        self.tracer.close();
    }

    /// Ends it and waits until everything is let go; processes that are held are waited for.
    pub fn finish(self) {
        self.tracer.finish();
    }
}

pub(super) fn gate_is_possible(capabilities: u64) -> Result<(), String> {
    if capabilities & CAP_SYS_ADMIN == 0 {
        return Err("permission events need CAP_SYS_ADMIN".to_owned());
    }
    if capabilities & CAP_SYS_PTRACE == 0 {
        return Err("following other users' processes needs CAP_SYS_PTRACE".to_owned());
    }
    // Before 6.8 the kernel asks us while it holds the lock that seizing needs (`bprm_execve` in `fs/exec.c`).
    if !kernel_is_at_least(6, 8) {
        return Err("a process can be held while it executes from Linux 6.8 on".to_owned());
    }
    Ok(())
}

fn kernel_is_at_least(major: u32, minor: u32) -> bool {
    let release = ProcRoot::live().text("proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release
        .split(|character: char| !character.is_ascii_digit())
        .map_while(|part| part.parse::<u32>().ok());
    numbers.next().zip(numbers.next()).is_some_and(|running| running >= (major, minor))
}

pub(super) fn own_capabilities() -> u64 {
    let status = ProcRoot::live().myself().and_then(|process| process.read("status", SMALL));
    status.map_or(0, |text| Status::parse(&text).capabilities)
}

/// Whether the process loses something by being traced by us: a setuid program that is executed under a tracer without
/// CAP_SYS_PTRACE runs without its rights. One that cannot get any (`no_new_privs`) loses nothing.
#[must_use]
pub fn disarms_setuid(pid: Pid) -> bool {
    own_capabilities() & CAP_SYS_PTRACE == 0 && !is_without_new_privileges(pid)
}

fn is_without_new_privileges(pid: Pid) -> bool {
    let status = ProcRoot::live().process(pid).and_then(|process| process.read("status", SMALL));
    status.is_ok_and(|text| Status::parse(&text).no_new_privileges)
}
