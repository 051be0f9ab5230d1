//! Looks at a process before it is dumped: what did not move in any of them is in the report.

use std::time::Duration;

use biopsy_image::write::CoreKind;
use biopsy_model::process::RuntimeKind;
use biopsy_target::freeze::FreezePlan;

use crate::failure::{Failure, FailureKind};
use crate::job::Job;
use crate::target::Subject;
use crate::words::pause_text;

use super::destination::Destination;
use super::forecast::Forecast;
use super::plan::DumpPlan;
use super::recording::DumpRecording;

/// Looks as often as the plan says; the last look is the dump that was asked for. Those before it are dumps, too: whoever opens the
/// recording later can see the same. They are of stacks where stacks are enough to tell whether a thread moved.
pub(super) fn run(
    plan: &DumpPlan,
    subject: Subject,
    freezing: FreezePlan,
    recording: &mut DumpRecording,
    job: &Job,
) -> Result<(), Failure> {
    if plan.looks < 2 {
        return recording.dump(plan, &subject, freezing, "asked for", job);
    }
    let before = plan_of_a_look(plan, &subject);
    let mut subject = subject;
    for number in 1..=plan.looks {
        let plan = if number < plan.looks { &before } else { plan };
        if number > 1 {
            job.step(format!("look {number} of {} in {}", plan.looks, pause_text(plan.every)));
            if !job.sleep(plan.every) {
                let left = plan.looks - number + 1;
                let message = format!("stopped by a signal: {left} of {} looks were not taken", plan.looks);
                recording.draft.warn("dump.stopped", message);
                return Ok(());
            }
            let ended =
                || Failure::new(FailureKind::Target, format!("`{}` ended between two looks", subject.name));
            subject = subject.again(plan.tree)?.ok_or_else(ended)?;
            recording.take_context(&subject)?;
        }
        // Anew each time: it grew meanwhile, and the disk is fuller.
        let forecast = Forecast::make(plan, &subject, &Destination::Recording(recording.place.clone()))?;
        forecast.check()?;
        let freezing = forecast.freeze;
        recording.dump(plan, &subject, freezing, &format!("look {number} of {}", plan.looks), job)?;
    }
    Ok(())
}

/// Of programs without a runtime the stacks tell whether a thread moved. What a runtime's frames are is in its heap, and looks that see
/// different things would tell of movement where there is none.
fn plan_of_a_look(plan: &DumpPlan, subject: &Subject) -> DumpPlan {
    let is_native = |kind| matches!(kind, RuntimeKind::Native);
    let stacks = subject.processes.iter().all(|process| is_native(process.runtime.kind));
    let kind = if stacks { CoreKind::Stacks } else { plan.kind };
    DumpPlan { kind, collapse: false, ..plan.clone() }
}

/// Time between two looks if nothing is said.
pub const BETWEEN_LOOKS: Duration = Duration::from_secs(2);
