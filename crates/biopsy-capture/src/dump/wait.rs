//! Waiting for something to happen, then dumping.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use biopsy_record::triggers::{self, Fired, WatchEnd, WatchOptions, Watched};
use biopsy_sys::job_control::JobControl;

use crate::capture::wait::{begin, failure};
use crate::failure::{Failure, FailureKind};
use crate::job::{Job, Patience};
use crate::target::{self, Subject, Target};

use super::catch::catch;
use super::destination::Destination;
use super::held::Dumper;
use super::outcome::{Outcome, conclude, forecast};
use super::plan::DumpPlan;

/// How soon a signal and the end of the time are noticed.
const SLICE: Duration = Duration::from_millis(100);
/// How often a process that is not there yet is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Runs a plan that waits.
pub(super) fn run(plan: &DumpPlan, job: &Job) -> Result<Outcome, Failure> {
    job.be_patient(Patience::WithoutCopies);
    let stop = Stop::start(plan.length, job)?;
    let Some(subject) = find(plan, &stop.flag)? else {
        return Ok(Outcome::Nothing("no such process started".to_owned()));
    };
    let destination = Destination::choose(plan, &subject.name)?;
    let Destination::Recording(place) = &destination else {
        return Err(Failure::new(FailureKind::Usage, "a dump that waits makes a recording")
            .with_hint(Some("name a folder or a `.zip` with `--output`, or leave it out")));
    };
    if plan.dry_run {
        let planned = forecast(plan, &subject, &destination, job)?;
        return Ok(planned.break_value().unwrap_or(Outcome::Forecast(None)));
    }
    let mut dumper = Dumper::new(plan, subject, place.clone(), job);
    let ended = match &plan.wait_for {
        Some(name) => catch(&mut dumper, name, &stop.flag),
        None if plan.on.is_empty() => dumper.dump_now("it started").map(|()| "it was dumped".to_owned()),
        None => watch(&mut dumper, &stop.flag),
    };
    let recording = dumper.recording.take().filter(|recording| !recording.is_empty());
    match (recording, ended) {
        (None, ended) => ended.map(Outcome::Nothing),
        (recording, ended) => conclude(recording, ended.map(drop), job),
    }
}

fn find(plan: &DumpPlan, stop: &AtomicBool) -> Result<Option<Subject>, Failure> {
    if !plan.wait {
        return Subject::of(target::find(&plan.target)?, plan.tree).map(Some);
    }
    let selector = target::parse(&plan.target)?;
    let found = triggers::wait_for(&selector, LOOK_EVERY, stop).map_err(target::not_found)?;
    found.map(|found| Subject::of(Target::of(&selector, found.info), plan.tree)).transpose()
}

/// A signal, or the end of the time that was given.
struct Stop {
    flag: Arc<AtomicBool>,
}

impl Stop {
    fn start(within: Option<Duration>, job: &Job) -> Result<Self, Failure> {
        let flag = Arc::new(AtomicBool::new(false));
        let raised = Arc::clone(&flag);
        let end = within.map(|time| Instant::now() + time);
        let job = job.clone();
        let listen = move || {
            let mut told = false;
            // Until whoever waits has gone.
            while Arc::strong_count(&raised) > 1 {
                if job.is_asked() || end.is_some_and(|end| Instant::now() >= end) {
                    raised.store(true, Relaxed);
                }
                tell_of_suspension(&mut told, &job);
                std::thread::sleep(SLICE);
            }
        };
        std::thread::Builder::new()
            .name("biopsy-stop".to_owned())
            .spawn(listen)
            .map_err(|error| Failure::new(FailureKind::Memory, format!("cannot start a thread: {error}")))?;
        Ok(Self { flag })
    }
}

/// Ctrl-Z while a process is held or followed: it is carried out when nothing is any more, and until then somebody may wonder.
fn tell_of_suspension(told: &mut bool, job: &Job) {
    let asked = JobControl::is_asked();
    if asked && !*told {
        job.note(
            "biopsy is not suspended while it follows a process, which would stand still with it; Ctrl-C ends it",
        );
    }
    *told = asked;
}

/// Triggers on the target itself. Returns why it ended.
fn watch(dumper: &mut Dumper<'_>, stop: &Arc<AtomicBool>) -> Result<String, Failure> {
    let plan = dumper.plan;
    let options = WatchOptions {
        count: Some(plan.count),
        every: plan.every,
        stop: Arc::clone(stop),
        ..WatchOptions::default()
    };
    let target = Target { info: dumper.subject.target().clone(), name: dumper.subject.name.clone() };
    let mut watch = begin(plan.on.clone(), &target, options, dumper.job)?;
    loop {
        match watch.next().map_err(|error| failure(&error))? {
            Watched::Fired(fired) => fire(dumper, *fired)?,
            Watched::Ended(end) => return Ok(end_words(end)),
        }
    }
}

fn fire(dumper: &mut Dumper<'_>, fired: Fired) -> Result<(), Failure> {
    let job = dumper.job;
    job.step(&fired.reason);
    let Some(caught) = fired.caught else { return dumper.dump_now(&fired.reason) };
    let held = caught.key().pid;
    // What is below it runs on and may end with it: it is frozen first, while the other is held anyway. That one of them
    // cannot be frozen is no reason to lose the one that is held.
    if dumper.plan.tree
        && let Err(failure) = dump_below(dumper, held, &fired.reason)
    {
        job.remark(format!("what is below process {held} is not dumped: {failure}"));
    }
    dumper.dump_held(*caught, &fired.reason, None)
}

fn dump_below(dumper: &mut Dumper<'_>, held: biopsy_model::Pid, reason: &str) -> Result<(), Failure> {
    let Some(mut below) = dumper.subject.again(true)? else { return Ok(()) };
    below.processes.retain(|process| process.key.pid != held);
    if below.processes.is_empty() { Ok(()) } else { dumper.dump_frozen(&below, reason) }
}

fn end_words(end: WatchEnd) -> String {
    match end {
        WatchEnd::ProcessEnded { status: Some(status) } if status & 0x7f != 0 => {
            format!("the process was ended by signal {}", status & 0x7f)
        }
        WatchEnd::ProcessEnded { status: Some(status) } => {
            format!("the process ended with exit code {}", (status >> 8) & 0xff)
        }
        WatchEnd::ProcessEnded { status: None } => "the process has ended".to_owned(),
        WatchEnd::Done => "it was dumped as often as was asked for".to_owned(),
        WatchEnd::Stopped => "stopped before it happened".to_owned(),
    }
}
