//! `dump`: from a name, or an event, to cores with their context and a report.
//!
//! [`forecast`] says what freezing would cost, and refuses; [`freeze`] freezes and releases; [`write`] writes one image, [`alone`] into a
//! file or a stream of its own, [`recording`] into a recording that [`conclude`] reports on and finishes. [`wait`] and [`catch`] stand
//! before all that where something has to happen first; [`looks`] looks more than once.

mod alone;
mod catch;
mod conclude;
mod destination;
mod forecast;
mod freeze;
mod held;
mod looks;
mod outcome;
mod plan;
mod queue;
mod recording;
mod wait;
mod write;

use std::io::Write;
use std::ops::ControlFlow;

use crate::failure::Failure;
use crate::job::{Job, Patience};
use crate::target::{self, Subject};

pub use alone::Alone;
pub use conclude::Dumps;
pub use forecast::{Disk, Forecast};
pub use looks::BETWEEN_LOOKS;
pub use outcome::Outcome;
pub use plan::{DumpPlan, is_minidump_name, trigger};

pub(crate) use forecast::{freeze_failure, more_patience};

use destination::Destination;
use outcome::{conclude, forecast};
use recording::DumpRecording;

/// Dumps as the plan says. `stream`: where a core alone goes that is to go to standard output, or is sealed.
///
/// # Errors
/// Nothing was dumped; or a core could not be written to its end, and then the failure says what there is of it.
pub fn run(plan: &DumpPlan, stream: &mut dyn Write, job: &Job) -> Result<Outcome, Failure> {
    if plan.waits() {
        return wait::run(plan, job);
    }
    let subject = Subject::of(target::find(&plan.target)?, plan.tree)?;
    let destination = Destination::choose(plan, &subject.name)?;
    let freezing = match forecast(plan, &subject, &destination, job)? {
        ControlFlow::Continue(freezing) => freezing,
        ControlFlow::Break(outcome) => return Ok(outcome),
    };
    match destination {
        Destination::Recording(place) => {
            job.be_patient(Patience::WithoutCopies);
            let mut recording = DumpRecording::begin(plan, &subject, place, job)?;
            let dumped = looks::run(plan, subject, freezing, &mut recording, job);
            conclude(Some(recording), dumped, job)
        }
        Destination::File(path) => alone::to_file(plan, &subject, freezing, &path, job)
            .map(|done| Outcome::File(path, Box::new(done))),
        Destination::Stream(_) => alone::to_stream(plan, &subject, freezing, stream, job)
            .map(|done| Outcome::Stream(Box::new(done))),
    }
}
