//! The stacks of a process now, read from a frozen copy of its memory: it need not answer anything, so it works when it hangs.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use biopsy_analyze::dump::{DumpAnalysis, DumpFacts};
use biopsy_analyze::{analyze_image, join_looks};
use biopsy_model::peers::PeerLook;
use biopsy_model::process::{ProcessInfo, RuntimeKind};
use biopsy_model::{Nanos, Pid};
use biopsy_redact::Redactor;
use biopsy_target::Runs;
use biopsy_target::freeze::{self, FreezeOptions, FreezePlan, FrozenProcess, Method};

use crate::dump::freeze_failure;
use crate::failure::{Failure, FailureKind};
use crate::job::Job;
use crate::recording::new_redactor;
use crate::target;
use crate::words::pause_text;

/// Times that a process is frozen until it is not collecting garbage; more would hurt it more than it would tell.
pub const TRIES: usize = 5;

/// How a process is looked at.
#[derive(Clone, Copy, Debug)]
pub struct LookOptions {
    /// It is not frozen where this would take longer.
    pub max_pause: Duration,
    /// The objects of a managed heap are looked at, too: asynchronous operations.
    pub heap: bool,
    /// Times that it is frozen until it is not collecting garbage.
    pub tries: usize,
}

/// How often a process is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Looks {
    /// Times.
    pub count: usize,
    /// From the end of one to the start of the next.
    pub every: Duration,
}

impl Default for LookOptions {
    fn default() -> Self {
        Self { max_pause: Duration::from_millis(250), heap: true, tries: TRIES }
    }
}

/// The stacks of all threads of what was named, and what is known of them.
///
/// # Errors
/// There is no such process; or it cannot be frozen, or would stand still too long.
pub fn take(target: &str, options: &LookOptions) -> Result<DumpAnalysis, Failure> {
    let target = target::find(target)?;
    look(&target.info, &target.name, options, &new_redactor()?)
}

/// The stacks of what was named and of all processes below it, parents before children, one after the other. Of those that ended
/// meanwhile, or cannot be frozen, the first one says so.
///
/// # Errors
/// As of [`take`], of what was named.
pub fn take_tree(target: &str, options: &LookOptions) -> Result<Vec<DumpAnalysis>, Failure> {
    let target = target::find(target)?;
    let redactor = new_redactor()?;
    let mut all = vec![look(&target.info, &target.name, options, &redactor)?];
    for info in target.tree(true)?.iter().skip(1) {
        match look(info, &info.name, options, &redactor) {
            Ok(analysis) => all.push(analysis),
            Err(failure) => {
                let missing = format!("the stacks of process {} (`{}`): {failure}", info.key.pid, info.name);
                all.iter_mut()
                    .take(1)
                    .for_each(|first| first.add_undetermined(std::slice::from_ref(&missing)));
            }
        }
    }
    Ok(all)
}

/// Several looks at what was named: the last one, with what did not move in any of them. What there is so far comes back when the
/// process ends, cannot be frozen again, or the job is asked to end.
///
/// # Errors
/// As of [`take`], of the first look.
pub fn take_several(
    target: &str,
    options: &LookOptions,
    looks: &Looks,
    job: &Job,
) -> Result<DumpAnalysis, Failure> {
    let target = target::find(target)?;
    let redactor = new_redactor()?;
    let pid = target.info.key.pid;
    let begun = Instant::now();
    let mut all: Vec<DumpAnalysis> = Vec::new();
    let (mut idle, mut why) = (Vec::new(), None);
    let mut last = begun;
    while all.len() < looks.count {
        if !all.is_empty() {
            let before = settled(pid);
            job.step(format!("look {} of {} in {}", all.len() + 1, looks.count, pause_text(looks.every)));
            // All of it behind the look, however long that took: of no time at all nobody could say who ran in it.
            if !job.sleep(looks.every) {
                why = Some("it was stopped".to_owned());
                break;
            }
            idle.push(Runs::read(pid).idle_since(&before));
        }
        last = Instant::now();
        let same = biopsy_target::check_same(&target.info.key)
            .map_err(|error| Failure::from_error(FailureKind::Target, &error));
        match same.and_then(|()| look(&target.info, &target.name, options, &redactor)) {
            Ok(analysis) => all.push(analysis),
            Err(failure) if all.is_empty() => return Err(failure),
            Err(failure) => {
                why = Some(failure.to_string());
                break;
            }
        }
    }
    let taken = all.len();
    idle.truncate(taken.saturating_sub(1));
    let span = Nanos(u64::try_from(last.duration_since(begun).as_nanos()).unwrap_or(u64::MAX));
    let mut joined =
        join_looks(all, Some(&idle), Some(span)).ok_or_else(|| Job::stopped("no look was taken"))?;
    if let Some(why) = why {
        joined.add_undetermined(&[format!(
            "what {} more looks would show, of {}: {why}",
            looks.count - taken,
            looks.count
        )]);
    }
    Ok(joined)
}

/// How often each thread ran until now, as soon as all of them are back where the freeze interrupted them.
fn settled(pid: Pid) -> Runs {
    const SETTLING: Duration = Duration::from_millis(20);
    std::thread::sleep(SETTLING);
    Runs::read(pid)
}

