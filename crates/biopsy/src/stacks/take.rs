//! Freezing and reading.

use std::path::PathBuf;
use std::time::Duration;

use biopsy_analyze::analyze_dump;
use biopsy_analyze::dump::{DumpAnalysis, DumpFacts, Runtimes};
use biopsy_model::Nanos;
use biopsy_model::process::{ProcessInfo, RuntimeKind};
use biopsy_redact::Redactor;
use biopsy_stacks::image::{Options, walk};
use biopsy_target::freeze::{self, FreezeOptions, FrozenProcess, Method};

use crate::dump::{find_target, freeze_failure};
use crate::exit_codes::Code;
use crate::failure::Failure;

use super::args::StacksArgs;

/// Times that a process is frozen until it is not collecting garbage; more would hurt it more than it would tell.
const TRIES: usize = 5;

/// How a process is looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LookOptions {
    /// It is not frozen where this would take longer.
    pub(crate) max_pause: Duration,
    /// The objects of a managed heap are looked at, too: asynchronous operations.
    pub(crate) heap: bool,
}

impl Default for LookOptions {
    fn default() -> Self {
        Self { max_pause: Duration::from_millis(250), heap: true }
    }
}

/// The stacks of all threads of what was typed, and what is known of them.
pub(super) fn take(args: &StacksArgs) -> Result<DumpAnalysis, Failure> {
    let (info, name) = find_target(&args.target)?;
    let redactor = Redactor::new(biopsy_redact::Options::default())
        .map_err(|error| Failure::from_error(Code::Bug, &error))?;
    let options = LookOptions { max_pause: args.max_pause, heap: !args.no_heap };
    look(&info, &name, &options, &redactor)
}

/// The stacks of all threads of a process, and what is known of them.
pub(crate) fn look(
    info: &ProcessInfo,
    name: &str,
    options: &LookOptions,
    redactor: &Redactor,
) -> Result<DumpAnalysis, Failure> {
    let mut tries = 0;
    loop {
        tries += 1;
        let frozen = freeze(options, info)?;
        let mut analysis = analyze(options, &frozen, name, redactor);
        if info.exe.is_empty() {
            // Programs of a runtime are named after their own file, which is found by that of the runtime.
            let note =
                "whether it has a better name: its executable could not be read when it was looked for";
            analysis.undetermined.push(note.to_owned());
        }
        if frozen.ended_with_process() {
            let note =
                format!("process {} ended while it was looked at: not all of it was seen", info.key.pid);
            analysis.undetermined.push(note);
            return Ok(analysis);
        }
        drop(frozen);
        let collecting = analysis.managed.as_ref().is_some_and(|managed| managed.collecting);
        if !collecting || tries >= TRIES {
            if tries > 1 {
                let note = format!("frozen {tries} times: the garbage collector was at work");
                analysis.undetermined.push(note);
            }
            return Ok(analysis);
        }
    }
}

fn freeze(look: &LookOptions, info: &ProcessInfo) -> Result<FrozenProcess, Failure> {
    // What a runtime knows is in all of its memory; of other programs the stacks are enough.
    let options = FreezeOptions {
        max_pause: look.max_pause,
        stacks_only: !matches!(info.runtime.kind, RuntimeKind::DotNet | RuntimeKind::Unknown),
        ..FreezeOptions::default()
    };
    let plan =
        freeze::plan(std::slice::from_ref(&info.key), &options).map_err(|error| freeze_failure(&error))?;
    if let Some(refused) = plan.processes.iter().find(|one| one.method == Method::Refused) {
        let message = format!("process {} is not frozen: {}", info.key.pid, refused.why);
        return Err(Failure::new(Code::Target, message));
    }
    if plan.predicted_pause > look.max_pause {
        let pause = crate::dump::pause_text(plan.predicted_pause);
        let message = format!(
            "process {} would stand still for {pause}, which is more than the {} that are allowed",
            info.key.pid,
            crate::dump::pause_text(look.max_pause)
        );
        let hint = format!("`--max-pause {}` allows it", pause.replace(' ', ""));
        return Err(Failure::new(Code::Target, message).with_hint(Some(hint)));
    }
    let mut frozen = freeze::freeze(plan, &options).map_err(|error| freeze_failure(&error))?;
    frozen.pop().ok_or_else(|| Failure::new(Code::Bug, "nothing was frozen"))
}

fn analyze(look: &LookOptions, frozen: &FrozenProcess, name: &str, redactor: &Redactor) -> DumpAnalysis {
    let roots = vec![PathBuf::from(format!("/proc/{}/root", frozen.key().pid)), PathBuf::from("/")];
    let runtimes = Runtimes::open(frozen, &roots);
    let code = runtimes.code();
    let explicit = runtimes.explicit_frames();
    let options = Options {
        roots,
        compiled: Some(&code),
        frames_of_compiled: Some(&code),
        resumes: Some(&explicit),
        ..Options::default()
    };
    let mut stacks = walk(frozen, &options);
    explicit.add_to(&mut stacks);
    let redact = |text: &str| redactor.text(text).text.into_owned();
    let facts = DumpFacts {
        format: "frozen process".to_owned(),
        pause: Some(Nanos(u64::try_from(frozen.pause().stopped.as_nanos()).unwrap_or(u64::MAX))),
        warnings: frozen.warnings().iter().map(ToString::to_string).collect(),
        redact: Some(&redact),
        managed: Some(&runtimes),
        heap: look.heap,
        live: true,
        ..DumpFacts::default()
    };
    let mut analysis = analyze_dump(frozen, &stacks, &facts);
    if !name.is_empty() {
        name.clone_into(&mut analysis.identity.name);
    }
    analysis
}
