//! Keeping the last minutes of a process, for days.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use biopsy_analyze::Diagnosis;
use biopsy_model::MonoNanos;
use biopsy_record::context::Moment;
use biopsy_record::logs;
use biopsy_record::trace::TraceError;
use biopsy_sys::pidfd::{Exit, PidFd};

use crate::failure::{Failure, FailureKind, KEPT};
use crate::finish::HandedOver;
use crate::job::Job;
use crate::place::Place;
use crate::recording::{Draft, output_failure};
use crate::target::{self, Target};
use crate::tree::tree_of;

use super::flight::Flight;
use super::last::{bad_end, write};
use super::listener::{Answer, Listener, Others};
use super::place::RecentPlace;

/// How often the loop looks around.
const TICK: Duration = Duration::from_millis(500);
/// How often all processes are gone through for new ones below the target.
const WALK_EVERY: Duration = Duration::from_secs(10);
/// How often memory that was freed goes back to the system: this lasts for days, and the allocator would keep what its largest moment took.
const TIDY_EVERY: Duration = Duration::from_secs(30);
/// How long it is waited for whoever started a process to learn how it ended.
const WAITED_FOR: Duration = Duration::from_secs(2);

/// Whose last minutes are kept, and where.
#[derive(Clone, Debug)]
pub struct KeepPlan {
    /// A process, by pid as a rule.
    pub target: String,
    /// What the user typed, for the header of a recording.
    pub command: Vec<String>,
    /// How many minutes.
    pub length: Duration,
    /// Also of processes that it started and starts.
    pub children: bool,
    /// The folder of all such recorders of this user.
    pub folder: PathBuf,
    /// Patterns of logs that are taken if the process ends badly.
    pub logs: Vec<String>,
    /// The same of units whose journal is taken.
    pub journal: Vec<String>,
    /// Where the recording goes if the process ends badly; `None`: named after it and the time, in the working directory.
    pub output: Option<PathBuf>,
}

/// Keeps the last minutes until the process ends or somebody asks to end. If it ended badly there is a recording.
///
/// # Errors
/// There is none: it ended in good order, somebody asked to end, or nothing could be recorded.
pub fn keep(plan: &KeepPlan, job: &Job) -> Result<(HandedOver, Diagnosis), Failure> {
    let target = target::find(&plan.target)?;
    let key = &target.info.key;
    let handle = PidFd::open(key.pid).map_err(|error| {
        Failure::new(FailureKind::Target, format!("cannot watch process {} for its end: {error}", key.pid))
    })?;
    let result = Place::choose(plan.output.as_deref(), false, &target.name)?;
    let own = RecentPlace::of(&plan.folder, key);
    let place = Place { folder: own.draft(), bundle: result.bundle };
    // What a recorder that was killed has left; this one is the only one for this process.
    let _ = std::fs::remove_dir_all(&place.folder);

    let draft = begin(plan, &target, &place, job)?;
    let tree = tree_of(key.pid, plan.children, WALK_EVERY);
    let mut flight =
        Flight::begin(tree, plan.children, plan.length, draft.masking.clone()).map_err(not_recorded)?;
    let memory = flight.memory();
    let answer: Arc<Answer> = Arc::new(move |from, until| {
        memory.settle();
        memory.take(from, until)
    });
    let others = Others::default();
    let listener = Listener::open(&own, others.clone()).map_err(|error| {
        Failure::new(FailureKind::Output, format!("cannot listen in `{}`: {error}", plan.folder.display()))
    })?;
    job.step(format!("the last minutes of {} (pid {}) are kept", target.name, key.pid));
    let mut tidied = Instant::now();
    while !job.is_asked() && !handle.has_exited() && !flight.is_over() {
        listener.wait(TICK, &answer);
        flight.look_after(others.listen()).map_err(not_recorded)?;
        if tidied.elapsed() >= TIDY_EVERY {
            tidied = Instant::now();
            // What it took to read the tables of all modules, above all, and each answer.
            biopsy_sys::limits::return_free_memory();
        }
    }
    drop(listener);
    let cut_short = flight.end();
    if job.is_asked() && !handle.has_exited() {
        return Err(Job::stopped("nothing was made"));
    }
    if !ends_soon(&handle) {
        let why = cut_short.unwrap_or_else(|| "nothing was left to record".to_owned());
        return Err(Failure::new(
            FailureKind::Memory,
            format!("its last minutes are not kept any more: {why}"),
        ));
    }
    let Some(why) = bad_end(exit_of(&handle)) else {
        return Err(Failure::new(
            FailureKind::Target,
            "it ended in good order: its last minutes are not kept",
        ));
    };
    let memory = flight.memory();
    let recent = memory.take(MonoNanos(0), memory.now()).map_err(|error| {
        Failure::new(FailureKind::Bug, format!("the last minutes cannot be put together: {error}"))
    })?;
    let folder = place.folder.clone();
    let logs = logs::Config::new(plan.logs.clone(), plan.journal.clone());
    write(draft, &recent, logs, &place, &why, job).map_err(|failure| failure.naming(KEPT, &folder))
}

/// The folder of a recording that there may never be, with the context of now: who has ended tells nothing any more.
fn begin(plan: &KeepPlan, target: &Target, place: &Place, job: &Job) -> Result<Draft, Failure> {
    let tree = target.tree(plan.children)?;
    let draft = Draft::begin(job, &place.folder, &target.info.key, &target.name, &plan.command)?;
    draft.context(&tree, Moment::Start).map_err(output_failure)?;
    draft.write_processes(&tree)?;
    Ok(draft)
}

fn not_recorded(error: TraceError) -> Failure {
    let kind = match error {
        TraceError::NoMethod { .. } => FailureKind::Permission,
        TraceError::Write(_) => FailureKind::Memory,
    };
    Failure::from_error(kind, &error)
}

/// Whether it has ended: its threads are gone a moment before.
fn ends_soon(handle: &PidFd) -> bool {
    let begin = Instant::now();
    while !handle.has_exited() && begin.elapsed() < WAITED_FOR {
        std::thread::sleep(Duration::from_millis(20));
    }
    handle.has_exited()
}

/// How it ended; `None`: not known.
fn exit_of(handle: &PidFd) -> Option<Exit> {
    let begin = Instant::now();
    loop {
        match handle.exit() {
            Ok(Some(exit)) => return Some(exit),
            Ok(None) if begin.elapsed() < WAITED_FOR => std::thread::sleep(Duration::from_millis(20)),
            Ok(None) | Err(_) => return None,
        }
    }
}
