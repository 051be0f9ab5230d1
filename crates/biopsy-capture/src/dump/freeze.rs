//! Freezing all processes of a plan.

use std::time::Duration;

use biopsy_image::write::CaptureMethod;
use biopsy_model::Pid;
use biopsy_model::loss::Warning;
use biopsy_record::dump::mask::Literals;
use biopsy_record::dump::{DumpProgress, Origin};
use biopsy_target::freeze::{self, FreezeError, FreezePlan, FrozenProcess, Method};

use crate::failure::Failure;
use crate::job::Job;
use crate::recording::warning;
use crate::target::Subject;
use crate::words::pause_text;

use super::forecast::freeze_failure;
use super::plan::DumpPlan;

/// Nice value of what reads, compresses and writes (setpriority(2)).
pub(super) const WRITER_NICE: i32 = 10;
/// How long making huge pages may take, per process.
const COLLAPSE_WITHIN: Duration = Duration::from_secs(120);

/// Freezes all of the plan. Children that ended meanwhile are left out, with a warning: a tree in which something
/// always ends could not be dumped otherwise.
pub(super) fn freeze_all(
    dump: &DumpPlan,
    plan: FreezePlan,
    job: &Job,
) -> Result<(Vec<FrozenProcess>, Vec<Warning>), Failure> {
    let mut plan = if dump.collapse { collapse(dump, &plan, job)? } else { plan };
    if job.is_asked() {
        return Err(Job::stopped("nothing was frozen"));
    }
    let mut gone = Vec::new();
    let frozen = loop {
        match freeze::freeze(plan.clone(), &dump.freeze_options()) {
            Ok(frozen) => break frozen,
            Err(FreezeError::Ended { pid }) if is_child(&plan, pid) => {
                plan.processes.retain(|process| process.key.pid != pid);
                let message =
                    format!("process {pid} ended before it could be frozen: it is not among the dumps");
                gone.push(warning("dump.child-ended", message));
            }
            Err(error) => return Err(freeze_failure(&error)),
        }
    };
    // What follows takes seconds of CPU: the target and everybody else go first. Threads that are started from here on
    // inherit it; that it is refused is no reason to stop.
    let _ = rustix::process::setpriority_process(None, WRITER_NICE);
    for one in &gone {
        job.remark(&one.message);
    }
    for process in &frozen {
        let (pid, pause) = (process.key().pid, process.pause());
        let (stopped, threads) = (pause_text(pause.stopped), pause.threads);
        job.step(format!("process {pid} stood still for {stopped} ({threads} threads); it runs again"));
    }
    for warning in frozen.iter().flat_map(FrozenProcess::warnings) {
        // What a dump lacks is not told by the dump itself.
        if warning.is_loss() { job.note(warning.to_string()) } else { job.remark(warning.to_string()) }
    }
    Ok((frozen, gone))
}

/// Whether it is in the plan, and not the process that was named.
fn is_child(plan: &FreezePlan, pid: Pid) -> bool {
    plan.processes.iter().skip(1).any(|process| process.key.pid == pid)
}

/// Makes huge pages of the heaps, and plans again with what there is then.
fn collapse(dump: &DumpPlan, plan: &FreezePlan, job: &Job) -> Result<FreezePlan, Failure> {
    let keys: Vec<_> = plan.processes.iter().map(|process| process.key.clone()).collect();
    for key in &keys {
        let report = freeze::collapse(key, COLLAPSE_WITHIN).map_err(|error| freeze_failure(&error))?;
        job.step(format!(
            "process {}: {} huge pages made in {}, {} pieces refused, {} left",
            key.pid,
            report.made,
            pause_text(report.took),
            report.refused,
            report.left
        ));
    }
    freeze::plan(&keys, &dump.freeze_options()).map_err(|error| freeze_failure(&error))
}

pub(super) fn origin(process: &FrozenProcess) -> Origin {
    Origin {
        method: match process.method() {
            Method::CopyOnWrite => CaptureMethod::CopyOnWrite,
            Method::StopAndCopy => CaptureMethod::StopAndCopy,
            Method::Refused => CaptureMethod::Unknown,
        },
        pause: process.pause().stopped,
        warnings: process.warnings().iter().map(ToString::to_string).collect(),
        lacking: process.warnings().iter().filter(|one| one.is_loss()).map(ToString::to_string).collect(),
        number: 1,
        reason: "asked for".to_owned(),
        predicted_pause: None,
    }
}

/// Tells what went wrong when a frozen copy was let go.
pub(super) fn release(process: FrozenProcess, job: &Job) {
    for warning in &process.release().warnings {
        job.remark(warning.to_string());
    }
}

/// That its copy went with the process, before all of it was read.
pub(super) fn ended_meanwhile(process: &FrozenProcess) -> Option<String> {
    process.ended_with_process().then(|| {
        let pid = process.key().pid;
        format!(
            "process {pid} ended while it was dumped, and its frozen copy with it: what was not written by then is missing"
        )
    })
}

/// Ends the frozen copy as soon as all that only it has was read. Not where secrets are masked: what lies around a piece of shared
/// memory is looked at too.
pub(super) fn thawing<'a>(plan: &DumpPlan, process: &'a FrozenProcess) -> DumpProgress<'a> {
    if plan.scrub {
        return DumpProgress::default();
    }
    DumpProgress::thawing(move || {
        process.thaw();
    })
}

/// Values that the process was given as secrets, to be masked wherever they are in its memory.
pub(super) fn secrets_of(plan: &DumpPlan, subject: &Subject) -> Literals {
    if plan.scrub { Literals::of(&subject.pids()) } else { Literals::default() }
}
