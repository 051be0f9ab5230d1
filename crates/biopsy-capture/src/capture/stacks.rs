//! What the memory of the processes says when the recording ends: asked for by `--stacks`, or because nothing moved.

use std::time::Duration;

use biopsy_model::loss::Warning;
use biopsy_model::process::ProcessInfo;
use biopsy_model::{Nanos, Pid};
use biopsy_record::context::clock_pair;
use biopsy_recording::{WriteError, layout};
use biopsy_report::{StacksOptions, render_stacks};

use crate::job::Job;
use crate::recording::{Draft, warning};
use crate::stacks::{LookOptions, look};
use crate::words::pause_text;

use super::plan::UNASKED_PAUSE;

/// Processes that are looked at, the target first.
const MOST: usize = 8;

/// Why a process is frozen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// It was asked for.
    Asked,
    /// It did not move, and nothing that was recorded says why.
    NothingMoved,
}

/// A process that stood still at the end of a recording.
#[derive(Clone, Debug)]
pub struct Frozen {
    /// Which.
    pub pid: Pid,
    /// Its name.
    pub name: String,
    /// How long.
    pub pause: Nanos,
    /// Why.
    pub why: Why,
}

impl Why {
    fn options(self) -> LookOptions {
        match self {
            Self::Asked => LookOptions::default(),
            Self::NothingMoved => LookOptions { max_pause: UNASKED_PAUSE, heap: true, tries: 1 },
        }
    }
}

/// Looks at those of these processes that still run, one after the other.
pub(super) fn at_all(
    tree: &[ProcessInfo],
    why: Why,
    draft: &Draft,
    job: &Job,
    warnings: &mut Vec<Warning>,
) -> Vec<Frozen> {
    let mut frozen = Vec::new();
    let mut running: Vec<&ProcessInfo> =
        tree.iter().filter(|process| biopsy_target::is_same(&process.key)).collect();
    if running.len() > MOST {
        let left = running.len() - MOST;
        let message = format!("the stacks of {left} of {} processes were not taken: too many", running.len());
        warnings.push(warning("stacks.left-out", message));
        running.truncate(MOST);
    }
    for process in running {
        let pid = process.key.pid;
        if job.is_hurried() {
            let message = format!("the stacks of process {pid} were not taken: stopped by a signal");
            warnings.push(warning("stacks.not-taken", message));
            continue;
        }
        match one(process, why, draft) {
            Ok(pause) => {
                let name = process.name.clone();
                if why == Why::NothingMoved {
                    let pause = pause_text(Duration::from_nanos(pause.0));
                    job.step(format!("{name} ({pid}) stood still for {pause}"));
                    warnings.push(warning("stacks.unasked", format!(
                        "process {pid} (`{name}`) was frozen once at the end, for {pause}: it did not move, and nothing that was \
                         recorded says why (`--never-stop` forbids that)"
                    )));
                }
                frozen.push(Frozen { pid, name, pause, why });
            }
            Err(Missing::Look(missing)) => {
                let (about, hint) = match why {
                    Why::Asked => ("", None),
                    Why::NothingMoved => (
                        ", though it did not move",
                        Some("`--stacks` looks at it where it would stand still for up to 250 ms".to_owned()),
                    ),
                };
                let message = format!("the stacks of process {pid} were not taken{about}: {missing}");
                warnings.push(Warning { hint, ..warning("stacks.not-taken", message) });
            }
            Err(Missing::Write(error)) => warnings.push(warning("stacks.not-written", error.to_string())),
        }
    }
    frozen
}

enum Missing {
    Look(String),
    Write(WriteError),
}

impl From<WriteError> for Missing {
    fn from(error: WriteError) -> Self {
        Self::Write(error)
    }
}

fn one(process: &ProcessInfo, why: Why, draft: &Draft) -> Result<Nanos, Missing> {
    let pid = process.key.pid;
    let Draft { folder, masking, .. } = draft;
    let time = clock_pair().mono;
    let analysis = look(process, &process.name, &why.options(), masking.redactor())
        .map_err(|failure| Missing::Look(failure.to_string()))?;
    let member = layout::stacks_member(pid);
    let options = StacksOptions { width: None, color: false, all: false, native: false, frames: 40 };
    draft.write_text(&member, &render_stacks(&analysis, options))?;
    let mut look = analysis.look(pid, time);
    let member = layout::look_member(pid);
    let mask = |text: &mut String| *text = masking.text(&member, text).into_owned();
    mask(&mut look.name);
    look.undetermined.iter_mut().for_each(mask);
    for finding in &mut look.findings {
        [&mut finding.title, &mut finding.explanation].into_iter().for_each(mask);
        finding.evidence.iter_mut().chain(&mut finding.next_steps).for_each(mask);
    }
    folder.look(&look)?;
    Ok(look.pause)
}
