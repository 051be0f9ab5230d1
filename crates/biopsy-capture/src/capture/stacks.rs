//! `--stacks`: what the memory of the processes says when the recording ends.

use biopsy_model::loss::Warning;
use biopsy_model::process::ProcessInfo;
use biopsy_record::context::clock_pair;
use biopsy_recording::{WriteError, layout};
use biopsy_report::{StacksOptions, render_stacks};

use crate::job::Job;
use crate::recording::{Draft, warning};
use crate::stacks::{LookOptions, look};

/// Processes that are looked at, the target first.
const MOST: usize = 8;

/// Looks at the processes of the tree that still run, one after the other.
pub(super) fn at_all(tree: &[ProcessInfo], draft: &Draft, job: &Job) -> Vec<Warning> {
    let mut warnings = Vec::new();
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
        match one(process, draft) {
            Ok(()) => {}
            Err(Missing::Look(why)) => {
                let message = format!("the stacks of process {pid} were not taken: {why}");
                warnings.push(warning("stacks.not-taken", message));
            }
            Err(Missing::Write(error)) => warnings.push(warning("stacks.not-written", error.to_string())),
        }
    }
    warnings
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

fn one(process: &ProcessInfo, draft: &Draft) -> Result<(), Missing> {
    let pid = process.key.pid;
    let Draft { folder, masking, .. } = draft;
    let time = clock_pair().mono;
    let analysis = look(process, &process.name, &LookOptions::default(), masking.redactor())
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
    Ok(())
}