/// The stacks of all threads of a process, and what is known of them.
pub(crate) fn look(
    info: &ProcessInfo,
    name: &str,
    options: &LookOptions,
    redactor: &Redactor,
) -> Result<DumpAnalysis, Failure> {
    let (mut tries, mut stood_still) = (0, Nanos(0));
    loop {
        tries += 1;
        // Before the process is frozen: then its threads stand in other calls.
        let peers = biopsy_target::peers::look(info.key.pid);
        let (frozen, missing) = freeze(options, info)?;
        let mut analysis = analyze(options, &frozen, name, redactor, &peers);
        // All of it, each try included.
        stood_still = stood_still + analysis.identity.pause.unwrap_or_default();
        analysis.identity.pause = Some(stood_still);
        analysis.undetermined.extend(missing);
        if info.exe.is_empty() {
            // Programs of a runtime are named after their own file, which is found by that of the runtime.
            let note = "whether it has a better name: its executable could not be read";
            analysis.undetermined.push(note.to_owned());
        }
        if frozen.ended_with_process() {
            let note =
                format!("process {} ended while it was being read: parts of it are missing", info.key.pid);
            analysis.undetermined.push(note);
            return Ok(analysis);
        }
        drop(frozen);
        let collecting = analysis.managed.as_ref().is_some_and(|managed| managed.collecting);
        if !collecting || tries >= options.tries {
            if tries > 1 || collecting {
                let note = match tries {
                    1 => "frozen while the garbage collector was at work".to_owned(),
                    _ => format!("frozen {tries} times: the garbage collector was at work"),
                };
                analysis.undetermined.push(note);
            }
            return Ok(analysis);
        }
    }
}

/// Freezes a process, and says what is missing for that: what a runtime knows is in all of its memory; of other programs, and where
/// all of it would take too long or cannot be shared by a fork, the stacks are enough.
fn freeze(look: &LookOptions, info: &ProcessInfo) -> Result<(FrozenProcess, Option<String>), Failure> {
    let stacks_only =
        FreezeOptions { max_pause: look.max_pause, stacks_only: true, ..FreezeOptions::default() };
    let all = FreezeOptions { stacks_only: false, ..stacks_only.clone() };
    let plan_of = |options: &FreezeOptions| {
        freeze::plan(std::slice::from_ref(&info.key), options).map_err(|error| freeze_failure(&error))
    };
    let shares = |plan: &FreezePlan| {
        plan.predicted_pause <= look.max_pause
            && plan.processes.iter().all(|process| process.method == Method::CopyOnWrite)
    };
    let (options, plan, missing) = match info.runtime.kind {
        RuntimeKind::Native | RuntimeKind::OtherInterpreter => {
            let plan = plan_of(&stacks_only)?;
            (stacks_only, plan, None)
        }
        RuntimeKind::DotNet | RuntimeKind::Unknown => {
            let plan = plan_of(&all)?;
            (all, plan, None)
        }
        RuntimeKind::Go | RuntimeKind::Jvm | RuntimeKind::Node | RuntimeKind::Python => {
            let plan = plan_of(&all)?;
            if shares(&plan) {
                (all, plan, None)
            } else {
                let why = plan.processes.first().map_or_else(String::new, |one| one.why.clone());
                let missing = format!("what its runtime runs: only stacks were copied ({why})");
                let plan = plan_of(&stacks_only)?;
                (stacks_only, plan, Some(missing))
            }
        }
    };
    if let Some(refused) = plan.processes.iter().find(|one| one.method == Method::Refused) {
        let message = format!("process {} is not frozen: {}", info.key.pid, refused.why);
        return Err(Failure::new(FailureKind::Target, message));
    }
    if plan.predicted_pause > look.max_pause {
        let pause = pause_text(plan.predicted_pause);
        let message = format!(
            "process {} would stand still for {pause}, which is more than the {} that are allowed",
            info.key.pid,
            pause_text(look.max_pause)
        );
        let hint = format!("`--max-pause {}` allows it", pause.replace(' ', ""));
        return Err(Failure::new(FailureKind::Target, message).with_hint(Some(hint)));
    }
    let mut frozen = freeze::freeze(plan, &options).map_err(|error| freeze_failure(&error))?;
    let frozen = frozen.pop().ok_or_else(|| Failure::new(FailureKind::Bug, "nothing was frozen"))?;
    Ok((frozen, missing))
}

/// How long this process would stand still for a look, and why it would not be frozen. Nothing is stopped.
pub(crate) fn forecast(info: &ProcessInfo, max_pause: Duration) -> Result<Duration, String> {
    let stacks_only = matches!(info.runtime.kind, RuntimeKind::Native | RuntimeKind::OtherInterpreter);
    let options = FreezeOptions { max_pause, stacks_only, ..FreezeOptions::default() };
    let plan = freeze::plan(std::slice::from_ref(&info.key), &options).map_err(|error| error.to_string())?;
    match plan.processes.iter().find(|one| one.method == Method::Refused) {
        Some(refused) => Err(refused.why.clone()),
        None => Ok(plan.predicted_pause),
    }
}

fn analyze(
    look: &LookOptions,
    frozen: &FrozenProcess,
    name: &str,
    redactor: &Redactor,
    peers: &PeerLook,
) -> DumpAnalysis {
    let roots = vec![PathBuf::from(format!("/proc/{}/root", frozen.key().pid)), PathBuf::from("/")];
    let redact = |text: &str| redactor.text(text).text.into_owned();
    let facts = DumpFacts {
        format: "frozen process".to_owned(),
        pause: Some(Nanos(u64::try_from(frozen.pause().stopped.as_nanos()).unwrap_or(u64::MAX))),
        warnings: frozen.warnings().iter().map(ToString::to_string).collect(),
        redact: Some(&redact),
        heap: look.heap,
        live: true,
        peers: Some(peers),
        ..DumpFacts::default()
    };
    let mut analysis = analyze_image(frozen, &roots.into(), &facts);
    if !name.is_empty() {
        name.clone_into(&mut analysis.identity.name);
    }
    analysis
}
