//! What a freeze would do and cost, without stopping or changing anything.
//!
//! `subject` reads what there is to know of a process, `decide` is a pure function of it: which method, why, how long
//! it will stand still, what it needs, and the single checks with their hints. What can only be known of a stopped
//! thread (its seccomp filters, its registers) is decided again in the window, on the safe side.

mod decide;
mod predict;
mod reaper;
mod subject;
mod sum;
mod tasks;
#[cfg(test)]
mod tests;
mod threads;

use std::time::Duration;

use biopsy_model::{Pid, ProcessKey};

use super::{FreezeError, FreezeOptions, FreezePlan, Method, ProcessPlan};
use crate::preflight::{Check, Facts};
use crate::process::proc_root::ProcRoot;

pub use predict::{Costs, predict_collapse, predict_fork};
use subject::{Machine, Subject};

/// Plans the freeze of these processes, parents before children as they are given.
///
/// # Errors
/// [`FreezeError::Ended`] when one of them is not there any more, or is not the one that was meant. Everything else that
/// stands in the way is in the plan.
pub fn plan(keys: &[ProcessKey], options: &FreezeOptions) -> Result<FreezePlan, FreezeError> {
    let root = ProcRoot::live();
    let facts = Facts::read(&root);
    let machine = Machine::read(&root, &facts);
    let mut processes = Vec::with_capacity(keys.len());
    for key in keys {
        let subject = Subject::read(&root, &facts, key).ok_or(FreezeError::Ended { pid: key.pid })?;
        processes.push(decide::decide(&subject, &machine, options));
    }
    Ok(together(processes, options))
}

/// The same plan with one process copied, after its fork turned out to be impossible in the window. `None`: it cannot be
/// copied either.
pub(super) fn without_fork(
    plan: &FreezePlan,
    pid: Pid,
    why: &str,
    options: &FreezeOptions,
) -> Option<FreezePlan> {
    let root = ProcRoot::live();
    let facts = Facts::read(&root);
    let machine = Machine::read(&root, &facts);
    let mut processes = plan.processes.clone();
    let one = processes.iter_mut().find(|one| one.key.pid == pid && one.method == Method::CopyOnWrite)?;
    let subject = Subject::read(&root, &facts, &one.key)?;
    *one = decide::decide_without_fork(&subject, &machine, options, why);
    Some(together(processes, options)).filter(FreezePlan::is_possible)
}

/// All processes stand still until the last one is frozen, so each waits for the sum.
fn together(mut processes: Vec<ProcessPlan>, options: &FreezeOptions) -> FreezePlan {
    let predicted_pause: Duration = processes.iter().map(|one| one.predicted_pause).sum();
    let possible = processes.iter().all(|one| one.method != Method::Refused);
    if possible && processes.len() > 1 && predicted_pause > options.max_pause {
        let longest = processes.iter_mut().max_by_key(|one| one.predicted_pause);
        if let Some(longest) = longest {
            longest.method = Method::Refused;
            longest.why = format!(
                "all processes together would stand still for {}, more than the {} that are allowed",
                predict::text(predicted_pause),
                predict::text(options.max_pause),
            );
            let hint = format!(
                "dump this one alone, or allow more with `--max-pause {}`",
                predict::more(predicted_pause)
            );
            longest.checks.push(Check::missing("pause", longest.why.clone(), Some(hint)));
        }
    }
    sum::check(&mut processes);
    FreezePlan { processes, predicted_pause }
}
