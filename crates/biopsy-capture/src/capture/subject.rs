//! Whom to record: found by name, or started here.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

use biopsy_dotnet_ipc::ReversePort;
use biopsy_model::Pid;
use biopsy_model::process::ProcessInfo;
use biopsy_record::trace::CountedProgram;
use biopsy_sys::launch::Held;
use biopsy_target::{Status, Wanted, preflight};

use crate::failure::{Failure, FailureKind};
use crate::job::{Event, Job};
use crate::place::Place;
use crate::target::{self, Target};

use super::plan::{CapturePlan, HeldProcess, Whom};
use super::runtimes;

/// How long a process may take to execute its program once nobody holds it.
const EXECUTES: Duration = Duration::from_secs(2);

/// The process that is recorded.
#[derive(Debug)]
pub(super) struct Subject {
    pub(super) target: Target,
    /// It waits to be released into its program.
    pub(super) held: Option<Waiting>,
    /// Where runtimes of what is started connect to.
    pub(super) port: Option<ReversePort>,
    /// What is started counts its allocations.
    pub(super) counted: Option<CountedProgram>,
}

/// A process before its first instruction.
#[derive(Debug)]
pub(super) enum Waiting {
    /// Forked by us.
    Forked(Held),
    /// In its call of execve, until whoever reads this has a byte; and what it is until then.
    AtGate(Arc<OwnedFd>, Box<ProcessInfo>),
}

impl Subject {
    /// Finds the named process, or forks the program.
    pub(super) fn find_or_start(plan: &CapturePlan, job: &Job) -> Result<Self, Failure> {
        match &plan.whom {
            Whom::Running(text) => {
                Ok(Self { target: target::find(text)?, held: None, port: None, counted: None })
            }
            Whom::Started(words) => start(words, plan, job),
            Whom::Held(held) => at_gate(held),
        }
    }

    pub(super) fn pid(&self) -> Pid {
        self.target.info.key.pid
    }

    /// Lets a program run that waits. `true`: it runs, and only now it is known what there is to know of it.
    pub(super) fn release(&mut self) -> Result<(Option<Child>, bool), Failure> {
        match self.held.take() {
            None => Ok((None, false)),
            Some(Waiting::Forked(held)) => match held.release() {
                Ok(child) => Ok((Some(child), false)),
                Err(error) => {
                    let message = format!("cannot execute `{}`: {error}", self.target.info.exe);
                    Err(Failure::new(FailureKind::Target, message))
                }
            },
            Some(Waiting::AtGate(gate, before)) => {
                // Nobody reads any more: then it goes on already.
                let _ = rustix::io::write(&gate, b"1");
                Ok((None, self.target.executes(&before, EXECUTES)))
            }
        }
    }

    /// Looks before anything is touched whether it can work, and tells what will be missing.
    pub(super) fn check(&self, plan: &CapturePlan, place: &Place, job: &Job) {
        if self.held.is_some() {
            return;
        }
        let wanted = Wanted {
            trace: true,
            metrics: !plan.trace_only,
            memory: false,
            output: Some(place.result().to_owned()),
            output_bytes: None,
        };
        for check in preflight(self.pid(), &wanted).iter().filter(|check| check.status != Status::Ok) {
            job.tell(Event::Check(check));
        }
    }
}

/// Described as what it is about to be.
fn at_gate(held: &HeldProcess) -> Result<Subject, Failure> {
    let mut target = target::find(&held.pid.to_string())?;
    let before = Box::new(target.info.clone());
    target.name.clone_from(&held.name);
    target.info.name.clone_from(&held.name);
    target.info.exe.clone_from(&held.exe);
    target.info.command_line.clone_from(&held.arguments);
    Ok(Subject {
        target,
        held: Some(Waiting::AtGate(Arc::clone(&held.gate), before)),
        port: None,
        counted: None,
    })
}

fn start(words: &[OsString], plan: &CapturePlan, job: &Job) -> Result<Subject, Failure> {
    let Some((program, arguments)) = words.split_first() else {
        return Err(Failure::new(FailureKind::Usage, "there is no program to start"));
    };
    let mut command = Command::new(program);
    command.args(arguments);
    let shown = program.to_string_lossy().into_owned();
    let counted = if plan.every_allocation { Some(counted(&mut command)?) } else { None };
    let port = if plan.dotnet.is_some() { runtimes::prepare(&mut command, job) } else { None };
    let failed = |what: &str, error: std::io::Error| {
        Failure::new(FailureKind::Target, format!("{what} `{shown}`: {error}"))
    };
    let held = Held::start(command).map_err(|error| failed("cannot start", error))?;
    if let Some(counted) = &counted {
        counted.started().map_err(|error| failed("cannot prepare", error))?;
    }
    let mut info = biopsy_target::list::process(held.pid())
        .map_err(|error| failed("cannot read what was started for", error))?;
    let name = shown.rsplit('/').next().unwrap_or(&shown).to_owned();
    // It is still a copy of biopsy: say what it is about to become.
    info.name.clone_from(&name);
    info.exe = shown;
    info.command_line = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    Ok(Subject { target: Target { info, name }, held: Some(Waiting::Forked(held)), port, counted })
}

fn counted(command: &mut Command) -> Result<CountedProgram, Failure> {
    CountedProgram::prepare(command).map_err(|error| {
        let failure = Failure::from_error(FailureKind::Target, &error);
        Failure::new(FailureKind::Target, format!("cannot count allocations: {failure}"))
            .with_hint(Some("`--allocations` without `=full` takes samples of any program"))
    })
}
