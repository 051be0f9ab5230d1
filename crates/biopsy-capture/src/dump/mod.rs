//! `dump`: from a name, or an event, to cores with their context and a report.
//!
//! [`forecast`] says what freezing would cost, and refuses; [`freeze`] freezes and releases; [`write`] writes one image, [`alone`] into a
//! file or a stream of its own, [`recording`] into a recording that [`conclude`] reports on and finishes. [`wait`] and [`catch`] stand
//! before all that where something has to happen first.

mod alone;
mod catch;
mod conclude;
mod destination;
mod forecast;
mod freeze;
mod held;
mod plan;
mod queue;
mod recording;
mod wait;
mod write;

use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;

use biopsy_target::freeze::FreezePlan;

use crate::failure::Failure;
use crate::finish::KEPT;
use crate::job::{Event, Job, Patience};
use crate::target::{self, Subject};

pub use alone::Alone;
pub use conclude::Dumps;
pub use forecast::{Disk, Forecast};
pub use plan::{DumpPlan, is_minidump_name, trigger};

pub(crate) use forecast::freeze_failure;

use destination::Destination;
use recording::DumpRecording;

/// What came of a dump.
#[derive(Debug)]
pub enum Outcome {
    /// It was only to be said what it would cost, and that was said; with why it would be refused.
    Forecast(Option<Failure>),
    /// Nothing was dumped, and that is no failure: what was waited for did not happen.
    Nothing(String),
    /// Dumps in a recording, and what went wrong behind the last of them.
    Recording(Box<Dumps>, Option<Failure>),
    /// One core in a file.
    File(PathBuf, Box<Alone>),
    /// One core that went through the stream.
    Stream(Box<Alone>),
}

/// Dumps as the plan says. `stream`: where a core alone goes that is to go to standard output.
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
            let dumped = recording.dump(plan, &subject, freezing, "asked for", job);
            conclude(Some(recording), dumped, job)
        }
        Destination::File(path) => alone::to_file(plan, &subject, freezing, &path, job)
            .map(|done| Outcome::File(path, Box::new(done))),
        Destination::Stream => alone::to_stream(plan, &subject, freezing, stream, job)
            .map(|done| Outcome::Stream(Box::new(done))),
    }
}

/// Tells what it will cost, and refuses what would do harm. Breaks with the outcome where that is all that is wanted.
fn forecast(
    plan: &DumpPlan,
    subject: &Subject,
    destination: &Destination,
    job: &Job,
) -> Result<ControlFlow<Outcome, FreezePlan>, Failure> {
    let forecast = Forecast::make(plan, subject, destination)?;
    job.tell(Event::Forecast(&forecast));
    let checked = forecast.check();
    if plan.dry_run {
        return Ok(ControlFlow::Break(Outcome::Forecast(checked.err())));
    }
    checked.map(|()| ControlFlow::Continue(forecast.freeze))
}

/// What was dumped before something went wrong is kept, and told first.
fn conclude(
    recording: Option<DumpRecording>,
    dumped: Result<(), Failure>,
    job: &Job,
) -> Result<Outcome, Failure> {
    let Some(recording) = recording.filter(|recording| !recording.is_empty()) else {
        return dumped.map(|()| Outcome::Nothing("nothing was frozen".to_owned()));
    };
    let folder = recording.place.folder.clone();
    let dumps = conclude::conclude(recording, job).map_err(|failure| failure.naming(KEPT, &folder))?;
    Ok(Outcome::Recording(Box::new(dumps), dumped.err()))
}
