//! What can come of a dump, and the two steps that lead there at once or after waiting.

use std::ops::ControlFlow;
use std::path::PathBuf;

use biopsy_target::freeze::FreezePlan;

use crate::failure::{Failure, KEPT};
use crate::job::{Event, Job};
use crate::target::Subject;

use super::alone::Alone;
use super::conclude::{self, Dumps};
use super::destination::Destination;
use super::forecast::Forecast;
use super::plan::DumpPlan;
use super::recording::DumpRecording;

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

/// Tells what it will cost, and refuses what would do harm. Breaks with the outcome where that is all that is wanted.
pub(super) fn forecast(
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
pub(super) fn conclude(
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
