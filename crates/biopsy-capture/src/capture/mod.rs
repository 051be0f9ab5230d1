//! `capture` and `trace`: from a name to a bundle with a report.
//!
//! [`subject`] finds or starts the process and looks whether it may be recorded; [`wait`] waits for a trigger; [`record`] starts
//! the recorders ([`runtimes`] those of .NET; [`before`] asks for what was recorded earlier, and [`kept`] takes nothing else) and watches over them; [`copy`] makes a bundle on the
//! way; [`memory`] takes snapshots on the way; [`end`] stops them and takes what is taken at the end ([`stacks`], unasked where [`still`] finds that nothing moves). [`preview`] shows texts
//! beforehand. The rest is `finish`'s.

mod before;
mod copy;
mod end;
mod kept;
mod memory;
mod plan;
mod preview;
mod record;
mod runtimes;
mod stacks;
mod still;
mod subject;
pub(crate) mod wait;

use std::path::PathBuf;

use biopsy_analyze::Diagnosis;
use biopsy_record::trace::TraceSummary;

use crate::failure::{Failure, KEPT};
use crate::finish::{HandedOver, finish};
use crate::job::Job;
use crate::place::Place;

use before::Asked;
pub use plan::{
    CapturePlan, HeldProcess, RecentWish, Remote, StacksWish, UNASKED_PAUSE, Whom, Wish, event_budget,
    trigger,
};
pub use preview::{Coming, coming, preview};
pub use stacks::{Frozen, Why};

use memory::Beside;
use subject::Subject;

/// What was captured.
#[derive(Debug)]
pub struct Captured {
    /// The bundle, or the folder; the folder as it was left where the job was hurried.
    pub result: HandedOver,
    /// What the recording says; `None`: the job was hurried, and nothing was made of it.
    pub diagnosis: Option<Diagnosis>,
    /// `None`: there is no trace, and a warning says why.
    pub trace: Option<TraceSummary>,
    /// Bundles that were made on the way.
    pub snapshots: Vec<PathBuf>,
    /// Processes that stood still at the end.
    pub frozen: Vec<Frozen>,
}

/// Records until the time is over, somebody wishes so, the target ends, or the disk is nearly full; and finishes the recording.
///
/// # Errors
/// Nothing was recorded, or nothing could be made of it: then the failure names the folder.
pub fn run(plan: &CapturePlan, remote: &Remote, job: &Job) -> Result<Captured, Failure> {
    let subject = Subject::find_or_start(plan, job)?;
    let place = Place::choose(plan.output.as_deref(), plan.folder, &subject.target.name)?;
    if !kept::is_enough(plan) {
        subject.check(plan, &place, job);
    }
    let reason = wait::wait(&plan.on, &subject.target, job)?;
    let target = &subject.target.info.key;
    let before = plan.recent.as_ref().map(|recent| Asked::of(recent, target)).transpose()?.flatten();
    let named = |failure: Failure| failure.naming(KEPT, &place.folder);
    let recorded = match &before {
        Some(asked) if kept::is_enough(plan) => kept::take(plan, &subject, asked, &place, job),
        _ => record::record(plan, subject, before, &place, reason.as_deref(), remote, job),
    };
    let recorded = recorded.map_err(named)?;
    let record::Recorded { draft, trace, snapshots, frozen, hurried } = recorded;
    let (result, diagnosis) = if hurried || job.is_hurried() {
        (HandedOver { path: place.folder.clone(), bytes: 0, is_bundle: false }, None)
    } else {
        let beside = (plan.memory_snapshots > 0).then(|| Beside::read(draft.folder.path())).transpose();
        let beside = beside.map_err(named)?;
        let diagnose = |capture| match beside {
            Some(beside) => beside.diagnosis(capture),
            None => Diagnosis::of_capture(capture),
        };
        let (result, diagnosis) = finish(job, &draft, &place, diagnose).map_err(named)?;
        (result, Some(diagnosis))
    };
    Ok(Captured { result, diagnosis, trace, snapshots, frozen })
}
